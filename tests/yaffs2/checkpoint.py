"""Checkpoints: decoded to the last word, and compared with what the scan of the same dump says."""
import struct

import header as h
import tags as t

POINTERS = (4, 8)


class BadCheckpoint(Exception):
    """The checkpoint can't be used: a mount has to scan."""


class Checkpoint:
    """What is in a checkpoint. Chunk and block numbers are as in the dump: the shift by one block is taken off."""

    def __init__(self, dump, blocks):
        self.dump, self.order = dump, dump.order
        self.hints = []
        self.stream, self.checks = self._pages(blocks)
        self.at = 0
        self._decode()

    # --- the stream ---

    def _pages(self, blocks):
        """The payload, and for every payload page the sum and xor that its header states."""
        dump, pages = self.dump, {}
        for block in blocks:
            for page in range(block * dump.per_block, (block + 1) * dump.per_block):
                words, state = dump.tags(page)
                if words is None or state == "uncorrectable" or words.seq != t.SEQUENCE_CHECKPOINT:
                    continue
                if words.chunk in pages:
                    raise BadCheckpoint(f"page {words.chunk} of the checkpoint is there twice")
                if words.nbytes != dump.data_bytes:
                    raise BadCheckpoint(f"page {words.chunk} has {words.nbytes} bytes, not {dump.data_bytes}")
                pages[words.chunk] = (page, words.obj)
        if sorted(pages) != list(range(1, len(pages) + 1)):
            raise BadCheckpoint("pages of the checkpoint are missing")
        payload, checks, last = bytearray(), [], 0
        for number in range(1, len(pages) + 1):
            page, hint = pages[number]
            data = dump.data(page)
            version, index, total, mixed = t.WORDS[self.order].unpack_from(data)
            if version != h.CHECKPOINT_VERSION or index != number - 1:
                raise BadCheckpoint(f"page {number} says version {version}, page {index}")
            if page // dump.per_block < last // dump.per_block:
                raise BadCheckpoint("blocks of the checkpoint are not in ascending order")
            checks.append((len(payload), total, mixed))
            self.hints.append((page // dump.per_block, hint))
            payload += data[h.CHECKPOINT_PAGE_HEADER_BYTES:]
            last = page
        return bytes(payload), checks

    def _words(self, count, order=None):
        end = self.at + 4 * count
        if end > len(self.stream):
            raise BadCheckpoint("the checkpoint ends too early")
        words = struct.unpack_from(f"{order or self.order}{count}I", self.stream, self.at)
        self.at = end
        return words

    def _validity(self, head):
        if self._words(4) != (h.VALIDITY_BYTES, h.CHECKPOINT_MAGIC, h.CHECKPOINT_VERSION, head):
            raise BadCheckpoint(f"the record of {'beginning' if head else 'end'} is not there")

    # --- the records ---

    def _decode(self):
        dump = self.dump
        self._validity(1)
        size, *numbers = self._words(9)
        if size != h.DEVICE_BYTES:
            raise BadCheckpoint(f"the device's record has {size} bytes, not {h.DEVICE_BYTES}")
        names = ("erased_blocks", "allocating_block", "allocating_page", "free_chunks", "deleted_files",
                 "unlinked_files", "background_deletions", "sequence")
        self.device = dict(zip(names, (n - (1 << 32) if n >> 31 else n for n in numbers)))
        self.device["sequence"] = numbers[-1]
        words = self._words(2 * dump.blocks)
        self.blocks = [_block(words[i], words[i + 1]) for i in range(0, len(words), 2)]
        size = -(-dump.per_block // 8)
        if self.at + size * dump.blocks > len(self.stream):
            raise BadCheckpoint("the checkpoint ends too early")
        self.in_use = []
        for _ in range(dump.blocks):
            bits = int.from_bytes(self.stream[self.at:self.at + size], "little")
            self.in_use.append(bits)
            self.at += size
        begin, width, faults = self.at, h.slot_bits(dump.per_block, dump.blocks), []
        self.leaf_bytes = []
        for pointer in POINTERS:
            size = h.leaf_bytes(width, pointer)
            if size in self.leaf_bytes:
                continue
            self.at = begin
            try:
                objects = self._objects(width, size)
                self._end()
            except BadCheckpoint as fault:
                faults.append(f"with leaves of {size} bytes {fault}")
                continue
            self.objects, self.end = objects, self.at
            self.leaf_bytes.append(size)
        if not self.leaf_bytes:
            raise BadCheckpoint("; ".join(faults))
        self._page_sums()

    def _objects(self, width, leaf_bytes):
        found = {}
        while True:
            size, number, parent, page, bits, chunks, low, high = self._words(8)
            if size != h.OBJECT_BYTES:
                raise BadCheckpoint(f"an object's record has {size} bytes, not {h.OBJECT_BYTES}")
            if (number, parent, page, bits, chunks, low, high) == (h.UNSET,) * 7:
                return found
            if number in found:
                raise BadCheckpoint(f"object {number} is there twice")
            kind = bits & 7
            record = found[number] = {
                "type": kind, "parent": parent, "page": self._page(page), "deleted": bits >> 3 & 1,
                "soft_deleted": bits >> 4 & 1, "unlinked": bits >> 5 & 1, "fake": bits >> 6 & 1,
                "count": chunks, "tail": high << 32 | low, "chunks": {}}
            if kind == t.FILE:
                record["chunks"] = self._leaves(width, leaf_bytes)

    def _leaves(self, width, leaf_bytes):
        chunks, mask = {}, (1 << width) - 1
        while True:
            base, = self._words(1)
            if base == h.UNSET:
                return chunks
            if base % 16:
                raise BadCheckpoint(f"a leaf begins at chunk {base}")
            words = self._words(leaf_bytes // 4)
            packed = sum(word << 32 * i for i, word in enumerate(words[:width // 2]))
            for slot in range(16):
                value = packed >> slot * width & mask
                if value:
                    if base + slot in chunks:
                        raise BadCheckpoint(f"chunk {base + slot} is there twice")
                    chunks[base + slot] = self._page(value)

    def _page(self, chunk):
        """A chunk number as a page of the dump; None for 0, "none"."""
        return chunk - self.dump.per_block if chunk else None

    def _end(self):
        self._validity(0)
        payload = self.stream[:self.at]
        total, mixed = _sums(payload)
        stated, = self._words(1)
        if stated != (total << 8 | mixed) & 0xFFFFFFFF:
            raise BadCheckpoint(f"the sum is {stated:#x}, not {(total << 8 | mixed) & 0xFFFFFFFF:#x}")

    def _page_sums(self):
        total = mixed = at = 0
        for number, (start, stated, stated_mixed) in enumerate(self.checks):
            if start > self.end:
                break
            part = self.stream[at:start]
            total, mixed, at = total + sum(part), mixed ^ _sums(part)[1], start
            if (stated, stated_mixed & 0xFF) != (total & 0xFFFFFFFF, mixed):
                raise BadCheckpoint(f"the sums at the start of page {number + 1} are wrong")

    # --- against the scan ---

    def differences(self, scan, places):
        """What the checkpoint says otherwise than the scan. `places`: ids of all that the scan's tree holds."""
        out = []
        self._compare_device(scan, out)
        self._compare_blocks(scan, out)
        live = {number for number in places if number > t.DELETED}
        live |= {o.id for o in scan.objects.values()
                 if o.id > t.DELETED and o.parent == t.UNLINKED and o.page is not None}
        told = {number: record for number, record in self.objects.items()
                if number > t.DELETED and not record["fake"] and record["parent"] != t.DELETED}
        for number in sorted(live - told.keys()):
            out.append(f"object {number} is missing")
        for number in sorted(told.keys() - live):
            out.append(f"object {number} is not there by the scan")
        for number in sorted(live & told.keys()):
            self._compare_object(number, told[number], scan.objects[number], out)
        return out

    def _compare_object(self, number, record, o, out):
        size = {t.FILE: o.size, t.HARD_LINK: o.target}.get(o.type)
        pairs = [("type", record["type"], o.type), ("parent", record["parent"], o.parent),
                 ("header page", record["page"], o.page), ("unlinked", record["unlinked"], o.parent == t.UNLINKED)]
        if size is not None:
            pairs.append(("size or target", record["tail"], size))
        if o.type == t.FILE:
            pairs.append(("number of chunks", record["count"], len(o.chunks)))
        for what, told, scanned in pairs:
            if told != scanned:
                out.append(f"object {number}: {what} is {told}, by the scan {scanned}")
        for chunk in sorted(record["chunks"].keys() | o.chunks.keys()):
            told, scanned = record["chunks"].get(chunk), o.chunks.get(chunk, (None, 0))[0]
            if told != scanned:
                out.append(f"object {number}: chunk {chunk} is in page {told}, by the scan {scanned}")

    def _compare_device(self, scan, out):
        device, dump = self.device, self.dump
        empty = sum(state == h.EMPTY for state in scan.states.values())
        if not empty <= device["erased_blocks"] <= empty + len(scan.checkpoint_blocks):
            out.append(f"{device['erased_blocks']} erased blocks, by the scan {empty} and the checkpoint's own")
        if device["sequence"] < scan.highest:
            out.append(f"sequence number {device['sequence']:#x}, by the scan {scan.highest:#x}")
        block = device["allocating_block"] - 1
        if 0 <= block < dump.blocks:
            page = device["allocating_page"]
            if page > dump.per_block or not dump.is_erased(block * dump.per_block + page, dump.per_block - page):
                out.append(f"block {block} is not free from page {page} on")

    def _compare_blocks(self, scan, out):
        dump, live, needed = self.dump, [0] * self.dump.blocks, set(scan.live_pages())
        for page in needed:
            live[page // dump.per_block] |= 1 << page % dump.per_block
        summary = h.summary_pages(dump.per_block, dump.data_bytes)
        mask = (1 << dump.per_block - summary) - 1
        allowed = {h.EMPTY: (h.EMPTY,), h.DEAD: (h.DEAD,), h.CHECKPOINT: (h.EMPTY, h.CHECKPOINT),
                   h.FULL: (h.ALLOCATING, h.FULL)}
        for block, record in enumerate(self.blocks):
            state, bits = scan.states[block], self.in_use[block]
            if record["state"] not in allowed[state]:
                out.append(f"block {block}: state {record['state']}, by the scan {state}")
            if state != h.FULL:
                continue
            if record["sequence"] != scan.sequences[block]:
                out.append(f"block {block}: sequence {record['sequence']:#x}, "
                           f"by the scan {scan.sequences[block]:#x}")
            if record["in_use"] - record["soft_deleted"] != bin(bits).count("1"):
                out.append(f"block {block}: {record['in_use']} pages in use, {bin(bits).count('1')} marked")
            # Whether a summary's own pages count as in use is left open.
            if block in scan.summarised:
                bits &= mask
            if bits != live[block]:
                out.append(f"block {block}: pages {bits:#x} in use, by the scan {live[block]:#x}")
            if record["has_summary"] != (block in scan.summarised):
                out.append(f"block {block}: has a summary {record['has_summary']}")
            if block in scan.shrinking and not record["has_shrink"]:
                out.append(f"block {block}: its shrink header is forgotten")


def _sums(data):
    """The sum of the bytes, and all of them XORed."""
    mixed = int.from_bytes(data, "little")
    size = 1 << max(0, (len(data) - 1).bit_length())
    while size > 1:
        size //= 2
        mixed = mixed >> 8 * size ^ mixed & ((1 << 8 * size) - 1)
    return sum(data) & 0xFFFFFFFF, mixed


def _block(word, sequence):
    def signed(value):
        return value - 1024 if value & 512 else value
    return {"soft_deleted": signed(word & 1023), "in_use": signed(word >> 10 & 1023), "state": word >> 20 & 15,
            "retiring": word >> 24 & 1, "prioritised": word >> 26 & 1, "strikes": word >> 27 & 7,
            "has_summary": word >> 30 & 1, "has_shrink": word >> 31 & 1, "sequence": sequence}


def report(scan, places):
    """What the reader prints of a dump's checkpoint; None without any."""
    if not scan.checkpoint_blocks:
        return None
    try:
        checkpoint = Checkpoint(scan.dump, scan.checkpoint_blocks)
    except BadCheckpoint as fault:
        return {"valid": False, "fault": str(fault)}
    hints = sorted({(block, hint) for block, hint in checkpoint.hints})
    return {"valid": True, "device": checkpoint.device, "objects": len(checkpoint.objects),
            "pages": len(checkpoint.checks), "bytes": checkpoint.end, "leaf_bytes": checkpoint.leaf_bytes,
            "hints": [{"block": block, "hint": hint} for block, hint in hints],
            "differences": checkpoint.differences(scan, places)}
