"""How fast a volume of GlusterFS is, by what its bricks are on, how many there are, and what they keep.

usage: speed.py PACKAGES SCMFS scmfs|ext4|tmpfs copies|spread BRICKS

Each brick has a copy of every file, or files are spread over them. Prints operations in a second, and the processor
time of one, in ms: of the client, of all of Gluster's bricks, and of all servers of SCMFS volumes. Small files made with
contents, folders made, records of 4 KiB appended with fsync, the files' attributes read after the client forgot them,
their contents read, and the folders listed; and of a large file that is written with one fsync and read after the client
forgot it, each MiB. All machines are this one: what many of them would do at once is not shown.
"""

import glob
import os
import sys
import time

import cluster
import ground
from cluster import CLIENT
from ground import run, until

FILES, FOLDERS, RECORDS, PIECES = 600, 200, 600, 128

# Made before anything is measured.
FIRST = 100
# Who takes part in an operation, by the names of their commands: the client, bricks, servers of volumes.
ROLES = ("glusterfs", "glusterfsd", "scmfs")


def processor_s():
    """The processor time that each role has had."""
    had = dict.fromkeys(ROLES, 0)
    for folder in glob.glob("/proc/[0-9]*"):
        try:
            with open(f"{folder}/cmdline", encoding="utf-8", errors="replace") as file:
                command = file.read()
            with open(f"{folder}/stat", encoding="utf-8", errors="replace") as file:
                figures = file.read().rsplit(")", 1)[1].split()
        except (OSError, IndexError):
            # It has ended.
            continue
        name = os.path.basename(command.split("\0")[0])
        # Not the one that heals.
        if name in had and "glustershd" not in command:
            # User and system time.
            had[name] += sum(map(int, figures[11:13])) / os.sysconf("SC_CLK_TCK")
    return had


def timed(count, work):
    """Operations in a second, and the processor time of one by role, in ms."""
    before, start = processor_s(), time.monotonic()
    work()
    took_s, after = time.monotonic() - start, processor_s()
    each = " + ".join(f"{(after[role] - before[role]) / count * 1e3:.3f}" for role in ROLES)
    return f"{count / took_s:.1f}/s, {each} ms"


def settle(shared, make):
    """Has the first files made, and waits until the bricks are idle. Gluster has what it does by itself wait for a
    thread of its own, and its other threads look for that one's end without sleeping: they share a processor with the
    server of a volume, which is to answer. That is switched off."""
    shared.machines[0].gluster("volume", "set", cluster.VOLUME, "performance.enable-least-priority", "off")
    make([f"{CLIENT}/first{number}" for number in range(FIRST)])

    def idle():
        before = processor_s()
        time.sleep(2)
        return processor_s()["glusterfsd"] - before["glusterfsd"] < 0.1

    until("the bricks are idle", idle)


def again():
    """The client starts anew, and knows nothing."""
    run("umount", CLIENT)
    os.sync()


def main():
    packages, scmfs, medium, kind, bricks = sys.argv[1:6]
    ground.enter(packages, scmfs)
    shared = cluster.Cluster(medium, int(bricks), kind == "spread")
    names = [f"{CLIENT}/{number}" for number in range(FILES)]
    folders = [f"{CLIENT}/folder{number}" for number in range(FOLDERS)]

    def make(names):
        for name in names:
            with open(name, "wb") as file:
                file.write(b"x" * 4096)

    def read(name):
        with open(name, "rb") as file:
            while file.read(1 << 20):
                pass

    def append():
        with open(f"{CLIENT}/log", "ab", buffering=0) as file:
            for _ in range(RECORDS):
                file.write(b"r" * 4096)
                os.fsync(file.fileno())

    def large():
        with open(f"{CLIENT}/large", "wb", buffering=0) as file:
            for _ in range(PIECES):
                file.write(b"l" * (1 << 20))
            os.fsync(file.fileno())

    settle(shared, make)
    found = {"made": timed(FILES, lambda: make(names))}
    found["folders made"] = timed(FOLDERS, lambda: [os.mkdir(name) for name in folders])
    found |= {"appended": timed(RECORDS, append), "written": timed(PIECES, large)}
    again()
    shared.mount()
    found["looked at"] = timed(FILES, lambda: [os.stat(name) for name in names])
    found["read"] = timed(FILES, lambda: [read(name) for name in names])
    found["folders listed"] = timed(FOLDERS, lambda: [os.listdir(name) for name in folders])
    found["read, MiB"] = timed(PIECES, lambda: read(f"{CLIENT}/large"))
    print(medium, kind, bricks, *(f"{what} {figures}" for what, figures in found.items()), sep="; ")


if __name__ == "__main__":
    main()
