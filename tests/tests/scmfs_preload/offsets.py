"""Writes records by a descriptor at whose offset somebody else reads all the time: a thread, a child, or a program that
is or is not started with the library."""
import os, subprocess, sys, threading, time

RECORDS = 100


def write(fd):
    for n in range(RECORDS):
        os.write(fd, b"%096d\n" % n)


def read(fd, while_true):
    while while_true():
        for _ in range(20):
            os.read(fd, 65536)
        # The kernel lets one who waits for the offset wait for long.
        time.sleep(0.0005)


what, how = sys.argv[1:3]
if what == "write":
    write(int(how))
    sys.exit()
fd = os.open(what, os.O_RDWR | os.O_CREAT | os.O_TRUNC)
if how == "thread":
    done = False
    reader = threading.Thread(target=read, args=(fd, lambda: not done))
    reader.start()
    write(fd)
    done = True
    reader.join()
elif how == "child":
    child = os.fork()
    if child == 0:
        read(fd, lambda: True)
    write(fd)
    os.kill(child, 9)
    os.waitpid(child, 0)
else:
    os.set_inheritable(fd, True)
    variables = {name: value for name, value in os.environ.items() if how == "program" or name != "LD_PRELOAD"}
    # Until a descriptor of this process's own can be read directly.
    for _ in range(200):
        os.read(fd, 65536)
    writer = subprocess.Popen([sys.executable, sys.argv[0], "write", str(fd)], env=variables, pass_fds=[fd])
    read(fd, lambda: writer.poll() is None)
