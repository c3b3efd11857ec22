"""One of two processes on one file, of which one has it mapped: does what it is told on standard input, and says what
came of it."""
import ctypes, mmap, os, sys

fd = os.open(sys.argv[1], os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
m = None
for line in sys.stdin:
    what, at, n, byte = line.split()
    at, n, byte = int(at), int(n), int(byte)
    answer = b""
    if what == "map":
        m = mmap.mmap(fd, n, offset=at)
    elif what == "unmap":
        m.close()
    elif what == "store":
        m[at : at + n] = bytes([byte]) * n
    elif what == "load":
        answer = m[at : at + n]
    elif what == "flush":
        m.flush()
    elif what == "odd":
        # What would reach beyond the file, or take space from the volume.
        here = ctypes.addressof(ctypes.c_char.from_buffer(m))
        libc.mremap.restype = ctypes.c_void_p
        libc.mremap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_int]
        assert libc.mremap(here, n, 2 * n, 1) == 2**64 - 1
        answer += b"%d " % ctypes.get_errno()
        assert libc.madvise(ctypes.c_void_p(here), ctypes.c_size_t(n), 9) == -1
        answer += b"%d " % ctypes.get_errno()
        assert libc.remap_file_pages(ctypes.c_void_p(here), ctypes.c_size_t(4096), 0, ctypes.c_size_t(1), 0) == -1
        answer += b"%d" % ctypes.get_errno()
    elif what == "pread":
        answer = os.pread(fd, n, at)
    elif what == "pwrite":
        answer = b"%d" % os.pwrite(fd, bytes([byte]) * n, at)
    elif what == "punch":
        assert libc.fallocate(fd, 3, ctypes.c_long(at), ctypes.c_long(n)) == 0
    elif what == "truncate":
        try:
            os.ftruncate(fd, n)
        except OSError as error:
            answer = b"errno %d" % error.errno
    elif what == "mtime":
        answer = b"%d" % os.fstat(fd).st_mtime_ns
    elif what == "fork":
        # The child has what is mapped, and does what the parent is told from now on.
        if os.fork():
            os._exit(0)
    else:
        raise ValueError(what)
    sys.stdout.write(answer.hex() + "\n")
    sys.stdout.flush()
