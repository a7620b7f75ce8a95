"""Power cuts under SQLite with our extension: what is judged, and by what.

1. Acknowledged is what COMMIT returned for, and the host has heard of, before the cut. The database holds
   each writer's state after that transaction or one of the next few; with synchronous=NORMAL in WAL mode,
   after any later than the last look.
2. The rows are those of exactly that state (history.py), and PRAGMA integrity_check says ok.
3. While the mark stands stock SQLite refuses the file and takes nothing away; where it does not, stock SQLite
   recovers the same from a copy of the same files, and from these.
4. After detaching, or the last clean close, the mark is gone, no file of ours is left, and stock SQLite reads
   the same.
5. Known wrong, to show that all this sees something: synchronous=OFF (--control).
"""
import os
import sys

from cuts import HERE, UNHEARD, Scenario, Wrong

sys.path.insert(0, os.path.join(HERE, "guest"))
import history

# Scenario to its file systems, the mode of our VFS, and whether the medium is the NVDIMM.
SCENARIOS = {
    "sqlite-pmem": (["ext4", "xfs"], "pmem", True),
    "sqlite-remap": (["xfs-exchange", "btrfs", "xfs"], "remap", False),
    "sqlite-f2fs": (["f2fs"], "remap", False),
}


class Model:
    """What writers should have made, writer by writer."""

    def __init__(self, seed, writers):
        self.seed = seed
        self.states = [{} for _ in range(writers)]
        # The state that the model is in; the last that was acknowledged.
        self.at = [0] * writers
        self.acknowledged = [0] * writers

    def judge(self, what, found, exact):
        """`found` of `look`; what it says is the state from now on. `exact`: nothing acknowledged may be
        missing; "same": a look at the same state was judged before."""
        if "error" in found:
            raise Wrong(f"{what}: {found['error']}")
        if found["integrity"] != "ok":
            raise Wrong(f"{what}: integrity_check says {found['integrity']}")
        if len(found["last"]) != len(self.at):
            raise Wrong(f"{what}: of {len(self.at)} writers there are {found['last']}")
        for who, n in enumerate(found["last"]):
            least = self.acknowledged[who] if exact else self.at[who]
            most = self.acknowledged[who] + (0 if exact == "same" else UNHEARD)
            if not least <= n <= most:
                raise Wrong(f"{what}: writer {who} was told of {self.acknowledged[who]}, there is {n} (from {self.at[who]})")
            while self.at[who] < n:
                self.at[who] += 1
                history.put(self.states[who], self.seed, who, self.at[who])
            if found["digest"][who] != history.expected(self.states[who], self.seed, who):
                raise Wrong(f"{what}: writer {who}: the rows are not those of transaction {n}")
        self.acknowledged = list(self.at)


def judge(model, found, exact):
    marked = found["versions"][1] == 3
    if "stock_first" in found:
        if marked:
            if "not a database" not in found["stock_first"].get("error", ""):
                raise Wrong(f"stock SQLite was to refuse a marked database: {found['stock_first']}")
            if found["left"] != found["files"]:
                raise Wrong(f"stock SQLite changed what it refused: {found['files']} became {found['left']}")
        else:
            model.judge("stock SQLite first", found["stock_first"], exact)
            exact = "same"
    model.judge("our VFS", found["ours"], exact)
    if "copy" in found:
        model.judge("stock SQLite on a copy", found["copy"], "same")
    if "detached" in found and found["detached"][1] == 3:
        raise Wrong("the mark is there after ondol_detach")
    closed = found["closed"]
    # A journal of mode PERSIST stays, with no magic.
    left = {name: size for name, size in closed["files"].items() if name not in ("a.db", "a.db-journal")}
    if left or closed["versions"][1] == 3:
        raise Wrong(f"after the last clean close: {closed}")
    model.judge("stock SQLite afterwards", found["stock"], "same")


class Sqlite(Scenario):
    program = "guest_sqlite"

    def __init__(self, name, options):
        self.name = name
        systems, mode, self.persistent = SCENARIOS[name]
        self.systems, self.mode = [options.fs] if options.fs else systems, options.mode or mode
        super().__init__(options, sorted({fs.removesuffix("-exchange") for fs in self.systems}), ["nfit", "nd_pmem"] if self.persistent else ["virtio_blk"])
        self.extension = self.rig.built("libondol_sqlite.so")
        self.hot = self.shared = 0
        self.seen = set()
        self.status = {}

    def about(self):
        return f"{', '.join(self.systems)}, mode {self.mode}, {self.extension}"

    def told(self):
        return f"{self.hot} times a journal or WAL was left, {self.shared} pages shared"

    def begin(self):
        chance, fs = self.chance, self.systems[self.lives % len(self.systems)]
        if self.persistent:
            self.nvdimm = self.rig.new_nvdimm(384)
        else:
            # Neither survives torn blocks: with sectors of 512 bytes F2FS lost stock SQLite's files too, and
            # Btrfs is not mounted when its superblock is torn.
            self.disk = self.rig.new_disk(384, whole=4096 if fs in ("f2fs", "btrfs") else 512)
        said = {
            "device": "/dev/pmem0" if self.persistent else "/dev/vda",
            "fs": fs,
            "mode": self.mode,
            "extension": self.extension,
            "options": self.options.mount,
            "page": chance.choice([4096, 4096, 4096, 8192, 16384]),
            "run": chance.choice([1, 1, 4]),
            "history": chance.randrange(1 << 30),
            "writers": chance.choice([1, 2]),
        }
        if self.options.doctor:
            said["doctor"] = self.rig.built("ondol")
        self.model, self.exact = Model(said["history"], said["writers"]), True
        return said

    def how(self):
        return {"stock_first": self.chance.random() < 0.3, "detach": self.chance.random() < 0.5}

    def judge(self, found):
        judge(self.model, found, self.exact)
        self.hot += any(size for name, size in found["files"].items() if name != "a.db")

    def go(self):
        chance = self.chance
        journal = chance.choice(["WAL", "WAL", "DELETE", "TRUNCATE", "PERSIST"] if self.persistent else ["WAL"])
        # In mode DELETE only EXTRA syncs the folder after the journal is gone.
        synchronous = {"DELETE": "EXTRA", "WAL": chance.choice(["FULL", "FULL", "NORMAL"])}.get(journal, "FULL")
        self.exact = synchronous != "NORMAL" or self.options.control
        if self.options.control:
            synchronous = "OFF"
        self.status = {}
        autocheckpoint = chance.choice([4, 20, 100, 400])
        return {"journal": journal, "synchronous": synchronous, "from": self.model.at, "autocheckpoint": autocheckpoint}

    def note(self, heard):
        super().note(heard)
        if "done" in heard:
            who, n = heard["done"]
            if n != self.model.acknowledged[who] + 1:
                raise Wrong(f"writer {who} acknowledged {n} after {self.model.acknowledged[who]}")
            self.model.acknowledged[who] = n
            self.acknowledged += 1
        elif "status" in heard:
            self.status = heard["status"]
        elif "doctor" in heard:
            print(heard["doctor"], flush=True)

    def at(self, go):
        """For a cut's line. What the extension last said of itself is looked at with it."""
        status, fs = self.status, self.said["fs"]
        if status:
            self.shared += int(status["pages_shared"])
            sharing = f"{status['mechanism']} {status['sharing']}"
            fact = (fs, status["mode"], status.get("medium", "files"), status["promise"], sharing)
            if fact not in self.seen:
                self.seen.add(fact)
                print("vm: on {}: mode {}, medium: {}, promise: {}, sharing: {}".format(*fact), flush=True)
            if self.mode == "pmem" and ("MAP_SYNC" in fact[2]) != self.persistent:
                raise Wrong(f"ondol=pmem says of its medium: {fact[2]}")
        return f"{fs}, {go['journal']} {go['synchronous']}, {self.model.acknowledged} acknowledged"
