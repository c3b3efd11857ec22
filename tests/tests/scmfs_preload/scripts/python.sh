set -e
cat > p.py << 'end'
import mmap, os, random
random.seed(5)
with open('f', 'wb') as f: f.write(bytes(range(256)) * 1000)
want = bytearray(bytes(range(256)) * 1000)
fd = os.open('f', os.O_RDWR)
for step in range(3000):
    at, n = random.randrange(250000), random.randrange(1, 5000)
    n = min(n, len(want) - at)
    what = random.randrange(10)
    if what < 4:
        data = bytes([step % 256]) * n
        assert os.pwrite(fd, data, at) == n
        want[at:at + n] = data
    elif what < 8:
        assert os.pread(fd, n, at) == want[at:at + n], step
    elif what == 8:
        os.lseek(fd, at, 0)
        assert os.read(fd, n) == want[at:at + n], step
        assert os.lseek(fd, 0, 1) == at + n
    elif step % 50 == 9:
        with mmap.mmap(fd, 0) as m:
            assert m[at:at + n] == want[at:at + n], step
            m[at] = 7
            want[at] = 7
    else:
        os.lseek(fd, at, 0)
        assert os.write(fd, b'w' * n) == n
        want[at:at + n] = b'w' * n
        child = os.fork()
        if child == 0:
            ok = os.lseek(fd, 0, 1) == at + n and os.pread(fd, 100, at) == want[at:at + 100]
            os.lseek(fd, 0, 0)
            os._exit(0 if ok else 1)
        assert os.waitpid(child, 0)[1] == 0 and os.lseek(fd, 0, 1) == 0, step
assert open('f', 'rb').read() == want
print(len(want))
end
python3 p.py
