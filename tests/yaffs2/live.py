"""Images as a kernel leaves them after a life of writing: a seed drives it, and the expected tree comes along."""
import random
import stat

import checkpoint_writer
import header as h
import pack
import tags as t
from flash import Flash, NoSpace

FIRST_ID = 256
LOST_MODE, ROOT_MODE = 0o40700, 0o40755


class Link:
    """A further name of a node, an object of its own on flash."""

    def __init__(self, number, node):
        self.id, self.node, self.page, self.parent, self.name = number, node, None, None, b""
        self.type = t.HARD_LINK


def place(node):
    """A node with what only the live writer needs."""
    node.page, node.parent, node.name, node.chunks, node.links, node.dirty = None, None, b"", {}, [], False
    return node


class Live:
    """A volume that is written to. `entries`: directory id -> name -> Node or Link."""

    def __init__(self, seed, **geometry):
        self.rng = random.Random(seed)
        self.flash = Flash(self.rng, **geometry)
        self.step = self.flash.data_bytes
        self.clock = 1_600_000_000
        root = place(pack.Node(t.ROOT, t.DIRECTORY, ROOT_MODE, 0, 0, self.clock))
        lost = place(pack.Node(t.LOST_AND_FOUND, t.DIRECTORY, LOST_MODE, 0, 0, self.clock))
        self.nodes, self.link_ids = {t.ROOT: root, t.LOST_AND_FOUND: lost}, {}
        self.entries, self.open, self.uncorrectable = {t.ROOT: {}}, [], []
        self.gone = set()
        lost.parent, lost.name = t.ROOT, b"lost+found"

    # --- headers ---

    def header(self, thing, *, parent=None, name=None, shrink=False, shadows=0, size=None, torn=False):
        """Writes a header of a node or a link; the one before is dropped."""
        node = thing.node if isinstance(thing, Link) else thing
        parent = thing.parent if parent is None else parent
        name = thing.name if name is None else name
        if thing.id == t.ROOT:
            parent = 0
        if thing.type == t.FILE:
            size = len(node.content) if size is None else size
            size = 0 if parent in (t.UNLINKED, t.DELETED) else size
        target = node.id if thing.type == t.HARD_LINK else None
        bare = pack.Node(0, t.HARD_LINK, 0) if isinstance(thing, Link) else node
        data = pack.header_page(self.step, bare, thing.type, parent, b"" if thing.id <= 2 else name, target_id=target,
                                file_size=size, shrink=shrink, shadows=shadows, inband=self.flash.inband,
                                order=self.flash.order)
        tail = {t.FILE: size, t.HARD_LINK: target}.get(thing.type, 0)
        if tail < t.EXTRA_SIZE_LIMIT:
            flags = t.EXTRA_SHRINK * shrink | t.EXTRA_SHADOWS * bool(shadows)
            words = thing.type << 28 | thing.id, t.EXTRA | parent | flags, tail
        else:
            words = thing.id, 0, 0
        if torn:
            self._torn(data, words)
            return
        page = self.flash.write(data, *words, shrink=shrink)
        self.flash.drop(thing.page)
        thing.page = page
        if thing.id == node.id:
            node.dirty = False

    def tombstone(self, thing):
        """The last header of an object: below "deleted", and dropped at once."""
        self.header(thing, parent=t.DELETED, name=b"deleted", shrink=True)
        self.flash.drop(thing.page)
        thing.page = None

    def touch(self, directory):
        """A directory has changed; its header is written some time later."""
        directory.mtime = directory.ctime = self.now()
        directory.dirty = True

    def now(self):
        self.clock += self.rng.randrange(100)
        return self.clock if self.rng.random() < 0.9 else self.clock + (3 << 32)

    def flush(self):
        """Writes every header that is due."""
        for node in list(self.nodes.values()):
            if node.dirty:
                self.header(node)

    def free_id(self):
        """An unused number; those of what was deleted are used again now and then."""
        again = [n for n in self.gone if n not in self.nodes and n not in self.link_ids]
        if again and self.rng.random() < 0.4:
            return self.rng.choice(sorted(again))
        number = FIRST_ID + self.rng.randrange(1000)
        while number in self.nodes or number in self.link_ids:
            number += 1
        return number

    # --- names ---

    def enter(self, thing, parent, name):
        thing.parent, thing.name = parent, name
        self.entries[parent][name] = thing
        self.touch(self.nodes[parent])

    def leave(self, thing):
        del self.entries[thing.parent][thing.name]
        self.touch(self.nodes[thing.parent])

    def create(self, kind, parent, name, mode, **more):
        now = self.now()
        node = place(pack.Node(self.free_id(), kind, mode, self.rng.randrange(3), self.rng.randrange(70_000), now))
        for key, value in more.items():
            setattr(node, key, value)
        self.nodes[node.id] = node
        if kind == t.DIRECTORY:
            self.entries[node.id] = {}
        self.enter(node, parent, name)
        self.header(node)
        return node

    def link(self, node, parent, name):
        link = Link(self.free_id(), node)
        self.link_ids[link.id] = link
        node.links.append(link)
        self.enter(link, parent, name)
        self.header(link)

    def unlink(self, thing, keep_open=False):
        """Takes a name away; with the last name the node goes, unless it is kept open."""
        self.leave(thing)
        if isinstance(thing, Link):
            thing.node.links.remove(thing)
            self._forget_link(thing)
        elif thing.links:
            heir = self.rng.choice(thing.links)
            thing.links.remove(heir)
            thing.parent, thing.name = heir.parent, heir.name
            self.entries[heir.parent][heir.name] = thing
            self._forget_link(heir)
            self.header(thing)
        elif keep_open:
            thing.parent, thing.name = t.UNLINKED, b"unlinked"
            self.header(thing)
            self.open.append(thing)
        else:
            self.delete(thing)

    def _forget_link(self, link):
        self.tombstone(link)
        del self.link_ids[link.id]
        self.gone.add(link.id)

    def delete(self, node):
        for page in node.chunks.values():
            self.flash.drop(page)
        node.chunks, node.content = {}, bytearray()
        self.tombstone(node)
        del self.nodes[node.id]
        self.entries.pop(node.id, None)
        self.gone.add(node.id)

    def rename(self, thing, parent, name, cut=False):
        """Moves a name, over another if there is one. `cut`: power goes after the first header."""
        victim = self.entries[parent].get(name)
        self.leave(thing)
        if victim is None:
            self.enter(thing, parent, name)
            self.header(thing)
            return
        old_parent = victim.parent, victim.name
        thing.parent, thing.name = parent, name
        self.header(thing, shadows=victim.id)
        victim.parent, victim.name = old_parent
        if cut:
            del self.nodes[victim.id]
            self.entries.pop(victim.id, None)
            self.entries[parent][name] = thing
            return
        self.unlink(victim)
        self.enter(thing, parent, name)
        self.header(thing)

    # --- content ---

    def chunk(self, node, number):
        begin = (number - 1) * self.step
        part = bytes(node.content[begin:begin + self.step])
        page = self.flash.write(part.ljust(self.step, b"\0"), node.id, number, len(part))
        self.flash.drop(node.chunks.get(number))
        node.chunks[number] = page

    def chunks(self, node, begin, end):
        numbers = list(range(begin // self.step + 1, (end - 1) // self.step + 2)) if end > begin else []
        if self.rng.random() < 0.3:
            self.rng.shuffle(numbers)
        for number in numbers:
            self.chunk(node, number)

    def grow(self, node, size):
        """Makes a file longer: by zeros if it is little, else by a hole."""
        old = len(node.content)
        small = size - old < 4 * self.step
        if not small:
            self.header(node, size=old, shrink=True)
        node.content.extend(bytes(size - old))
        if small:
            self.chunks(node, old, size)
        node.dirty = True

    def write(self, node, offset, data):
        if offset > len(node.content):
            self.grow(node, offset)
        node.content[offset:offset + len(data)] = data
        self.chunks(node, offset, offset + len(data))
        node.mtime = self.now()
        node.dirty = True

    def truncate(self, node, size):
        if size > len(node.content):
            self.grow(node, size)
        else:
            del node.content[size:]
            for number in [k for k in node.chunks if (k - 1) * self.step >= size]:
                self.flash.drop(node.chunks.pop(number))
            last = size // self.step + 1
            if size % self.step and last in node.chunks:
                self.chunk(node, last)
        node.mtime = self.now()
        self.header(node)

    # --- the chip ---

    def collect(self, wanted):
        """Copies what is live out of blocks, until so many are erased."""
        while self.flash.empty() < wanted:
            block = self.flash.victim()
            if block is None:
                raise NoSpace("nothing to collect")
            self.collect_block(block)

    def collect_block(self, block):
        flash, live = self.flash, set(self.flash.in_use[block])
        for thing in [*self.nodes.values(), *self.link_ids.values()]:
            if thing.page in live:
                self.header(thing)
        for node in self.nodes.values():
            for number, page in list(node.chunks.items()):
                if page in live:
                    data, tag = flash.pages[page]
                    _, obj, chunk, nbytes = t.WORDS[flash.order].unpack(tag[:16])
                    node.chunks[number] = flash.write(data, obj, chunk, nbytes)
                    flash.drop(page)
        if flash.states[block] == h.FULL:
            flash.erase(block)

    # --- the end ---

    def torn(self):
        """The last program is cut: tags are there, data is not; the page can't be corrected."""
        files = [n for n in self.nodes.values() if n.type == t.FILE and n.chunks]
        if files and self.rng.random() < 0.6:
            node = self.rng.choice(files)
            number = self.rng.choice(sorted(node.chunks))
            words = node.id, number, min(self.step, len(node.content) - (number - 1) * self.step)
            self._torn(self.rng.randbytes(self.step), words)
        else:
            node = self.rng.choice([n for n in self.nodes.values() if n.id >= FIRST_ID] or [self.nodes[t.ROOT]])
            self.header(node, name=b"torn", torn=True)

    def _torn(self, data, words):
        page = self.flash.allocate()
        cut = self.rng.randrange(len(data))
        self.flash.store(page, bytes(data[:cut]), *words)
        self.uncorrectable.append(page)

    def checkpoint(self, pointer_bytes, hint_next=False, grown=False):
        for node in self.open:
            self.delete(node)
        self.open = []
        self.flush()
        if grown:
            node = self.rng.choice([node for node in self.nodes.values() if node.type == t.FILE])
            node.content.extend(bytes(5 * self.step + 123))
        checkpoint_writer.write(self, pointer_bytes, hint_next)

    def rows(self):
        """The expected tree, from what was meant, not from what was written."""
        rows, todo = [], [(b"", self.nodes[t.ROOT])]
        lost = self.nodes[t.LOST_AND_FOUND]
        rows.append(pack.bare_row(b"/lost+found", 2) if lost.page is None else pack.row(b"/lost+found", lost, 1))
        while todo:
            path, thing = todo.pop()
            node = thing.node if isinstance(thing, Link) else thing
            rows.append(pack.row(path or b"/", node, 1 + len(node.links), thing.id if thing is not node else None))
            if node.type == t.DIRECTORY:
                todo += [(path + b"/" + name, below) for name, below in self.entries[node.id].items()]
        if self.nodes[t.ROOT].page is None:
            rows = [row if row["inode"] != t.ROOT else pack.bare_row(b"/", t.ROOT) for row in rows]
        return pack.ordered(rows)


def is_below(live, directory, top):
    """Whether a directory is `top` or below it."""
    while directory != t.ROOT:
        if directory == top:
            return True
        directory = live.nodes[directory].parent
    return False


def new_name(live):
    """A name as people, or programs that know no better, give them."""
    rng, kind = live.rng, live.rng.random()
    if kind < 0.8:
        return f"n{rng.randrange(60)}".encode()
    if kind < 0.9:
        return f"ü {rng.randrange(20)}%".encode()
    return bytes(rng.choice([b for b in range(1, 256) if b != 0x2F]) for _ in range(rng.choice([5, 30, 254])))


def some_mode(live, kind):
    return kind | live.rng.choice((0o644, 0o600, 0o755, 0o4711))


def step(live):
    """One operation, chosen by the seed."""
    rng, nodes = live.rng, live.nodes
    if live.flash.empty() < 10:
        live.collect(12)
    directories = [n for n in nodes.values() if n.type == t.DIRECTORY and n.id != 2]
    parent, name = rng.choice(directories).id, new_name(live)
    things = [thing for below in live.entries.values() for thing in below.values()]
    files = [n for n in nodes.values() if n.type == t.FILE]
    full = sum(len(used) for used in live.flash.in_use.values()) > live.flash.blocks * live.flash.per_block // 2
    deed = rng.choice(["create"] * 4 + ["write"] * 8 + ["truncate", "truncate", "rename", "rename", "rename", "unlink",
                      "unlink", "link", "other", "attributes", "xattr", "flush", "close", "remount", "collect"])
    taken = live.entries[parent].get(name)
    if full and deed in ("create", "write", "other"):
        deed = "unlink"
    if deed == "create" and taken is None:
        if rng.random() < 0.3:
            live.create(t.DIRECTORY, parent, name, some_mode(live, stat.S_IFDIR))
        else:
            live.create(t.FILE, parent, name, some_mode(live, stat.S_IFREG))
    elif deed == "other" and taken is None:
        kind = rng.choice((stat.S_IFLNK, stat.S_IFLNK, stat.S_IFIFO, stat.S_IFSOCK, stat.S_IFCHR, stat.S_IFBLK))
        if kind == stat.S_IFLNK:
            live.create(t.SYMLINK, parent, name, kind | 0o777, target=b"../" + new_name(live)[:150])
        else:
            rdev = rng.randrange(1 << 16) if kind in (stat.S_IFCHR, stat.S_IFBLK) else 0
            live.create(t.SPECIAL, parent, name, some_mode(live, kind), rdev=rdev)
    elif deed == "write" and files:
        node = rng.choice(files)
        offset = rng.choice((0, len(node.content), rng.randrange(1 + len(node.content)),
                             len(node.content) + rng.randrange(12 * live.step)))
        live.write(node, min(offset, 100 * live.step), rng.randbytes(rng.choice((1, 100, live.step, 3 * live.step))))
    elif deed == "truncate" and files:
        node = rng.choice(files)
        live.truncate(node, rng.randrange(2 * len(node.content) + 10) if rng.random() < 0.8 else 0)
    elif deed == "rename" and things:
        rename(live, rng.choice(things), parent, name, rng.choice(things))
    elif deed == "unlink" and things:
        thing = rng.choice(things)
        if not live.entries.get(thing.id):
            live.unlink(thing, thing.type == t.FILE and rng.random() < 0.3)
    elif deed == "link" and taken is None:
        linked = [n for n in nodes.values() if n.type not in (t.DIRECTORY,) and n not in live.open]
        if linked:
            live.link(rng.choice(linked), parent, name)
    elif deed == "attributes":
        node = rng.choice(sorted(nodes.values(), key=lambda n: n.id))
        node.mode ^= 0o111
        node.atime = live.now()
        live.header(node)
    elif deed == "xattr":
        node = rng.choice(sorted(nodes.values(), key=lambda n: n.id))
        if node.xattrs and rng.random() < 0.4:
            del node.xattrs[rng.choice(sorted(node.xattrs))]
        else:
            node.xattrs[rng.choice((b"user.a", b"user.long", b"security.x"))] = rng.randbytes(rng.randrange(100))
        live.header(node)
    elif deed == "flush":
        live.flush()
    elif deed == "close" and live.open:
        live.delete(live.open.pop(rng.randrange(len(live.open))))
    elif deed == "remount" and rng.random() < 0.3:
        live.flash.close()
    elif deed == "collect":
        block = live.flash.victim()
        if block is not None:
            live.collect_block(block)


def rename(live, thing, parent, name, other, cut=False):
    """A rename that POSIX allows: over what is there in a third of all cases. True if it was done."""
    if live.rng.random() < 0.35 or cut:
        parent, name = other.parent, other.name
    victim = live.entries[parent].get(name)
    if thing.type == t.DIRECTORY and is_below(live, parent, thing.id):
        return False
    if victim is not None:
        node, gone = (x.node if isinstance(x, Link) else x for x in (thing, victim))
        if node is gone or live.entries.get(victim.id) or (node.type == t.DIRECTORY) != (gone.type == t.DIRECTORY):
            return False
        if cut and (gone.links or isinstance(victim, Link)):
            return False
    elif cut:
        return False
    live.rename(thing, parent, name, cut)
    return True


def build(seed, operations=300, *, ending="none", checkpoint=0, hint_next=False, flips=0, grown=False,
          **geometry):
    """A Live volume after a number of operations. `ending`: none, torn (the last page is) or shadow (power goes in
    the middle of a rename over a file). `checkpoint`: 0, or the bytes of a pointer of the machine that writes it."""
    live = Live(seed, **geometry)
    for _ in range(operations):
        step(live)
    live.flush()
    if checkpoint:
        live.checkpoint(checkpoint, hint_next, grown)
    elif ending == "torn":
        live.torn()
    elif ending == "shadow":
        for _ in range(200):
            things = [thing for below in live.entries.values() for thing in below.values()]
            if things and rename(live, live.rng.choice(things), t.ROOT, b"", live.rng.choice(things), cut=True):
                for node in live.nodes.values():
                    if node.dirty and node.type == t.DIRECTORY:
                        live.header(node)
                break
    if flips and live.flash.ecc:
        live.flash.flip(flips)
    return live
