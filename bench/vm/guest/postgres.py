"""As much of PostgreSQL's protocol as a client needs that sends simple queries over a Unix socket and is
trusted."""
import socket
import struct


class Refused(Exception):
    """What the server said, or that it went."""


class Client:
    def __init__(self, address, user):
        self.socket = socket.socket(socket.AF_UNIX)
        self.rest = b""
        try:
            self.socket.connect(address)
        except OSError as error:
            raise Refused(str(error)) from None
        words = b"".join(w.encode() + b"\0" for w in ("user", user, "database", "postgres")) + b"\0"
        self.socket.sendall(struct.pack(">II", len(words) + 8, 196608) + words)
        self.answer()

    def send(self, text):
        data = text.encode() + b"\0"
        self.socket.sendall(b"Q" + struct.pack(">I", len(data) + 4) + data)

    def receive(self):
        while len(self.rest) < 5 or len(self.rest) < 1 + struct.unpack(">I", self.rest[1:5])[0]:
            try:
                got = self.socket.recv(1 << 16)
            except OSError:
                got = b""
            if not got:
                raise Refused("the server has closed the connection")
            self.rest += got
        end = 1 + struct.unpack(">I", self.rest[1:5])[0]
        kind, data, self.rest = self.rest[:1], self.rest[5:end], self.rest[end:]
        return kind, data

    def answer(self):
        """The rows up to when the server is ready again, each a list of texts and None."""
        rows, error = [], None
        while True:
            kind, data = self.receive()
            if kind == b"E":
                error = " ".join(f[1:].decode(errors="replace") for f in data.split(b"\0") if f[:1] in (b"S", b"C", b"M"))
                if b"FATAL" in data or b"PANIC" in data:
                    raise Refused(error)
            elif kind == b"D":
                row, at = [], 2
                for _ in range(struct.unpack(">H", data[:2])[0]):
                    length = struct.unpack(">i", data[at : at + 4])[0]
                    at += 4
                    row.append(None if length < 0 else data[at : at + length].decode())
                    at += max(0, length)
                rows.append(row)
            elif kind == b"Z":
                if error:
                    raise Refused(error)
                return rows

    def query(self, text):
        self.send(text)
        return self.answer()
