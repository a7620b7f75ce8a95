"""One guest, from power on to power cut: QEMU with its processor emulated (TCG), so that it runs wherever
QEMU does.

The guest tells what it does in JSON lines, one object each, through a virtio port; what the host has received
was said before the cut. The console goes to a file. Killing QEMU by SIGKILL is the power cut: the guest's
memory and processor are gone, the emulated NVDIMM (a file that is mapped shared) has every store up to then,
and the disk is told by itself (disk.py).

A guest is saved once, when its program waits to be told what to do, and each start goes on from there. No
driver of a medium is loaded by then, nor is the host's root mounted (QEMU would not save it), so nothing of a
medium is remembered.
"""
import json
import os
import select
import shlex
import socket
import subprocess
import time


class Failed(Exception):
    """The guest did not do what it should."""


def listen(address):
    if os.path.exists(address):
        os.unlink(address)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(address)
    listener.listen(1)
    listener.settimeout(60)
    return listener


class Machine:
    """`boot`: kernel, initramfs and the kernel's words. `state`: where to go on from, or None. `nvdimm`: a
    file's path, or None. `disk`: a Disk, or None. `memory` in MiB."""

    def __init__(self, place, boot, state=None, memory=512, nvdimm=None, disk=None):
        self.console = os.path.join(place, "console")
        port, monitor = os.path.join(place, "port"), os.path.join(place, "monitor")
        listeners = [listen(port), listen(monitor)]
        command = ["qemu-system-x86_64", "-no-user-config", "-nodefaults", "-display", "none", "-no-reboot"]
        command += ["-machine", "pc" + (",nvdimm=on" if nvdimm else ""), "-accel", "tcg", "-cpu", "max", "-smp", "1"]
        command += ["-m", f"{memory}M" + (",slots=2,maxmem=4G" if nvdimm else "")]
        command += ["-serial", "file:" + self.console]
        command += ["-device", "virtio-serial-pci", "-chardev", f"socket,id=port,path={port},server=off"]
        command += ["-device", "virtserialport,chardev=port,name=vm"]
        command += ["-virtfs", "local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap"]
        if nvdimm:
            size = os.path.getsize(nvdimm)
            command += ["-object", f"memory-backend-file,id=memory,share=on,mem-path={nvdimm},size={size}"]
            command += ["-device", "nvdimm,id=nvdimm,memdev=memory"]
        if disk:
            server = f"driver=nbd,node-name=disk,server.type=unix,server.path={disk.address}"
            command += ["-blockdev", server + ",cache.direct=on,cache.no-flush=off"]
            command += ["-device", "virtio-blk-pci,drive=disk,write-cache=on,discard=off,write-zeroes=off"]
        kernel, initramfs, words = boot
        words = "console=ttyS0 quiet panic=-1 no_timer_check tsc=reliable random.trust_cpu=1 " + words
        command += ["-kernel", kernel, "-initrd", initramfs, "-append", words]
        command += ["-chardev", f"socket,id=qmp,path={monitor},server=off", "-mon", "chardev=qmp,mode=control"]
        if state:
            command += ["-incoming", "defer"]
        with open(os.path.join(place, "qemu.log"), "w") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.log = os.path.join(place, "qemu.log")
        self.begun = time.monotonic()
        self.rest = b""
        try:
            # QEMU connects to each before it starts.
            self.port, _ = listeners[0].accept()
            self.monitor, _ = listeners[1].accept()
        except TimeoutError:
            self.end()
            raise Failed("QEMU does not start: " + self.told()) from None
        finally:
            for listener in listeners:
                listener.close()
        self.answers = self.monitor.makefile("rb")
        self.answers.readline()
        self.ask("qmp_capabilities")
        # The NVDIMM's file is what it is: neither saved nor loaded.
        self.ask("migrate-set-capabilities", capabilities=[{"capability": "x-ignore-shared", "state": True}])
        if state:
            self.ask("migrate-incoming", uri="exec:cat " + shlex.quote(state))
            self.migrated()
            self.ask("cont")

    def ask(self, what, **arguments):
        """A command to QEMU itself."""
        self.monitor.sendall(json.dumps({"execute": what, "arguments": arguments}).encode())
        while line := self.answers.readline():
            answer = json.loads(line)
            if "return" in answer:
                return answer["return"]
            if "error" in answer:
                raise Failed(f"QEMU, asked for {what}: {answer['error']}")
        raise Failed(f"QEMU has gone: {self.told()}")

    def migrated(self):
        end = time.monotonic() + 120
        while (status := self.ask("query-migrate").get("status")) != "completed":
            if status == "failed" or time.monotonic() > end:
                raise Failed(f"QEMU cannot save or load the guest: {self.ask('query-migrate')} {self.told()}")
            time.sleep(0.02)

    def save(self, path):
        """Saves the guest, which ends with that."""
        self.ask("stop")
        # As fast as it goes.
        self.ask("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
        self.ask("migrate", uri="exec:cat > " + shlex.quote(path))
        self.migrated()
        self.cut()

    def say(self, what):
        self.port.sendall(json.dumps(what).encode() + b"\n")

    def told(self):
        """The end of what the console and QEMU have, for a message."""
        text = ""
        for path in (self.log, self.console):
            if os.path.exists(path):
                with open(path, errors="replace") as file:
                    text += file.read()[-3000:]
        return text

    def hear(self, patience):
        """The next object, or None if there is none for `patience` seconds or the machine has ended."""
        end = time.monotonic() + patience
        while b"\n" not in self.rest:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.port], [], [], left)[0]:
                return None
            try:
                got = self.port.recv(1 << 16)
            except ConnectionError:
                got = b""
            if not got:
                return None
            self.rest += got
        line, self.rest = self.rest.split(b"\n", 1)
        return json.loads(line)

    def expect(self, name, patience):
        """The next object, which must have a member `name`."""
        heard = self.hear(patience)
        if heard is None or name not in heard:
            raise Failed(f"expected \"{name}\" within {patience} s, heard {heard}\n{self.told()}")
        return heard[name]

    def end(self):
        self.process.kill()
        self.process.wait()

    def cut(self):
        """The power cut. Returns what the guest had still said."""
        self.end()
        last = []
        while (heard := self.hear(0.2)) is not None:
            last.append(heard)
        self.port.close()
        self.answers.close()
        self.monitor.close()
        return last
