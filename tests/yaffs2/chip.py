"""A raw dump of a chip as the reader sees it: pages of data and spare area, their tags, what is erased or bad."""
import tags as t
from dataclasses import dataclass, field
from header import HEADER_BYTES


class DumpError(Exception):
    """The dump can't be read as one: a wrong option, or no such file. Damage on the chip is no such error."""


@dataclass
class Options:
    """How the dump is laid out, and what to do. Sizes in bytes; page and block numbers count from the chip's start."""
    page: int = 2048
    spare: int = 64
    spare_offset: int = 0
    spare_free: int | None = None
    pages_per_block: int = 64
    inband: bool = False
    tags_ecc: bool = True
    endian: str = "auto"
    bad: list = field(default_factory=list)
    bad_mark: int | None = None
    uncorrectable: list = field(default_factory=list)
    drop: str = "newest"
    summary: bool = True
    keep_lost_and_found: bool = False
    checkpoint: bool = False

    def checked(self):
        """These options, or the error that they can't be."""
        if not all(n is None or type(n) is int for n in (self.spare_free, self.bad_mark)):
            raise DumpError("spare_free and bad_mark are numbers")
        tags_bytes = t.TAGS_ECC_BYTES if self.tags_ecc else t.TAGS_BYTES
        numbers = [self.page, self.spare, self.spare_offset, self.pages_per_block]
        if not all(type(n) is int and 0 <= n <= 1 << 20 for n in numbers):
            raise DumpError("sizes and numbers of pages must be whole numbers from 0 to 1048576")
        if self.page - 16 * self.inband < HEADER_BYTES:
            raise DumpError(f"a page of {self.page} bytes can't hold an object header of {HEADER_BYTES}")
        if self.pages_per_block < 2:
            raise DumpError("a block has at least 2 pages")
        free = self.spare - self.spare_offset if self.spare_free is None else self.spare_free
        if not self.inband and min(free, self.spare - self.spare_offset) < tags_bytes:
            raise DumpError(f"{free} free bytes at {self.spare_offset} of a spare area of {self.spare}: "
                            f"the tags need {tags_bytes}; say inband if they are in the pages")
        for what, given in (("bad", self.bad), ("uncorrectable", self.uncorrectable)):
            if not isinstance(given, list) or not all(type(n) is int and n >= 0 for n in given):
                raise DumpError(f"{what} must be a list of numbers")
        flags = (self.inband, self.tags_ecc, self.summary, self.keep_lost_and_found, self.checkpoint)
        if not all(type(flag) is bool for flag in flags) or not (self.bad_mark is None or 0 <= self.bad_mark):
            raise DumpError("an option that is on or off is neither, or bad_mark is no byte of the spare area")
        if self.endian not in ("auto", "little", "big") or self.drop not in ("newest", "all", "none"):
            raise DumpError(f"endian {self.endian!r} or drop {self.drop!r} is not known")
        return self


class Dump:
    """The pages of a dump. A last block that is not whole is erased from there on."""

    def __init__(self, image, options):
        o = self.options = options.checked()
        self.step = o.page + o.spare
        if len(image) % self.step:
            raise DumpError(f"{len(image)} bytes are no whole number of pages of {o.page}+{o.spare} bytes")
        self.image = memoryview(image)
        self.stored_pages = len(image) // self.step
        self.per_block = o.pages_per_block
        self.blocks = -(-self.stored_pages // self.per_block)
        self.data_bytes = o.page - (t.TAGS_BYTES if o.inband else 0)
        self.tags_at = self.data_bytes if o.inband else o.page + o.spare_offset
        self.ecc = o.tags_ecc and not o.inband
        self.erased_block = b"\xff" * (self.step * self.per_block)
        self.order = "<"
        self.cache = {}
        if o.endian == "big" or (o.endian == "auto" and self._looks_big()):
            self.order = ">"
            self.cache = {}
        mark = o.bad_mark if o.bad_mark is not None else (0 if o.spare_offset else None)
        self.bad = set(o.bad)
        if mark is not None and mark < o.spare:
            for block in range(self.blocks):
                if self.image[block * self.per_block * self.step + o.page + mark] != 0xFF:
                    self.bad.add(block)

    def data(self, page):
        """A page's data area without inband tags."""
        if page >= self.stored_pages:
            return b"\xff" * self.data_bytes
        start = page * self.step
        return self.image[start:start + self.data_bytes]

    def is_erased(self, first, pages):
        """Whether pages are all 0xFF, spare area too."""
        start, end = first * self.step, min(first + pages, self.stored_pages) * self.step
        return end <= start or self.image[start:end] == self.erased_block[:end - start]

    def is_blank(self, page):
        """Whether a page's data and tags are all 0xFF."""
        size = t.TAGS_ECC_BYTES if self.ecc else t.TAGS_BYTES
        at = page * self.step + self.tags_at
        return (page >= self.stored_pages
                or (self.data(page) == self.erased_block[:self.data_bytes]
                    and self.image[at:at + size] == self.erased_block[:size]))

    def tags(self, page):
        """(tags or None, state): state is "unused", "ok", "fixed" or "uncorrectable". Tags that can't be corrected
        are handed out as read."""
        found = self.cache.get(page)
        if found is None:
            found = self.cache[page] = self._tags(page, self.order)
        return found

    def _tags(self, page, order):
        if page >= self.stored_pages:
            return None, "unused"
        at = page * self.step + self.tags_at
        raw = bytes(self.image[at:at + t.TAGS_BYTES])
        words = t.Tags._make(t.WORDS[order].unpack(raw))
        if words.seq == t.ERASED:
            return None, "unused"
        if not self.ecc:
            return words, "ok"
        area = self.image[at + t.TAGS_BYTES:at + t.TAGS_ECC_BYTES]
        fixed, wrong = t.repair(raw, t.ECC[order].unpack(area))
        if wrong and order == ">":
            # A little-endian machine that swaps what it stores may leave the code's own words in its own order.
            other, still = t.repair(raw, t.ECC["<"].unpack(area))
            if not still or fixed is None:
                fixed, wrong = other, still
        if fixed is None:
            return words, "uncorrectable"
        return (t.Tags._make(t.WORDS[order].unpack(fixed)), "fixed") if wrong else (words, "ok")

    def _looks_big(self):
        """The first page that is an object header in one byte order only decides."""
        for page in range(self.stored_pages):
            if page % self.per_block == 0 and self.is_erased(page, self.per_block):
                continue
            looks = [self._is_header(page, order) for order in "<>"]
            if looks[0] != looks[1]:
                return looks[1]
        return False

    def _is_header(self, page, order):
        words, state = self._tags(page, order)
        if words is None or state == "uncorrectable" or (words.chunk and not words.chunk & t.EXTRA):
            return False
        kind, parent = t.WORDS[order].unpack_from(self.data(page))[:2]
        return kind in t.TYPE_NAMES and 0 < parent < t.OBJECT_LIMIT
