"""The guest's first file system, a cpio archive (newc): busybox, the kernel modules that are asked for,
`guest/init`, and the host's Python with what the guest's program needs until it sees the host's root, each
file where the host has it."""
import glob
import gzip
import lzma
import os
import re
import stat
import subprocess

HERE = os.path.dirname(os.path.abspath(__file__))
BUSYBOX = "/bin/busybox"


def modules(kernel, names):
    """Names and contents of the modules and all that they need, in the order in which they can be loaded."""
    root = glob.glob(os.path.join(kernel, "lib/modules/*"))[0]
    paths = {}
    for path in glob.glob(root + "/kernel/**/*.ko*", recursive=True):
        paths[os.path.basename(path).split(".ko")[0].replace("-", "_")] = path
    with open(root + "/modules.builtin") as file:
        builtin = {os.path.basename(line.strip())[:-3].replace("-", "_") for line in file}
    data = {}
    loading = set()

    def load(name, must):
        name = name.replace("-", "_")
        if name in data or name in builtin or name in loading:
            return
        if name not in paths:
            # A soft dependency may be one of another architecture.
            if must:
                raise KeyError(f"{os.path.basename(root)} has no module {name}")
            return
        loading.add(name)
        with open(paths[name], "rb") as file:
            content = file.read()
        if paths[name].endswith(".xz"):
            content = lzma.decompress(content)
        for needed in re.findall(rb"\0depends=([^\0]*)\0", content):
            for other in filter(None, needed.decode().split(",")):
                load(other, True)
        for wished in re.findall(rb"\0softdep=pre: ([^\0]*)\0", content):
            for other in wished.decode().partition("post:")[0].split():
                load(other, False)
        data[name] = content

    for name in names:
        load(name, True)
    return data


# What is loaded when the guest's program waits; told by that Python itself.
LOADED = """
import sys
sys.path.insert(0, sys.argv[1])
import main
import encodings.utf_8, encodings.ascii, encodings.latin_1
for name in sys.argv[2:]:
    __import__(name)
for module in list(sys.modules.values()):
    if getattr(module, "__file__", None):
        print(module.__file__)
"""


def programs(python, names):
    """The host's files that the guest's program is made of: Python, its modules, their libraries, and the
    loader."""
    command = [python, "-sEB", "-c", LOADED, os.path.join(HERE, "guest"), *names]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    paths = [python, *out.split()]
    binary = [python] + [path for path in paths if path.endswith(".so")]
    told = subprocess.run(["ldd", *binary], capture_output=True, text=True, check=True).stdout
    for line in told.splitlines():
        paths += [word for word in line.split() if word.startswith("/") and not word.endswith(":")]
    return sorted(set(paths))


def parents(path):
    """Its folders, from the root on."""
    return [path[:i] for i, c in enumerate(path) if c == "/" and i > 0]


class Archive:
    def __init__(self):
        self.data, self.inode = bytearray(), 0
        self.folders, self.files, self.links = set(), set(), set()

    def add(self, name, mode, content=b"", device=(0, 0)):
        self.inode += 1
        for parent in [name[:i] for i, c in enumerate(name) if c == "/"]:
            if parent not in self.folders:
                self.folder(parent)
        fields = (self.inode, mode, 0, 0, 1, 0, len(content), 0, 0, *device, len(name) + 1, 0)
        self.data += b"070701" + "".join(f"{f:08X}" for f in fields).encode()
        self.data += name.encode() + b"\0"
        self.data += bytes(-len(self.data) % 4) + content
        self.data += bytes(-len(self.data) % 4)

    def folder(self, name):
        if name not in self.folders:
            self.folders.add(name)
            self.add(name, stat.S_IFDIR | 0o755)

    def host(self, path):
        """A file of the host, with the links on the way to it, and what is beside it in Python's cache of its
        byte code."""
        if os.path.realpath(os.path.dirname(path)) != os.path.dirname(path):
            first = next(p for p in parents(path) if os.path.islink(p))
            self.link(first)
            return self.host(os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path)))
        if path in self.files:
            return None
        self.files.add(path)
        if os.path.islink(path):
            self.link(path)
            return self.host(os.path.join(os.path.dirname(path), os.readlink(path)))
        with open(path, "rb") as file:
            self.add(path.lstrip("/"), stat.S_IFREG | 0o755, file.read())
        return None

    def link(self, path):
        if path not in self.links:
            self.links.add(path)
            self.add(path.lstrip("/"), stat.S_IFLNK | 0o777, os.readlink(path).encode())


def build(path, kernel, names, python, later, program):
    """Writes the archive. Of the modules in `names` those in `later` are left for the guest's program to
    load. `program` names it."""
    found = modules(kernel, names + later)
    before = modules(kernel, names)
    archive = Archive()
    for folder in ("bin", "dev", "proc", "sys", "host", "modules"):
        archive.folder(folder)
    archive.add("dev/console", stat.S_IFCHR | 0o600, device=(5, 1))
    archive.add("dev/null", stat.S_IFCHR | 0o666, device=(1, 3))
    if os.path.islink("/bin"):
        # Debian's /bin leads to /usr/bin; here it does not, and nothing else is asked for there.
        archive.links.add("/bin")
    with open(BUSYBOX, "rb") as file:
        archive.add("bin/busybox", stat.S_IFREG | 0o755, file.read())
    archive.add("bin/sh", stat.S_IFLNK | 0o777, b"busybox")
    for name, content in found.items():
        archive.add(f"modules/{name}.ko", stat.S_IFREG | 0o644, content)
    archive.add("modules/first", stat.S_IFREG | 0o644, "".join(f"{n}\n" for n in before).encode())
    rest = [n for n in found if n not in before]
    archive.add("modules/later", stat.S_IFREG | 0o644, "".join(f"{n}\n" for n in rest).encode())
    with open(os.path.join(HERE, "guest/init"), "rb") as file:
        archive.add("init", stat.S_IFREG | 0o755, file.read())
    for path_there in programs(python, [program]):
        archive.host(path_there)
    archive.add("TRAILER!!!", 0)
    with open(path, "wb") as file:
        file.write(gzip.compress(bytes(archive.data), 1))
