"""YAFFS1 on pages of 512 + 16 bytes: its tags, where they lie, and chips as years of writing leave them.

Only from a description of the format: chunk 20 bits, serial number 2, bytes 10; object 18, code 12, two more. A
little-endian machine fills words from the lowest bit, a big-endian one from the highest."""
import random
import struct

import pack
import tags as t

PAGE, SPARE, PER_BLOCK = 512, 16, 32
SPREAD = (0, 1, 2, 3, 6, 7, 11, 12)
HEADER_NBYTES = 0x3FF


def tag_bytes(obj, chunk, nbytes, serial=0, order="<"):
    """The 8 bytes of tags, with their code: the exclusive or of the numbers, from 1, of all bits that are set."""
    def packed(code):
        if order == "<":
            words = chunk | serial << 20 | nbytes << 22, obj | code << 18 | 3 << 30
        else:
            words = chunk << 12 | serial << 10 | nbytes, obj << 14 | code << 2 | 3
        return struct.pack(order + "2I", *words)

    code = 0
    for number, byte in enumerate(packed(0)):
        for bit in range(8):
            if byte >> bit & 1:
                code ^= 8 * number + bit + 1
    return packed(code)


def spare_bytes(tag, place, order="<", deleted=False):
    """A spare area with tags: spread over it, or packed from byte 8 on as Linux' driver places them."""
    area = bytearray(b"\xff" * SPARE)
    if place == "packed":
        area[8:16] = tag
        if deleted:
            area[15] &= ~(0x40 if order == "<" else 0x02)
    else:
        for at, byte in zip(SPREAD, tag):
            area[at] = byte
        if deleted:
            area[4] = 0
    return bytes(area)


def aged(pages, place, order, seed):
    """The pages of a chip that was used for long, from those of a fresh image: `(data, obj, chunk, nbytes)` each.

    They lie in any order; older ones of them are between them, marked as deleted, but for a few that losses of power
    kept from being marked. One block is bad."""
    rng = random.Random(seed)
    out = []
    unmarked = set(rng.sample(range(len(pages)), 6))
    for number, (data, obj, chunk, nbytes) in enumerate(pages):
        serial = rng.randrange(4)
        old = bytes(rng.randrange(256) for _ in range(PAGE)) if chunk else data[:10] + b"OLD" + data[13:]
        if number in unmarked or rng.random() < 0.3:
            out.append((old, obj, chunk, nbytes, serial - 1 & 3, number not in unmarked))
        out.append((data, obj, chunk, nbytes, serial, False))
    rng.shuffle(out)
    bad, blocks = rng.randrange(1, 3), []
    while out or len(blocks) <= bad:
        if len(blocks) == bad:
            area = bytearray(b"\xff" * SPARE)
            area[5] = ord("Y")
            blocks.append((bytes(PAGE) + bytes(area)) * PER_BLOCK)
            continue
        some, out = out[:PER_BLOCK], out[PER_BLOCK:]
        block = b"".join(
            data + spare_bytes(tag_bytes(obj, chunk, nbytes, serial, order), place, order, deleted)
            for data, obj, chunk, nbytes, serial, deleted in some)
        blocks.append(block.ljust(PER_BLOCK * (PAGE + SPARE), b"\xff"))
    return b"".join(blocks)
