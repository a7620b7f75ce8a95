"""Power cuts under PostgreSQL with its WAL in the ring: what is judged, and by what.

The data directory lies on a disk that loses what was not flushed, ext4; the ring on an emulated NVDIMM, ext4
or XFS with DAX.
1. Acknowledged is what the server has answered, and the host heard of, before the cut. Each client has made
   all rows up to that one or one of the next few, each with what belongs in it, and its other rows have just
   that state.
2. Where the cut left the data directory marked, a server without the ring refuses it.
3. After `ondol-pgwal recover`, before a server starts, pg_waldump reads beyond each position that was flushed
   before the cut.
4. pg_amcheck finds nothing, with every heap row looked for in the indexes; nor does pg_checksums after the
   last, orderly stop.
5. Known wrong, to show that all this sees something: no ring, and fsync=off (--control); the ring as it
   should be, but never recovered (--control --mode unrecovered).
"""
import glob
import os
import pwd
import subprocess

import kernel
from cuts import LOOK, UNHEARD, Scenario, Wrong, hear_until
from disk import Disk
from machine import Failed

SIZE = 512
MODES = ["ring", "off", "unrecovered", "stock"]


def programs(wanted):
    """The folder of PostgreSQL's programs."""
    found = [wanted] if wanted else sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    found = [folder for folder in found if os.path.exists(folder + "/postgres")]
    try:
        pwd.getpwnam("postgres")
    except KeyError:
        found = []
    if not found:
        raise kernel.Missing("missing: PostgreSQL's programs and a user postgres: apt-get install postgresql-15")
    return found[-1]


def position(text):
    high, low = text.split("/")
    return int(high, 16) << 32 | int(low, 16)


class Pgwal(Scenario):
    name, program = "pgwal", "guest_pgwal"
    # Its start takes longer than SQLite's.
    cuts_a_life = 12
    pace = 4

    def __init__(self, options):
        self.mode = options.mode or ("off" if options.control else "ring")
        if self.mode not in MODES:
            raise kernel.Missing(f"--mode: one of {', '.join(MODES)}")
        self.programs = programs(options.pgbin)
        super().__init__(options, ["ext4", "xfs"], ["virtio_blk", "nfit", "nd_pmem"])
        self.memory = 768
        self.replayed = self.refused = self.waldumps = self.amchecks = self.checksums = 0
        if self.mode == "unrecovered":
            self.cuts_a_life = 1

    def about(self):
        return f"{self.mode}, {self.programs}, {self.rig.built('ondol-pgwal')}"

    def told(self):
        return (
            f"{self.replayed} entries replayed, {self.refused} servers without the ring refused, {self.waldumps} times "
            f"pg_waldump, {self.amchecks} pg_amcheck, {self.checksums} pg_checksums"
        )

    def base(self):
        """A disk with a cluster as initdb leaves it, made once for each version of PostgreSQL."""
        version = subprocess.run([self.programs + "/postgres", "-V"], capture_output=True, text=True, check=True)
        name = "".join(c if c.isalnum() else "-" for c in version.stdout.strip())
        path = os.path.join(os.path.dirname(self.rig.work), name)
        if os.path.exists(path):
            return path
        print("vm: initdb, in the guest", flush=True)
        self.disk = self.rig.new_disk(SIZE)
        self.nvdimm = self.rig.new_nvdimm(384)
        machine = self.boot(self.always() | {"initialise": True})
        try:
            if hear_until(machine, "initialised", LOOK, self.note) is None:
                raise Failed(f"initdb:\n{machine.told()}")
        finally:
            machine.end()
            self.disk.close()
        os.rename(self.rig.path("disk"), path)
        return path

    def always(self):
        return {
            "mode": self.mode,
            "programs": self.programs,
            "command": self.rig.built("ondol-pgwal"),
            "preload": self.rig.built("libondol_pgwal.so"),
            "initialise": False,
        }

    def begin(self):
        chance, rig = self.chance, self.rig
        base = self.base()
        subprocess.run(["cp", "--sparse=always", base, rig.path("disk")], check=True)
        self.disk = Disk(rig.path("disk"), SIZE << 20, rig.path("disk.socket"))
        self.nvdimm = rig.new_nvdimm(384)
        clients = chance.choice([1, 4, 4, 8])
        self.counts = [0] * clients
        self.flushed = self.reported = None
        self.since = 0
        return self.always() | {
            "fs": ["ext4", "xfs"][self.lives % 2],
            "clients": clients,
            "ring": chance.choice(["1MB", "3MB", "16MB"]),
        }

    def how(self):
        chance = self.chance
        settings = ["min_wal_size=2MB", "max_wal_size=6MB"]
        settings.append("wal_sync_method=" + chance.choice(["fdatasync", "fdatasync", "open_datasync", "fsync", "open_sync"]))
        if self.mode == "off":
            settings.append("fsync=off")
        recover = chance.random() < 0.6
        return {
            "settings": settings,
            "stock_first": chance.random() < 0.3,
            "recover": recover,
            "waldump": recover and chance.random() < 0.6,
            "amcheck": chance.random() < 0.4,
            "checkpoint_every": chance.choice([15, 60, 200]),
        }

    def judge(self, found):
        if "stock" in found:
            status, told = found["stock"]
            if status == 0 or "run-ondol-pgwal-recover" not in told:
                raise Wrong(f"a server without the ring was not refused: {status} {told}")
            self.refused += 1
        if "waldump" in found:
            self.waldumps += 1
            if self.flushed and position(found["waldump"]) < position(self.flushed):
                raise Wrong(f"pg_waldump reads up to {found['waldump']}; {self.flushed} was flushed")
        for text in (found.get("recovered", ""), found["log"]):
            for line in text.splitlines():
                words = line.removeprefix("ondol-pgwal: ").split()
                if "replayed" in line and words[0].isdigit():
                    self.replayed += int(words[0])
        look = found["look"]
        there = {int(client): row for client, *row in look["rows"]}
        indexed = {int(client): int(count) for client, count in look["indexed"]}
        accounts = {(client, k): n for client, k, n in look["accounts"]}
        for who, acknowledged in enumerate(self.counts):
            count, least, most, right = there.get(who, ["0", None, None, "t"])
            count = int(count)
            if not acknowledged <= count <= acknowledged + UNHEARD:
                raise Wrong(f"client {who} was told of {acknowledged}, there are {count}")
            if count and (int(least), int(most), right) != (0, count - 1, "t"):
                raise Wrong(f"client {who}: of {count} rows the first is {least}, the last {most}, contents {right}")
            if indexed.get(who, 0) != count:
                raise Wrong(f"client {who}: {count} rows, {indexed.get(who)} in the index")
            for k in range(20):
                # The last transaction that wrote this row.
                n = count - 1 - (count - 1 - k) % 20
                if accounts.get((who, k)) != (n if n >= 0 else -1):
                    raise Wrong(f"client {who}: row {k} says {accounts.get((who, k))}, not {n}, after {count}")
            self.counts[who] = count
        for name in ("amcheck", "checksums"):
            if name in found:
                status, told = found[name]
                if status:
                    raise Wrong(f"pg_{name}: {status}\n{told}")
        self.amchecks += "amcheck" in found
        self.checksums += "checksums" in found
        self.flushed = self.reported = None

    def go(self):
        return {"from": self.counts}

    def note(self, heard):
        super().note(heard)
        if "done" in heard:
            who, n = heard["done"]
            if n != self.counts[who]:
                raise Wrong(f"client {who} was told of {n} after {self.counts[who]}")
            self.counts[who] += 1
            self.acknowledged += 1
            self.since += 1
            # By now some client has begun and ended a transaction since the report: there is a record beyond
            # that position.
            if self.reported and self.since > 2 * len(self.counts):
                self.flushed = self.reported
        elif "flushed" in heard:
            self.reported, self.since = heard["flushed"], 0

    def at(self, go):
        return f"ring on {self.said['fs']}, {self.said['ring']}, {self.counts} acknowledged"

