"""How the writers put things into bytes: tags, headers, extended attributes; and the rows of the expected tree."""
import hashlib
import stat

import header as h
import tags as t

MODES = {t.FILE: stat.S_IFREG, t.SYMLINK: stat.S_IFLNK, t.DIRECTORY: stat.S_IFDIR}


class Node:
    """A file as the writer means it. A hard link is no node but a further (parent, name) of one."""

    def __init__(self, number, kind, mode, uid=0, gid=0, time=0):
        self.id, self.type, self.mode, self.uid, self.gid = number, kind, mode, uid, gid
        self.atime = self.mtime = self.ctime = time
        self.content, self.target, self.rdev, self.xattrs = bytearray(), b"", 0, {}


def tag_bytes(seq, obj, chunk, nbytes, order="<", ecc=True):
    """Tags as they are stored, with their code or without."""
    words = t.WORDS[order].pack(seq, obj, chunk, nbytes)
    return words + t.ECC[order].pack(*t.ecc(words)) if ecc else words


def header_page(size, node, kind, parent, name, *, target_id=None, file_size=None, shrink=None, shadows=None,
                wide_times=True, inband=False, order="<"):
    """A whole header page of `size` bytes. What is None stays unset, 0xFF. `node`: whose attributes it has."""
    unset = h.UNSET

    def halves(value):
        return (value & unset, value >> 32 & unset) if wide_times else (unset, unset)

    length = unset if file_size is None else file_size
    high = length >> 32 if file_size is not None and (wide_times or length >> 32) else unset
    attributes = (node.mode, node.uid, node.gid, node.atime & unset, node.mtime & unset, node.ctime & unset)
    fixed = h.Header(
        kind, parent, 0xFFFF, name[:254].ljust(256, b"\0"), b"\xff\xff", *attributes, length & unset,
        unset if target_id is None else target_id,
        node.target.ljust(160, b"\0") if kind == t.SYMLINK else b"\xff" * 160,
        node.rdev if kind == t.SPECIAL else (0 if wide_times else unset),
        *halves(node.ctime), *halves(node.atime), *halves(node.mtime),
        unset if shadows is None or not inband else shadows, unset, high, unset,
        unset if shadows is None or inband else shadows, unset if shrink is None or inband else int(shrink))
    page = h.LAYOUT[order].pack(*fixed)
    if wide_times and node.xattrs:
        for key, value in node.xattrs.items():
            page += h.WORD[order].pack(4 + len(key) + 1 + len(value)) + key + b"\0" + value
        if len(page) > size:
            raise ValueError("more extended attributes than a page has room for")
        # A list is ended by zeros where one was deleted, else by what was erased.
        page = page.ljust(min(size, len(page) + 8 * (len(node.xattrs) % 2)), b"\0")
    return page.ljust(size, b"\xff")


def row(path, node, links, hard_link=None):
    """A row of the tree in the reader's form. `path`: bytes. `links`: how many names it has."""
    whole = node.type == t.FILE and len(node.content) <= h.HASH_LIMIT_BYTES
    return {
        "path": h.shown(path), "inode": node.id, "type": t.TYPE_NAMES[node.type], "hard_link": hard_link,
        "links": None if node.type == t.DIRECTORY else links, "mode": node.mode, "uid": node.uid, "gid": node.gid,
        "atime": node.atime, "mtime": node.mtime, "ctime": node.ctime,
        "size": len(node.content) if node.type == t.FILE else None,
        "sha256": hashlib.sha256(node.content).hexdigest() if whole else None,
        "target": h.shown(node.target) if node.type == t.SYMLINK else None,
        "rdev": node.rdev if node.type == t.SPECIAL else None,
        "xattrs": {h.shown(key): value.hex() for key, value in node.xattrs.items()}}


def bare_row(path, number):
    """The row of a fake directory without a header."""
    empty = row(path, Node(number, t.DIRECTORY, 0), None)
    empty.update(mode=None, uid=None, gid=None, atime=None, mtime=None, ctime=None)
    return empty


def ordered(rows):
    """Rows in the order that the reader prints them."""
    return sorted(rows, key=lambda entry: (entry["path"], entry["inode"]))
