"""What updates and queries of SQLite cost by each way to a volume, beside tmpfs and ext4: medians of rounds in turns.

usage: speed.py EXTENSION NAME=JOURNAL:PATH...

PATH is that of a database, whose folder exists; "REGION!/name" is one in a volume of this process, and "vfs:PATH" one on
a mount by the extension. For Debian's python3. As root it needs a mount, and a loop device with ext4, that others made:

    scmfs mount -o atomic /dev/shm/v /mnt
    speed.py libscmfs_sqlite.so in-process=delete:/dev/shm/w!/a.db mount=delete:vfs:/mnt/a.db tmpfs=wal:/dev/shm/a.db
"""

import sqlite3
import statistics
import sys
import time

ROWS, CALLS, ROUNDS = 10_000, 300, 11

loader = sqlite3.connect(":memory:")
loader.enable_load_extension(True)
loader.load_extension(sys.argv[1])


def connect(journal, path):
    if "!" in path:
        region, name = path.split("!")
        uri = f"file:{name}?vfs=scmfs&volume={region}"
    elif path.startswith("vfs:"):
        uri = f"file:{path[4:]}?vfs=scmfs"
    else:
        uri = f"file:{path}"
    db = sqlite3.connect(uri, uri=True, isolation_level=None)
    said = db.execute(f"PRAGMA journal_mode = {journal}").fetchone()[0]
    assert said == journal, said
    db.execute("PRAGMA synchronous = FULL")
    db.execute("PRAGMA cache_size = 64")
    db.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT, n INTEGER)")
    db.execute("BEGIN")
    db.executemany("INSERT INTO t VALUES (?, ?, 0)", ((i, "x" * 900) for i in range(ROWS)))
    db.execute("COMMIT")
    return db


WORK = {
    "update": "UPDATE t SET n = n + 1 WHERE id = ?",
    "of 4 pages": "UPDATE t SET n = n + 1 WHERE id IN (?1, (?1 + 2500) % 10000, (?1 + 5000) % 10000, (?1 + 7500) % 10000)",
    "query": "SELECT n FROM t WHERE id = ?",
}
subjects = {}
for argument in sys.argv[2:]:
    name, rest = argument.split("=", 1)
    subjects[name] = connect(*rest.split(":", 1))
times = {name: {what: [] for what in WORK} for name in subjects}
for round_ in range(ROUNDS):
    names = list(subjects)
    for name in names[round_ % len(names) :] + names[: round_ % len(names)]:
        for what, sql in WORK.items():
            start = time.perf_counter()
            for i in range(CALLS):
                subjects[name].execute(sql, ((i * 7919 + round_ * 104729) % ROWS,)).fetchall()
            times[name][what].append((time.perf_counter() - start) * 1e6 / CALLS)
print(f"{'us':<24}" + "".join(f"{what:>12}" for what in WORK))
for name, of in times.items():
    print(f"{name:<24}" + "".join(f"{statistics.median(values):>12.1f}" for values in of.values()))
print("times of an update, the median of the ratios in each round:")
for name in names:
    ratios = {
        other: statistics.median(b / a for a, b in zip(times[name]["update"], times[other]["update"]))
        for other in names
        if other != name
    }
    print(f"  {name}: " + ", ".join(f"{other} {ratio:.2f}" for other, ratio in ratios.items()))
