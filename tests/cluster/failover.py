"""An SQLite database on a volume in one machine's memory, whose checkpoints go to a second machine by ssh. The first one
dies with its memory, and the second goes on with the database; again and again.

usage: failover.py SSHD SCMFS SEED DEATHS

SSHD is a folder with OpenSSH's server and its libraries.
"""

import json
import os
import random
import subprocess
import sys
import threading
import time

import ground
import machines
from ground import PLACE, Failed, check, run, until

SSHD = "opt/sshd"
# What each machine has of its own: what is lost with it, where its volume is mounted, its disk.
MEMORY, MOUNT, DISK = f"{PLACE}/memory", f"{PLACE}/volume", f"{PLACE}/disk"
REGION, DATABASE = f"{MEMORY}/region", f"{MOUNT}/database"
# What it takes, and what it is sent.
TAKEN, RECEIVED = f"{DISK}/taken", f"{DISK}/received"
CONFIG = f"{PLACE}/ssh.config"

WRITER = """
import os, sqlite3, sys
path, progress = sys.argv[1:]
database = sqlite3.connect(path, isolation_level=None)
database.execute("create table if not exists log (number integer primary key, text text)")
database.execute("create table if not exists total (numbers integer, bytes integer)")
if not database.execute("select count(*) from total").fetchone()[0]:
    database.execute("insert into total values (0, 0)")
number = database.execute("select count(*) from log").fetchone()[0]
while True:
    number += 1
    text = str(number) * (1 + number % 200)
    database.execute("begin immediate")
    database.execute("insert into log values (?, ?)", (number, text))
    database.execute("update total set numbers = numbers + ?, bytes = bytes + ?", (number, len(text)))
    database.execute("commit")
    with open(progress + ".new", "w") as file:
        file.write(str(number))
    os.rename(progress + ".new", progress)
"""

# How many transactions it has: the first ones, each whole.
CHECK = """
import sqlite3, sys
database = sqlite3.connect(sys.argv[1])
assert database.execute("pragma integrity_check").fetchone() == ("ok",)
rows = database.execute("select number, text from log order by number").fetchall()
assert rows == [(number, str(number) * (1 + number % 200)) for number in range(1, len(rows) + 1)]
total = (sum(number for number, _ in rows), sum(len(text) for _, text in rows))
assert database.execute("select numbers, bytes from total").fetchall() == [total]
print(len(rows))
"""


class Machine(machines.Machine):
    """One with an ssh server."""

    def __init__(self, number):
        super().__init__(number)
        for folder in ("/run", MEMORY, DISK):
            os.makedirs(folder, exist_ok=True)
            self.run("mount", "-t", "tmpfs", "own", folder)
        self.run("mkdir", "-p", "/run/sshd", MOUNT, RECEIVED)
        options = ["-o", f"HostKey={PLACE}/host_key", "-o", f"AuthorizedKeysFile={PLACE}/key.pub", "-o",
                   "StrictModes=no", "-o", "UsePAM=no", "-o", "PidFile=none"]
        self.run("env", f"LD_LIBRARY_PATH=/{SSHD}/lib", f"/{SSHD}/sshd", "-f", "/dev/null", *options, "-E",
                 f"{PLACE}/sshd.log")

    def mount(self):
        """Mounts its volume, which has checkpoints from now on."""
        self.run("scmfs", "mount", "-o", f"checkpoint={TAKEN},every=1h,keep=2", REGION, MOUNT)

    def first(self):
        """Makes the volume."""
        self.run("scmfs", "mkfs", REGION, "--size", "256M")
        self.mount()

    def take_over(self):
        """Goes on with the newest of what it was sent that is whole; its number. One may have been under way."""
        said = subprocess.run(self.words("scmfs", "checkpoint", "--json", "--verify", RECEIVED),
                              stdout=subprocess.PIPE, check=False)
        whole = [entry["generation"] for entry in json.loads(said.stdout) if "whole" in entry]
        check(whole, f"nothing that it was sent is whole: {said.stdout.decode()}")
        self.run("scmfs", "restore", RECEIVED, REGION, "--generation", max(whole))
        found = self.run("scmfs", "fsck", REGION)
        check("; 0 findings, 0 left" in found, f"the check of what was restored: {found}")
        self.mount()

    def send(self, other):
        """Takes a checkpoint and sends it: what is there is replaced file by file, and removed last."""
        self.run("scmfs", "checkpoint", MOUNT, TAKEN, "--keep", "2")
        self.run("rsync", "--archive", "--fsync", "--delete-after", "--exclude=lock", "--exclude=*.part",
                 f"--rsh=ssh -F {CONFIG}", f"{TAKEN}/", f"{other.address}:{RECEIVED}/")

    def transactions(self):
        """Checks the database, and returns how many transactions it has."""
        return int(self.run(sys.executable, "-c", CHECK, DATABASE))


class Work:
    """A program that changes the database, and the stream of checkpoints to another machine."""

    def __init__(self, machine, other):
        self.machine, self.other, self.sent, self.least, self.stops, self.failure = machine, other, 0, 0, False, None
        self.progress = f"{PLACE}/progress{machine.number}"
        words = machine.words(sys.executable, "-c", WRITER, DATABASE, self.progress)
        self.writer = subprocess.Popen(words, stdin=subprocess.DEVNULL)
        self.stream = threading.Thread(target=self.send, daemon=True)
        until("the first transaction", lambda: os.path.exists(self.progress))
        self.stream.start()

    def committed(self):
        """How many transactions were, at least."""
        with open(self.progress, encoding="utf-8") as file:
            return int(file.read())

    def send(self):
        while not self.stops:
            before = self.committed()
            try:
                self.machine.send(self.other)
            except Failed as failure:
                self.failure = failure
                return
            # All of these are there now.
            self.sent, self.least = self.sent + 1, before

    def end(self):
        """The machine dies; how many transactions were committed, and how many must be there."""
        check(self.failure is None and self.writer.poll() is None, f"something ended before: {self.failure}")
        self.stops = True
        self.machine.die()
        self.writer.wait()
        self.stream.join(ground.LONG_S)
        check(not self.stream.is_alive(), "the stream does not end")
        return self.committed(), self.least


def prepare():
    with open("/etc/passwd", "a", encoding="utf-8") as users:
        users.write("sshd:x:65534:65534::/run/sshd:/usr/sbin/nologin\n")
    for name in ("host_key", "key"):
        run("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{PLACE}/{name}")
    with open(f"{PLACE}/host_key.pub", encoding="utf-8") as key, open(f"{PLACE}/known", "w", encoding="utf-8") as known:
        known.write(f"machine {key.read()}")
    with open(CONFIG, "w", encoding="utf-8") as config:
        config.write(f"Host *\n HostKeyAlias machine\n UserKnownHostsFile {PLACE}/known\n IdentityFile {PLACE}/key\n"
                     " BatchMode yes\n ConnectTimeout 5\n ServerAliveInterval 1\n")
    machines.bridge()


def main():
    sshd, scmfs, seed, deaths = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    ground.enter(sshd, scmfs, SSHD)
    prepare()
    generator = random.Random(seed)
    machine, other = Machine(0), Machine(1)
    machine.first()
    kept = lost = sent = 0
    pauses = []
    for death in range(deaths):
        work = Work(machine, other)
        until("some are sent", lambda work=work: check(work.failure is None, work.failure) or work.sent >= 2)
        time.sleep(generator.uniform(0, 0.5))
        committed, least = work.end()
        start = time.monotonic()
        other.take_over()
        kept = other.transactions()
        pauses.append(time.monotonic() - start)
        check(least <= kept <= committed + 1,
              f"death {death}: {kept} transactions, {least} had been sent and {committed} committed")
        sent, lost = sent + work.sent, lost + max(0, committed - kept)
        machine, other = other, Machine(death + 2)
    pauses.sort()
    print(f"{deaths} deaths, {sent} checkpoints sent, {kept} transactions kept and {lost} lost that came after; "
          f"taking over took {pauses[len(pauses) // 2]:.2f} s (median)")


if __name__ == "__main__":
    main()
