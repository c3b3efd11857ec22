"""Images as mkyaffs2image makes them: plain headers, every block of sequence 0x1000, tags at the spare area's start."""
import base64
import json
import os
import stat

import header as h
import pack
import tags as t
import yaffs1

SEQUENCE, FIRST_ID, PLAIN_NBYTES = 0x1000, 257, 0xFFFF
KINDS = {"file": t.FILE, "symlink": t.SYMLINK, "directory": t.DIRECTORY, "hard link": t.HARD_LINK,
         "special": t.SPECIAL}


def from_folder(folder):
    """The description of a real folder: a list of entries, parents first."""
    entries, seen = [], {}
    top = os.fsencode(folder)

    def visit(path, shown):
        info = os.lstat(path)
        kind = {stat.S_IFREG: "file", stat.S_IFLNK: "symlink", stat.S_IFDIR: "directory"}.get(
            stat.S_IFMT(info.st_mode), "special")
        entry = {"path": shown, "type": kind, "mode": info.st_mode, "uid": info.st_uid, "gid": info.st_gid,
                 "atime": int(info.st_atime), "mtime": int(info.st_mtime), "ctime": int(info.st_ctime)}
        key = (info.st_dev, info.st_ino)
        if kind != "directory" and key in seen:
            entries.append({"path": shown, "type": "hard link", "target": seen[key]})
            return
        seen[key] = shown
        if kind == "file":
            with open(path, "rb") as file:
                entry["base64"] = base64.b64encode(file.read()).decode()
        elif kind == "symlink":
            entry["target"] = h.shown(os.readlink(path))
        elif kind == "special":
            entry["rdev"] = info.st_rdev
        entries.append(entry)
        if kind == "directory":
            for name in sorted(os.listdir(path)):
                visit(os.path.join(path, name), shown.rstrip("/") + "/" + h.shown(name))

    visit(top, "/")
    return entries


def content(entry):
    """A file's bytes: given as base64, as text, or as a pattern repeated to a size."""
    if "base64" in entry:
        return base64.b64decode(entry["base64"])
    if "text" in entry:
        return entry["text"].encode()
    size, seed = entry.get("size", 0), entry.get("pattern", 0)
    return bytes((seed + i * 7 + (i >> 8)) & 0xFF for i in range(size))


def build(entries, *, page=2048, spare=64, order="<", tags_order=None, inband=False, tags_ecc=True, spare_offset=0,
          tags_of_yaffs1=None, age=None):
    """(image, rows of the expected tree) of a description. It begins with "/"; parents come before children.

    `tags_of_yaffs1`: spread or packed, for an image of YAFFS1; `age`: a seed, for a chip that was used for long."""
    tags_order = tags_order or order
    data_bytes = page - (t.TAGS_BYTES if inband else 0)
    image, places, next_id = bytearray(), {}, FIRST_ID
    pages = []

    def put(data, obj, chunk, nbytes):
        if tags_of_yaffs1:
            nbytes = nbytes if chunk else yaffs1.HEADER_NBYTES
            pages.append((data.ljust(data_bytes, b"\xff"), obj, chunk, nbytes))
            tag = yaffs1.tag_bytes(obj, chunk, nbytes, 0, tags_order)
            image.extend(pages[-1][0] + yaffs1.spare_bytes(tag, tags_of_yaffs1))
            return
        tag = pack.tag_bytes(SEQUENCE, obj, chunk, nbytes, tags_order, tags_ecc and not inband)
        body = data.ljust(data_bytes, b"\xff")
        image.extend(body + tag if inband else body)
        image.extend((b"\xff" * spare_offset + (b"" if inband else tag)).ljust(spare, b"\xff"))

    nodes, links, names = {}, {}, []
    for entry in entries:
        path = h.hidden(entry["path"]).rstrip(b"/")
        above, _, name = path.rpartition(b"/")
        kind = KINDS[entry["type"]]
        number = t.ROOT if not path else next_id
        next_id += bool(path)
        if kind == t.HARD_LINK:
            target = places[h.hidden(entry["target"]).rstrip(b"/")]
            node, target_id, size = nodes[target], target, None
        else:
            node = nodes[number] = pack.Node(number, kind, entry["mode"], entry.get("uid", 0), entry.get("gid", 0))
            node.atime, node.mtime, node.ctime = (entry.get(k, 0) for k in ("atime", "mtime", "ctime"))
            target_id, size = None, None
            if kind == t.FILE:
                node.content = content(entry)
                size = len(node.content)
            elif kind == t.SYMLINK:
                node.target = h.hidden(entry["target"])
            elif kind == t.SPECIAL:
                node.rdev = entry.get("rdev", 0)
        if len(name) > h.NAME_BYTES or len(node.target) > h.TARGET_BYTES:
            raise ValueError(f"{entry['path']}: a name or a target is too long")
        places[path] = number
        parent = places[above] if path else t.ROOT
        put(pack.header_page(data_bytes, node, kind, parent, name, target_id=target_id, file_size=size,
                             wide_times=False, inband=inband, order=order), number, 0, PLAIN_NBYTES)
        for at in range(0, size or 0, data_bytes):
            part = node.content[at:at + data_bytes]
            put(bytes(part), number, at // data_bytes + 1, len(part))
        links[node.id] = links.get(node.id, 0) + 1
        names.append((path, node, number if kind == t.HARD_LINK else None))
    rows = [pack.row(path or b"/", node, links[node.id], link) for path, node, link in names]
    rows.append(pack.bare_row(b"/lost+found", t.LOST_AND_FOUND))
    if age is not None:
        image = yaffs1.aged(pages, tags_of_yaffs1, tags_order, age)
    return bytes(image), pack.ordered(rows)


def sample():
    """A description with one of each, for tests: an empty and a long file, deep folders, all kinds of links."""
    meta = {"uid": 1000, "gid": 100, "atime": 1_500_000_001, "mtime": 1_500_000_002, "ctime": 1_500_000_003}

    def entry(path, kind, mode, **more):
        return {"path": path, "type": kind, "mode": mode, **meta, **more}
    return [entry("/", "directory", 0o40755), entry("/sub", "directory", 0o40750),
            entry("/sub/a.txt", "file", 0o100644, text="hello\n"),
            entry("/sub/deep", "directory", 0o40700), entry("/sub/deep/long", "file", 0o100600, size=70_001, pattern=3),
            entry("/sub/deep/whole", "file", 0o100600, size=4096, pattern=9),
            entry("/empty", "file", 0o100444), entry("/na%C3%AFve %25", "file", 0o100644, text="x" * 2048),
            entry("/soft", "symlink", 0o120777, target="sub/a.txt"),
            {"path": "/hard", "type": "hard link", "target": "/sub/deep/long"},
            entry("/pipe", "special", 0o10644), entry("/null", "special", 0o20666, rdev=0x103),
            entry("/zz", "directory", 0o41777)]


def description(path):
    """The entries of a folder, or of a JSON file."""
    if os.path.isdir(path):
        return from_folder(path)
    with open(path, encoding="utf-8") as file:
        return json.load(file)
