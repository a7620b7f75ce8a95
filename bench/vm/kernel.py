"""Debian's kernel for the guest: the package is downloaded and unpacked, never installed, and kept below
target/vm."""
import glob
import os
import subprocess

# What is asked of a Debian system, and the package that has it.
NEEDED = {
    "qemu-system-x86_64": "qemu-system-x86",
    "dpkg-deb": "dpkg",
    "apt-get": "apt",
}


class Missing(Exception):
    """Something that the user can install."""


def find(program):
    """Where a program is; system folders count too, for a user whose PATH lacks them."""
    for folder in os.environ.get("PATH", "").split(":") + ["/usr/sbin", "/sbin"]:
        path = os.path.join(folder, program)
        if os.access(path, os.X_OK):
            return path
    return None


def demand(programs):
    """`programs`: name or path to Debian package."""
    missing = sorted({package for name, package in programs.items() if not find(name)})
    if missing:
        raise Missing("missing: apt-get install " + " ".join(missing))


def concrete(package):
    """The package with the kernel that a meta-package like linux-image-amd64 stands for, or the package
    itself."""
    out = subprocess.run(["apt-cache", "depends", package], capture_output=True, text=True)
    for line in out.stdout.splitlines():
        kind, _, name = line.strip().partition(": ")
        if kind == "Depends" and name.startswith("linux-image-"):
            return name
    return package if out.returncode == 0 else None


def get(place, wanted):
    """The folder of the unpacked kernel. `wanted` is the first of its packages that Debian's lists know."""
    for package in wanted:
        mark = os.path.join(place, "is-" + package)
        if os.path.exists(mark):
            with open(mark) as file:
                return os.path.join(place, file.read().strip())
    demand(NEEDED)
    for package in wanted:
        name = concrete(package)
        if name is None:
            continue
        folder = os.path.join(place, name)
        os.makedirs(folder, exist_ok=True)
        print(f"vm: fetching {name}", flush=True)
        # Downloading as oneself, not as the user _apt, who may not write here.
        command = ["apt-get", "-q", "-o", "APT::Sandbox::User=", "download", name]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
        files = glob.glob(os.path.join(folder, name + "_*.deb"))
        if done.returncode or not files:
            raise Missing(f"{name} cannot be downloaded (apt-get update?):\n{done.stderr}")
        subprocess.run(["dpkg-deb", "-x", files[0], folder], check=True)
        os.unlink(files[0])
        with open(os.path.join(place, "is-" + package), "w") as file:
            file.write(name)
        return folder
    raise Missing("none of these packages is known to apt (apt-get update?): " + ", ".join(wanted))


def image(folder):
    return glob.glob(os.path.join(folder, "boot/vmlinuz-*"))[0]


def version(folder):
    return os.path.basename(image(folder)).removeprefix("vmlinuz-")
