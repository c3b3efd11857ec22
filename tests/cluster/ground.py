"""A ground for engines of several machines on one: what is mounted, started and set up on it is gone with it.

A script runs on it by `enter`, which starts it again as the first process but one of its own mount, process and network
namespaces, with a root of its own: this machine's, covered by packages that were unpacked and not installed, and by a
tmpfs that takes what is written. When the script ends, or whoever started it, the kernel ends all of its processes and
mounts.
"""

import ctypes
import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time

# Where everything is put.
PLACE = "/mnt"
INSIDE = "POCKETSTONE_CLUSTER_INSIDE"
SKIPPED = 77
LONG_S = 90


class Failed(Exception):
    """What was expected did not happen."""


def skip(need, why):
    """Ends the script: the machine lacks something. The test that runs it counts that."""
    print(f"skip: {need}: {why}", flush=True)
    sys.exit(SKIPPED)


def check(holds, what):
    if not holds:
        raise Failed(what)


def run(*words, **more):
    """Runs a program to its end, and returns what it said; a failure is one here."""
    words = [str(word) for word in words]
    ended = subprocess.run(words, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **more)
    said = ended.stdout.decode(errors="replace")
    check(ended.returncode == 0, f"`{' '.join(words)}` ended with {ended.returncode}:\n{said}")
    return said


def until(what, holds, limit_s=LONG_S):
    """Waits until something holds, and returns it."""
    deadline = time.monotonic() + limit_s
    while True:
        found = holds()
        if found:
            return found
        check(time.monotonic() < deadline, f"in {limit_s} s this did not come true: {what}")
        time.sleep(0.02)


def enter(packages, scmfs=None, at=".", seen=()):
    """Returns on the ground, in PLACE, with the packages below a folder of the root. Outside of it, runs the script
    there and ends with its exit status. `scmfs` is a command that is copied there; folders that are `seen` are where
    they are outside."""
    packages = os.path.realpath(packages)
    if INSIDE in os.environ:
        seen = [os.path.realpath(path) for path in seen]
        cover(os.environ[INSIDE], packages, scmfs and os.path.realpath(scmfs), at, seen)
        os.chdir(PLACE)
        return
    folder = tempfile.mkdtemp(prefix="cluster-")
    # The shell is the first process, and waits for those that lost their parent.
    own = ["unshare", "--mount", "--net", "--pid", "--fork", "--kill-child", "--propagation", "private"]
    words = own + ["sh", "-c", '"$@"; exit $?', "sh", sys.executable] + sys.argv
    child = subprocess.Popen(words, env={**os.environ, INSIDE: folder})
    # Whoever ends this ends that.
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda *_: child.kill())
    status = child.wait()
    # The mounts went with their namespace; the folder is as empty as it was made.
    os.rmdir(folder)
    sys.exit(status)


def cover(folder, packages, scmfs, at, seen):
    libc = ctypes.CDLL(None)
    # With whoever started this ends this: PR_SET_PDEATHSIG.
    libc.prctl(1, signal.SIGKILL)
    run("mount", "-t", "tmpfs", "-o", "size=80%", "ground", folder)
    for name in ("work", "root"):
        os.mkdir(f"{folder}/{name}")
    root = f"{folder}/root"
    # A copy: the packages may be below the root, and a layer must not be in another.
    shutil.copytree(packages, f"{folder}/upper/{at}", symlinks=True)
    layers = f"lowerdir=/,upperdir={folder}/upper,workdir={folder}/work"
    try:
        run("mount", "-t", "overlay", "-o", layers, "ground", root)
    except Failed as error:
        skip("kernel", f"no overlay over the root: {error}")
    for name in ("dev", "sys"):
        run("mount", "--rbind", f"/{name}", f"{root}/{name}")
    run("mount", "-t", "proc", "proc", f"{root}/proc")
    for name in ("mnt", "run", "tmp"):
        run("mount", "-t", "tmpfs", name, f"{root}/{name}")
    # Beside the root's file system there may be others, with the command and this script.
    os.makedirs(f"{root}/mnt/bin")
    if scmfs:
        shutil.copy(scmfs, f"{root}/mnt/bin/scmfs")
    for path in seen:
        os.makedirs(f"{root}{path}", exist_ok=True)
        run("mount", "--rbind", path, f"{root}{path}")
    os.chroot(root)
    os.environ["PATH"] = f"{PLACE}/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    os.chdir("/")


class Volume:
    """A volume of SCMFS and its mount."""

    def __init__(self, name, size="256M"):
        self.region, self.path = f"{PLACE}/{name}.region", f"{PLACE}/{name}"
        run("scmfs", "mkfs", self.region, "--size", size)
        os.mkdir(self.path)
        self.mount()

    def mount(self):
        """Mounts it, or once more after its server was killed."""
        run("scmfs", "mount", self.region, self.path)
        self.pid = json.loads(run("scmfs", "df", "--json", self.path))["pid"]

    def kill(self):
        """kill -9 of its server: the directory stays, and everything in it fails."""
        os.kill(self.pid, signal.SIGKILL)
        until("the server is gone", lambda: not os.path.exists(f"/proc/{self.pid}"))

    def device(self):
        return os.stat(self.path).st_dev

    def mount_as(self, device):
        """Mounts it so that its device has this number: the kernel gives the lowest that nobody has."""
        while os.path.ismount(self.path) or is_dead(self.path):
            run("umount", self.path)

        def mounted():
            with Taken(device, below=True) as taken:
                if taken.is_free:
                    self.mount()
                    if self.device() == device:
                        return True
                    self.unmount()
            return False

        until(f"a mount gets the number {device:#x}", mounted)

    def unmount(self):
        run("scmfs", "umount", self.path)

    def end(self):
        """Unmounts it and checks it."""
        self.unmount()
        said = run("scmfs", "fsck", self.region)
        check("; 0 findings, 0 left" in said, f"the check of {self.region}: {said}")


def is_dead(path):
    """Whether a mount's server has died."""
    try:
        os.stat(path)
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


class Taken:
    """Numbers of devices that others then do not get: up to one, or only those below that one, if it is free."""

    def __init__(self, device, below=False):
        self.device, self.below, self.mounts, self.is_free = device, below, [], False

    def __enter__(self):
        while True:
            path = tempfile.mkdtemp(dir=PLACE)
            run("mount", "-t", "tmpfs", "taken", path)
            self.mounts.append(path)
            device = os.stat(path).st_dev
            if device == self.device:
                self.is_free = True
                if self.below:
                    self.free(self.mounts.pop())
            if device >= self.device:
                return self

    @staticmethod
    def free(path):
        run("umount", path)
        os.rmdir(path)

    def __exit__(self, *_):
        while self.mounts:
            self.free(self.mounts.pop())


class Daemon:
    """A program that stays until it is told to end."""

    def __init__(self, *words, log):
        self.words, self.log, self.process = [str(word) for word in words], log, None
        self.start()

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def check(self):
        check(self.process.poll() is None, f"{self.words[0]} ended:\n{tail(self.log)}")


def tail(path, lines=30):
    try:
        with open(path, errors="replace") as log:
            return "".join(log.readlines()[-lines:])
    except OSError as error:
        return str(error)
