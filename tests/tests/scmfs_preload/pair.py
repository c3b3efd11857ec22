"""One of two processes on one file: does what it is told on standard input, and says what came of it."""
import mmap, os, sys, tempfile

fd = os.open(sys.argv[1], os.O_RDWR)
end = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND)
for line in sys.stdin:
    what, at, n, byte = line.split()
    at, n, byte = int(at), int(n), int(byte)
    if what == "pread":
        answer = os.pread(fd, n, at)
    elif what == "read":
        os.lseek(fd, at, 0)
        answer = os.read(fd, n)
        assert os.lseek(fd, 0, 1) == at + len(answer)
    elif what == "pwrite":
        answer = b"%d" % os.pwrite(fd, bytes([byte]) * n, at)
    elif what == "write":
        os.lseek(fd, at, 0)
        answer = b"%d" % os.write(fd, bytes([byte]) * n)
    elif what == "store":
        with mmap.mmap(fd, 0) as m:
            m[at] = byte
        answer = b""
    elif what == "load":
        with mmap.mmap(fd, 0) as m:
            answer = m[at : at + n]
    elif what == "truncate":
        os.ftruncate(fd, n)
        answer = b""
    elif what == "size":
        answer = b"%d" % os.fstat(fd).st_size
    elif what == "append":
        answer = b"%d" % os.write(end, bytes([byte]) * n)
    elif what == "sync":
        os.fsync(fd)
        answer = b""
    elif what == "datasync":
        os.fdatasync(fd)
        answer = b""
    elif what == "send":
        # Without asking for the size.
        with tempfile.TemporaryFile() as to:
            while (sent := os.sendfile(to.fileno(), fd, at, n)) > 0:
                at, n = at + sent, n - sent
            to.seek(0)
            answer = to.read()
    elif what == "rename":
        os.rename(sys.argv[1], sys.argv[1] + ".moved")
        os.rename(sys.argv[1] + ".moved", sys.argv[1])
        answer = b""
    else:
        raise ValueError(what)
    sys.stdout.write(answer.hex() + "\n")
    sys.stdout.flush()
