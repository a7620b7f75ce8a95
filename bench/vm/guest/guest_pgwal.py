"""PostgreSQL in the guest: its data on a disk that forgets, the ring for its WAL on persistent memory. The
host judges (pgwal.py)."""
import os
import pwd
import re
import select
import shutil
import subprocess
import time

import main as guest
import postgres

DISK, PMEM, RUN = "/mnt/disk", "/mnt/pmem", "/mnt/run"
DATA, RING, LOG = DISK + "/data", PMEM + "/ring", RUN + "/log"
# Rows of `account`, for each client.
ACCOUNTS = 20


class Cluster:
    def __init__(self, said):
        self.said, self.server = said, None
        # The server refuses root; who initdb ran as stays the owner.
        self.user = pwd.getpwnam("postgres")
        os.makedirs(RUN)
        os.chown(RUN, self.user.pw_uid, self.user.pw_gid)
        # The host's folder may not be for everyone.
        self.command, self.preload = (shutil.copy(said[name], RUN) for name in ("command", "preload"))

    def start(self, *command, **more):
        user = {"user": self.user.pw_uid, "group": self.user.pw_gid, "extra_groups": []}
        return subprocess.Popen(command, cwd=RUN, text=True, **user, **more)

    def run(self, *command):
        """(exit status, output and errors) of a program that runs as the server's user."""
        ran = self.start(*command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        told = ran.communicate(timeout=600)[0]
        return ran.returncode, told

    def must(self, *command):
        status, told = self.run(*command)
        if status:
            raise RuntimeError(f"{' '.join(command)}: {status}\n{told}")
        return told

    def theirs(self, name):
        return os.path.join(self.said["programs"], name)

    def up(self, ring, settings):
        command = [self.theirs("postgres"), "-D", DATA, "-k", RUN]
        for setting in ["listen_addresses=", "shared_buffers=16MB", "autovacuum_naptime=5s", *settings]:
            command += ["-c", setting]
        if ring:
            command = [self.command, "run", "--ring", RING, "--library", self.preload, "--", *command]
        with open(LOG, "a") as log:
            self.server = self.start(*command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        end = time.monotonic() + 240
        while True:
            try:
                return self.client()
            except postgres.Refused as refused:
                if self.server.poll() is not None or time.monotonic() > end:
                    raise RuntimeError(f"the server does not come up: {refused}\n{self.log()}") from None
                time.sleep(0.05)

    def log(self):
        with open(LOG, errors="replace") as log:
            return log.read()[-3000:]

    def client(self):
        return postgres.Client(RUN + "/.s.PGSQL.5432", "postgres")

    def down(self):
        """An orderly stop."""
        with open(DATA + "/postmaster.pid") as file:
            os.kill(int(file.readline()), 2)
        if self.server.wait(timeout=240):
            raise RuntimeError(f"the server stopped with {self.server.returncode}\n{self.log()}")


def initialise(cluster):
    os.makedirs(DATA)
    os.chown(DATA, cluster.user.pw_uid, cluster.user.pw_gid)
    cluster.must(cluster.theirs("initdb"), "-D", DATA, "-A", "trust", "--wal-segsize=1", "-k", "-N", "--no-locale")
    os.sync()


def fill(cluster, said):
    client = cluster.client()
    client.query(f"""
        CREATE TABLE t(client int, n int, filler text, PRIMARY KEY (client, n));
        CREATE TABLE account(client int, k int, n int, PRIMARY KEY (client, k));
        INSERT INTO account SELECT c, k, -1 FROM generate_series(0, {said['clients'] - 1}) c, generate_series(0, {ACCOUNTS - 1}) k;
        CREATE EXTENSION amcheck;
        CHECKPOINT""")


def look(client):
    """What is there, client by client."""
    rows = client.query("""
        SELECT client, count(*), min(n), max(n), bool_and(filler = repeat(chr(97 + n % 26), n % 700)) FROM t GROUP BY client ORDER BY client""")
    accounts = client.query("SELECT client, k, n FROM account ORDER BY client, k")
    client.query("SET enable_seqscan = off; SET enable_bitmapscan = off")
    indexed = client.query("SELECT client, count(*) FROM t WHERE client >= 0 GROUP BY client ORDER BY client")
    return {"rows": rows, "accounts": [[int(x) for x in row] for row in accounts], "indexed": indexed}


def last_record(cluster):
    """The position of the last record of the WAL that pg_waldump can read, from the last checkpoint on."""
    told = cluster.must(cluster.theirs("pg_controldata"), DATA)
    redo = re.search(r"Latest checkpoint's REDO location: *(\S+)", told).group(1)
    # It ends with an error where the WAL ends.
    _, told = cluster.run(cluster.theirs("pg_waldump"), "-p", DATA + "/pg_wal", "-s", redo)
    found = re.findall(r"lsn: ([0-9A-F]+/[0-9A-F]+)", told)
    return found[-1] if found else redo


def examine(cluster, said):
    found = {}
    ring = said["mode"] == "ring"
    with open(DATA + "/PG_VERSION") as file:
        found["marked"] = not file.read().strip().isdigit()
    if ring and found["marked"] and said["stock_first"]:
        # A server without the ring must refuse it.
        found["stock"] = cluster.run(cluster.theirs("postgres"), "--single", "-D", DATA, "postgres")
    if ring and said["recover"]:
        found["recovered"] = cluster.must(cluster.command, "recover", "--ring", RING)
        if said["waldump"]:
            found["waldump"] = last_record(cluster)
    if said["mode"] == "unrecovered":
        # The control: the WAL as the disk has it.
        ring = False
        if found["marked"]:
            shutil.copy(DATA + "/PG_VERSION.ondol", DATA + "/PG_VERSION")
    client = cluster.up(ring, said["settings"])
    found["log"] = cluster.log()
    found["look"] = look(client)
    if said["amcheck"]:
        status = cluster.run(cluster.theirs("pg_amcheck"), "-h", RUN, "--heapallindexed", "-d", "postgres")
        found["amcheck"] = status
    if said["last"]:
        cluster.down()
        found["checksums"] = cluster.run(cluster.theirs("pg_checksums"), "--check", "-D", DATA)
    return found


def load(host, cluster, said):
    """Clients that each insert and update, one transaction after the other; one of them now and then wants a
    checkpoint, another segment, or the WAL's position."""
    counts = list(said["from"])
    clients = [cluster.client() for _ in counts]

    def send(who):
        n = counts[who]
        clients[who].send(
            f"INSERT INTO t VALUES ({who}, {n}, repeat(chr(97 + {n} % 26), {n} % 700)); "
            f"UPDATE account SET n = {n} WHERE client = {who} AND k = {n} % {ACCOUNTS}"
        )

    other = cluster.client()
    host.tell(going=True)
    for who in range(len(clients)):
        send(who)
    done = 0
    while True:
        ready = select.select([c.socket for c in clients], [], [])[0]
        for who, client in enumerate(clients):
            if client.socket in ready:
                client.answer()
                host.tell(done=[who, counts[who]])
                counts[who] += 1
                done += 1
                send(who)
                if done % said["checkpoint_every"] == 0:
                    # Nobody waits for it.
                    other = cluster.client()
                    other.send("CHECKPOINT")
                elif done % 25 == 0:
                    host.tell(flushed=client_position(cluster))


def client_position(cluster):
    client = cluster.client()
    try:
        return client.query("SELECT pg_current_wal_flush_lsn()")[0][0]
    finally:
        client.socket.close()


def main(host, said):
    guest.mount("/dev/vda", "ext4", DISK, said["initialise"])
    cluster = Cluster(said)
    if said["initialise"]:
        initialise(cluster)
        guest.run("umount", DISK)
        host.tell(initialised=True)
        host.hear()
        return
    guest.mount("/dev/pmem0", said["fs"], PMEM, said["fresh"])
    os.chown(PMEM, cluster.user.pw_uid, cluster.user.pw_gid)
    if said["fresh"]:
        if said["mode"] in ("ring", "unrecovered"):
            cluster.must(cluster.command, "init", "--ring", RING, "--size", said["ring"], "--pgdata", DATA)
        cluster.up(said["mode"] != "off" and said["mode"] != "stock", said["settings"])
        fill(cluster, said)
        if said["mode"] == "off":
            os.sync()
        host.tell(found=None)
    else:
        host.tell(found=examine(cluster, said))
    said.update(host.hear())
    load(host, cluster, said)
