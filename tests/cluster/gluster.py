"""GlusterFS with three copies of every file, each on a volume of SCMFS of another machine.

usage: gluster.py PACKAGES SCMFS SEED KILLS

Servers of volumes and Gluster's own brick processes are killed in turn, KILLS times, and a link is cut, while a program
writes. Whoever is cut off from the others may not write. In the end all bricks have the same files.
"""

import hashlib
import os
import random
import sqlite3
import struct
import sys
import threading
import time

import cluster
import ground
from cluster import CLIENT
from ground import Failed, check, run, until

RECORD = 4096


class Writer(threading.Thread):
    """Appends records to a file, each with fsync. What was refused is written again, after the file was opened again."""

    def __init__(self, path, seed):
        super().__init__(daemon=True)
        self.path, self.seed = path, seed
        self.kept, self.refusals, self.ends = 0, 0, False

    def record(self, number):
        return hashlib.sha256(struct.pack("<QQ", self.seed, number)).digest() * (RECORD // 32)

    def run(self):
        while not self.ends:
            try:
                with open(self.path, "r+b" if os.path.exists(self.path) else "w+b", buffering=0) as file:
                    while not self.ends:
                        check(os.pwrite(file.fileno(), self.record(self.kept), self.kept * RECORD) == RECORD, "short")
                        os.fsync(file.fileno())
                        self.kept += 1
            except (OSError, Failed):
                self.refusals += 1
                time.sleep(0.05)

    def goes_on(self, records):
        goal = self.kept + records
        until(f"the writer goes on ({self.kept} kept, {self.refusals} refused)", lambda: self.kept >= goal)

    def end(self, paths):
        """Ends it; every record that it was told is kept is in each of these files."""
        self.ends = True
        self.join(ground.LONG_S)
        check(not self.is_alive(), "the writer does not end")
        for path in paths:
            with open(path, "rb") as file:
                for number in range(self.kept):
                    check(file.read(RECORD) == self.record(number), f"{path}: record {number} of {self.kept} is lost")


def git(folder):
    words = ["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", "-c", "gc.auto=0"]
    if not os.path.exists(f"{folder}/.git"):
        run("git", "init", "-q", folder)
    number = len(os.listdir(folder))
    for n in range(5):
        with open(f"{folder}/{number}-{n}", "w", encoding="utf-8") as file:
            file.write(f"{number} {n}\n" * 100)
    run(*words, "add", ".")
    run(*words, "commit", "-qm", f"commit {number}")
    run(*words, "fsck", "--strict")


def sqlite(path):
    """A transaction that keeps the sum of all rows at 0, and a check of what all before have left."""
    database = sqlite3.connect(path, timeout=60)
    database.execute("create table if not exists moved (id integer primary key, amount integer, text text)")
    with database:
        for n in range(20):
            database.executemany("insert into moved (amount, text) values (?, ?)", [(n, "x" * 200), (-n, "y" * 200)])
    check(database.execute("select total(amount) from moved").fetchone() == (0.0,), "the sum of all rows")
    check(database.execute("pragma integrity_check").fetchone() == ("ok",), "SQLite's check")
    database.close()


def work():
    git(f"{CLIENT}/tree")
    sqlite(f"{CLIENT}/database")


def fio(*more):
    """fio writes a file at random and reads it back."""
    run("fio", "--name=verified", f"--directory={CLIENT}", "--rw=randwrite", "--bs=4k", "--size=8m", "--ioengine=psync",
        "--fsync=64", "--verify=crc32c", "--verify_fatal=1", *more)


def postmark():
    """PostMark makes, appends to, reads and removes small files."""
    os.makedirs(f"{CLIENT}/mail", exist_ok=True)
    orders = f"set location {CLIENT}/mail\nset number 100\nset transactions 300\nset seed 1\nrun\nquit\n"
    said = run("sh", "-c", f"printf '%s' '{orders}' | postmark")
    check("Error" not in said and "Deletion alone" in said, said)


def cut(machines, writer):
    """One machine is cut off: who is there may not write, and the others go on."""
    alone = machines[2]
    alone.run("mkdir", "-p", "/run/there")
    alone.run("glusterfs", "--process-name", "fuse", f"--volfile-server={alone.address}",
              f"--volfile-id={cluster.VOLUME}", "--log-file=/run/client.log", "/run/there")
    there = f"/proc/{alone.process.pid}/root/run/there"
    until("it is mounted there", lambda: os.path.exists(f"{there}/database"))
    alone.link("down")
    until("who is cut off is refused", lambda: refused(f"{there}/minority"))
    writer.goes_on(5)
    check(not os.path.exists(f"{CLIENT}/minority"), "what was refused is not there")
    work()
    alone.link("up")
    alone.run("umount", "--lazy", "/run/there")


def refused(path):
    """Whether a write fails now. (Until the others are found to be away it would wait, so that another waits for it.)"""
    try:
        with open(path, "ab") as file:
            file.write(b"not by the minority")
            os.fsync(file.fileno())
    except OSError:
        return True
    raise Failed("a machine that is alone was let write")


def main():
    packages, scmfs, seed, kills = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    ground.enter(packages, scmfs)
    generator = random.Random(seed)
    shared = cluster.Cluster()
    os.mkdir(f"{CLIENT}/tree")
    work()
    writer = Writer(f"{CLIENT}/records", seed)
    writer.start()
    healed = 0
    for kill in range(kills):
        machine = generator.choice(shared.machines)
        writer.goes_on(5)
        machine.kill_server() if kill % 2 == 0 else machine.kill_brick()
        writer.goes_on(5)
        work()
        if kill == 0:
            # With two of three.
            fio()
            postmark()
        machine.mend()
        healed += shared.heal()
    cut(shared.machines, writer)
    healed += shared.heal()
    writer.goes_on(5)
    name = os.path.basename(writer.path)
    writer.end([writer.path] + [f"{machine.brick()}/{name}" for machine in shared.machines])
    shared.heal()
    work()
    fio("--verify_only")
    files = shared.equal()
    print(f"{kills} kills and a cut link: {writer.kept} records kept, {writer.refusals} refused meanwhile; "
          f"{healed} entries healed, {files} files and folders equal on three bricks")


if __name__ == "__main__":
    main()
