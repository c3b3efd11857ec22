"""Changes a volume and acknowledges each change when it is durable, until it is killed: REGION LIBRARY."""

import sys
from ctypes import CDLL, byref, c_char_p, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

region, library = sys.argv[1].encode(), sys.argv[2]
scmfs = CDLL(library)
scmfs.scmfs_last_error.restype = c_char_p
scmfs.scmfs_append.argtypes, scmfs.scmfs_append.restype = [c_void_p, c_char_p, c_size_t, c_void_p], c_int64
scmfs.scmfs_pwrite.argtypes, scmfs.scmfs_pwrite.restype = [c_void_p, c_char_p, c_size_t, c_uint64], c_int64


def check(result):
    if result < 0:
        raise OSError(-result, scmfs.scmfs_last_error().decode())


def opened(path):
    file = c_void_p()
    check(scmfs.scmfs_open(volume, path, c_uint32(1 | 2 | 4), c_uint32(0o600), byref(file)))
    return file


volume = c_void_p()
check(scmfs.scmfs_volume_open(region, c_uint32(0), byref(volume)))
log = opened(b"log")
number = 0
while True:
    record = b"%015d\n" % number
    check(scmfs.scmfs_append(log, record, len(record), None))
    check(scmfs.scmfs_sync(log))
    state = opened(b"new")
    check(scmfs.scmfs_pwrite(state, record * 500, len(record) * 500, 0))
    check(scmfs.scmfs_rename(volume, b"new", b"state"))
    check(scmfs.scmfs_close(byref(state)))
    print(number, flush=True)
    number += 1
