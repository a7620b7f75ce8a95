"""What runs in the guest, on the host's Python and libraries, which it sees read-only. It is told by the host
what to do (one JSON object), and tells what it did (a JSON object a line)."""
import fcntl
import glob
import json
import os
import subprocess
import sys
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


RNDRESEEDCRNG = 0x5207


class Host:
    def __init__(self):
        while not (ports := glob.glob("/dev/vport*")):
            time.sleep(0.01)
        self.port = os.open(ports[0], os.O_RDWR)
        self.rest = b""

    def tell(self, **what):
        line = json.dumps(what).encode() + b"\n"
        # One write: several processes tell.
        os.write(self.port, line)

    def hear(self):
        while b"\n" not in self.rest:
            got = os.read(self.port, 1 << 16)
            if not got:
                # The host is not there yet.
                time.sleep(0.01)
            self.rest += got
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


def put(path, text):
    with open(path, "w") as file:
        file.write(text)


def nvdimm(fresh):
    """The emulated NVDIMM as /dev/pmem0 with memory pages, which DAX with MAP_SYNC needs. It comes up raw;
    that it is in mode fsdax is then written to its first pages, where later boots find it."""
    bus = "/sys/bus/nd"
    if fresh:
        with open(f"{bus}/devices/region0/pfn_seed") as file:
            seed = file.read().strip()
        put(f"{bus}/drivers/nd_pmem/unbind", "namespace0.0")
        with open("/proc/sys/kernel/random/uuid") as file:
            put(f"{bus}/devices/{seed}/uuid", file.read())
        put(f"{bus}/devices/{seed}/mode", "pmem")
        put(f"{bus}/devices/{seed}/align", str(2 << 20))
        put(f"{bus}/devices/{seed}/namespace", "namespace0.0")
        put(f"{bus}/drivers/nd_pmem/bind", seed)
    end = time.monotonic() + 20
    while not os.path.exists("/dev/pmem0"):
        if time.monotonic() > end:
            raise RuntimeError("there is no /dev/pmem0")
        time.sleep(0.01)


def busybox(*command, **more):
    subprocess.run(["/bin/busybox", *command], check=True, **more)


def begin(said):
    """From here on there are media, and the host's root. What a saved guest would always do in the same way
    is made different: the time, and what the kernel's random numbers come from."""
    time.clock_settime(time.CLOCK_REALTIME, said["time"])
    with open("/dev/urandom", "wb", buffering=0) as file:
        file.write(bytes.fromhex(said["entropy"]))
        fcntl.ioctl(file, RNDRESEEDCRNG)
    busybox("dmesg", "-c", stdout=subprocess.DEVNULL)
    with open("/modules/later") as file:
        for name in file.read().split():
            busybox("insmod", f"/modules/{name}.ko")
    # The host's files do not change while a guest runs, so it may keep what it has read.
    options = "ro,trans=virtio,version=9p2000.L,msize=512000,cache=loose"
    busybox("mount", "-t", "9p", "-o", options, "host", "/host")
    busybox("mount", "--bind", "/dev", "/host/dev")
    busybox("mount", "-t", "proc", "proc", "/host/proc")
    busybox("mount", "-t", "sysfs", "sys", "/host/sys")
    busybox("mount", "-t", "tmpfs", "-o", "mode=755", "tmp", "/host/mnt")
    os.makedirs("/host/dev/shm", exist_ok=True)
    busybox("mount", "-t", "tmpfs", "-o", "mode=1777", "shm", "/host/dev/shm")
    # Every path that Python knows is the same there.
    os.chroot("/host")
    os.chdir("/")


# File system to the command that makes it, without discarding, and its mount options.
MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-F", "-b", "4096", "-E", "nodiscard"],
    "xfs": ["mkfs.xfs", "-q", "-f", "-K", "-m", "reflink=1"],
    "xfs-dax": ["mkfs.xfs", "-q", "-f", "-K", "-m", "reflink=0"],
    "btrfs": ["mkfs.btrfs", "-q", "-f", "-K"],
    "f2fs": ["mkfs.f2fs", "-q", "-f", "-t", "0"],
}
OPTIONS = {"btrfs": "nodiscard", "f2fs": "nodiscard"}


def exchange(device):
    """Lets XFS exchange ranges, as mkfs.xfs -i exchange=1 does, which comes with xfsprogs 6.10: bit 6 of the
    superblock's features."""
    said = run("xfs_db", "-x", "-c", "sb 0", "-c", "print features_incompat", device)
    bits = int(said.split("=")[1], 16) | 0x40
    run("xfs_db", "-x", "-c", "sb 0", "-c", f"write -d features_incompat {bits:#x}", device)


def mount(device, kind, folder, fresh, options=None):
    """`kind` is a name in MAKE, or xfs-exchange. On /dev/pmem0 files are mapped past the page cache."""
    dax = device == "/dev/pmem0"
    if dax:
        nvdimm(fresh)
    system = kind.removesuffix("-exchange")
    if fresh:
        run(*MAKE["xfs-dax" if dax and system == "xfs" else system], device)
        if kind != system:
            exchange(device)
    os.makedirs(folder, exist_ok=True)
    options = options or ("dax=always" if dax else OPTIONS.get(system, "defaults"))
    run("mount", "-t", system, "-o", options, device, folder)


def main():
    host = Host()
    program = __import__(sys.argv[1])
    host.tell(waits=True)
    # Here the guest is saved.
    said = host.hear()
    try:
        begin(said)
        host.tell(awake=True)
        program.main(host, said)
    except BaseException:
        host.tell(failed=traceback.format_exc() + run("dmesg")[-3000:])
        # The host ends the machine.
        time.sleep(60)


if __name__ == "__main__":
    main()
