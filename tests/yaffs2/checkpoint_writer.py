"""The checkpoint that a live writer leaves at its end, as a machine with 4-byte or with 8-byte pointers writes it."""
import struct

import header as h
import tags as t


def write(live, pointer_bytes, hint_next):
    """Writes a checkpoint of all that the volume has in memory into erased blocks. `hint_next`: the hint is the number
    of the block after the page's own, else the page's own."""
    flash = live.flash
    payload = _payload(live, pointer_bytes)
    room = flash.data_bytes - h.CHECKPOINT_PAGE_HEADER_BYTES
    free = (b for b in range(flash.blocks) if flash.states[b] == h.EMPTY)
    total = mixed = 0
    block, used = None, flash.per_block
    for number, at in enumerate(range(0, len(payload), room)):
        if used == flash.per_block:
            block, used = next(free), 0
            flash.states[block] = h.CHECKPOINT
        part = payload[at:at + room]
        head = struct.pack("<4I", h.CHECKPOINT_VERSION, number, total, mixed)
        hint = block + flash.first_number + hint_next
        flash.store(block * flash.per_block + used, head + part, hint, number + 1, flash.data_bytes)
        used += 1
        for byte in part:
            total, mixed = (total + byte) & 0xFFFFFFFF, mixed ^ byte


def _payload(live, pointer_bytes):
    flash, shift = live.flash, live.flash.per_block * live.flash.first_number
    out = [struct.pack("<4I", h.VALIDITY_BYTES, h.CHECKPOINT_MAGIC, h.CHECKPOINT_VERSION, 1)]
    free = sum(flash.per_block - len(flash.in_use.get(b, ())) for b in range(flash.blocks) if b not in flash.bad)
    block, page = (-1, -1) if flash.current is None else (flash.current + flash.first_number, flash.next)
    out.append(struct.pack("<9i", h.DEVICE_BYTES, flash.empty(), block, page, free, 0, 0, 0, flash.sequence))
    for b in range(flash.blocks):
        word = (len(flash.in_use.get(b, ())) << 10 | flash.states[b] << 20 | (b in flash.summarised) << 30
                | (b in flash.shrinking) << 31)
        out.append(struct.pack("<2I", word, flash.sequences.get(b, 0)))
    for b in range(flash.blocks):
        marks = bytearray(-(-flash.per_block // 8))
        for used in flash.in_use.get(b, ()):
            marks[used % flash.per_block // 8] |= 1 << used % flash.per_block % 8
        out.append(bytes(marks))
    width = h.slot_bits(flash.per_block, flash.blocks + flash.first_number - 1)
    fakes = [(n, 1, None, t.DIRECTORY, 0, {}, 1 << 6) for n in (t.UNLINKED, t.DELETED)]
    things = [*live.nodes.values(), *live.link_ids.values()]
    for thing in things:
        tail = {t.FILE: len(getattr(thing, "content", b"")), t.HARD_LINK: thing.node.id if thing.type == 4 else 0}
        fakes.append((thing.id, thing.parent or 0, thing.page, thing.type, tail.get(thing.type, 0),
                      getattr(thing, "chunks", {}), 1 << 6 if thing.id <= 2 else 3 << 7))
    for number, parent, page, kind, tail, chunks, bits in sorted(fakes, key=lambda row: (row[0] & 255, row[0])):
        out.append(struct.pack("<6Iq", h.OBJECT_BYTES, number, parent, 0 if page is None else page + shift,
                               kind | bits, len(chunks), tail))
        if kind == t.FILE:
            out += _leaves(chunks, width, h.leaf_bytes(width, pointer_bytes), shift)
    out.append(struct.pack("<I", h.OBJECT_BYTES) + b"\xff" * (h.OBJECT_BYTES - 4))
    out.append(struct.pack("<4I", h.VALIDITY_BYTES, h.CHECKPOINT_MAGIC, h.CHECKPOINT_VERSION, 0))
    payload = b"".join(out)
    total = mixed = 0
    for byte in payload:
        total, mixed = total + byte, mixed ^ byte
    return payload + struct.pack("<I", (total << 8 | mixed) & 0xFFFFFFFF)


def _leaves(chunks, width, leaf_bytes, shift):
    leaves = {}
    for number, page in chunks.items():
        leaves[number // 16] = leaves.get(number // 16, 0) | (page + shift) << number % 16 * width
    out = [struct.pack("<I", base * 16) + bits.to_bytes(leaf_bytes, "little") for base, bits in sorted(leaves.items())]
    return [*out, b"\xff\xff\xff\xff"]
