"""The chip as the live writer fills it: blocks in turn, sequence numbers, summaries, torn pages; and its dump."""
import struct

import header as h
import pack
import tags as t


class NoSpace(Exception):
    """The operations want more than the chip holds."""


class Flash:
    """Pages written and blocks allocated. Pages and blocks are numbered from the chip's start."""

    def __init__(self, rng, *, page=2048, spare=64, spare_offset=0, pages_per_block=32, blocks=64, inband=False,
                 tags_ecc=True, summary=True, garbage=0.0, bad=(), order="<", start_block=0):
        self.rng, self.page_bytes, self.spare, self.spare_offset = rng, page, spare, spare_offset
        self.per_block, self.blocks, self.inband, self.bad = pages_per_block, blocks, inband, set(bad)
        self.order = order
        # Numbers on flash count from here: a partition at the chip's start has no block 0, for 0 means none.
        self.first_number = start_block or 1
        self.data_bytes = page - (t.TAGS_BYTES if inband else 0)
        self.ecc = tags_ecc and not inband
        self.limit = pages_per_block - (h.summary_pages(pages_per_block, self.data_bytes) if summary else 0)
        self.summary, self.garbage = summary, garbage
        self.pages, self.sequence = {}, t.SEQUENCE_LOWEST
        self.states = [h.DEAD if b in self.bad else h.EMPTY for b in range(blocks)]
        self.sequences, self.in_use, self.shrinking, self.summarised = {}, {}, set(), set()
        self.written = {}
        self.current, self.next, self.entries, self.last = None, 0, [], blocks - 1

    def empty(self):
        """How many blocks are erased."""
        return self.states.count(h.EMPTY)

    def allocate(self):
        """The next page to write, in order within a block; blocks are taken in a circle."""
        if self.current is None:
            turn = [(self.last + 1 + i) % self.blocks for i in range(self.blocks)]
            found = next((b for b in turn if self.states[b] == h.EMPTY), None)
            if found is None:
                raise NoSpace("no erased block is left")
            self.sequence += 1
            self.current = self.last = found
            self.states[found], self.sequences[found], self.in_use[found] = h.ALLOCATING, self.sequence, set()
            self.next, self.entries, self.written[found] = 0, [], 0
        page = self.current * self.per_block + self.next
        self.next += 1
        return page

    def close(self):
        """Ends the current block where it is."""
        block, self.current = self.current, None
        if block is not None:
            self.states[block] = h.FULL
            self._erase_if_dead(block)

    def store(self, page, data, obj, chunk, nbytes):
        """Writes a page as it is, without any account of it."""
        seq = self.sequences.get(page // self.per_block, t.SEQUENCE_CHECKPOINT)
        data = bytes(data).ljust(self.data_bytes, b"\xff")
        assert len(data) == self.data_bytes and page not in self.pages
        self.pages[page] = (data, pack.tag_bytes(seq, obj, chunk, nbytes, self.order, self.ecc))

    def write(self, data, obj, chunk, nbytes, shrink=False):
        """Writes a chunk and returns its page. A program that fails leaves garbage and ends the block."""
        while True:
            page = self.allocate()
            if self.rng.random() >= self.garbage:
                break
            self._garbage(page, data, obj, chunk, nbytes)
            self.close()
        block = page // self.per_block
        self.store(page, data, obj, chunk, nbytes)
        self.in_use[block].add(page)
        self.written[block] += 1
        if shrink:
            self.shrinking.add(block)
        self.entries.append((obj, chunk, nbytes))
        if self.next == self.limit:
            if self.summary:
                self._write_summary(block)
            self.close()
        return page

    def _garbage(self, page, data, obj, chunk, nbytes):
        self.store(page, data, obj, chunk, nbytes)
        _, tag = self.pages[page]
        for _ in range(100):
            torn = bytearray(a | self.rng.randrange(256) for a in tag)
            if page % self.per_block == 0 or not self.ecc:
                torn[:4] = tag[:4]
            if not self.ecc:
                # Without a code, what is no tag can only be seen by its numbers.
                torn[4:8] = struct.pack(self.order + "I", 0x0FFFFFFF)
            elif t.repair(bytes(torn[:16]), t.ECC[self.order].unpack(bytes(torn[16:])))[0] is not None:
                continue
            self.pages[page] = (self.rng.randbytes(self.data_bytes), bytes(torn))
            return
        raise AssertionError("no torn tags found")

    def _write_summary(self, block):
        array = b"".join(struct.pack(self.order + "3I", *entry) for entry in self.entries)
        room, at = self.data_bytes - h.SUMMARY_HEADER_BYTES, 0
        head = struct.pack(self.order + "4I", h.SUMMARY_VERSION, block + self.first_number, self.sequences[block],
                           sum(array) & 0xFFFFFFFF)
        for number in range(self.per_block - self.limit):
            part = array[at:at + room]
            self.store(block * self.per_block + self.limit + number, head + part, t.SUMMARY_OBJECT, number + 1,
                       len(part) + h.SUMMARY_HEADER_BYTES)
            at += len(part)
        self.summarised.add(block)

    def drop(self, page):
        """A page is needed no more."""
        if page is not None:
            self.in_use[page // self.per_block].discard(page)
            self._erase_if_dead(page // self.per_block)

    def _erase_if_dead(self, block):
        if self.states[block] == h.FULL and not self.in_use[block] and block not in self.shrinking:
            self.erase(block)

    def erase(self, block):
        """Erases a block."""
        for page in range(block * self.per_block, (block + 1) * self.per_block):
            self.pages.pop(page, None)
        self.states[block] = h.EMPTY
        self.shrinking.discard(block)
        self.summarised.discard(block)
        del self.sequences[block], self.in_use[block], self.written[block]

    def victim(self):
        """The block to collect: the fewest live pages, of those that may be collected; None without any."""
        full = [b for b in range(self.blocks) if self.states[b] == h.FULL]
        dirty = [b for b in full if len(self.in_use[b]) < self.written[b]]
        oldest = min((self.sequences[b] for b in dirty), default=None)
        may = [b for b in full if (b in dirty or not self.in_use[b])
               and (b not in self.shrinking or oldest is None or oldest >= self.sequences[b])]
        return min(may, key=lambda b: (len(self.in_use[b]), self.sequences[b]), default=None)

    def flip(self, count):
        """Flips one bit each in the tags (or their code) of some pages."""
        chosen = self.rng.sample(sorted(self.pages), min(count, len(self.pages)))
        for page in chosen:
            data, tag = self.pages[page]
            if t.repair(tag[:16], t.ECC[self.order].unpack(tag[16:])) != (tag[:16], False):
                continue
            bit = self.rng.choice([b for b in range(len(tag) * 8) if not 136 <= b < 160])
            flipped = bytearray(tag)
            flipped[bit // 8] ^= 1 << bit % 8
            self.pages[page] = (data, bytes(flipped))

    def dump(self):
        """Data and spare area of every page."""
        blank, out = b"\xff" * (self.page_bytes + self.spare), []
        for page in range(self.blocks * self.per_block):
            if page in self.pages:
                data, tag = self.pages[page]
                area = data + tag if self.inband else data + b"\xff" * self.spare_offset + tag
                out.append(area.ljust(len(blank), b"\xff"))
            elif page // self.per_block in self.bad and page % self.per_block < 2:
                out.append(bytes(self.page_bytes + 1).ljust(len(blank), b"\xff"))
            else:
                out.append(blank)
        return b"".join(out)
