"""Keeps a note in a volume: notes.py [REGION [LIBRARY]]. scmfs.h describes every call."""

import errno
import sys
from ctypes import CDLL, Structure, byref, c_char_p, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from ctypes import create_string_buffer

region = (sys.argv[1] if len(sys.argv) > 1 else "notes.scmfs").encode()
scmfs = CDLL(sys.argv[2] if len(sys.argv) > 2 else "target/release/libscmfs.so")
scmfs.scmfs_last_error.restype = c_char_p
scmfs.scmfs_volume_create.argtypes = [c_char_p, c_uint64, c_void_p]
for call in (scmfs.scmfs_pread, scmfs.scmfs_pwrite):
    call.argtypes, call.restype = [c_void_p, c_char_p, c_size_t, c_uint64], c_int64
READ, WRITE, CREATE, TRUNCATE = 1, 2, 4, 16


class Entry(Structure):
    _fields_ = [("name", c_char_p), ("inode", c_uint32), ("mode", c_uint32)]


def check(result):
    if result < 0:
        raise OSError(-result, scmfs.scmfs_last_error().decode())
    return result


volume, file, root, entry, text = c_void_p(), c_void_p(), c_void_p(), Entry(), create_string_buffer(80)
opened = scmfs.scmfs_volume_open(region, 0, byref(volume))
if opened == -errno.ENOENT:
    check(scmfs.scmfs_volume_create(region, 16 << 20, None))
    opened = scmfs.scmfs_volume_open(region, 0, byref(volume))
check(opened)

# All of the new note or all of the old one, whenever the process is killed.
check(scmfs.scmfs_open(volume, b"new", READ | WRITE | CREATE | TRUNCATE, 0o600, byref(file)))
check(scmfs.scmfs_pwrite(file, b"buy milk\n", 9, 0))
check(scmfs.scmfs_rename(volume, b"new", b"note"))

length = check(scmfs.scmfs_pread(file, text, 80, 0))
print(text.raw[:length].decode(), end="")
check(scmfs.scmfs_close(byref(file)))

check(scmfs.scmfs_opendir(volume, b"/", byref(root)))
while check(scmfs.scmfs_readdir(root, byref(entry))) == 1:
    print("/" + entry.name.decode())
check(scmfs.scmfs_closedir(byref(root)))
check(scmfs.scmfs_volume_close(byref(volume)))
