"""Slurm runs a study's shards on two nodes of its own, both on this machine.

usage: slurm.py PACKAGES POCKETSTONE PROJECT CACHE STUDY

PACKAGES is the folder into which `scripts/cluster` unpacked Slurm. The study STUDY (a file) is run by one process, then
by `pocketstone cluster slurm` in three shards: the results are equal. Then once more, and a node is killed while it
works, with everything that it had started: what is missing is submitted again, and the results are equal again.
"""

import csv
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys

import ground
from ground import PLACE, check, run, until

# What differs from one run to the next.
WALL_CLOCK = {"cells.csv": ["host_ms"]}
FACTS = r"(command|options|started_utc|shards|shard\..*|host\..*|study\.folder)$"
CONFIGURATION = f"""
ClusterName=test
SlurmctldHost={{host}}(10.99.0.1)
SlurmUser=root
SlurmdUser=root
AuthInfo=socket=/run/munge/munge.socket.2
StateSaveLocation={PLACE}/slurmctld
SlurmdSpoolDir={PLACE}/slurmd-%n
SlurmctldPidFile={PLACE}/slurmctld.pid
SlurmdPidFile={PLACE}/slurmd-%n.pid
SlurmctldLogFile={PLACE}/slurmctld.log
SlurmdLogFile={PLACE}/slurmd-%n.log
SlurmctldPort=16817
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
SlurmdTimeout=6
KillWait=2
MessageTimeout=5
SchedulerParameters=batch_sched_delay=0,sched_interval=1
NodeName=n1 NodeHostname={{host}} NodeAddr=10.99.0.1 Port=16821 CPUs=1 State=UNKNOWN
NodeName=n2 NodeHostname={{host}} NodeAddr=10.99.0.1 Port=16822 CPUs=1 State=UNKNOWN
PartitionName=all Nodes=n1,n2 Default=YES MaxTime=60 State=UP
"""


def start():
    """Munge, the controller and two nodes."""
    # Debian's programs get their names from alternatives when they are installed.
    for folder in ("/usr/bin", "/usr/sbin"):
        for name in [name for name in os.listdir(folder) if name.endswith("-wlm")]:
            os.symlink(name, f"{folder}/{name[:-4]}")
    run("ip", "link", "set", "lo", "up")
    run("ip", "address", "add", "10.99.0.1/32", "dev", "lo")
    host = socket.gethostname().split(".")[0]
    with open("/etc/hosts", "w", encoding="utf-8") as hosts:
        hosts.write(f"127.0.0.1 localhost\n10.99.0.1 {host}\n")
    os.makedirs("/run/munge", mode=0o755)
    os.mkdir(f"{PLACE}/munge", 0o700)
    key = f"{PLACE}/munge/key"
    with open(key, "wb") as file:
        file.write(secrets.token_bytes(1024))
    os.chmod(key, 0o400)
    munged = ground.Daemon("munged", "--foreground", f"--key-file={key}", f"--log-file={PLACE}/munge/log",
                           f"--pid-file={PLACE}/munge/pid", f"--seed-file={PLACE}/munge/seed", log="munged.log")
    until("munged listens", lambda: munged.check() or os.path.exists("/run/munge/munge.socket.2"))
    os.environ["SLURM_CONF"] = f"{PLACE}/slurm.conf"
    with open("slurm.conf", "w", encoding="utf-8") as file:
        file.write(CONFIGURATION.format(host=host))
    os.mkdir(f"{PLACE}/slurmctld")
    controller = ground.Daemon("slurmctld", "-D", "-c", log="controller.log")
    nodes = {name: ground.Daemon("slurmd", "-D", "-N", name, log=f"{name}.log") for name in ("n1", "n2")}

    def idle():
        for daemon in (controller, *nodes.values()):
            daemon.check()
        said = subprocess.run(["sinfo", "-h", "-N", "-o", "%N %T"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        return said.stdout.decode().split() == ["n1", "idle", "n2", "idle"]

    until("both nodes are idle", idle)
    return nodes


def tables(pocketstone, folder):
    """All of a run's tables, without what differs from one run to the next."""
    run(pocketstone, "export", folder, "--csv", f"{folder}.csv")
    found = {}
    for name in sorted(os.listdir(f"{folder}.csv")):
        with open(f"{folder}.csv/{name}", newline="", encoding="utf-8") as file:
            head, *rows = csv.reader(file)
        if name == "run.csv":
            rows = [row for row in rows if not re.match(FACTS, row[0])]
        leave = [head.index(column) for column in WALL_CLOCK.get(name, [])]
        found[name] = [[value for n, value in enumerate(row) if n not in leave] for row in [head] + rows]
    return found


def equal(pocketstone, one, other):
    found, expected = tables(pocketstone, other), tables(pocketstone, one)
    check(found.keys() == expected.keys() and len(expected["cells.csv"]) > 1, f"the tables of {one} and {other}")
    for name, rows in expected.items():
        if found[name] != rows:
            there = set(map(tuple, found[name]))
            lacking = next((row for row in rows if tuple(row) not in there), "no row, but has more, or another order")
            check(False, f"{name} of {other} lacks {lacking}")


def of_node(name):
    """The processes of a node: its daemon, and what that started."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/environ", "rb") as file:
                started = f"SLURMD_NODENAME={name}".encode() in file.read().split(b"\0")
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
        except OSError:
            continue
        step = words[0].startswith(b"slurmstepd") or words[0].endswith(b"slurmstepd")
        if started or (words[0] == b"slurmd" and name.encode() in words) or (step and is_of(int(pid), name)):
            yield int(pid), words


def is_of(step, name):
    """Whether a step's manager has a process of a node below it."""
    with open(f"/proc/{step}/task/{step}/children", encoding="ascii") as file:
        children = file.read().split()
    for child in children:
        try:
            with open(f"/proc/{child}/environ", "rb") as file:
                if f"SLURMD_NODENAME={name}".encode() in file.read().split(b"\0"):
                    return True
        except OSError:
            pass
    return False


def kill(name):
    """A node loses its power."""
    while True:
        left = [pid for pid, _ in of_node(name)]
        if not left:
            return
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass


def main():
    packages, pocketstone, project, cache, study = sys.argv[1:]
    path = os.environ["PATH"]
    ground.enter(packages, seen=[project, cache, os.path.dirname(pocketstone), os.path.dirname(study)])
    # The cache is of the compiler that is found outside. A copy: processes outside have another numbering here, and
    # what they work on would look left.
    os.environ["PATH"] = f"{path}:/usr/sbin:/sbin"
    os.environ["POCKETSTONE_CACHE"] = f"{PLACE}/cache"
    for name in ("apt-armhf", "initramfs", "packages", "runners"):
        if os.path.isdir(f"{cache}/{name}"):
            shutil.copytree(f"{cache}/{name}", f"{PLACE}/cache/{name}", symlinks=True)
    nodes = start()
    os.symlink(f"{project}/devices", "devices")
    run(pocketstone, "run", study, "--output", "one")
    # With the states that cells start from.
    run(pocketstone, "board", "export", "virt-nand", "board.tar.gz")
    slurm = [pocketstone, "cluster", "slurm", study, "--shards", "3", "--verify-fraction", "0.1",
             "--cache", "board.tar.gz"]
    # Slurm replaces `%a` in the path of a log.
    run(*slurm, "--output", "all%a three")
    equal(pocketstone, "one", "all%a three")
    print("three shards equal one process", flush=True)

    command = subprocess.Popen(slurm + ["--output", "killed"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT)

    def measuring():
        check(command.poll() is None, f"the command ended:\n{command.stdout.read() if command.poll() else ''}")
        return any(b"--shard" in words for _, words in of_node("n1"))

    until("a shard runs on the node", measuring)
    kill("n1")
    check(nodes["n1"].process.wait() == -signal.SIGKILL, "the node was not killed")
    said = command.communicate(timeout=1800)[0].decode()
    check(command.returncode == 0, f"`{' '.join(slurm)}` ended with {command.returncode}:\n{said}")
    check("missing: attempt 2" in said, f"nothing was missing after the kill:\n{said}")
    equal(pocketstone, "one", "killed")
    print("and so they do after a node was killed")


try:
    main()
except ground.Failed as error:
    print(f"FAILED: {error}\n{ground.tail('slurmctld.log')}", flush=True)
    sys.exit(1)
