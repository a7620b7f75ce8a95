"""Ondol in the guest: its files on a disk that forgets, the ring for its log on persistent memory. The host
judges (engine.py)."""
import os
import subprocess

import history
import main as guest

DISK, PMEM = "/mnt/disk", "/mnt/pmem"
PATH, RING = DISK + "/db", PMEM + "/ring"
SCHEMA = """
CREATE TABLE t(who int4, key int8, n int8, step int4, body bytea, PRIMARY KEY(who, key));
CREATE INDEX by_n ON t(who, n, step);
CREATE TABLE last(who int4 PRIMARY KEY, n int8);
INSERT INTO last VALUES (0, 0);
"""


def shell(said, *more):
    return [said["command"], "shell", PATH, "--log-ring", RING, "--log-ring-size", said["ring"], "--format", "csv", *more]


def ask(said, sql, *more):
    """The rows of a query, as texts, from a database that nobody has open."""
    done = subprocess.run(shell(said, "--no-create", *more, "-c", sql), capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{sql}: {done.returncode}\n{done.stdout[-1000:]}{done.stderr[-3000:]}")
    return [line.split(",") for line in done.stdout.splitlines()[1:]]


def attempt(*command):
    """(exit status, output and errors)"""
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return done.returncode, done.stdout


def examine(said):
    """What the cut has left."""
    found, more = {}, []
    if said["without"] and said["mode"] != "unrecovered":
        # Closed in order, or not yet marked: then it needs no ring.
        found["marked"] = os.path.exists(PATH + "/log-ring")
        found["without"] = attempt(said["command"], "shell", PATH, "--no-create", "-c", "SELECT n FROM last")
    if said["check"]:
        found["check"] = attempt(said["command"], "check", PATH, "--log-ring", RING)
    if said["mode"] == "unrecovered":
        os.unlink(RING)
        more = ["--lose-acknowledged-commits", "yes"]
    found["last"] = [int(n) for (n,) in ask(said, "SELECT n FROM last", *more)]
    rows = ask(said, "SELECT key, n, step, body FROM t WHERE who = 0 ORDER BY key")
    indexed = ask(said, "SELECT count(*) FROM t WHERE who = 0 AND n >= 0")
    found["digest"] = [history.digest((int(k), int(n), int(step), bytes.fromhex(body[2:])) for k, n, step, body in rows)]
    found["integrity"] = "ok" if [[str(len(rows))]] == indexed else f"{len(rows)} rows, {indexed} in the index"
    return found


class Session:
    def __init__(self, said):
        self.errors = open("/mnt/errors", "w+")
        self.process = subprocess.Popen(
            shell(said, "--no-create"), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True)
        if said["mode"] == "asynchronous":
            self.run(["SET synchronous_commit = off"])

    def run(self, statements):
        """Statements without rows, each answered by a line."""
        self.process.stdin.write("".join(sql + ";\n" for sql in statements))
        self.process.stdin.flush()
        for sql in statements:
            if not self.process.stdout.readline():
                self.errors.seek(0)
                raise RuntimeError(f"{sql[:200]}: {self.errors.read()[-3000:]}")

    def close(self):
        self.process.stdin.close()
        if self.process.wait():
            raise RuntimeError(f"the shell ended with {self.process.returncode}")


def write(host, said):
    seed, n = said["history"], said["from"]
    session = Session(said)
    host.tell(going=True)
    while True:
        n += 1
        steps, afterwards = history.transaction(seed, 0, n)
        sql = ["BEGIN"]
        for i, step in enumerate(steps):
            if step[0] == "put":
                body = history.body(seed, 0, n, i, step[2])
                sql += [f"DELETE FROM t WHERE who = 0 AND key = {step[1]}"]
                sql += [f"INSERT INTO t VALUES (0, {step[1]}, {n}, {i}, '\\x{body.hex()}')"]
            elif step[0] == "delete":
                sql += [f"DELETE FROM t WHERE who = 0 AND key = {step[1]}"]
            elif step[0] == "trim":
                sql += [f"DELETE FROM t WHERE who = 0 AND key >= {history.APPENDED} AND key < {step[1]}"]
            else:
                sql += ["SAVEPOINT s" if step[0] == "begin" else "ROLLBACK TO s"]
        session.run(sql + [f"UPDATE last SET n = {n} WHERE who = 0", "COMMIT"])
        host.tell(done=n)
        if afterwards == "reopen":
            session.close()
            session = Session(said)
        elif afterwards:
            session.run(["CHECKPOINT"])


def main(host, said):
    guest.mount("/dev/vda", "ext4", DISK, said["fresh"])
    guest.mount("/dev/pmem0", said["fs"], PMEM, said["fresh"])
    if said["fresh"]:
        status, told = attempt(*shell(said, "-c", SCHEMA))
        if status:
            raise RuntimeError(f"the tables cannot be made: {status}\n{told}")
        host.tell(found=None)
    else:
        host.tell(found=examine(said))
    said.update(host.hear())
    write(host, said)
