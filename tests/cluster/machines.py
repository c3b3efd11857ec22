"""Machines on a ground of their own, in a network of their own.

Each has a network namespace with one end of a veth pair, whose other end is in a bridge, and a mount namespace.
"""

import os
import signal
import subprocess

import ground
from ground import Failed, check, run, until

# Where whoever is on the bridge itself is.
HERE = "10.22.0.100"


def bridge():
    """The network between machines, made before the first of them."""
    run("ip", "link", "set", "lo", "up")
    try:
        run("ip", "link", "add", "bridge", "type", "bridge")
    except Failed as error:
        ground.skip("kernel", f"no bridge between networks: {error}")
    run("ip", "address", "add", f"{HERE}/24", "dev", "bridge")
    run("ip", "link", "set", "bridge", "up")


class Machine:
    """One of them. It lives as long as this process, or until its death."""

    def __init__(self, number):
        self.number, self.address = number, f"10.22.0.{number + 1}"
        hold = ["unshare", "--mount", "--net", "--propagation", "private", "sleep", "infinity"]
        self.process = subprocess.Popen(hold, stdin=subprocess.DEVNULL)
        own = os.readlink("/proc/self/ns/net")
        until("a machine's network is there", lambda: os.readlink(f"/proc/{self.process.pid}/ns/net") != own
              and os.readlink(f"/proc/{self.process.pid}/ns/mnt") != os.readlink("/proc/self/ns/mnt"))
        self.network = os.readlink(f"/proc/{self.process.pid}/ns/net")
        self.wire()

    def words(self, *words):
        own = f"/proc/{self.process.pid}"
        enter = ["nsenter", f"--net={own}/ns/net", f"--mount={own}/ns/mnt", f"--root={own}/root", "--wd=/"]
        return enter + [str(word) for word in words]

    def run(self, *words):
        return run(*self.words(*words))

    def wire(self):
        outside = f"machine{self.number}"
        run("ip", "link", "add", outside, "type", "veth", "peer", "name", "wire", "netns", self.process.pid)
        run("ip", "link", "set", outside, "master", "bridge", "up")
        self.run("ip", "link", "set", "lo", "up")
        self.run("ip", "address", "add", f"{self.address}/24", "dev", "wire")
        self.run("ip", "link", "set", "wire", "up")

    def link(self, state):
        """Cuts its link ("down"), or mends it ("up")."""
        run("ip", "link", "set", f"machine{self.number}", state)

    def pids(self, name=None):
        """The processes on this machine, of a program or of all; with their commands."""
        found = []
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    command = file.read().split(b"\0")
                here = os.readlink(f"/proc/{pid}/ns/net") == self.network
                if here and name in (None, os.path.basename(command[0].decode())):
                    found.append((int(pid), command))
            except (OSError, UnicodeDecodeError):
                continue
        return found

    def kill(self, name, wanted=lambda command: True):
        """kill -9 of a program."""
        pids = [pid for pid, command in self.pids(name) if wanted(command)]
        check(pids, f"no {name} runs on machine {self.number}")
        for pid in pids:
            os.kill(pid, signal.SIGKILL)
        until("they are gone", lambda: not [1 for pid, _ in self.pids(name) if pid in pids])

    def die(self):
        """kill -9 of everything on it, the memory that only it has among it."""
        self.link("down")
        # Whoever was just being started is found the next time.
        while pids := [pid for pid, _ in self.pids()]:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            self.process.poll()
        self.process.wait()
