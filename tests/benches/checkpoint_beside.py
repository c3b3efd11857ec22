"""SQLite on a volume with checkpoints, beside what people do otherwise: ext4 with fsync, and tmpfs with rsync.

usage: checkpoint_beside.py SCMFS DISK [SECONDS] [ROUNDS]

DISK is a folder on ext4. In each round, each way in turn has a program commit transactions for so many seconds; what
is in memory goes to the disk every second. Then everything is killed and the memory lost, and what the disk has is
checked: how many transactions that were committed are missing, and the seconds from the last one that is there to the
loss. Needs root, rsync, and SQLite in Python. Prints a table of medians, and every round.
"""

import json
import os
import random
import shutil
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

PERIOD_S = 1.0
WRITER = """
import sqlite3, sys, time
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("pragma synchronous=full")
database.execute("create table log (number integer primary key, at real, text text)")
number = 0
while True:
    number += 1
    at = time.monotonic()
    database.execute("insert into log values (?, ?, ?)", (number, at, "x" * 100))
    print(number, at, flush=True)
"""


def run(*words):
    return subprocess.run([str(word) for word in words], check=True, stdout=subprocess.PIPE).stdout.decode()


class Ext4:
    """The disk itself."""

    name = "ext4, fsync"

    def __init__(self, place, disk, _):
        self.folder = self.copy = f"{disk}/files"
        os.mkdir(self.folder)

    def lose(self):
        """Loses nothing but what the program has not written: a power failure is not simulated."""


class Rsync:
    """A tmpfs, and rsync every second; each copy is checked, too."""

    name = "tmpfs, rsync"
    copies = damaged = 0

    def __init__(self, place, disk, _):
        self.folder, self.copy, self.stops = f"{place}/files", f"{disk}/copy", threading.Event()
        os.mkdir(self.folder)
        os.mkdir(self.copy)
        self.thread = threading.Thread(target=self.copies_on)
        self.thread.start()

    def copies_on(self):
        start = time.monotonic()
        while not self.stops.wait(max(0, start + PERIOD_S - time.monotonic())):
            start = time.monotonic()
            # A file that went while it was copied is no failure.
            subprocess.run(["rsync", "-a", "--fsync", "--delete", f"{self.folder}/", self.copy], check=False,
                           stderr=subprocess.DEVNULL)
            if not self.stops.is_set():
                Rsync.copies += 1
                Rsync.damaged += found(self.copy) is None

    def lose(self):
        self.stops.set()
        self.thread.join()


class Scmfs:
    """A volume on a tmpfs, with checkpoints every second."""

    name = "SCMFS, checkpoints"

    def __init__(self, place, disk, scmfs):
        self.scmfs, self.place, self.target, self.region = scmfs, place, f"{disk}/target", f"{place}/region"
        self.folder, self.copy = f"{place}/mount", f"{place}/mount"
        os.mkdir(self.folder)
        run(scmfs, "mkfs", self.region, "--size", "256M")
        run(scmfs, "mount", "-o", f"checkpoint={self.target},every=1s", self.region, self.folder)

    def lose(self):
        pid = json.loads(run(self.scmfs, "df", "--json", self.folder))["pid"]
        os.kill(pid, signal.SIGKILL)
        while os.path.exists(f"/proc/{pid}"):
            time.sleep(0.01)
        run("umount", self.folder)
        os.remove(self.region)
        run(self.scmfs, "restore", self.target, self.region)
        run(self.scmfs, "mount", self.region, self.folder)

    def end(self):
        run(self.scmfs, "umount", self.folder)


def found(folder):
    """The last transaction and its time, of the copy of a database; None: it is damaged, or not one."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as own:
        for name in os.listdir(folder):
            if name.startswith("database"):
                shutil.copy(f"{folder}/{name}", own)
        try:
            database = sqlite3.connect(f"{own}/database")
            whole = database.execute("pragma integrity_check").fetchone() == ("ok",)
            count, last, at = database.execute("select count(*), max(number), max(at) from log").fetchone()
            database.close()
        except sqlite3.Error:
            return None
        return (last or 0, at or 0.0) if whole and count == (last or 0) else None


def measure(kind, disk, scmfs, seconds):
    """Transactions in a second, how many are missing, and for how many seconds; of these None if it is damaged."""
    with tempfile.TemporaryDirectory(dir=disk) as own, tempfile.TemporaryDirectory() as place:
        run("mount", "-t", "tmpfs", "memory", place)
        way = kind(place, own, scmfs)
        writer = subprocess.Popen([sys.executable, "-c", WRITER, f"{way.folder}/database"], stdout=subprocess.PIPE)
        first = writer.stdout.readline().split()
        start = time.monotonic()
        # What it says is read when it is killed: a pipe has room for less, so somebody has to.
        lines = []
        reader = threading.Thread(target=lambda: lines.extend(writer.stdout))
        reader.start()
        # Not always right before or after the second is over.
        time.sleep(seconds + random.random())
        writer.kill()
        end = time.monotonic()
        reader.join()
        writer.wait()
        committed = int((lines[-1].split() or first)[0])
        way.lose()
        last = found(way.copy)
        if hasattr(way, "end"):
            way.end()
        run("umount", place)
        lost = (None, None) if last is None else (max(0, committed - last[0]), end - (last[1] or start))
        return committed / (end - start), *lost


def main():
    scmfs, disk = os.path.realpath(sys.argv[1]), sys.argv[2]
    seconds, rounds = (float(word) for word in (sys.argv[3:] + ["10", "5"][len(sys.argv) - 3:])[:2])
    kinds = [Ext4, Rsync, Scmfs]
    results = {kind: [] for kind in kinds}
    for turn in range(int(rounds)):
        for kind in kinds if turn % 2 == 0 else reversed(kinds):
            results[kind].append(measure(kind, disk, scmfs, seconds))
            print(kind.name, results[kind][-1], file=sys.stderr, flush=True)
    base = results[Ext4]
    for kind in kinds:
        rates = [rate for rate, *_ in results[kind]]
        times = statistics.median(own / other for own, (other, *_) in zip(rates, base))
        whole = [(count, late) for _, count, late in results[kind] if count is not None]
        lost = "all of them"
        if whole:
            lost = f"{statistics.median(count for count, _ in whole):.0f} (the last {max(late for _, late in whole):.1f} s)"
        print(f"{kind.name}: {statistics.median(rates):.0f} transactions/s, {times:.1f} times ext4; lost: {lost}; damaged "
              f"in {len(results[kind]) - len(whole)} of {int(rounds)} rounds")
    print(f"copies by rsync: {Rsync.copies}, of which damaged: {Rsync.damaged}")


if __name__ == "__main__":
    main()
