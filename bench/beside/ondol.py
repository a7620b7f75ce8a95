"""Ondol's shell in one long-lived process: `--format records` tells of each statement in a line."""
import fcntl
import json
import os
import subprocess

from case import Gone, Outcome

SETTINGS = "SET synchronous_commit = off; SET TimeZone = 'UTC'; SET statement_timeout = '60s';"


class Shell:
    def __init__(self, command, place):
        self.folder = place
        self.log = open(place + ".log", "ab")
        self.process = subprocess.Popen([command, "shell", place, "--format", "records", "--keep-going", "--memory-limit", "2G"],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.log, bufsize=0)
        self.input = self.process.stdin
        for pipe in (self.process.stdin, self.process.stdout):
            fcntl.fcntl(pipe, 1031, 1 << 20)    # F_SETPIPE_SZ: fewer turns
            os.set_blocking(pipe.fileno(), False)
        self.out, self.incoming, self.lines = bytearray(), bytearray(), []
        self.marks, self.wanted, self.files = 0, 0, 0
        self.out += SETTINGS.encode() + b"\n"
        self.session = "main"
        self.known = {"main"}
        self.mark()

    def fileno(self):
        return self.process.stdout.fileno()

    def go_to(self, session):
        if session != self.session:
            self.out += f"\\session {session}\n".encode()
            self.session = session
            if session not in self.known:
                self.known.add(session)
                self.out += SETTINGS.encode() + b"\n"

    def send(self, sql, data=None):
        if data is not None and ("\\." in data or "\r" in data or not data.endswith("\n") or not sql.endswith("STDIN")):
            # The shell would end the data elsewhere than PostgreSQL's protocol does, or run it as SQL where
            # an option is refused.
            name = f"{self.folder}.data{self.files % 512}"
            self.files += 1
            with open(name, "wb") as file:
                file.write(data.encode("utf-8", "surrogateescape"))
            sql, data = sql.replace("STDIN", f"'{name}'", 1), None
        self.out += sql.encode() + b";\n"
        if data is not None:
            self.out += data.encode("utf-8", "surrogateescape") + b"\\.\n"

    def mark(self):
        """Ends what is asked for: `take` gives a list of outcomes for each mark."""
        self.out += b"\\echo ~mark\n"
        self.wanted += 1

    @property
    def done(self):
        return self.marks >= self.wanted

    def writable(self):
        try:
            sent = os.write(self.input.fileno(), memoryview(self.out)[:1 << 18])
        except BlockingIOError:
            return
        except OSError as e:
            raise Gone(f"Ondol: {e}")
        del self.out[:sent]

    def readable(self):
        chunk = os.read(self.fileno(), 1 << 20)
        if not chunk:
            raise Gone(f"Ondol ended: exit status {self.process.wait()}; see {self.log.name}")
        self.incoming += chunk
        end = self.incoming.rfind(b"\n")
        if end >= 0:
            for line in bytes(self.incoming[:end]).split(b"\n"):
                self.lines.append(line)
                if line == b"~mark":
                    self.marks += 1
            del self.incoming[:end + 1]

    def take(self):
        groups, now = [], []
        for line in self.lines:
            if line == b"~mark":
                groups.append(now)
                now = []
            elif line:
                now.append(outcome(line))
        self.lines, self.marks, self.wanted = [], 0, 0
        return groups

    def stop(self):
        self.process.kill()
        self.process.wait()


def outcome(line):
    """(session, outcome)"""
    try:
        r = json.loads(line)
    except ValueError:
        return None, Outcome(sqlstate="?????", message=f"a line that is no record: {line[:200]!r}")
    if "sqlstate" in r:
        return r["session"], Outcome(sqlstate=r["sqlstate"], message=r["message"])
    if "waits" in r:
        return r["session"], Outcome(waits=True)
    return r["session"], Outcome(tag=r["tag"], columns=r.get("columns", []), types=r.get("types", []), rows=[tuple(x) for x in r.get("rows", [])],
                                 copied=r.get("copied", ""))
