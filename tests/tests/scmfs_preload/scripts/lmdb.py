"""Debian's LMDB as it is, by ctypes. `write FOLDER FIRST`: transactions without end, each of which adds to a sum that
all keep, said when they are durable. `fill FOLDER`: a fixed number of them, then what there is. `read FOLDER`: what
there is, and whether it is whole."""

import ctypes, hashlib, os, sys

lib = ctypes.CDLL("liblmdb.so.0")
for name in ("mdb_strerror", "mdb_version"):
    getattr(lib, name).restype = ctypes.c_char_p
WRITEMAP, RDONLY, NOTFOUND, FIRST, NEXT, CREATE = 0x80000, 0x20000, -30798, 0, 8, 0x40000
MAP_BYTES = 16 << 20
KEYS = 64


class Val(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("data", ctypes.c_void_p)]

    def bytes(self):
        return ctypes.string_at(self.data, self.size)


def val(data):
    return Val(len(data), ctypes.cast(ctypes.c_char_p(data), ctypes.c_void_p))


def ok(code):
    if code:
        raise OSError(code, lib.mdb_strerror(code).decode())


def environment(folder, flags):
    env = ctypes.c_void_p()
    ok(lib.mdb_env_create(ctypes.byref(env)))
    ok(lib.mdb_env_set_mapsize(env, ctypes.c_size_t(MAP_BYTES)))
    ok(lib.mdb_env_open(env, folder.encode(), flags, 0o644))
    return env


class Transaction:
    def __init__(self, env, flags=0):
        self.txn, self.dbi = ctypes.c_void_p(), ctypes.c_uint()
        ok(lib.mdb_txn_begin(env, None, flags, ctypes.byref(self.txn)))
        ok(lib.mdb_dbi_open(self.txn, None, 0, ctypes.byref(self.dbi)))

    def get(self, key):
        found = Val()
        code = lib.mdb_get(self.txn, self.dbi, ctypes.byref(val(key)), ctypes.byref(found))
        if code == NOTFOUND:
            return None
        ok(code)
        return found.bytes()

    def put(self, key, data):
        ok(lib.mdb_put(self.txn, self.dbi, ctypes.byref(val(key)), ctypes.byref(val(data)), 0))

    def commit(self):
        ok(lib.mdb_txn_commit(self.txn))

    def all(self):
        cursor, key, data = ctypes.c_void_p(), Val(), Val()
        ok(lib.mdb_cursor_open(self.txn, self.dbi, ctypes.byref(cursor)))
        code = lib.mdb_cursor_get(cursor, ctypes.byref(key), ctypes.byref(data), FIRST)
        while code == 0:
            yield key.bytes(), data.bytes()
            code = lib.mdb_cursor_get(cursor, ctypes.byref(key), ctypes.byref(data), NEXT)
        if code != NOTFOUND:
            ok(code)
        lib.mdb_cursor_close(cursor)


def step(env, n):
    """Moves something from one account to another, and says in each value by which transaction. Values have several
    sizes, up to some pages."""
    txn = Transaction(env)
    a, b = n * 7 % KEYS, n * 11 % KEYS + KEYS
    for key, change in ((a, -n), (b, n)):
        name = b"account %04d" % key
        old = txn.get(name)
        balance = int(old.split()[0]) if old else 0
        txn.put(name, b"%d %d %s" % (balance + change, n, b"x" * (n * 37 % 9000)))
    txn.put(b"last", b"%d" % n)
    txn.commit()


def show(env):
    txn = Transaction(env, RDONLY)
    digest, total, last = hashlib.sha256(), 0, 0
    for key, data in txn.all():
        digest.update(key + b"=" + data + b"\n")
        if key == b"last":
            last = int(data)
        else:
            total += int(data.split()[0])
    lib.mdb_txn_abort(txn.txn)
    print(last, total, digest.hexdigest(), flush=True)


what, folder = sys.argv[1:3]
if what == "read":
    show(environment(folder, RDONLY if len(sys.argv) > 3 else 0))
elif what == "fill":
    env = environment(folder, WRITEMAP)
    for n in range(1, 301):
        step(env, n)
    show(env)
    lib.mdb_env_close(env)
else:
    env = environment(folder, WRITEMAP)
    txn = Transaction(env, RDONLY)
    n = int(txn.get(b"last") or 0)
    lib.mdb_txn_abort(txn.txn)
    os.write(1, b"%d\n" % n)
    while True:
        n += 1
        step(env, n)
        os.write(1, b"%d\n" % n)
