"""The mount by scan: blocks newest to oldest, pages last to first; what is current, what is garbage, what is odd."""
import header as h
import tags as t

MOST_ODD = 10_000


class Object:
    """An object as the scan knows it. `page`: that of its current header. `chunks`: chunk number -> (page, nbytes)."""
    __slots__ = ("id", "type", "valid", "parent", "size", "shrink", "page", "chunks", "target")

    def __init__(self, number, kind):
        self.id, self.type, self.valid, self.parent = number, kind, False, None
        self.size, self.shrink, self.page, self.chunks, self.target = 0, 1 << 64, None, {}, None


class Scan:
    """What a mount by scan of a dump finds, in `objects`, `odd` and the numbers beside them."""

    def __init__(self, dump):
        self.dump, self.options = dump, dump.options
        self.odd, self.left_out = [], 0
        self.objects = {}
        for number in (t.ROOT, t.LOST_AND_FOUND, t.UNLINKED, t.DELETED):
            fake = self.objects[number] = Object(number, t.DIRECTORY)
            fake.parent = t.ROOT
        self.states, self.sequences = {}, {}
        self.checkpoint_blocks, self.summarised, self.shrinking = [], set(), set()
        self.dropped = set()
        self.highest = t.SEQUENCE_LOWEST
        self._first_pass()
        order = sorted((seq, block) for block, seq in self.sequences.items())
        self._drop_torn(order)
        for seq, block in reversed(order):
            self._block(block, seq)
        self._uncorrectable()

    def note(self, kind, page=None, **more):
        """Writes down what is odd."""
        if len(self.odd) >= MOST_ODD:
            self.left_out += 1
            return
        entry = {"kind": kind, **more}
        if page is not None:
            entry["page"] = page
        self.odd.append(entry)

    def _first_pass(self):
        dump = self.dump
        for block in range(dump.blocks):
            first = block * dump.per_block
            if block in dump.bad:
                self.states[block] = h.DEAD
                continue
            words, state = dump.tags(first)
            if words is None:
                self.states[block] = h.EMPTY
                if not dump.is_erased(first, dump.per_block):
                    self.note("empty block is not erased", first, block=block)
                continue
            if words.seq == t.SEQUENCE_CHECKPOINT:
                self.states[block] = h.CHECKPOINT
                self.checkpoint_blocks.append(block)
            elif words.seq == t.SEQUENCE_BAD:
                self.states[block] = h.DEAD
            elif t.SEQUENCE_LOWEST <= words.seq <= t.SEQUENCE_HIGHEST:
                self.states[block] = h.FULL
                self.sequences[block] = words.seq
                self.highest = max(self.highest, words.seq)
            else:
                self.states[block] = h.EMPTY
                self.note("sequence number of no kind", first, sequence=words.seq)

    def _drop_torn(self, order):
        listed = set(self.options.uncorrectable)
        if self.options.drop == "all":
            self.dropped = listed
        elif self.options.drop == "newest" and order:
            first = order[-1][1] * self.dump.per_block
            for page in range(first + self.dump.per_block - 1, first - 1, -1):
                if page in listed:
                    self.dropped = {page}
                if page in listed or not self.dump.is_blank(page):
                    break

    # --- one block ---

    def _block(self, block, seq):
        dump, first = self.dump, block * self.dump.per_block
        entries = self._summary(block, seq) if self.options.summary else None
        above = False
        for index in range(dump.per_block - 1, -1, -1):
            page = first + index
            words, state = dump.tags(page)
            if words is None and not above and dump.is_blank(page):
                continue
            if page in self.dropped:
                above = True
                self.note("torn page dropped", page)
                continue
            entry = entries[index] if entries and index < len(entries) else None
            if entry and entry[0]:
                summarised = t.Tags(seq, *entry)
                if words is None or (state != "uncorrectable" and words != summarised):
                    self.note("summary disagrees with tags", page, summary=list(entry),
                              tags=list(words[1:]) if words else None)
                elif state != "ok":
                    self.note("tags " + ("corrected" if state == "fixed" else "uncorrectable, summary used"), page)
                words, state = summarised, "ok"
            if words is None:
                self.note("page without tags", page, erased=dump.is_blank(page), above=above)
                continue
            above = True
            if state == "uncorrectable":
                self.note("tags uncorrectable", page)
                continue
            if state == "fixed":
                self.note("tags corrected", page)
            if words.seq != seq:
                self.note("sequence number is not the block's", page, sequence=words.seq)
                continue
            self._page(page, words, block)

    def _summary(self, block, seq):
        dump = self.dump
        count = h.summary_pages(dump.per_block, dump.data_bytes)
        start = dump.per_block - count
        if start < 1:
            return None
        room = dump.data_bytes - h.SUMMARY_HEADER_BYTES
        array, sums = bytearray(), set()
        wanted = start * h.SUMMARY_ENTRY_BYTES
        for number in range(count):
            page = block * dump.per_block + start + number
            words, state = dump.tags(page)
            if number == 0 and (words is None or words.obj != t.SUMMARY_OBJECT):
                return None
            take = min(room, wanted - len(array))
            if words is None or state == "uncorrectable" or page in self.dropped or page in self.options.uncorrectable:
                self.note("summary unreadable", page)
                return None
            if words != (seq, t.SUMMARY_OBJECT, number + 1, take + h.SUMMARY_HEADER_BYTES):
                self.note("summary has wrong tags", page, tags=list(words))
                return None
            data = dump.data(page)
            # A machine that swaps what it stores leaves these words in its own order.
            for order in (dump.order, "<"):
                version, number_of_block, stored_seq, total = t.WORDS[order].unpack_from(data)
                if version == h.SUMMARY_VERSION:
                    break
            if version != h.SUMMARY_VERSION or stored_seq != seq:
                self.note("summary has a wrong header", page, header=[version, number_of_block, stored_seq, total])
                return None
            if number_of_block != block + 1:
                self.note("summary of another block", page, of=number_of_block)
            sums.add(total)
            array += data[h.SUMMARY_HEADER_BYTES:h.SUMMARY_HEADER_BYTES + take]
        if sums != {sum(array) & 0xFFFFFFFF}:
            self.note("summary has a wrong sum", block * dump.per_block + start, block=block)
            return None
        self.summarised.add(block)
        flat = t.struct.unpack(f"{dump.order}{start * 3}I", array)
        return [flat[i:i + 3] for i in range(0, len(flat), 3)]

    # --- one page ---

    def _page(self, page, words, block):
        extra = t.extra(words)
        number = extra.id if extra else words.obj
        if number == t.SUMMARY_OBJECT:
            return
        if not 0 < number < t.OBJECT_LIMIT or (not extra and words.chunk > t.CHUNK_HIGHEST):
            self.note("tags out of range", page, obj=words.obj, chunk=words.chunk)
        elif extra or words.chunk == 0:
            self._header(page, number, extra, block)
        elif words.nbytes > self.dump.data_bytes:
            self.note("tags out of range", page, obj=words.obj, chunk=words.chunk, nbytes=words.nbytes)
        else:
            self._data(page, words)

    def _data(self, page, words):
        o = self.objects.get(words.obj)
        if o is None:
            o = self.objects[words.obj] = Object(words.obj, t.FILE)
        begin = (words.chunk - 1) * self.dump.data_bytes
        if o.type != t.FILE:
            # Below an older deletion it is data of a file that had the same number before.
            if o.shrink:
                self.note("data of what is no file", page, id=o.id)
            return
        if begin < o.shrink and words.chunk not in o.chunks:
            o.chunks[words.chunk] = (page, words.nbytes)
            if not o.valid:
                o.size = max(o.size, begin + words.nbytes)

    def read_header(self, page):
        """The header in a page."""
        return h.parse(self.dump.data(page), self.dump.order)

    def _facts(self, page, extra):
        """(type, parent, size, target id, is it a shrink header, what it shadows) of a header."""
        head, inband = self.read_header(page), self.options.inband
        shadows = head.inband_shadows if inband else head.shadows
        shadows = 0 if shadows > 0x7FFFFFFF else shadows
        size = head.size_low if head.size_high == h.UNSET else head.size_high << 32 | head.size_low
        if extra is None:
            shrink = head.inband_shrink if inband else head.shrink
            return head.type, head.parent, size, head.target_id, shrink != 0, shadows
        tail = {t.FILE: size, t.HARD_LINK: head.target_id}.get(extra.type, 0)
        differs = [extra.type != head.type, extra.parent != head.parent, extra.tail != tail,
                   extra.shadows != bool(shadows), not inband and extra.shrink != (head.shrink != 0)]
        if any(differs) and page not in self.options.uncorrectable:
            names = ("type", "parent", "size or target", "shadows", "shrink")
            self.note("extra tags disagree with header", page, what=[n for n, d in zip(names, differs) if d])
        return (extra.type, extra.parent, extra.tail, extra.tail, extra.shrink, shadows if extra.shadows else 0)

    def _header(self, page, number, extra, block):
        kind, parent, size, target, shrink, shadows = self._facts(page, extra)
        if kind not in t.TYPE_NAMES:
            self.note("header of no known type", page, id=number, type=kind)
            return
        if number in (t.UNLINKED, t.DELETED):
            self.note("header of a pseudo directory", page, id=number)
            return
        if shrink:
            self.shrinking.add(block)
        if parent in (t.UNLINKED, t.DELETED):
            size = 0
        o = self.objects.get(number)
        if o is not None and o.valid:
            if shrink or parent in (t.UNLINKED, t.DELETED):
                o.shrink = min(o.shrink, size)
            return
        if o is None:
            o = self.objects[number] = Object(number, kind)
        o.valid, o.page = True, page
        if number in (t.ROOT, t.LOST_AND_FOUND):
            return
        if o.type != kind:
            if o.chunks:
                self.note("data of what is no file", page, id=number)
                o.chunks = {}
            o.type = kind
        if kind == t.FILE:
            o.size = max(o.size, size)
            o.shrink = min(o.shrink, size)
        elif parent in (t.UNLINKED, t.DELETED):
            o.shrink = 0
        o.target = target if kind == t.HARD_LINK else None
        o.parent = self._attach(page, number, parent)
        if shadows:
            self._shadow(page, shadows)

    def _attach(self, page, number, parent):
        if not 0 < parent < t.OBJECT_LIMIT or parent == number:
            self.note("parent is none", page, id=number, parent=parent)
            return t.LOST_AND_FOUND
        above = self.objects.get(parent)
        if above is None:
            self.objects[parent] = Object(parent, t.DIRECTORY)
        elif above.type != t.DIRECTORY:
            self.note("parent is no directory", page, id=number, parent=parent)
            return t.LOST_AND_FOUND
        return parent

    def _shadow(self, page, number):
        if number <= t.DELETED or number >= t.OBJECT_LIMIT:
            self.note("shadows what can't be", page, id=number)
        elif number not in self.objects:
            o = self.objects[number] = Object(number, t.FILE)
            o.valid, o.shrink, o.parent = True, 0, t.UNLINKED

    # --- what became of pages that can't be corrected ---

    def _uncorrectable(self):
        listed = [p for p in self.options.uncorrectable if p not in self.dropped]
        if not listed:
            return
        uses = {o.page: ("header", o.id, 0) for o in self.objects.values() if o.page is not None}
        for o in self.objects.values():
            uses.update((page, ("data", o.id, k)) for k, (page, _) in o.chunks.items())
        for page in listed:
            use, number, chunk = uses.get(page, ("nothing", 0, 0))
            self.note("data uncorrectable", page, use=use, id=number, chunk=chunk)

    def live_pages(self):
        """Pages that something needs: headers of what is not deleted, and data of files."""
        live = {}
        for o in self.objects.values():
            if o.page is not None and o.parent != t.DELETED:
                live[o.page] = (o.id, 0)
            live.update((page, (o.id, k)) for k, (page, _) in o.chunks.items())
        return live
