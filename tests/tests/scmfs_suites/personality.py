"""Filebench's personalities as a load that can be checked after a kill.

    personality.py load NAME FOLDER     runs until it is killed, prints a line for each change that has returned
    personality.py check NAME FOLDER    says how many changes are there; fails if the files are not those after them

Loops, sizes (gamma, shape 1.5) and rotating picks are Filebench's 1.4.9. Each thread has a set of files of its own,
so that its changes have an order: what is there must be what the first K changes of the thread leave, with any part
of the next one. Each write's bytes name the change that wrote them.
"""

import os
import random
import sys
import threading

KIB = 1024
THREADS = 4
FILES = 150
LARGEST = 1024 * KIB
# Mean size in KiB, mean of files in a directory, whether a change is synced, and the steps of a loop.
PERSONALITIES = {
    "varmail": (16, 1_000_000, True, "delete create append read"),
    "fileserver": (128, 20, False, "create append read delete stat"),
    "webproxy": (16, 1_000_000, False, "delete create read read read read read"),
    "webserver": (16, 20, False, "read read read read read read read read read read log"),
}
LOG = FILES


def content(change, size):
    """What a change writes."""
    word = b"%d " % change
    return (word * (size // len(word) + 1))[:size]


class Pool:
    """A thread's files after so many changes: for each number the (change, bytes) of its writes."""

    def __init__(self, name, folder, thread):
        mean, self.width, self.synced, steps = PERSONALITIES[name]
        self.folder = os.path.join(folder, "thread-%d" % thread)
        self.random = random.Random("%s/%d" % (name, thread))
        self.steps = self.endless(steps.split())
        self.mean = mean * KIB
        self.rotors = {}
        self.changes = 0
        # What is there at the start counts as changes, too.
        self.begin = list(range(FILES if name == "webserver" else FILES * 8 // 10))
        self.writes = {LOG: []} if name == "webserver" else {}
        self.sizes = {number: 0 for number in self.writes}

    def endless(self, steps):
        while True:
            yield from steps

    def path(self, number):
        return os.path.join(self.folder, "%05d" % (number // self.width), "%08d" % number)

    def pick(self, rotor, present):
        """The next present or absent number after the one that this rotor gave last."""
        after = self.rotors.get(rotor, -1)
        for step in range(1, FILES + 1):
            number = (after + step) % FILES
            if (number in self.writes) == present:
                self.rotors[rotor] = number
                return number
        return None

    def next(self):
        """The next step that can be done: (step, number, bytes)."""
        if self.begin:
            return "create", self.begin.pop(0), self.size()
        while True:
            step = next(self.steps)
            if step == "log":
                return "append", LOG, 1 + self.random.randrange(16 * KIB)
            number = self.pick(step, step != "create")
            if number is None:
                continue
            if step == "create":
                return step, number, self.size()
            if step == "append":
                return step, number, 1 + self.random.randrange(16 * KIB)
            return step, number, 0

    def size(self):
        return min(LARGEST, int(self.random.gammavariate(1.5, self.mean / 1.5)))

    def changed(self, step, number, size):
        """Notes a change that was done; its number."""
        self.changes += 1
        if step == "delete":
            del self.writes[number], self.sizes[number]
        else:
            self.writes.setdefault(number, []).append((self.changes, size))
            self.sizes[number] = self.bytes(number) + size
        return self.changes

    def expected(self, number):
        return b"".join(content(change, size) for change, size in self.writes[number])

    def bytes(self, number):
        return self.sizes.get(number, 0)

    # --- on the volume ---

    def read(self, number):
        with open(self.path(number), "rb") as file:
            return file.read()

    def read_as_expected(self, number):
        if self.read(number) != self.expected(number):
            sys.exit("%s is not what was written" % self.path(number))

    def write(self, number, data, flags):
        os.makedirs(os.path.dirname(self.path(number)), exist_ok=True)
        file = os.open(self.path(number), flags | os.O_WRONLY, 0o644)
        try:
            done = 0
            while done < len(data):
                done += os.write(file, data[done:])
            if self.synced:
                os.fsync(file)
        finally:
            os.close(file)

    def do(self, step, number, size):
        """Does a step; whether it changed something."""
        if step == "read":
            self.read_as_expected(number)
        elif step == "stat":
            if os.stat(self.path(number)).st_size != self.bytes(number):
                sys.exit("%s has another size" % self.path(number))
        elif step == "delete":
            os.unlink(self.path(number))
        else:
            flags = os.O_CREAT | (os.O_EXCL if step == "create" else os.O_APPEND)
            self.write(number, content(self.changes + 1, size), flags)
        return step not in ("read", "stat")

    def found(self):
        """The sizes of the files that are there."""
        sizes = {}
        for folder, _, names in os.walk(self.folder):
            for name in names:
                path = os.path.join(folder, name)
                number = int(name)
                if path != self.path(number):
                    sys.exit("%s should not be there" % path)
                sizes[number] = os.stat(path).st_size
        return sizes

    def catch_up(self, most=1_000_000):
        """Goes on until the state is the one that is there, and takes back what is there of the next change."""
        sizes = self.found()
        known = set(sizes) | set(self.writes)
        differ = {n for n in known if sizes.get(n, 0 if n == LOG else None) != self.there(n)}
        while differ and self.changes < most:
            step, number, size = self.next()
            if step in ("read", "stat"):
                continue
            if differ == {number} and self.begun(step, number, size, sizes):
                self.take_back(step, number)
                self.again = (step, number, size)
                self.verify()
                return
            self.changed(step, number, size)
            differ.discard(number)
            if sizes.get(number, 0 if number == LOG else None) != self.there(number):
                differ.add(number)
        if differ:
            sys.exit("%s is the state after no number of changes" % self.folder)
        self.again = None
        self.verify()

    def there(self, number):
        return self.bytes(number) if number in self.writes else None

    def begun(self, step, number, size, sizes):
        """Whether what is there of a file is a part of a change."""
        before = self.bytes(number)
        if step == "delete" or number not in sizes or not before <= sizes[number] < before + size:
            return False
        whole = (self.expected(number) if step == "append" else b"") + content(self.changes + 1, size)
        return self.read(number) == whole[: sizes[number]]

    def take_back(self, step, number):
        if step == "create":
            os.unlink(self.path(number))
        else:
            os.truncate(self.path(number), self.bytes(number))

    def verify(self):
        for number, writes in self.writes.items():
            if writes:
                self.read_as_expected(number)


def run(pool, told):
    pool.catch_up()
    waiting = pool.again
    while True:
        step, number, size = waiting or pool.next()
        waiting = None
        if pool.do(step, number, size):
            change = pool.changed(step, number, size)
            with told:
                print(change, flush=True)


def main():
    deed, name, folder = sys.argv[1:]
    pools = [Pool(name, folder, thread) for thread in range(THREADS)]
    if deed == "check":
        for pool in pools:
            pool.catch_up()
        print(sum(pool.changes for pool in pools))
        return
    told = threading.Lock()
    threads = [threading.Thread(target=ends_all, args=(run, pool, told)) for pool in pools]
    for thread in threads:
        thread.start()


def ends_all(work, *arguments):
    """A thread that fails ends the program, which says why."""
    try:
        work(*arguments)
    except BaseException as error:
        print("failed: %s" % error, file=sys.stderr, flush=True)
        os._exit(1)


if __name__ == "__main__":
    main()
