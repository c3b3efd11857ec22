"""Three machines with GlusterFS, and a fourth that uses their volume, on a ground of their own.

Each machine has a network namespace with one end of a veth pair, whose other end is in a bridge on the fourth, and a
mount namespace with its own state folders. Gluster is given no `force`: to it they are three machines.
"""

import hashlib
import os
import signal
import stat
import subprocess

import ground
import machines
from ground import PLACE, Failed, check, run, until

MACHINES = 3
VOLUME = "shared"
CLIENT = f"{PLACE}/client"
# What is each machine's alone.
OWN = ("/run", "/var/lib/glusterd", "/var/log/glusterfs")


class Machine(machines.Machine):
    """One that has a brick, which is a folder on a mounted file system of its own."""

    def __init__(self, number, medium):
        for folder in OWN:
            os.makedirs(folder, exist_ok=True)
        super().__init__(number)
        self.medium = medium
        for folder in OWN:
            self.run("mount", "-t", "tmpfs", "own", folder)
        os.makedirs(f"{PLACE}/brick", exist_ok=True)
        self.start_medium()
        self.run("mkdir", f"{PLACE}/brick/data")
        self.start()

    def gluster(self, *words):
        return self.run("gluster", "--mode=script", *words)

    def start_medium(self):
        """Mounts its file system: the first time, and after its server was killed."""
        region = f"{PLACE}/{self.medium}{self.number}"
        if self.medium == "scmfs":
            if not os.path.exists(region):
                run("scmfs", "mkfs", region, "--size", "1G")
            self.run("scmfs", "mount", region, f"{PLACE}/brick")
        elif self.medium == "ext4":
            run("truncate", "-s", "1G", region)
            run("mkfs.ext4", "-q", "-F", region)
            self.run("mount", "-o", "loop", region, f"{PLACE}/brick")
        else:
            self.run("mount", "-t", "tmpfs", "-o", "size=1G", "brick", f"{PLACE}/brick")

    def start(self):
        self.run("glusterd", "--log-level", "WARNING")

    def kill_server(self):
        """kill -9 of the server of its SCMFS mount."""
        self.kill("scmfs")

    def kill_brick(self):
        """kill -9 of Gluster's process that serves the brick."""
        self.kill("glusterfsd")

    def mend(self):
        """Mounts what lost its server, and has the brick served again."""
        for pid, _ in self.pids("glusterfsd"):
            os.kill(pid, signal.SIGKILL)
        until("the brick's process is gone", lambda: not self.pids("glusterfsd"))
        if self.medium == "scmfs" and not self.pids("scmfs"):
            self.start_medium()
        until("the brick is served", self.serves)

    def serves(self):
        self.gluster("volume", "start", VOLUME, "force")
        return self.pids("glusterfsd")

    def brick(self):
        """The brick, as seen from the fourth machine."""
        return f"/proc/{self.process.pid}/root{PLACE}/brick/data"


class Cluster:
    """Three machines with a volume, mounted on a fourth. Each has a copy of every file, or, if it is spread, its own
    files."""

    def __init__(self, medium="scmfs", count=MACHINES, spread=False):
        machines.bridge()
        self.machines = [Machine(number, medium) for number in range(count)]
        first = self.machines[0]
        for machine in self.machines:
            until("glusterd answers", lambda machine=machine: answers(machine))
        for other in self.machines[1:]:
            first.gluster("peer", "probe", other.address)
        until("the peers know each other", lambda: all(
            machine.gluster("peer", "status").count("Peer in Cluster (Connected)") == count - 1
            for machine in self.machines))
        bricks = [f"{machine.address}:{PLACE}/brick/data" for machine in self.machines]
        kind = ["replica", str(count)] if count > 1 and not spread else []
        first.gluster("volume", "create", VOLUME, *kind, *bricks)
        for option, value in (("network.ping-timeout", 5), ("storage.health-check-interval", 5)):
            first.gluster("volume", "set", VOLUME, option, value)
        first.gluster("volume", "start", VOLUME)
        os.makedirs(CLIENT, exist_ok=True)
        self.mount()

    def mount(self):
        servers = [f"--volfile-server={machine.address}" for machine in self.machines]
        run("glusterfs", "--process-name", "fuse", *servers, f"--volfile-id={VOLUME}", f"--log-file={PLACE}/client.log",
            CLIENT)
        until("the client has all bricks", lambda: os.path.ismount(CLIENT))

    def to_heal(self):
        """How many entries wait for being healed; None where a brick does not answer."""
        said = self.machines[0].gluster("volume", "heal", VOLUME, "info")
        counts = [line.split(":")[1].strip() for line in said.splitlines() if line.startswith("Number of entries")]
        return sum(map(int, counts)) if len(counts) == len(self.machines) and all(map(str.isdigit, counts)) else None

    def heal(self):
        """Waits until nothing waits for being healed, and returns how much there was."""
        most = until("all bricks answer", lambda: [self.to_heal()] if self.to_heal() is not None else None)[0]

        def healed():
            try:
                self.machines[0].gluster("volume", "heal", VOLUME)
            except Failed:
                return False
            return self.to_heal() == 0

        try:
            until("it is healed", healed, limit_s=300)
        except Failed as failed:
            raise Failed(f"{failed}\n{self.unhealed()}") from failed
        return most

    def unhealed(self):
        """What waits for being healed, and the last errors of who heals."""
        said = [self.machines[0].gluster("volume", "heal", VOLUME, "info")]
        for machine in self.machines:
            logs = machine.run("sh", "-c", "cat /var/log/glusterfs/glustershd.log || true").splitlines()
            said += [f"machine {machine.number}:"] + [line for line in logs if "] E [" in line or "] W [" in line][-10:]
        return "\n".join(said)

    def equal(self):
        """All bricks have the same files with the same contents; how many."""
        trees = [tree(machine.brick()) for machine in self.machines]
        for machine, found in zip(self.machines[1:], trees[1:]):
            differ = [name for name in sorted(trees[0].keys() | found.keys()) if trees[0].get(name) != found.get(name)]
            check(not differ, f"brick {machine.number} differs in {differ[:5]} ({len(differ)} in all): "
                  f"{[(trees[0].get(name), found.get(name)) for name in differ[:5]]}")
        return len(trees[0])


def answers(machine):
    try:
        return machine.gluster("pool", "list")
    except Failed:
        return False


def tree(top):
    """What is below a folder, apart from what is Gluster's own: kind, mode, owner, and what it contains."""
    found = {}
    for folder, folders, files in os.walk(top):
        if folder == top:
            folders[:] = [name for name in folders if not name.startswith(".glusterfs")]
        for name in folders + files:
            path = os.path.join(folder, name)
            about = os.lstat(path)
            content = None
            if stat.S_ISREG(about.st_mode):
                with open(path, "rb") as file:
                    content = hashlib.file_digest(file, "sha256").hexdigest()
            elif stat.S_ISLNK(about.st_mode):
                content = os.readlink(path)
            found[os.path.relpath(path, top)] = (about.st_mode, about.st_uid, about.st_gid, content)
    return found
