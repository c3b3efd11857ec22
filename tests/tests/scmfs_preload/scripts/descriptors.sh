set -e
cat > q.py << 'end'
import array, os, socket, subprocess
with open('f', 'wb') as f: f.write(b'0123456789' * 20000)
fd = os.open('f', os.O_RDWR)
for i in range(50): assert os.read(fd, 10) == b'0123456789'
two = os.dup(fd)
assert os.read(two, 5) == b'01234' and os.read(fd, 5) == b'56789'
a, b = socket.socketpair()
socket.send_fds(a, [b'x'], [fd])
got = socket.recv_fds(b, 1, 1)[1][0]
assert os.read(got, 10) == b'0123456789' and os.lseek(fd, 0, 1) == 520
out = subprocess.run(['head', '-c', '10'], stdin=fd, capture_output=True).stdout
assert out == b'0123456789', out
os.lseek(fd, 0, 0)
os.close(got); os.dup2(two, got); os.close(fd)
again = os.open('/dev/null', os.O_RDWR)
assert again == fd and os.read(fd, 10) == b'' and os.write(fd, b'zzz') == 3
for flags, call in ((os.O_RDONLY, lambda d: os.write(d, b'x')), (os.O_WRONLY, lambda d: os.read(d, 1))):
    d = os.open('f', flags)
    for i in range(20):
        try: call(d); print('no error')
        except OSError as e: assert e.errno == 9, e
    os.close(d)
d = os.open('f', os.O_RDWR | os.O_APPEND)
for i in range(30): os.pread(d, 10, 0)
os.write(d, b'end'); print(os.fstat(d).st_size, os.pread(d, 3, 200000))
import fcntl
fcntl.lockf(d, fcntl.LOCK_EX)
fcntl.flock(d, fcntl.LOCK_EX)
ask = 'import fcntl,sys; f = open("f", "r+")\nfor lock in fcntl.lockf, fcntl.flock:\n try: lock(f, fcntl.LOCK_EX | fcntl.LOCK_NB); print("free")\n except OSError: print("locked")'
for i in range(20):
    os.pread(d, 10, 0)
    subprocess.run(['cat', 'f'], stdout=subprocess.DEVNULL, env={'PATH': os.environ['PATH']})
    for k in range(20): os.pread(d, 10, 0)
print(subprocess.run(['python3', '-c', ask], capture_output=True, text=True).stdout)
end
python3 q.py
