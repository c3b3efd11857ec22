"""One of two processes on one file, of which one has it mapped: does what it is told on standard input, and says what
came of it."""
import ctypes, mmap, os, struct, sys

fd = os.open(sys.argv[1], os.O_RDWR)
libc = ctypes.CDLL(None, use_errno=True)
m = None
pointer, size = ctypes.c_void_p, ctypes.c_size_t
FIXED, FAILED = 0x10, 2**64 - 1
MREMAP_FIXED, REMOVE = 2, 9
libc.mmap.argtypes, libc.mmap.restype = [pointer, size, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long], pointer
libc.mremap.argtypes, libc.mremap.restype = [pointer, size, size, ctypes.c_int, pointer], pointer
libc.munmap.argtypes = [pointer, size]
libc.madvise.argtypes = [pointer, size, ctypes.c_int]
libc.remap_file_pages.argtypes = [pointer, size, ctypes.c_int, size, ctypes.c_int]


def refuse_behind(start):
    """From now on the kernel refuses to map a file in the place of something, but at one address: a filter of system
    calls (seccomp(2)), in the language of bpf(2)."""
    map_call, filter_call = {"x86_64": (9, 317), "aarch64": (222, 277)}[os.uname().machine]
    number, address, flags, file = 0, 16, 40, 48
    load, equal, bits, end = 0x20, 0x15, 0x45, 0x06
    allow, refuse = (end, 0, 0, 0x7FFF0000), (end, 0, 0, 0x00050000 | 12)
    # What is true jumps over as many as the first number says, what is false over as many as the second one.
    words = [
        (load, 0, 0, number),
        (equal, 0, 7, map_call),
        (load, 0, 0, flags),
        (bits, 0, 5, FIXED),
        (load, 0, 0, file),
        (equal, 3, 0, 2**32 - 1),
        (load, 0, 0, address),
        (equal, 1, 0, start % 2**32),
        refuse,
        allow,
    ]
    code = b"".join(struct.pack("HBBI", *word) for word in words)
    program = struct.pack("HxxxxxxP", len(words), ctypes.cast(ctypes.c_char_p(code), pointer).value)
    assert libc.syscall(filter_call, 1, 0, program) == 0, ctypes.get_errno()


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
        assert libc.mremap(here, n, 2 * n, 1, None) == FAILED
        answer += b"%d " % ctypes.get_errno()
        assert libc.madvise(here, n, REMOVE) == -1
        answer += b"%d " % ctypes.get_errno()
        assert libc.remap_file_pages(here, 4096, 0, 1, 0) == -1
        answer += b"%d" % ctypes.get_errno()
    elif what == "fail":
        # Calls that would take the mapping away, if they did anything.
        here = ctypes.addressof(ctypes.c_char.from_buffer(m))
        other = libc.mmap(None, n, 3, mmap.MAP_SHARED, fd, at)
        assert libc.munmap(here, 2**47) == -1
        answer += b"%d " % ctypes.get_errno()
        assert libc.munmap(here + 1, n) == -1
        answer += b"%d " % ctypes.get_errno()
        assert libc.mremap(other, n, n, MREMAP_FIXED, here) == FAILED
        answer += b"%d " % ctypes.get_errno()
        assert libc.mmap(here, n, 3, mmap.MAP_SHARED | FIXED, 999, 0) in (None, FAILED)
        answer += b"%d" % ctypes.get_errno()
        assert libc.munmap(other, n) == 0
    elif what == "pieces":
        # One mapping in the place of another, of which the second piece fails: what others have in that place then is
        # theirs. And once more, of which only the end was to be replaced.
        first = libc.mmap(None, 2 * n, 3, mmap.MAP_SHARED, fd, 0)
        second = libc.mmap(None, n, 3, mmap.MAP_SHARED, fd, 0)
        place = first + n
        refuse_behind(place)
        assert libc.mmap(place, n, 3, mmap.MAP_SHARED | FIXED, fd, 0) == FAILED
        answer += b"%d " % ctypes.get_errno()
        assert libc.mmap(place, n, 3, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS, -1, 0) == place
        answer += b"%d " % libc.madvise(place, n, REMOVE)
        # What was before it is still what it was, and so is another one.
        answer += b"%d " % libc.madvise(first, n, REMOVE)
        answer += b"%d" % libc.madvise(second, n, REMOVE)
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
