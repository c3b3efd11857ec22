"""Stores growing numbers to a file until it is told to end: by a mapping, all pages with the same one after another, or
by pwrite(2), one page with each, in turns. The last number that is stored is in the first word of another file; it ends
when the second word of that is not 0.

usage: writers.py map|write FILE PROGRESS
"""
import mmap, os, struct, sys

PAGE, PAGES = 4096, 64
kind, path, progress = sys.argv[1:]
fd = os.open(path, os.O_RDWR)
words = mmap.mmap(os.open(progress, os.O_RDWR), 16)
mapped = mmap.mmap(fd, PAGE * PAGES) if kind == "map" else None
number = 0
while words[8:] == bytes(8):
    number += 1
    page = struct.pack("<Q", number) * (PAGE // 8)
    if mapped:
        for at in range(0, PAGE * PAGES, PAGE):
            mapped[at : at + PAGE] = page
    else:
        assert os.pwrite(fd, page, number % PAGES * PAGE) == PAGE
    words[:8] = struct.pack("<Q", number)
