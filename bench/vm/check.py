"""The disk against a model of its rules (disk.py): random writes, flushes and cuts; and disks that break a
rule, which must be noticed."""
import os
import random
import tempfile

import disk
from disk import FLUSH, FUA, READ, SECTOR, WRITE

SECTORS = 64


class FlushForgotten(disk.Disk):
    def obey(self, flags, kind, offset, length, data):
        return (0, b"") if kind == FLUSH else super().obey(flags, kind, offset, length, data)


class FuaForgotten(disk.Disk):
    def obey(self, flags, kind, offset, length, data):
        return super().obey(0, kind, offset, length, data)


class NothingLost(disk.Disk):
    def forget(self, chance):
        self.on = True


def read(drive, sector):
    return bytes(drive.obey(0, READ, sector * SECTOR, SECTOR, None)[1])


def history(make, folder, seed, whole):
    """Whether a newer write was kept where an older one, to another place, was lost. Asserts the rest."""
    chance = random.Random(f"{seed} {whole}")
    drive = make(os.path.join(folder, "disk"), SECTORS * SECTOR, os.path.join(folder, "socket"), whole=whole, fresh=True)
    try:
        # Of each sector, what it may hold after a cut, oldest first, with the write's number.
        versions = [[(0, bytes(SECTOR))] for _ in range(SECTORS)]
        for number in range(1, chance.randrange(2, 40)):
            if chance.random() < 0.1:
                drive.obey(0, FLUSH, 0, 0, None)
                versions = [[v[-1]] for v in versions]
                continue
            length = chance.choice([1, 8, 16])
            first = chance.randrange(0, SECTORS - length + 1, chance.choice([1, 8]))
            data, flags = chance.randbytes(length * SECTOR), FUA if chance.random() < 0.2 else 0
            drive.obey(flags, WRITE, first * SECTOR, len(data), data)
            for i in range(length):
                new = (number, data[i * SECTOR : (i + 1) * SECTOR])
                versions[first + i] = [new] if flags else versions[first + i] + [new]
        assert all(read(drive, s) == v[-1][1] for s, v in enumerate(versions)), f"seed {seed}: not what was written"
        drive.cut()
        drive.forget(chance)
        newest_kept, oldest_lost = 0, 1 << 30
        for sector, may in enumerate(versions):
            found = [number for number, content in may if content == read(drive, sector)]
            assert found, f"seed {seed}: sector {sector} holds what it never did, or what is older than durable"
            if len(may) > 1 and found[-1] == may[-1][0]:
                newest_kept = max(newest_kept, found[-1])
            elif len(may) > 1:
                oldest_lost = min(oldest_lost, may[-1][0])
        return oldest_lost < newest_kept
    finally:
        drive.close()


def noticed(make, folder):
    try:
        results = [history(make, folder, seed, whole) for seed in range(100) for whole in (512, 4096)]
        assert any(results), "no cut lost a write and kept a later one"
    except AssertionError as wrong:
        return str(wrong)
    return None


def run():
    with tempfile.TemporaryDirectory() as folder:
        wrong = noticed(disk.Disk, folder)
        if wrong:
            print(f"vm: the disk breaks its rules: {wrong}")
            return 1
        for make in (FlushForgotten, FuaForgotten, NothingLost):
            told = noticed(make, folder)
            if told is None:
                print(f"vm: {make.__name__} was not noticed")
                return 1
            print(f"vm: {make.__name__}: noticed: {told}")
    print("vm: the disk keeps its rules")
    return 0
