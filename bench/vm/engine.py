"""Power cuts under Ondol with its log on a ring: what is judged, and by what.

The database lies on a disk that loses what was not flushed, ext4; the ring on an emulated NVDIMM, ext4 or XFS
with DAX.
1. Acknowledged is what COMMIT returned for, and the host has heard of, before the cut. The database holds the
   state after that transaction or one of the next few.
2. The rows are those of exactly that state (history.py), and `ondol check` finds nothing, before recovery
   with the ring beside.
3. Without its ring a marked database is refused, and still whole afterwards; one that is not marked is
   opened.
4. Known wrong, to show that all this sees something: commits that do not wait (--control); the ring lost, and
   the database opened all the same (--control --mode unrecovered).
"""
import kernel
from cuts import Scenario, Wrong
from sqlite import Model

MODES = ["ring", "asynchronous", "unrecovered"]


class Engine(Scenario):
    name, program = "engine", "guest_engine"
    pace = 2

    def __init__(self, options):
        self.mode = options.mode or ("asynchronous" if options.control else "ring")
        if self.mode not in MODES:
            raise kernel.Missing(f"--mode: one of {', '.join(MODES)}")
        super().__init__(options, ["ext4", "xfs"], ["virtio_blk", "nfit", "nd_pmem"])
        self.memory = 768
        self.refused = self.checks = 0

    def about(self):
        return f"{self.mode}, {self.rig.built('ondol')}"

    def told(self):
        return f"{self.checks} times `ondol check`, {self.refused} times refused without the ring"

    def begin(self):
        chance = self.chance
        self.disk = self.rig.new_disk(512)
        self.nvdimm = self.rig.new_nvdimm(384)
        self.model = Model(chance.randrange(1 << 30), 1)
        return {
            "mode": self.mode,
            "command": self.rig.built("ondol"),
            "fs": ["ext4", "xfs"][self.lives % 2],
            "ring": chance.choice(["128K", "1M", "16M"]),
            "history": self.model.seed,
        }

    def how(self):
        return {"check": self.chance.random() < 0.5, "without": self.chance.random() < 0.3}

    def judge(self, found):
        if "without" in found:
            status, told = found["without"]
            if found["marked"] != (status != 0 and "ring" in told):
                raise Wrong(f"opened without its ring, marked {found['marked']}: {status} {told}")
            self.refused += found["marked"]
        if "check" in found:
            status, told = found["check"]
            if status:
                raise Wrong(f"ondol check: {status}\n{told}")
            self.checks += 1
        self.model.judge("the database", found, exact=True)

    def go(self):
        return {"from": self.model.at[0]}

    def note(self, heard):
        super().note(heard)
        if "done" in heard:
            if heard["done"] != self.model.acknowledged[0] + 1:
                raise Wrong(f"{heard['done']} was acknowledged after {self.model.acknowledged[0]}")
            self.model.acknowledged[0] = heard["done"]
            self.acknowledged += 1

    def at(self, go):
        return f"ring on {self.said['fs']}, {self.said['ring']}, {self.model.acknowledged[0]} acknowledged"
