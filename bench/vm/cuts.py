"""What all scenarios share: where things are, the guest's start, and the moment of each cut."""
import os
import random
import shutil
import subprocess
import sys
import threading
import time

import initramfs
import kernel
from disk import Disk
from machine import Machine

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))

MODULES = ["virtio_pci", "virtio_console", "9pnet_virtio", "9p", "crc32c_generic", "crc32_generic"]
# File system, whose module has its name, to the Debian package that makes one.
FILE_SYSTEMS = {"ext4": "e2fsprogs", "xfs": "xfsprogs", "btrfs": "btrfs-progs", "f2fs": "f2fs-tools"}

# Patience, in seconds of a machine that others use too.
BOOT, LOOK = 120, 300


# What a writer did and told, and the cut kept in QEMU, and the one that it was at. What is there beyond what
# was heard is judged by its content alone.
UNHEARD = 16


class Wrong(Exception):
    """What the scenario is for: something acknowledged is not there, or is not right."""


def python():
    """A Python whose sqlite3 loads extensions, as Debian's does."""
    test = "import sqlite3; sqlite3.connect(':memory:').enable_load_extension(True)"
    for path in ("/usr/bin/python3", os.path.realpath(sys.executable)):
        if os.path.exists(path) and subprocess.run([path, "-c", test], capture_output=True).returncode == 0:
            return path
    raise kernel.Missing("missing: a Python whose sqlite3 loads extensions: apt-get install python3")


class Rig:
    """`options` are the command's. One work folder for a scenario; what was there is gone."""

    def __init__(self, scenario, options, program, systems, media):
        self.target = os.path.join(ROOT, "target")
        needed = {"busybox": "busybox-static", "qemu-system-x86_64": "qemu-system-x86", "ldd": "libc-bin"}
        kernel.demand(needed | {"mkfs." + fs: FILE_SYSTEMS[fs] for fs in systems})
        place = os.path.join(self.target, "vm")
        os.makedirs(place, exist_ok=True)
        unpacked = kernel.get(place, [options.kernel] if options.kernel else KERNELS)
        self.version = kernel.version(unpacked)
        self.work = os.path.join(place, scenario + ("-control" if options.control else ""))
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)
        interpreter = python()
        initramfs.build(self.path("initramfs"), unpacked, MODULES + systems, interpreter, media, program)
        words = f"python={interpreter} main={HERE}/guest/main.py program={program}"
        self.start = (kernel.image(unpacked), self.path("initramfs"), words)
        self.state = None
        self.chance = random.Random(f"{options.seed} {scenario}")

    def path(self, name):
        return os.path.join(self.work, name)

    def built(self, name):
        """Something of ours, built before. Its newest build counts."""
        found = [os.path.join(self.target, profile, name) for profile in ("release", "quick")]
        found = [path for path in found if os.path.exists(path)]
        if not found:
            raise kernel.Missing(f"missing: {name} in target/release: cargo build --release --workspace")
        newest = max(found, key=os.path.getmtime)
        made = os.path.getmtime(newest)
        for crate in ("base", "sqlite") if "sqlite" in name else ("base", "ring", "pgwal", "preload"):
            for folder, _, files in os.walk(os.path.join(HERE, "..", "..", "crates", crate, "src")):
                for source in (os.path.join(folder, file) for file in files):
                    if os.path.getmtime(source) > made:
                        raise kernel.Missing(f"{newest} is older than {os.path.normpath(source)}: cargo build --release --workspace")
        return newest

    def boot(self, said, **hardware):
        """A guest that has been told what to do. The hardware is always the same, but for what the media
        hold."""
        if self.state is None:
            first = Machine(self.work, self.start, **hardware)
            try:
                first.expect("waits", BOOT)
                first.save(self.path("state"))
            finally:
                first.end()
            self.state = self.path("state")
        machine = Machine(self.work, self.start, self.state, **hardware)
        machine.say(said | {"time": time.time(), "entropy": os.urandom(64).hex()})
        return machine

    def new_disk(self, megabytes, **more):
        return Disk(self.path("disk"), megabytes << 20, self.path("disk.socket"), fresh=True, **more)

    def new_nvdimm(self, megabytes):
        path = self.path("nvdimm")
        if os.path.exists(path):
            os.unlink(path)
        with open(path, "wb") as file:
            os.truncate(file.fileno(), megabytes << 20)
        return path

    def keep(self, names):
        """Media as they are now, for looking at when the next boot finds something wrong. Holes stay
        holes."""
        for name in names:
            if os.path.exists(self.path(name)):
                copy = ["cp", "--sparse=always", self.path(name), self.path(name + ".before")]
                subprocess.run(copy, check=True)


# Debian 12's newest, else Debian's own.
KERNELS = ["linux-image-6.12-amd64", "linux-image-amd64"]


class Scenario:
    """Rounds of boot, look, work and cut. What a scenario adds: new media (`begin`), what it makes of a look
    (`judge`), what the guest is to do then (`go`), what it tells meanwhile (`note`)."""

    name = program = None
    # How many cuts the media live before they are made anew.
    cuts_a_life = 8
    pace = 1

    def __init__(self, options, systems, media):
        self.options = options
        self.rig = Rig(self.name, options, self.program, systems, media)
        self.chance = self.rig.chance
        self.cuts = self.in_recovery = self.acknowledged = self.lives = 0
        self.disk = self.nvdimm = self.said = None
        self.memory = 512

    def run(self):
        """The command's exit status."""
        name, options = self.name, self.options
        about = f"kernel {self.rig.version}, seed {options.seed}, {self.about()}"
        print(f"vm: {name}, {about}", flush=True)
        begun = time.monotonic()
        try:
            while self.cuts < options.kills:
                self.life()
        except Wrong as wrong:
            if options.control:
                print(f"vm: {name}, control: noticed after {self.cuts} cuts: {wrong}", flush=True)
                return 0
            print(f"vm: {name}, seed {options.seed}, after {self.cuts} cuts, {self.said}: {wrong}", file=sys.stderr)
            aside = f"{self.rig.work}-failed-{options.seed}"
            shutil.rmtree(aside, ignore_errors=True)
            os.rename(self.rig.work, aside)
            print(f"vm: the media as the last cut left them: {aside}/*.before", file=sys.stderr)
            return 1
        took = time.monotonic() - begun
        print(
            f"vm: {name}, seed {options.seed}: {self.cuts} cuts ({self.in_recovery} in recovery), {self.acknowledged} "
            f"transactions acknowledged, {self.told()}, {self.lives} lives, {took:.0f} s",
            flush=True,
        )
        if options.control:
            print(f"vm: {name}, control: not noticed", file=sys.stderr)
            return 1
        return 0

    def life(self):
        """New media, cut `cuts_a_life` times, and looked at after the last."""
        self.said = self.begin() | {"fresh": True}
        self.lives += 1
        try:
            left = min(self.cuts_a_life, self.options.kills - self.cuts)
            for n in range(left + 1):
                self.round(first=n == 0, last=n == left)
        finally:
            if self.disk:
                self.disk.close()

    def boot(self, said):
        return self.rig.boot(said, memory=self.memory, nvdimm=self.nvdimm, disk=self.disk)

    def round(self, first, last):
        """One boot: what the cut before left is judged; then, unless it is the last, the guest works until
        the next cut."""
        self.said["fresh"] = first
        machine = self.boot(self.said | self.how() | {"last": last})
        try:
            if self.disk and not first and not last and self.chance.random() < 0.15:
                forgot, heard = cut_in_recovery(machine, self.disk, self.chance, self.note)
                if forgot:
                    self.cuts, self.in_recovery = self.cuts + 1, self.in_recovery + 1
                    self.line(f"in recovery; {forgot}")
                    self.rig.keep(["disk", "nvdimm"])
                    return
            else:
                heard = hear_until(machine, "found", LOOK, self.note)
            if heard is None:
                raise Wrong(f"the guest did not come up again:\n{machine.told()}")
            if not first:
                self.judge(heard["found"])
            if last:
                return
            go = self.go()
            machine.say(go)
            if hear_until(machine, "going", LOOK, self.note) is None:
                raise Wrong(f"the guest did not go on:\n{machine.told()}")
            forgot = wait_for_cut(machine, self.disk, self.chance, self.note, self.pace)
        finally:
            machine.end()
        self.cuts += 1
        self.line(f"{self.at(go)}; {forgot}")
        self.rig.keep(["disk", "nvdimm"])

    def line(self, text):
        if self.options.verbose:
            print(f"cut {self.cuts}: {text}", flush=True)

    def how(self):
        """What is told anew at each boot."""
        return {}

    def note(self, heard):
        if "failed" in heard:
            raise Wrong("the guest failed:\n" + heard["failed"])


def hear_until(machine, name, patience, note):
    """The first object with `name`, or None when the machine has gone or is silent. `note` is given what
    comes before."""
    while True:
        heard = machine.hear(patience)
        if heard is None:
            return None
        if name in heard:
            return heard
        note(heard)


def wait_for_cut(machine, disk, chance, note, pace):
    """Lets the guest work until the cut, whose moment is a time (`pace` is the middle of how long) or, half
    of the time where there is a disk, a number of its requests; then cuts. `note` is given what is heard.
    Returns what the disk forgot, in words."""
    hit = threading.Event()
    end = time.monotonic() + chance.uniform(0.05, pace * chance.choice([0.5, 3]))
    if disk and chance.random() < 0.6:
        disk.cut_later(chance.randrange(chance.choice([30, 300])), chance.random() < 0.7, hit.set)
        end = time.monotonic() + 6
    while time.monotonic() < end and not hit.is_set():
        heard = machine.hear(min(0.05, max(0.001, end - time.monotonic())))
        if heard is not None:
            note(heard)
    if disk:
        disk.cut()
    for heard in machine.cut():
        note(heard)
    return disk.forget(chance) if disk else ""


def cut_in_recovery(machine, disk, chance, note):
    """A cut while the guest mounts and looks at what the last cut left, by the number of the disk's requests.
    Returns what the disk forgot; or None where the guest was done before, and its "found"."""
    hit = threading.Event()
    disk.cut_later(chance.randrange(60), chance.random() < 0.5, hit.set)
    end = time.monotonic() + LOOK
    heard = None
    while not hit.is_set() and time.monotonic() < end:
        heard = machine.hear(0.1)
        if heard is not None and "found" in heard:
            break
        if heard is not None:
            note(heard)
    if disk.cut_not():
        return None, heard
    machine.cut()
    return disk.forget(chance), None
