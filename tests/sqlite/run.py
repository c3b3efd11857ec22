"""Runs the permutation atomic-batch-write of SQLite's tests, some files at a time, and compares what fails with a list.

usage: run.py SOURCE FOLDER EXCEPTIONS [PATTERN...]

The list has a line for each file of tests: its name, then the tests of it that fail, as patterns, or "stops" for one
that ends before its end; lines that begin with # say why.
"""

import collections
import concurrent.futures
import fnmatch
import os
import re
import shutil
import subprocess
import sys

PERMUTATION = "atomic-batch-write"
TIMEOUT_S = 1800
NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

source, folder, exceptions = sys.argv[1:4]
patterns = sys.argv[4:]
fixture = f"{source}/testfixture"


def names():
    """The files of tests of the permutation."""
    script = f"""
        set argv0 {source}/test/list
        set argv {{}}
        source {source}/test/permutations.test
        array set options $::testspec({PERMUTATION})
        puts [join [lsort -unique $options(-files)] \\n]
        exit
    """
    said = subprocess.run([fixture, "/dev/stdin"], input=script, capture_output=True, text=True, cwd=folder)
    found = sorted({os.path.basename(line) for line in said.stdout.split() if line.endswith(".test")})
    if len(found) < 1000:
        sys.exit(f"only {len(found)} files of tests: {said.stdout[-500:]}{said.stderr[-2000:]}")
    if patterns:
        found = [name for name in found if any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]
    return found


def run(name):
    """A file's name, how many tests it has, and which of them failed."""
    place = f"{folder}/{name}"
    os.mkdir(place)
    os.chmod(place, 0o777)
    command = [*NOBODY, fixture, f"{source}/test/permutations.test", PERMUTATION, name]
    try:
        ran = subprocess.run(command, cwd=place, capture_output=True, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL)
        said = (ran.stdout + ran.stderr).decode(errors="replace")
    except subprocess.TimeoutExpired as late:
        said = (late.stdout or b"").decode(errors="replace")
    shutil.rmtree(place, ignore_errors=True)
    counts = re.search(r"^(\d+) errors out of (\d+) tests", said, re.M)
    failed = re.search(r"^!Failures on these tests: (.*)$", said, re.M)
    if not counts:
        return name, said.count("... Ok"), ["stops"], said
    return name, int(counts[2]), failed[1].split() if failed else [], said


def read_exceptions():
    known = {}
    for line in open(exceptions):
        words = line.split()
        if words and not line.startswith("#"):
            known[words[0]] = words[1:]
    return known


known, wrong, total, files = read_exceptions(), [], 0, names()
failures = collections.OrderedDict()
with concurrent.futures.ThreadPoolExecutor(1 + (os.cpu_count() or 1)) as pool:
    for name, tests, failed, said in pool.map(run, files):
        total += tests
        expected = known.get(name, [])
        if failed:
            failures[name] = len(failed)
        new = [test for test in failed if not any(fnmatch.fnmatch(test, pattern) for pattern in expected)]
        if new:
            wrong.append(f"{name}: {' '.join(new[:20])}")
            print(f"{said[-3000:]}\n{name}: these fail: {' '.join(new)}", flush=True)
        unneeded = [pattern for pattern in expected if not fnmatch.filter(failed, pattern)]
        if unneeded:
            wrong.append(f"{name}: passes, but is in {exceptions}: {' '.join(unneeded)}")
wrong += [f"{name}: in {exceptions}, but there is no such file of tests" for name in known if not patterns and name not in files]
failed = sum(failures.values())
print(f"SQLite's own tests: {total - failed} of {total} pass, in {len(files)} files; exceptions in {len(failures)}")
if wrong:
    sys.exit("\n".join(["not as expected:", *wrong]))
