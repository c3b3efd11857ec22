"""NFS-Ganesha exports a volume of SCMFS, and a client in user space, libnfs, works on it.

usage: nfs.py PACKAGES SCMFS SEED KILLS

PACKAGES is the folder into which `scripts/cluster` unpacked Ganesha and libnfs. The server of the volume is killed KILLS
times, and each time the client's handles of before go on: what it wrote and had confirmed is there.
"""

import ctypes
import hashlib
import os
import random
import struct
import sys
import threading
import time

import ground
from ground import Failed, check, run, until

PORT = 2049
CONFIGURATION = """
NFS_CORE_PARAM { Protocols = 3, 4; MNT_Port = 20048; Enable_NLM = false; Enable_RQUOTA = false; }
NFSV4 { Graceless = true; }
EXPORT {
    Export_Id = 1;
    Path = %s;
    Pseudo = /volume;
    Filesystem_Id = 6.22;
    Access_Type = RW;
    Squash = None;
    SecType = sys;
    FSAL { Name = VFS; }
}
"""
STALE = 116
# Of one call: with NFS 4, libnfs 4.0 cannot encode 4 KiB.
PIECE = 2 << 10


class Ganesha(ground.Daemon):
    """The server of NFS."""

    def __init__(self, path):
        for folder in ("/run/ganesha", "/run/rpcbind", "/var/lib/nfs/ganesha", "/usr/lib/ganesha"):
            os.makedirs(folder, exist_ok=True)
        with open("ganesha.conf", "w", encoding="utf-8") as file:
            file.write(CONFIGURATION % path)
        # Each of its libraries beside the others: where packages of other systems put them is theirs to know.
        os.environ["LD_LIBRARY_PATH"] = "/usr/lib/ganesha"
        super().__init__("ganesha.nfsd", "-F", "-f", "ganesha.conf", "-L", "STDERR", "-p", "/run/ganesha.pid",
                         log="ganesha.log")

    def start(self):
        super().start()
        until("Ganesha listens", lambda: self.check() or listens(PORT))


def listens(port):
    """Whether somebody listens at a port, as the kernel's tables say."""
    wanted = f":{port:04X} "
    tables = [f"/proc/net/{name}" for name in ("tcp", "tcp6")]
    return any(wanted in line and " 0A " in line for table in tables for line in open(table, encoding="utf-8"))


class Refused(Exception):
    """The server or the client refused a call; `number` is what errno would be."""

    def __init__(self, call, number, why):
        super().__init__(f"{call}: {os.strerror(number)} ({why})")
        self.number = number


class Client:
    """A mount of libnfs in this process: it shares nothing with the server and the kernel has no part in it."""

    def __init__(self, version, path):
        self.lib = ctypes.CDLL("libnfs.so.13")
        self.lib.nfs_init_context.restype = ctypes.c_void_p
        self.lib.nfs_get_error.restype = ctypes.c_char_p
        self.lib.nfs_get_error.argtypes = [ctypes.c_void_p]
        self.lib.nfs_set_version.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.lib.nfs_set_autoreconnect.argtypes = [ctypes.c_void_p, ctypes.c_int]
        self.context = self.lib.nfs_init_context()
        self.lib.nfs_set_version(self.context, version)
        # The server is away for a while: the client asks again until it is there.
        self.lib.nfs_set_autoreconnect(self.context, -1)
        export = b"/volume" if version == 4 else path.encode()
        self.call("nfs_mount", b"127.0.0.1", export)

    def call(self, name, *arguments):
        converted = [ctypes.c_void_p(self.context)]
        for given in arguments:
            converted.append(ctypes.c_uint64(given) if isinstance(given, int) else given)
        done = getattr(self.lib, name)(*converted)
        if done < 0:
            raise Refused(name, -done, self.lib.nfs_get_error(self.context).decode(errors="replace"))
        return done

    def open(self, path, flags):
        handle = ctypes.c_void_p()
        self.call("nfs_open", path.encode(), flags, ctypes.byref(handle))
        return handle

    def create(self, path):
        handle = ctypes.c_void_p()
        self.call("nfs_open2", path.encode(), os.O_CREAT | os.O_RDWR, 0o644, ctypes.byref(handle))
        return handle

    def write(self, handle, data, offset=0):
        """Writes all, and asks the server to keep it."""
        at = 0
        while at < len(data):
            piece = data[at:at + PIECE]
            at += self.call("nfs_pwrite", handle, offset + at, len(piece), piece)
        self.call("nfs_fsync", handle)

    def read(self, handle, count, offset=0):
        read = b""
        while len(read) < count:
            room = ctypes.create_string_buffer(min(PIECE, count - len(read)))
            done = self.call("nfs_pread", handle, offset + len(read), len(room), room)
            if done == 0:
                break
            read += room.raw[:done]
        return read

    def ask(self, handle):
        """Asks for its attributes. (Why it could not read, libnfs 4.0 does not say.)"""
        self.call("nfs_fstat64", handle, ctypes.create_string_buffer(1024))

    def remove(self, path):
        self.call("nfs_unlink", path.encode())

    def make_folder(self, path):
        self.call("nfs_mkdir", path.encode())

    def rename(self, path, new):
        self.call("nfs_rename", path.encode(), new.encode())


def stale(client, handle):
    """That what was opened is refused because there is no such file any more."""
    try:
        client.ask(handle)
    except Refused as refused:
        check(refused.number == STALE, f"another error than ESTALE: {refused}")
        return
    raise Failed("a handle of what is gone still worked")


def forget():
    """The kernel forgets every inode that nobody has open."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="utf-8") as file:
        file.write("2")


def network():
    run("ip", "link", "set", "lo", "up")
    os.makedirs("/run/rpcbind", exist_ok=True)
    # The user that its package makes.
    with open("/etc/passwd", "a", encoding="utf-8") as users:
        users.write("_rpc:x:64000:65534::/run/rpcbind:/usr/sbin/nologin\n")
    portmapper = ground.Daemon("rpcbind", "-f", log="rpcbind.log")
    until("rpcbind listens", lambda: portmapper.check() or listens(111))


class Writer(threading.Thread):
    """Appends records to a file and asks the server to keep each, while the servers come and go. What is refused
    meanwhile is asked for again by the same handle."""

    RECORD = 4096

    def __init__(self, path, name, seed):
        super().__init__(daemon=True)
        self.path, self.name_of_file, self.seed = path, name, seed
        self.kept, self.refusals, self.ends, self.failure = 0, 0, False, None

    def record(self, number):
        digest = hashlib.sha256(struct.pack("<QQ", self.seed, number)).digest()
        return digest * (self.RECORD // len(digest))

    def run(self):
        try:
            client = Client(3, self.path)
            handle = client.create(self.name_of_file)
            while not self.ends:
                try:
                    client.write(handle, self.record(self.kept), self.kept * self.RECORD)
                    self.kept += 1
                except Refused as refused:
                    check(refused.number != STALE, f"the writer: {refused}")
                    self.refusals += 1
                    time.sleep(0.02)
        except Exception as failure:
            self.failure = failure

    def goes_on(self, records):
        """Waits until so many more records are kept."""
        goal = self.kept + records

        def there():
            if self.failure:
                raise self.failure
            return self.kept >= goal

        until(f"the writer goes on ({self.kept} kept, {self.refusals} refused)", there)

    def end(self, folder):
        """Ends it; every record that it was told is kept is there, as the volume itself shows."""
        self.ends = True
        self.join(ground.LONG_S)
        check(not self.is_alive() and not self.failure, f"the writer does not end: {self.failure}")
        with open(folder + self.name_of_file, "rb") as file:
            for number in range(self.kept):
                check(file.read(self.RECORD) == self.record(number), f"record {number} of {self.kept} is lost")


def ways(volume, seed):
    """What one client does is seen by the other, by the kernel, and the other way round."""
    generator = random.Random(seed)
    old, new = Client(3, volume.path), Client(4, volume.path)
    for way, (writer, reader) in enumerate(((old, new), (new, old))):
        writer.make_folder(f"/way-{way}")
        data = generator.randbytes(345_678)
        writer.write(writer.create(f"/way-{way}/new"), data)
        writer.rename(f"/way-{way}/new", f"/way-{way}/data")
        with open(f"{volume.path}/way-{way}/data", "rb") as file:
            check(file.read() == data, "the kernel reads what a client wrote")
        forget()
        check(reader.read(reader.open(f"/way-{way}/data", os.O_RDONLY), len(data) + 1) == data, "the other client too")
    with open(f"{volume.path}/own", "wb") as file:
        file.write(b"own")
    check(old.read(old.open("/own", os.O_RDONLY), 9) == new.read(new.open("/own", os.O_RDONLY), 9) == b"own", "own")


def gone(volume):
    """A handle of what was removed is stale, also when its inode has another file."""
    client = Client(3, volume.path)
    handle = client.create("/gone")
    client.write(handle, b"gone")
    number = os.stat(f"{volume.path}/gone").st_ino
    # By a client: Ganesha holds open for a while what it does not know to be removed.
    Client(3, volume.path).remove("/gone")
    forget()
    stale(client, handle)
    for n in range(10_000):
        with open(f"{volume.path}/new", "wb") as file:
            file.write(b"new")
        if os.stat(f"{volume.path}/new").st_ino == number:
            forget()
            stale(client, handle)
            return
        os.rename(f"{volume.path}/new", f"{volume.path}/new-{n}")
    raise Failed(f"inode {number} was not used again")


def killed(volume, ganesha, seed, kills):
    """The server of the volume is killed while a client writes, and that client and others go on by their handles."""
    generator = random.Random(seed)
    client, device = Client(3, volume.path), volume.device()
    data = generator.randbytes(300_000)
    handle = client.create("/before")
    client.write(handle, data)
    writer = Writer(volume.path, "/records", seed)
    writer.start()
    for kill in range(kills):
        writer.goes_on(5)
        time.sleep(generator.uniform(0, 0.05))
        volume.kill()
        # Ganesha holds what died, and with it the device's number.
        ganesha.kill()
        volume.mount_as(device)
        ganesha.start()
        check(client.read(handle, len(data) + 1) == data, f"the handle of before, after kill {kill}")
    writer.goes_on(5)
    writer.end(volume.path)
    return writer, client, handle, data


def another_device(volume, ganesha, client, handle, data):
    """Ganesha writes the number of the device into handles: with another one they are stale, and with the old one good
    again."""
    device = volume.device()
    ganesha.kill()
    volume.unmount()
    with ground.Taken(device):
        volume.mount()
        check(volume.device() != device, "the number of the device is taken, and given once more")
    ganesha.start()
    stale(client, handle)
    ganesha.kill()
    volume.unmount()
    volume.mount_as(device)
    ganesha.start()
    check(client.read(handle, len(data) + 1) == data, "the handle, on the old number")


def main():
    packages, scmfs, seed, kills = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    ground.enter(packages, scmfs)
    network()
    volume = ground.Volume("volume")
    ganesha = Ganesha(volume.path)
    ways(volume, seed)
    gone(volume)
    writer, *held = killed(volume, ganesha, seed, kills)
    another_device(volume, ganesha, *held)
    ganesha.kill()
    volume.end()
    print(f"{kills} kills, {writer.kept} records kept by the server, {writer.refusals} calls refused meanwhile")


if __name__ == "__main__":
    main()
