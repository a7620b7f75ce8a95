"""A disk with a volatile cache: a server of the NBD protocol that knows what a flush has made durable, and
forgets at a power cut.

1. A write is seen by every later read at once, and is durable only when a flush that came after its end is
   answered, or if it asks for that itself (FUA).
2. At a cut every sector (512 bytes, or more, if the disk is made so) holds its durable content or that of any
   write to it since: each on its own, so that what was written last may be there and what was written before
   it missing. No sector is ever torn.
3. The cut is a moment: requests are served one after the other, under one lock, and after the cut none.

The file holds what the guest sees; `older` holds, for each sector written since the last flush, what it may
become instead. What QEMU asks for is all of the protocol that is here: the fixed newstyle handshake with
NBD_OPT_GO, simple replies, READ, WRITE, FLUSH, DISC. Source: the protocol's description,
https://github.com/NetworkBlockDevice/nbd/blob/master/doc/proto.md.
"""
import os
import socket
import struct
import threading

SECTOR = 512
OPTIONS, REPLY_OPTION, REQUEST, REPLY = 0x49484156454F5054, 0x3E889045565A9, 0x25609513, 0x67446698
GO, ABORT, ACK, INFO, UNSUPPORTED = 7, 2, 1, 3, 0x80000001
READ, WRITE, DISCONNECT, FLUSH = 0, 1, 2, 3
FUA = 1
HAS_FLAGS, SEND_FLUSH, SEND_FUA = 1, 4, 8
EIO, EINVAL = 5, 22


class Gone(Exception):
    """The other side has closed its connection."""


def receive(connection, length):
    data = bytearray(length)
    view, have = memoryview(data), 0
    while have < length:
        got = connection.recv_into(view[have:])
        if got == 0:
            raise Gone
        have += got
    return data


class Disk:
    """`path` holds `size` bytes. `address` is the Unix socket that QEMU connects to, anew after each start.
    `whole` bytes are written all or not at all: a multiple of 512."""

    def __init__(self, path, size, address, whole=SECTOR, fresh=False):
        self.file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        if fresh:
            os.ftruncate(self.file, 0)
        os.ftruncate(self.file, size)
        self.size, self.address, self.whole = size, address, whole // SECTOR
        self.lock = threading.Lock()
        # Sector number to its older contents, oldest first: (request that wrote it, bytes). The first is
        # durable.
        self.older = {}
        # Sector number to the request that wrote what the file has.
        self.writer = {}
        self.requests = self.writes = self.flushes = self.bytes = 0
        self.on = True
        # See `cut_later`.
        self.cut_at = self.at_cut = None
        self.cut_flush = False
        if os.path.exists(address):
            os.unlink(address)
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(address)
        self.listener.listen(1)
        threading.Thread(target=self.accept, daemon=True).start()

    def close(self):
        self.listener.close()
        os.close(self.file)
        os.unlink(self.address)

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            try:
                self.greet(connection)
                self.serve(connection)
            except (Gone, OSError):
                pass
            finally:
                connection.close()

    def greet(self, connection):
        connection.sendall(b"NBDMAGIC" + struct.pack(">QH", OPTIONS, 1 | 2))
        receive(connection, 4)
        while True:
            magic, option, length = struct.unpack(">QII", receive(connection, 16))
            if magic != OPTIONS:
                raise Gone
            receive(connection, length)

            def reply(kind, data=b"", option=option):
                head = struct.pack(">QIII", REPLY_OPTION, option, kind, len(data))
                connection.sendall(head + data)

            if option == GO:
                reply(INFO, struct.pack(">HQH", 0, self.size, HAS_FLAGS | SEND_FLUSH | SEND_FUA))
                reply(INFO, struct.pack(">HIII", 3, SECTOR, 4096, 1 << 25))
                reply(ACK)
                return
            reply(ACK if option == ABORT else UNSUPPORTED)
            if option == ABORT:
                raise Gone

    def serve(self, connection):
        while True:
            magic, flags, kind, cookie, offset, length = struct.unpack(">IHHQQI", receive(connection, 28))
            if magic != REQUEST or kind == DISCONNECT:
                raise Gone
            data = receive(connection, length) if kind == WRITE else None
            with self.lock:
                told = None
                if self.on and self.at_cut and self.requests >= self.cut_at and kind != READ:
                    if not self.cut_flush or (kind == FLUSH and self.writer):
                        self.on = False
                        told, self.at_cut = self.at_cut, None
                if self.on:
                    error, answer = self.obey(flags, kind, offset, length, data)
                    # Under the lock: after the cut nothing is answered any more.
                    connection.sendall(struct.pack(">IIQ", REPLY, error, cookie) + answer)
            if told:
                told()

    def obey(self, flags, kind, offset, length, data):
        if kind == FLUSH:
            self.requests += 1
            self.flushes += 1
            self.older.clear()
            self.writer.clear()
            return 0, b""
        if offset % SECTOR or length % SECTOR or offset + length > self.size or kind not in (READ, WRITE):
            return EINVAL, b""
        if kind == READ:
            return 0, os.pread(self.file, length, offset)
        self.requests += 1
        self.writes += 1
        self.bytes += length
        first = offset // SECTOR
        if flags & FUA:
            for sector in range(first, first + length // SECTOR):
                self.older.pop(sector, None)
                self.writer.pop(sector, None)
        else:
            before = os.pread(self.file, length, offset)
            for i in range(length // SECTOR):
                was = (self.writer.get(first + i, 0), before[i * SECTOR : (i + 1) * SECTOR])
                self.older.setdefault(first + i, []).append(was)
                self.writer[first + i] = self.writes
        os.pwrite(self.file, data, offset)
        return 0, b""

    def cut_later(self, requests, flush, call):
        """The cut comes, and `call` is called, before the write or flush that has this many of its kinds
        before it, from now on; if `flush`, before the first flush after these that would make something
        durable."""
        with self.lock:
            self.cut_at, self.cut_flush, self.at_cut = self.requests + requests, flush, call

    def cut_not(self):
        """What was ordered by `cut_later` is not wanted any more. Says whether that came in time."""
        with self.lock:
            self.at_cut = None
            return self.on

    def cut(self):
        """Power goes: from now on nothing is served."""
        with self.lock:
            self.on = False

    def forget(self, chance):
        """What the cut leaves, by `chance`: nothing that was not flushed, all of it, a subset of writes, or
        one of sectors. Returns what was done, in words. Then the disk serves again."""
        with self.lock:
            assert not self.on
            # Of each whole, the writes to it since the last flush.
            parts = {}
            for sector, older in self.older.items():
                numbers = parts.setdefault(sector // self.whole, set())
                numbers.update(number for number, _ in older if number)
                numbers.add(self.writer[sector])
            writes = set().union(*parts.values())
            how = chance.choice(["none", "all", "writes", "writes", "sectors", "sectors", "but one", "but the first"])
            share = chance.choice([0.1, 0.5, 0.9])
            kept = set()
            if how == "but one" and writes:
                kept = writes - {chance.choice(sorted(writes))}
            elif how == "but the first" and writes:
                kept = writes - {min(writes)}
            elif how == "writes":
                kept = {w for w in sorted(writes) if chance.random() < share}
            elif how == "all":
                kept = writes
            lost = 0
            for part in sorted(parts):
                numbers = sorted(parts[part])
                if how == "sectors":
                    # The newest, or any state that this part has had.
                    last = numbers[-1] if chance.random() < share else chance.choice([0] + numbers)
                    here = {n for n in numbers if n <= last}
                else:
                    here = kept.intersection(numbers)
                for sector in range(part * self.whole, (part + 1) * self.whole):
                    if sector not in self.older:
                        continue
                    versions = self.older[sector] + [(self.writer[sector], None)]
                    # The newest that is kept, or what is durable.
                    choice = [v for v in versions[1:] if v[0] in here]
                    content = (choice or versions)[-1 if choice else 0][1]
                    if content is not None:
                        os.pwrite(self.file, content, sector * SECTOR)
                        lost += 1
            done = f"{how} of {len(writes)} writes kept, {lost} of {len(self.older)} sectors lost"
            self.older.clear()
            self.writer.clear()
            self.on, self.at_cut = True, None
            return done
