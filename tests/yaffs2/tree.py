"""From what a scan found to the tree of files: where each object is, what it holds, what is left over."""
import hashlib
import struct

import header as h
import tags as t

DEPTH_LIMIT = 100


class Tree:
    """Places and contents of a scan's objects; `document` is what the reader prints."""

    def __init__(self, scan):
        self.scan, self.dump = scan, scan.dump
        self.objects = scan.objects
        self.names = {}
        self.dangling, self.links, self.kept = [], {}, {}
        self._settle()
        self._hard_links()
        self.objects_below = self._walk(t.ROOT, b"")
        lost = self._walk(t.LOST_AND_FOUND, b"/lost+found")
        self.lost = lost[1:]
        keep = self.scan.options.keep_lost_and_found
        self.listed = self.objects_below + (lost if keep else lost[:1])

    # --- places ---

    def _home(self, o):
        """Which of the fake directories an object is under; None after too many steps."""
        for _ in range(DEPTH_LIMIT):
            if o.id in (t.ROOT, t.LOST_AND_FOUND, t.UNLINKED, t.DELETED):
                return o.id
            if o.parent is None:
                return None
            o = self.objects[o.parent]
        return o.id if o.id <= t.DELETED else None

    def _settle(self):
        """Moves what is not below a fake directory, and what is in no directory, to lost+found."""
        for o in self.objects.values():
            if o.id > t.DELETED and o.parent is not None and self.objects[o.parent].type != t.DIRECTORY:
                self.scan.note("parent is no directory", o.page, id=o.id, parent=o.parent)
                o.parent = t.LOST_AND_FOUND
        # Those without any parent come first: what is below them stays there.
        for o in sorted(self.objects.values(), key=lambda o: (o.parent is not None, o.id)):
            if self._home(o) is None:
                self.scan.note("orphan", o.page, id=o.id, parent=o.parent)
                o.parent = t.LOST_AND_FOUND

    def _hard_links(self):
        for o in list(self.objects.values()):
            if o.type != t.HARD_LINK or not o.valid or self._home(o) in (t.UNLINKED, t.DELETED):
                continue
            target = self.objects.get(o.target)
            gone = (target is None or target.type in (t.HARD_LINK, t.DIRECTORY)
                    or self._home(target) in (t.UNLINKED, t.DELETED))
            if not gone and not self.scan.options.keep_lost_and_found:
                gone = self._home(target) == t.LOST_AND_FOUND
            if gone:
                self.dangling.append(o)
            else:
                self.links.setdefault(target.id, []).append(o.id)

    def name(self, o):
        """An object's name; one is made up where there is none."""
        if o.id not in self.names:
            raw = b""
            if o.page is not None:
                raw = self.scan.read_header(o.page).name[:h.NAME_BYTES].split(b"\0")[0]
                if raw in (b".", b"..") or b"/" in raw:
                    self.scan.note("name that can't be", o.page, id=o.id, name=h.shown(raw))
            self.names[o.id] = raw or f"obj{o.id}".encode()
        return self.names[o.id]

    def _walk(self, top, path):
        """(path, object) for all below and at `top`, parents first."""
        below = self._children()
        found, todo = [], [(path, self.objects[top])]
        while todo:
            path, o = todo.pop()
            found.append((path or b"/", o))
            seen = {b"lost+found"} if o.id == t.ROOT else set()
            for child in sorted(below.get(o.id, ()), key=lambda c: (self.name(c), c.id)):
                name = self.name(child)
                if name in seen:
                    self.scan.note("duplicate name", child.page, id=child.id, path=h.shown(path + b"/" + name))
                seen.add(name)
                todo.append((path + b"/" + name, child))
        return found

    def _children(self):
        if not self.kept:
            for o in self.objects.values():
                if o.id > t.DELETED:
                    self.kept.setdefault(o.parent, []).append(o)
        return self.kept

    # --- contents ---

    def _digest(self, o):
        """sha256 of a file's content, holes as zeros; None when it is too long."""
        if o.size > h.HASH_LIMIT_BYTES:
            self.scan.note("content too long to hash", o.page, id=o.id, size=o.size)
            return None
        digest, at, step = hashlib.sha256(), 0, self.dump.data_bytes
        for chunk in sorted(o.chunks):
            begin = (chunk - 1) * step
            if begin >= o.size:
                break
            page, nbytes = o.chunks[chunk]
            _zeros(digest, begin - at)
            data = self.dump.data(page)[:min(step, o.size - begin)]
            if nbytes < len(data) and any(data[nbytes:]):
                self.scan.note("bytes beyond nbytes are visible", page, id=o.id, chunk=chunk, nbytes=nbytes)
            digest.update(data)
            at = begin + len(data)
        _zeros(digest, o.size - at)
        return digest.hexdigest()

    def _xattrs(self, o):
        data, order = bytes(self.dump.data(o.page)), self.dump.order
        at, end, found = h.HEADER_BYTES, self.dump.data_bytes, {}
        while at + 4 <= end:
            length, = struct.unpack_from(order + "i", data, at)
            if length <= 0 or at + length > end:
                if 0 < length:
                    self.scan.note("xattr beyond the page", o.page, id=o.id, length=length)
                break
            name, zero, value = data[at + 4:at + length].partition(b"\0")
            if not zero or not name:
                self.scan.note("xattr without a name", o.page, id=o.id)
                break
            if h.shown(name) in found:
                self.scan.note("xattr twice", o.page, id=o.id, name=h.shown(name))
            found.setdefault(h.shown(name), value.hex())
            at += length
        return found

    def _row(self, path, o):
        row = {"path": h.shown(path), "inode": o.id, "type": t.TYPE_NAMES[o.type], "hard_link": None,
               "links": None if o.type == t.DIRECTORY else 1 + len(self.links.get(o.id, ())),
               "mode": None, "uid": None, "gid": None, "atime": None, "mtime": None, "ctime": None,
               "size": None, "sha256": None, "target": None, "rdev": None, "xattrs": {}}
        if o.page is not None:
            head = self.scan.read_header(o.page)
            row.update(mode=head.mode, uid=head.uid, gid=head.gid, xattrs=self._xattrs(o))
            for which in ("atime", "mtime", "ctime"):
                row[which] = _time(getattr(head, which), getattr(head, which + "_low"), getattr(head, which + "_high"))
            if o.type == t.SPECIAL:
                row["rdev"] = head.rdev
            if o.type == t.SYMLINK:
                row["target"] = h.shown(head.target[:h.TARGET_BYTES].split(b"\0")[0])
        if o.type == t.FILE:
            row["size"], row["sha256"] = o.size, self._digest(o)
        return row

    def _rows(self, places):
        gone = {o.id for o in self.dangling}
        digests, rows = {}, []
        for path, o in places:
            if o.id in gone:
                continue
            # A file of many names is hashed once.
            key = o.target if o.type == t.HARD_LINK else o.id
            if key not in digests:
                digests[key] = self._row(path, self.objects[key])
            rows.append({**digests[key], "path": h.shown(path), "hard_link": o.id if key != o.id else None})
        return sorted(rows, key=lambda row: (row["path"], row["inode"]))

    def document(self):
        """All that there is to say, as plain values."""
        scan, dump = self.scan, self.dump
        states = list(scan.states.values())
        paths = {o.id: path for path, o in self.objects_below + self.lost}
        pending = [o for o in self.objects.values() if o.id > t.DELETED and o.parent == t.UNLINKED]
        document = {
            "objects": self._rows(self.listed),
            "lost_and_found": self._rows(self.lost),
            "dangling_hard_links": sorted(({"path": h.shown(paths.get(o.id, b"")), "id": o.id, "target": o.target}
                                           for o in self.dangling), key=lambda row: row["id"]),
            "pending_deletion": sorted(o.id for o in pending),
            "highest_sequence": scan.highest,
            "endian": "big" if dump.order == ">" else "little",
            "blocks": {"all": dump.blocks, "dead": states.count(h.DEAD), "empty": states.count(h.EMPTY),
                       "checkpoint": states.count(h.CHECKPOINT), "scanned": states.count(h.FULL),
                       "summarised": len(scan.summarised)},
        }
        document["odd"] = sorted(scan.odd, key=lambda entry: (entry.get("page", -1), entry["kind"]))
        document["odd_left_out"] = scan.left_out
        return document


def _zeros(digest, count):
    block = bytes(min(count, 1 << 20)) if count > 0 else b""
    while count > 0:
        digest.update(block[:count])
        count -= len(block)


def _time(short, low, high):
    """A time in seconds since 1970. Unset high words leave the 32-bit field, which has no sign."""
    if high == h.UNSET:
        return short
    value = high << 32 | low
    return value - (1 << 64) if high >> 31 else value
