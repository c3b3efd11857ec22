"""Layouts of what is in pages: object headers, extended attributes, summaries, checkpoints; and how names are shown.

Only facts are here that the reader and the writer share."""
import struct
from typing import NamedTuple

HEADER_BYTES = 512
LAYOUT = {order: struct.Struct(order + "IIH256s2s8I160s13I") for order in "<>"}
WORD = {order: struct.Struct(order + "I") for order in "<>"}
UNSET = 0xFFFFFFFF
NAME_BYTES, TARGET_BYTES = 255, 159

SUMMARY_ENTRY_BYTES, SUMMARY_HEADER_BYTES, SUMMARY_VERSION = 12, 16, 1
CHECKPOINT_VERSION, CHECKPOINT_MAGIC, CHECKPOINT_PAGE_HEADER_BYTES = 8, 0x5941FF53, 16
VALIDITY_BYTES, DEVICE_BYTES, OBJECT_BYTES = 16, 36, 32
EMPTY, ALLOCATING, FULL, CHECKPOINT, DEAD = 3, 4, 5, 7, 9
HASH_LIMIT_BYTES = 1 << 26
SHOWN = [chr(b) if 0x20 <= b <= 0x7E and b != 0x25 else f"%{b:02X}" for b in range(256)]


class Header(NamedTuple):
    """The stored fields, in their order on flash, as plain words and bytes."""
    type: int
    parent: int
    sum: int
    name: bytes
    padding: bytes
    mode: int
    uid: int
    gid: int
    atime: int
    mtime: int
    ctime: int
    size_low: int
    target_id: int
    target: bytes
    rdev: int
    ctime_low: int
    ctime_high: int
    atime_low: int
    atime_high: int
    mtime_low: int
    mtime_high: int
    inband_shadows: int
    inband_shrink: int
    size_high: int
    reserved: int
    shadows: int
    shrink: int


assert LAYOUT["<"].size == HEADER_BYTES


def parse(page, order):
    """The header at the start of a page."""
    return Header._make(LAYOUT[order].unpack_from(page))


def summary_pages(pages_per_block, data_bytes):
    """How many pages at a block's end are for its summary."""
    return (SUMMARY_ENTRY_BYTES * pages_per_block + data_bytes - 1) // (data_bytes - SUMMARY_HEADER_BYTES)


def slot_bits(pages_per_block, blocks):
    """The width of a chunk number in a checkpoint's tree leaves, for a partition that starts at block 0."""
    chunks = pages_per_block * (blocks + 1)
    width = max(16, (chunks - 1).bit_length())
    return width + (width & 1)


def leaf_bytes(width, pointer_bytes):
    """The size of a tree leaf as a machine with such pointers stores it."""
    return max(2 * width, 8 * pointer_bytes)


def shown(name):
    """Bytes as text that any JSON reader takes: all but printable ASCII, and %, as %XX."""
    return "".join(map(SHOWN.__getitem__, name))


def hidden(text):
    """The bytes that `shown` showed; text that is not ASCII stands for its UTF-8."""
    out, raw, at = bytearray(), text.encode(), 0
    while at < len(raw):
        if raw[at] == 0x25:
            out.append(int(raw[at + 1:at + 3], 16))
            at += 3
        else:
            out.append(raw[at])
            at += 1
    return bytes(out)
