"""How fast a volume of GlusterFS is, by what its bricks are on and how many copies it keeps.

usage: speed.py PACKAGES SCMFS scmfs|ext4|tmpfs COPIES

Prints operations in a second: small files made with contents, their attributes read after the client forgot them,
their contents read, records of 4 KiB appended with fsync, and MiB in a second of a large file that is written with one
fsync and read after the client forgot it. All machines are this one: what many of them would do at once is not shown.
"""

import os
import sys
import time

import cluster
import ground
from cluster import CLIENT
from ground import run

FILES, RECORDS, PIECES = 300, 300, 64


def timed(count, work):
    start = time.monotonic()
    work()
    return count / (time.monotonic() - start)


def again():
    """The client starts anew, and knows nothing."""
    run("umount", CLIENT)
    os.sync()


def main():
    packages, scmfs, medium, copies = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
    ground.enter(packages, scmfs)
    shared = cluster.Cluster(medium, copies)
    names = [f"{CLIENT}/{number}" for number in range(FILES)]

    def make():
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

    found = {"made": timed(FILES, make), "appended": timed(RECORDS, append), "written": timed(PIECES, large)}
    again()
    shared.mount()
    found["looked at"] = timed(FILES, lambda: [os.stat(name) for name in names])
    found["read"] = timed(FILES, lambda: [read(name) for name in names])
    found["read, MiB"] = timed(PIECES, lambda: read(f"{CLIENT}/large"))
    print(medium, copies, *(f"{what} {rate:.0f}/s" for what, rate in found.items()), sep="; ")


if __name__ == "__main__":
    main()
