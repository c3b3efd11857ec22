"""Runs permutations of SQLite's tests, some files at a time, and compares what fails with a list.

usage: run.py SOURCE FOLDER EXCEPTIONS PERMUTATION,... [PATTERN...]

The list has a line for each file of tests: its name, then the tests of it that fail, as patterns, or "stops" for one
that ends before its end; lines that begin with # say why. What comes first is what fails in the permutation
atomic-batch-write, and may fail in the others, too. What more fails in others follows, each part after a line with their
names in brackets.
"""

import collections
import concurrent.futures
import fnmatch
import os
import re
import shutil
import subprocess
import sys
import time

FIRST = "atomic-batch-write"
TIMEOUT_S = 1800
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

source, folder, exceptions, permutations = sys.argv[1:5]
patterns = sys.argv[5:]
fixture = f"{source}/testfixture"


def names(permutation):
    """The files of tests of a permutation."""
    script = f"""
        set argv0 {source}/test/list
        set argv {{}}
        source {source}/test/permutations.test
        array set options $::testspec({permutation})
        puts [join [lsort -unique $options(-files)] \\n]
        exit
    """
    said = subprocess.run([fixture, "/dev/stdin"], input=script, capture_output=True, text=True, cwd=folder)
    found = sorted({os.path.basename(line) for line in said.stdout.split() if line.endswith(".test")})
    if len(found) < (1000 if permutation == FIRST else 1):
        sys.exit(f"{permutation} has {len(found)} files of tests: {said.stdout[-500:]}{said.stderr[-2000:]}")
    if patterns:
        found = [name for name in found if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    return found


def run(permutation, name):
    """How many tests a file has, which of them failed, without what the permutation puts before their names, and all
    that was said."""
    place = f"{folder}/{permutation}-{name}"
    os.mkdir(place)
    os.chmod(place, 0o777)
    command = [*NOBODY, fixture, f"{source}/test/permutations.test", permutation, name]
    try:
        ran = subprocess.run(command, cwd=place, capture_output=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
        said = (ran.stdout + ran.stderr).decode(errors="replace")
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
    shutil.rmtree(place, ignore_errors=True)
    counts = re.search(r"^(\d+) errors out of (\d+) tests", said, re.M)
    failed = re.search(r"^!Failures on these tests: (.*)$", said, re.M)
    if not counts:
        return said.count("... Ok"), ["stops"], said
    prefix = "mm-" if permutation == "mmap" else f"{permutation}."
    return int(counts[2]), [test.removeprefix(prefix) for test in failed[1].split()] if failed else [], said


def read_exceptions():
    """By permutation and file: patterns of tests."""
    known, parts = collections.defaultdict(dict), [FIRST]
    for line in open(exceptions):
        words = line.split()
        if line.startswith("["):
            parts = line.strip(" []\n").split()
        elif words and not line.startswith("#"):
            for part in parts:
                known[part][words[0]] = words[1:]
    return known


known, wrong = read_exceptions(), []
for permutation in permutations.split(","):
    files, own, failures, total, began = names(permutation), known[permutation], {}, 0, time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(1 + (os.cpu_count() or 1)) as pool:
        for name, (tests, failed, said) in zip(files, pool.map(lambda name: run(permutation, name), files)):
            total += tests
            if failed:
                failures[name] = len(failed)
            expected = own.get(name, []) + known[FIRST].get(name, [])
            new = [test for test in failed if not any(fnmatch.fnmatch(test, pattern) for pattern in expected)]
            if new:
                wrong.append(f"{permutation}: {name}: {' '.join(new[:20])}")
                print(f"{said[-3000:]}\n{permutation}: {name}: these fail: {' '.join(new)}", flush=True)
            unneeded = [pattern for pattern in own.get(name, []) if not fnmatch.filter(failed, pattern)]
            if unneeded:
                wrong.append(f"{permutation}: {name}: passes, but is in {exceptions}: {' '.join(unneeded)}")
    if not patterns:
        absent = [name for name in own if name not in files]
        wrong += [f"{permutation}: {name}: in {exceptions}, but there is no such file of tests" for name in absent]
    failed = sum(failures.values())
    print(
        f"SQLite's own tests, {permutation}: {total - failed} of {total} pass, in {len(files)} files; exceptions in "
        f"{len(failures)}; {time.monotonic() - began:.0f} s",
        flush=True,
    )
if wrong:
    sys.exit("\n".join(["not as expected:", *wrong]))
