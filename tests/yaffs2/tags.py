"""What is in a page's tags: the four words, their error correcting code, the packed form of a header's extra words.

Only facts are here that the reader and the writer share: sizes, numbers, layouts, the code's arithmetic."""
import struct
from typing import NamedTuple

ERASED = 0xFFFFFFFF
TAGS_BYTES = 16
TAGS_ECC_BYTES = 28
ECC = {"<": struct.Struct("<B3xII"), ">": struct.Struct(">B3xII")}
WORDS = {"<": struct.Struct("<4I"), ">": struct.Struct(">4I")}

SEQUENCE_LOWEST, SEQUENCE_HIGHEST = 0x1000, 0xEFFFFEFF
SEQUENCE_CHECKPOINT, SEQUENCE_BAD = 0x21, 0xFFFF0000

ROOT, LOST_AND_FOUND, UNLINKED, DELETED, SUMMARY_OBJECT = 1, 2, 3, 4, 0x10
OBJECT_LIMIT = 0x40000
CHUNK_HIGHEST = (1 << 28) - 1
FILE, SYMLINK, DIRECTORY, HARD_LINK, SPECIAL = 1, 2, 3, 4, 5
TYPE_NAMES = {FILE: "file", SYMLINK: "symlink", DIRECTORY: "directory", HARD_LINK: "hard link", SPECIAL: "special"}

EXTRA, EXTRA_SHRINK, EXTRA_SHADOWS, EXTRA_MASK = 0x80000000, 0x40000000, 0x20000000, 0xF0000000
EXTRA_SIZE_LIMIT = 1 << 31

ODD_BITS = bytes(bin(i).count("1") & 1 for i in range(256))
COLUMN_MASKS = (0xF0, 0x0F, 0xCC, 0x33, 0xAA, 0x55)
COLUMN = bytes(sum(ODD_BITS[x & mask] << (5 - n) for n, mask in enumerate(COLUMN_MASKS)) for x in range(256))


class Tags(NamedTuple):
    """The words as they are stored: `obj` and `chunk` may hold the extra form."""
    seq: int
    obj: int
    chunk: int
    nbytes: int


class Extra(NamedTuple):
    """What a header's tags say of the header. `tail`: a file's length, a hard link's target, else 0."""
    type: int
    id: int
    parent: int
    shrink: bool
    shadows: bool
    tail: int


def ecc(tags):
    """Column parity, line parity, inverted line parity of the tags' bytes as stored."""
    column = line = inverted = 0
    for index, byte in enumerate(tags):
        column ^= byte
        if ODD_BITS[byte]:
            line ^= index
            inverted ^= ~index
    return COLUMN[column], line, inverted & 0xFFFFFFFF


def repair(tags, stored):
    """The tags as they were written, or None if that can't be known, and whether anything was wrong.

    `stored`: the three values of the code as they were read."""
    column, line, inverted = (a ^ b for a, b in zip(ecc(tags), stored))
    if not (column or line or inverted):
        return tags, False
    if line == inverted ^ 0xFFFFFFFF and (column ^ (column >> 1)) & 0x15 == 0x15 and column < 64:
        if line >= len(tags):
            return None, True
        bit = (column >> 5 & 1) * 4 + (column >> 3 & 1) * 2 + (column >> 1 & 1)
        fixed = bytearray(tags)
        fixed[line] ^= 1 << bit
        return bytes(fixed), True
    if bin(column).count("1") + bin(line).count("1") + bin(inverted).count("1") == 1:
        return tags, True
    return None, True


def extra(tags):
    """The extra words of a header's tags; None when the tags are of a plain header or of data."""
    if not tags.chunk & EXTRA:
        return None
    return Extra(tags.obj >> 28, tags.obj & ~EXTRA_MASK, tags.chunk & ~EXTRA_MASK, bool(tags.chunk & EXTRA_SHRINK),
                 bool(tags.chunk & EXTRA_SHADOWS), tags.nbytes)
