#!/usr/bin/env python3
"""CPU time of `yaffs2 extract` against `unyaffs`, on an image of many small files and one of few large ones.

    tests/yaffs2/extract_cpu.py target/release/yaffs2 [ROUNDS]

Both extract the same images, interleaved, into new folders beside them (TMPDIR says where); user and system time of the
process is counted (rusage), and the medians are compared. What both extract is compared with the folder that the image
was made from. Nothing is removed before the end: ext4 looks for an inode longer where many were just freed.
"""
import filecmp
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

FOLDERS = {"many small files": (100, 100, (100, 8192)), "few large files": (1, 4, (24 << 20, 24 << 20))}


def fill(folder, directories, files, sizes):
    """Makes files of random content, the same ones each time."""
    numbers = random.Random(1)
    for directory in range(directories):
        below = folder / f"d{directory:03}"
        below.mkdir(parents=True)
        for file in range(files):
            (below / f"f{file:03}").write_bytes(numbers.randbytes(numbers.randint(*sizes)))


def cpu_s(command):
    """User and system time of a command."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        sys.exit(f"{command} ended with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def same(one, other):
    """Whether two folders have the same files with the same bytes."""
    names = [sorted(path.relative_to(top) for path in top.rglob("*") if path.is_file()) for top in (one, other)]
    return names[0] == names[1] and all(filecmp.cmp(one / name, other / name, shallow=False) for name in names[0])


def main():
    yaffs2 = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 15
    if shutil.which("unyaffs") is None:
        sys.exit("unyaffs is not installed; sudo apt-get install unyaffs")
    with tempfile.TemporaryDirectory() as temporary:
        temporary = Path(temporary)
        for number, (name, shape) in enumerate(FOLDERS.items()):
            folder, image = temporary / f"in{number}", temporary / f"{number}.img"
            fill(folder, *shape)
            subprocess.run([yaffs2, "image", folder, image], check=True, stdout=subprocess.DEVNULL)
            commands = {"yaffs2 extract": [yaffs2, "extract", image], "unyaffs": ["unyaffs", image]}
            times = {command: [] for command in commands}
            for turn in range(rounds + 1):
                for command, words in commands.items():
                    out = temporary / f"{number} {command} {turn}"
                    seconds = cpu_s([*words, out])
                    # The first round warms the page cache.
                    if turn > 0:
                        times[command].append(seconds)
                    elif not same(folder, out):
                        sys.exit(f"{command} extracted something else than {folder}")
            ours, theirs = (statistics.median(found) for found in times.values())
            size_mib = image.stat().st_size / (1 << 20)
            print(f"{name}, {size_mib:.0f} MiB: yaffs2 extract {ours * 1000:.0f} ms, unyaffs {theirs * 1000:.0f} ms, "
                  f"ratio {ours / theirs:.2f} (medians of {rounds})", flush=True)


if __name__ == "__main__":
    main()
