"""Holds a real folder against the tree that writer.py expects: python3 folder.py FOLDER EXPECTED.json"""
import hashlib
import json
import os
import stat
import sys

import header as h

# Times are nanoseconds in 64 bits on their way to a folder.
LATEST = 2 ** 63 // 10 ** 9
KINDS = {stat.S_IFREG: "file", stat.S_IFDIR: "directory", stat.S_IFLNK: "symlink"}


def rows(top):
    """What is in a folder, by path: the folder itself is "/"."""
    found = {}

    def visit(path, shown):
        info = os.lstat(path)
        kind = KINDS.get(stat.S_IFMT(info.st_mode), "special")
        row = {"type": kind, "mode": info.st_mode, "uid": info.st_uid, "gid": info.st_gid,
               "mtime": int(info.st_mtime), "real": (info.st_dev, info.st_ino)}
        if kind == "file":
            with open(path, "rb") as file:
                row["size"], row["sha256"] = info.st_size, hashlib.file_digest(file, "sha256").hexdigest()
        elif kind == "symlink":
            row["target"] = h.shown(os.readlink(path))
            del row["mode"]
        elif kind == "special" and not stat.S_ISFIFO(info.st_mode) and not stat.S_ISSOCK(info.st_mode):
            row["rdev"] = os.major(info.st_rdev) << 8 | os.minor(info.st_rdev)
        found[shown] = row
        if kind == "directory":
            for name in os.listdir(path):
                visit(os.path.join(path, name), shown.rstrip("/") + "/" + h.shown(name))

    visit(os.fsencode(top), "/")
    return found


def differences(top, expected):
    """Where a folder is not what it should be, in words."""
    found, told, same = rows(top), [], {}
    wanted = {row["path"]: row for row in expected["objects"] if row["path"] != "/lost+found"}
    told += [f"{path} is missing" for path in wanted.keys() - found.keys()]
    told += [f"{path} is too much" for path in found.keys() - wanted.keys()]
    for path in wanted.keys() & found.keys():
        row, want = found[path], wanted[path]
        real = row.pop("real")
        if same.setdefault(want["inode"], real) != real:
            told.append(f"{path} is another file than its other names")
        for key, value in row.items():
            # A root without a header has no attributes.
            wish = want.get(key)
            if key == "mtime" and wish is not None:
                wish = min(wish, LATEST)
            if wish is not None and wish != value:
                told.append(f"{path}: {key} is {value}, not {wish}")
    return told


if __name__ == "__main__":
    with open(sys.argv[2], encoding="utf-8") as file:
        wrong = differences(sys.argv[1], json.load(file))
    print("\n".join(wrong))
    sys.exit(1 if wrong else 0)
