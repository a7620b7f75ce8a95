"""A PostgreSQL cluster of our own in a temporary folder, and a client of its protocol that sends many
statements at once."""
import os
import pwd
import selectors
import shutil
import socket
import struct
import subprocess
import time

from case import Gone, Outcome

PORT = 5432
NAMES = {16: "boolean", 17: "bytea", 20: "bigint", 21: "smallint", 23: "integer", 25: "text", 701: "double precision", 700: "real", 705: "unknown",
         1042: "character", 1043: "character varying", 1082: "date", 1114: "timestamp without time zone", 1184: "timestamp with time zone", 1083: "time without time zone", 1266: "time with time zone", 1186: "interval", 1700: "numeric",
         114: "json", 3802: "jsonb", 2950: "uuid", 26: "oid", 27: "tid", 2249: "record", 19: "name", 18: '"char"', 1033: "aclitem"}
# Of arrays of each: the OID of the items' type.
ARRAYS = {199: 114, 3807: 3802, 1034: 1033, 1000: 16, 1001: 17, 1002: 18, 1003: 19, 1028: 26, 1010: 27, 1005: 21, 1007: 23, 1009: 25, 1014: 1042, 1015: 1043, 1016: 20, 1021: 700, 1022: 701, 1115: 1114, 1182: 1082, 1185: 1184, 1187: 1186, 1231: 1700, 2951: 2950}

FIELDS = {2: "month", 4: "year", 6: "year to month", 8: "day", 1024: "hour", 1032: "day to hour", 2048: "minute", 3072: "hour to minute", 3080: "day to minute",
          4096: "second", 6144: "minute to second", 7168: "hour to second", 7176: "day to second"}


def type_name(oid, modifier):
    if oid in ARRAYS:
        return type_name(ARRAYS[oid], modifier) + "[]"
    name = NAMES.get(oid, str(oid))
    if oid in (1042, 1043) and modifier >= 4:
        return f"{name}({modifier - 4})"
    if oid == 1042:
        return "bpchar"
    if oid == 1700 and modifier >= 4:
        scale = (modifier - 4) & 0x7ff
        return f"numeric({(modifier - 4) >> 16},{scale - 0x800 if scale >= 0x400 else scale})"
    if oid == 1186 and modifier >= 0:
        fields, digits = FIELDS.get(modifier >> 16), modifier & 0xffff
        return name + (f" {fields}" if fields else "") + (f"({digits})" if digits <= 6 else "")
    if oid in (1114, 1184) and modifier >= 0:
        return f"timestamp({modifier}){name[len('timestamp'):]}"
    return name


class Cluster:
    def __init__(self, place, pgbin):
        self.place, self.pgbin = os.path.join(place, "postgres"), pgbin
        self.user = pwd.getpwnam("postgres") if os.getuid() == 0 else None
        os.makedirs(self.place)
        if self.user:
            os.chown(self.place, self.user.pw_uid, self.user.pw_gid)
        data = os.path.join(self.place, "data")
        self.run("initdb", "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--locale=C", "--lc-ctype=C.UTF-8", "--no-sync")
        settings = dict(listen_addresses="", port=PORT, unix_socket_directories=self.place, fsync="off", synchronous_commit="off", full_page_writes="off",
                        shared_buffers="64MB", autovacuum="off", jit="off", max_parallel_workers_per_gather="0", max_connections="40", timezone="UTC",
                        log_timezone="UTC", datestyle="ISO,MDY", deadlock_timeout="3ms", wal_level="minimal", max_wal_senders="0", checkpoint_timeout="1h",
                        max_wal_size="8GB", statement_timeout="60s", logging_collector="off")
        log = open(os.path.join(self.place, "log"), "w")
        options = [x for name, value in settings.items() for x in ("-c", f"{name}={value}")]
        self.process = subprocess.Popen([os.path.join(pgbin, "postgres"), "-D", data, *options], stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                        cwd=self.place, preexec_fn=self.enter)
        end = time.time() + 60
        while True:
            try:
                return self.connect().close()
            except (OSError, Gone):
                if self.process.poll() is not None or time.time() > end:
                    raise SystemExit(f"PostgreSQL does not come up: {open(log.name).read()[-2000:]}")
                time.sleep(0.05)

    def enter(self):
        if self.user:
            os.setgroups([])
            os.setgid(self.user.pw_gid)
            os.setuid(self.user.pw_uid)

    def run(self, program, *arguments):
        done = subprocess.run([os.path.join(self.pgbin, program), *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              cwd=self.place, preexec_fn=self.enter)
        if done.returncode:
            raise SystemExit(f"{program}: exit status {done.returncode}\n{done.stdout}")

    def connect(self, database="postgres"):
        return Client(os.path.join(self.place, f".s.PGSQL.{PORT}"), database)

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Client:
    """One connection. Statements are queued with `send`; `pump` moves bytes; `outcomes` fills in their
    order."""

    def __init__(self, path, database):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.out, self.incoming = bytearray(), bytearray()
        self.outcomes, self.wanted, self.now = [], 0, Outcome()
        self.pid = None
        start = b"".join(x.encode() + b"\0" for x in ("user", "postgres", "database", database, "client_min_messages", "error", "TimeZone", "UTC")) + b"\0"
        self.out += struct.pack("!ii", len(start) + 8, 196608) + start
        self.wanted = 1
        self.exchange()
        self.take()

    def close(self):
        self.socket.close()

    def send(self, sql, data=None):
        text = sql.encode() + b"\0"
        self.out += b"Q" + struct.pack("!i", len(text) + 4) + text
        if data is not None:
            # A server that does not take it (the statement failed) ignores it.
            data = data.encode("utf-8", "surrogateescape")
            self.out += b"d" + struct.pack("!i", len(data) + 4) + data + b"c\0\0\0\4"
        self.wanted += 1

    @property
    def done(self):
        return len(self.outcomes) >= self.wanted

    def take(self):
        taken, self.outcomes, self.wanted = self.outcomes, [], 0
        return taken

    def readable(self):
        try:
            chunk = self.socket.recv(1 << 18)
        except OSError as e:
            raise Gone(f"PostgreSQL: {e}")
        if not chunk:
            raise Gone("PostgreSQL closed the connection")
        self.incoming += chunk
        self.parse()

    def writable(self):
        sent = self.socket.send(memoryview(self.out)[:1 << 16])
        del self.out[:sent]

    def fileno(self):
        return self.socket.fileno()

    def parse(self):
        data, at, end = self.incoming, 0, len(self.incoming)
        unpack = struct.unpack_from
        now = self.now
        while end - at >= 5:
            size = unpack("!i", data, at + 1)[0]
            if end - at < size + 1:
                break
            kind, p = data[at], at + 5
            at += size + 1
            if kind == 68:      # D: a row
                row = []
                n = unpack("!h", data, p)[0]
                p += 2
                for _ in range(n):
                    length = unpack("!i", data, p)[0]
                    p += 4
                    if length < 0:
                        row.append(None)
                    else:
                        row.append(data[p:p + length].decode("utf-8", "replace"))
                        p += length
                now.rows.append(tuple(row))
            elif kind == 84:    # T: the columns
                n = unpack("!h", data, p)[0]
                p += 2
                for _ in range(n):
                    stop = data.index(0, p)
                    now.columns.append(data[p:stop].decode())
                    _, _, oid, _, modifier, _ = unpack("!ihihih", data, stop + 1)
                    now.types.append(type_name(oid, modifier))
                    p = stop + 19
            elif kind == 67:    # C: a tag
                now.tag = data[p:at - 1].decode()
            elif kind == 73:    # I: nothing was said
                now.tag = ""
            elif kind == 69:    # E: an error
                fields = {chr(f[0]): f[1:].decode("utf-8", "replace") for f in bytes(data[p:at - 1]).split(b"\0") if f}
                now.sqlstate, now.message = fields["C"], fields["M"]
            elif kind == 100:   # d: what COPY gives
                now.copied += data[p:at].decode("utf-8", "replace")
            elif kind == 75:    # K
                self.pid = unpack("!i", data, p)[0]
            elif kind == 90:    # Z: ready
                if now.sqlstate:
                    now = Outcome(sqlstate=now.sqlstate, message=now.message)
                self.outcomes.append(now)
                now = self.now = Outcome()
        del data[:at]

    def exchange(self, limit=90):
        exchange([self], limit)

    def ask(self, sql):
        """The rows of a query, by itself."""
        assert self.done
        self.take()
        self.send(sql)
        self.exchange()
        answer = self.take()[-1]
        if answer.sqlstate:
            raise Gone(f"{sql}: {answer.text()}")
        return answer.rows


def exchange(clients, limit=90):
    """Moves bytes until all have their answers, or for so many seconds; false if there are not."""
    end = time.monotonic() + limit
    with selectors.DefaultSelector() as all_of:
        for c in clients:
            if not c.done:
                all_of.register(c.fileno(), selectors.EVENT_READ | (selectors.EVENT_WRITE if c.out else 0), (c, True))
                if c.out and getattr(c, "input", None) is not None:
                    all_of.modify(c.fileno(), selectors.EVENT_READ, (c, True))
                    all_of.register(c.input, selectors.EVENT_WRITE, (c, False))
        while any(not c.done for c in clients):
            left = end - time.monotonic()
            if left <= 0:
                return False
            for key, events in all_of.select(left):
                c, is_main = key.data
                if events & selectors.EVENT_READ:
                    c.readable()
                    if c.done:
                        all_of.unregister(key.fd)
                        continue
                if events & selectors.EVENT_WRITE:
                    c.writable()
                    if not c.out:
                        if is_main:
                            all_of.modify(key.fd, selectors.EVENT_READ, key.data)
                        else:
                            all_of.unregister(key.fd)
    return True


def remove(place):
    shutil.rmtree(place, ignore_errors=True)
