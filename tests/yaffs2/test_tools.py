#!/usr/bin/env python3
"""Tests of the YAFFS2 reader and writer: against each other, against unyaffs, against images made by hand."""
import dataclasses
import hashlib
import json
import os
import random
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import header as h
import live
import pack
import plain
import reader
import tags as t
from chip import DumpError, Options

SMALL = dict(page=1024, spare=32, pages_per_block=16)


def read(image, **options):
    return reader.read(image, Options(**options))


def kinds(document):
    return {entry["kind"] for entry in document["odd"]}


class Image:
    """An image made by hand: a page after the other, with tags as given."""

    def __init__(self, blocks=4, page=1024, spare=32, per_block=16):
        self.page, self.spare, self.per_block = page, spare, per_block
        self.bytes = bytearray(b"\xff" * ((page + spare) * per_block * blocks))
        self.next = {}

    def put(self, block, seq, obj, chunk, nbytes, data):
        page = block * self.per_block + self.next.get(block, 0)
        self.next[block] = self.next.get(block, 0) + 1
        at = page * (self.page + self.spare)
        self.bytes[at:at + self.page] = data.ljust(self.page, b"\xff")
        tag = pack.tag_bytes(seq, obj, chunk, nbytes)
        self.bytes[at + self.page:at + self.page + len(tag)] = tag
        return page

    def header(self, block, seq, number, kind, parent, name, **more):
        node = pack.Node(number, kind, plainly(kind) | 0o644, 7, 8, 9)
        node.target = more.pop("target", b"")
        nbytes = more.pop("nbytes", 0xFFFF)
        data = pack.header_page(self.page, node, kind, parent, name, **more)
        return self.put(block, seq, number, 0, nbytes, data)

    def data(self, block, seq, number, chunk, data):
        return self.put(block, seq, number, chunk, len(data), data)

    def read(self, **options):
        return read(bytes(self.bytes), **{**SMALL, **options})


def plainly(kind):
    return {t.FILE: stat.S_IFREG, t.DIRECTORY: stat.S_IFDIR, t.SYMLINK: stat.S_IFLNK}.get(kind, 0)


def row(document, path):
    found = [entry for entry in document["objects"] if entry["path"] == path]
    return found[0] if len(found) == 1 else None


class TagsCode(unittest.TestCase):
    def test_vectors_worked_out_by_hand(self):
        one = bytearray(16)
        one[0] = 0x01
        high = bytearray(16)
        high[5] = 0x80
        two = bytearray(16)
        two[3], two[12] = 0x01, 0x02
        first = bytes.fromhex("00100000 01000000 00000000 ffff0000")
        for tag, wanted in ((bytes(16), (0, 0, 0)), (b"\xff" * 16, (0, 0, 0)), (one, (0x15, 0, 0xFFFFFFFF)),
                            (high, (0x2A, 5, 0xFFFFFFFA)), (two, (0x03, 15, 15)), (first, (0x30, 5, 5))):
            self.assertEqual(t.ecc(tag), wanted, tag.hex())

    def test_every_flipped_bit_is_put_right_and_two_are_not(self):
        tag = bytes.fromhex("05100000 10010030 01000080 34120000")
        whole = tag + t.ECC["<"].pack(*t.ecc(tag))
        used = [bit for bit in range(28 * 8) if not 136 <= bit < 160]
        for bit in used:
            flipped = bytearray(whole)
            flipped[bit // 8] ^= 1 << bit % 8
            self.assertEqual(t.repair(bytes(flipped[:16]), t.ECC["<"].unpack(bytes(flipped[16:]))), (tag, True), bit)
        for first in range(128):
            flipped = bytearray(whole)
            for bit in (first, (first + 37) % 128):
                flipped[bit // 8] ^= 1 << bit % 8
            self.assertEqual(t.repair(bytes(flipped[:16]), t.ECC["<"].unpack(bytes(flipped[16:]))), (None, True))


class ByHand(unittest.TestCase):
    """Cases whose outcome the format's description states; nothing here but packing is the writer's."""

    def test_what_was_cut_off_does_not_come_back_in_a_hole(self):
        image = Image()
        image.header(0, 0x1001, 300, t.FILE, 1, b"f", file_size=0)
        for chunk in range(1, 9):
            image.data(0, 0x1001, 300, chunk, b"old" + bytes(1021))
        image.header(0, 0x1001, 300, t.FILE, 1, b"f", file_size=1024, shrink=False)
        image.header(1, 0x1002, 300, t.FILE, 1, b"f", file_size=1024, shrink=True)
        image.data(1, 0x1002, 300, 8, b"new" + bytes(1021))
        image.header(1, 0x1002, 300, t.FILE, 1, b"f", file_size=8192, shrink=False)
        found = row(image.read(), "/f")
        wanted = b"old" + bytes(1021) + bytes(6 * 1024) + b"new" + bytes(1021)
        self.assertEqual((found["size"], found["sha256"]), (8192, hashlib.sha256(wanted).hexdigest()))

    def test_sequence_numbers_and_then_block_numbers_order_what_was_written(self):
        image = Image()
        for block, seq, text in ((0, 0x1003, b"newest"), (1, 0x1002, b"older"), (2, 0x1002, b"middle")):
            image.header(block, seq, 300, t.FILE, 1, text, file_size=len(text))
            image.data(block, seq, 300, 1, text)
        document = image.read()
        self.assertEqual(row(document, "/newest")["sha256"], hashlib.sha256(b"newest").hexdigest())
        image = Image()
        for block in (2, 1):
            image.header(block, 0x1002, 300, t.FILE, 1, b"in%d" % block, file_size=0)
        self.assertIsNotNone(row(image.read(), "/in2"))

    def test_a_size_that_the_header_does_not_have_yet_comes_from_newer_data(self):
        image = Image()
        image.header(0, 0x1001, 300, t.FILE, 1, b"f", file_size=0)
        image.data(0, 0x1001, 300, 1, b"a" * 1024)
        image.data(0, 0x1001, 300, 2, b"b" * 10)
        self.assertEqual(row(image.read(), "/f")["size"], 1034)

    def test_an_older_header_below_unlinked_cuts_what_is_older_still(self):
        image = Image()
        image.data(0, 0x1001, 300, 1, b"of the file before")
        image.header(0, 0x1001, 300, t.FILE, t.DELETED, b"deleted", file_size=77, shrink=False)
        image.header(0, 0x1001, 300, t.FILE, 1, b"f", file_size=5)
        found = row(image.read(), "/f")
        self.assertEqual(found["sha256"], hashlib.sha256(bytes(5)).hexdigest())

    def test_a_shadowed_file_is_gone_and_waits_for_its_deletion(self):
        image = Image()
        image.header(0, 0x1001, 300, t.FILE, 1, b"victim", file_size=0)
        image.header(0, 0x1001, 301, t.FILE, 1, b"mover", file_size=0)
        image.header(0, 0x1001, 301, t.FILE, 1, b"victim", file_size=0, shadows=300)
        document = image.read()
        self.assertEqual(row(document, "/victim")["inode"], 301)
        self.assertEqual(document["pending_deletion"], [300])

    def test_orphans_loops_and_dangling_links_are_told(self):
        image = Image()
        image.header(0, 0x1001, 300, t.FILE, 777, b"child", file_size=0)
        image.header(0, 0x1001, 301, t.DIRECTORY, 302, b"a")
        image.header(0, 0x1001, 302, t.DIRECTORY, 301, b"b")
        image.header(0, 0x1001, 303, t.HARD_LINK, 1, b"dangling", target_id=999)
        image.header(0, 0x1001, 305, t.FILE, 304, b"in a file", file_size=0)
        image.header(0, 0x1001, 304, t.FILE, 1, b"same", file_size=0)
        image.header(0, 0x1001, 306, t.FILE, 1, b"same", file_size=0)
        image.data(0, 0x1001, 310, 1, b"no header")
        document = image.read()
        self.assertEqual(document["dangling_hard_links"], [{"path": "/dangling", "id": 303, "target": 999}])
        self.assertEqual([entry["path"] for entry in document["lost_and_found"]],
                         ["/lost+found/a", "/lost+found/a/b", "/lost+found/in a file", "/lost+found/obj310",
                          "/lost+found/obj777", "/lost+found/obj777/child"])
        self.assertEqual([entry["path"] for entry in document["objects"]], ["/", "/lost+found", "/same", "/same"])
        self.assertEqual(kinds(document), {"orphan", "parent is no directory", "duplicate name"})
        kept = image.read(keep_lost_and_found=True)
        self.assertEqual(len(kept["objects"]), 10)

    def test_a_file_of_more_than_2_gib_has_a_plain_header_and_a_name_may_be_missing(self):
        image = Image()
        image.header(0, 0x1001, 300, t.FILE, 1, b"", file_size=5 << 30, nbytes=0)
        document = image.read()
        self.assertEqual((row(document, "/obj300")["size"], row(document, "/obj300")["sha256"]), (5 << 30, None))

    def test_times_of_64_bits_count_and_those_of_32_do_where_they_are_unset(self):
        for wide, wanted in ((True, 1 << 33 | 5), (False, 5)):
            node = pack.Node(300, t.DIRECTORY, 0o40755, 1, 2, 1 << 33 | 5)
            image = Image()
            image.put(0, 0x1001, 300, 0, 0, pack.header_page(1024, node, t.DIRECTORY, 1, b"d", wide_times=wide))
            self.assertEqual(row(image.read(), "/d")["mtime"], wanted)

    def test_a_wrong_summary_is_told_and_a_good_one_stands_in_for_broken_tags(self):
        for damage, wanted in (("none", set()), ("sum", {"summary has a wrong sum"}),
                               ("tags", {"tags uncorrectable, summary used"}),
                               ("entry", {"summary disagrees with tags"})):
            image = Image()
            entries = []
            for number in range(15):
                entries += [300 + number | t.FILE << 28, t.EXTRA | 1, 0]
                node = pack.Node(300 + number, t.FILE, 0o100644)
                image.put(0, 0x1001, *entries[-3:], pack.header_page(1024, node, t.FILE, 1, b"f%d" % number, shadows=0,
                                                                     file_size=0, shrink=False))
            if damage == "entry":
                entries[1] = t.EXTRA | 2
            array = b"".join(h.WORD["<"].pack(word) for word in entries)
            total = sum(array) + (damage == "sum")
            image.put(0, 0x1001, 0x10, 1, len(array) + 16, t.WORDS["<"].pack(1, 1, 0x1001, total) + array)
            if damage == "tags":
                at = 1056 * 3 + 1024
                image.bytes[at + 5] ^= 0x11
            document = image.read()
            self.assertEqual(kinds(document) - {"extra tags disagree with header"}, wanted, damage)
            self.assertEqual(len(document["objects"]), 2 + 15 - (damage == "entry"), damage)
            bare = image.read(summary=False)
            self.assertEqual(len(bare["objects"]), 2 + 15 - (damage == "tags"), damage)

    def test_only_the_newest_page_is_dropped_as_torn(self):
        image = Image()
        image.header(0, 0x1001, 300, t.FILE, 1, b"f", file_size=2)
        first = image.data(0, 0x1001, 300, 1, b"ab")
        last = image.data(1, 0x1002, 300, 1, b"zz")
        one = image.read(uncorrectable=[last])
        self.assertEqual(row(one, "/f")["sha256"], hashlib.sha256(b"ab").hexdigest())
        self.assertEqual(kinds(one), {"torn page dropped"})
        both = image.read(uncorrectable=[first])
        self.assertEqual(row(both, "/f")["sha256"], hashlib.sha256(b"zz").hexdigest())
        self.assertEqual(both["odd"], [{"kind": "data uncorrectable", "page": first, "use": "nothing", "id": 0,
                                        "chunk": 0}])


class PlainForm(unittest.TestCase):
    def test_the_reader_finds_what_the_writer_meant_in_every_layout(self):
        for order in "<>":
            for layout in ({}, {"inband": True}, {"spare_offset": 2}, {"page": 4096, "spare": 128},
                           {"tags_ecc": False}, {"page": 1024, "spare": 32}):
                image, rows = plain.build(plain.sample(), order=order, **layout)
                document = read(image, **layout)
                self.assertEqual(document["objects"], rows, (order, layout))
                self.assertEqual(document["endian"], "big" if order == ">" else "little")
                self.assertEqual(document["odd"], [])

    @unittest.skipUnless(shutil.which("unyaffs"), "unyaffs is not installed")
    def test_unyaffs_extracts_a_folder_byte_for_byte(self):
        with tempfile.TemporaryDirectory() as scratch:
            top, out, image = Path(scratch, "top"), Path(scratch, "out"), Path(scratch, "image")
            (top / "sub" / "deep").mkdir(parents=True)
            rng = random.Random(1)
            for number, size in enumerate((0, 1, 2047, 2048, 2049, 100_000)):
                (top / "sub" / f"file{number}").write_bytes(rng.randbytes(size))
            Path(os.fsdecode(os.fsencode(top) + b"/sub/deep/\xfe name")).write_bytes(b"odd")
            os.symlink("../sub/file1", top / "sub" / "soft")
            os.link(top / "sub" / "file5", top / "hard")
            os.mkfifo(top / "pipe", 0o600)
            os.chmod(top / "sub" / "file2", 0o4711)
            for path in top.rglob("*"):
                os.utime(path, (1_400_000_000, 1_500_000_000), follow_symlinks=False)
            content, rows = plain.build(plain.from_folder(str(top)))
            image.write_bytes(content)
            out.mkdir()
            subprocess.run(["unyaffs", "-c", "2", "-s", "64", str(image), str(out)], check=True, capture_output=True)
            self.assertEqual(read(content)["objects"], rows)
            before, after = shape(top), shape(out)
            self.assertEqual(len(before), 12)
            self.assertEqual(before, after)


def shape(top):
    """What is below a folder: kinds, permissions, times, contents, names of the same file."""
    found, first = {}, {}
    for path in sorted(Path(top).rglob("*")):
        info, name = path.lstat(), str(path.relative_to(top))
        if stat.S_ISREG(info.st_mode):
            content = path.read_bytes()
        else:
            content = os.readlink(path) if path.is_symlink() else None
        time = None if stat.S_ISDIR(info.st_mode) else int(info.st_mtime)
        found[name] = (info.st_mode, time, content, first.setdefault(info.st_ino, name))
    return found


class LiveForm(unittest.TestCase):
    def check(self, seed, operations=300, ending="none", checkpoint=0, flips=0, garbage=0.0, **geometry):
        layout = {"pages_per_block": 32, **{k: v for k, v in geometry.items() if k not in ("bad", "blocks", "summary")}}
        volume = live.build(seed, operations, ending=ending, checkpoint=checkpoint, flips=flips, garbage=garbage,
                            **geometry)
        document = read(volume.flash.dump(), uncorrectable=volume.uncorrectable, checkpoint=True, **layout)
        self.assertEqual(document["objects"], volume.rows(), seed)
        self.assertEqual((document["dangling_hard_links"], document["lost_and_found"]), ([], []), seed)
        self.assertEqual(document["blocks"]["summarised"], len(volume.flash.summarised))
        return volume, document

    def test_reader_and_writer_agree_over_many_seeds(self):
        for seed in range(24):
            _, document = self.check(seed, summary=seed % 3 != 0)
            self.assertEqual(document["odd"], [], seed)

    def test_they_agree_after_much_collecting_and_the_seeds_do_what_they_are_for(self):
        volume, document = self.check(7, 1500)
        self.assertEqual(document["odd"], [])
        flash = volume.flash
        self.assertGreater(flash.sequence - 0x1000, flash.blocks, "blocks are used again")
        used = sorted(flash.sequences, key=flash.sequences.get)
        self.assertNotEqual(used, sorted(used), "age and place differ")
        self.assertTrue(flash.summarised and volume.link_ids and volume.gone)
        files = [n for n in volume.nodes.values() if n.type == t.FILE]
        holes = [n for n in files if len(n.chunks) < -(-len(n.content) // volume.step)]
        self.assertTrue(holes and any(n.xattrs for n in volume.nodes.values()))

    def test_they_agree_with_inband_tags_and_without_their_code(self):
        for seed in range(6):
            self.check(100 + seed, inband=True)
            self.check(120 + seed, tags_ecc=False, page=1024, spare=32)

    def test_flipped_bits_garbage_and_bad_blocks_change_nothing(self):
        for seed in range(8):
            _, document = self.check(200 + seed, flips=15, garbage=0.02, spare_offset=2, bad=(3, 40))
            self.assertEqual(document["blocks"]["dead"], 2)
            self.assertIn("tags corrected", kinds(document))

    def test_a_cut_in_the_last_page_or_in_a_rename_leaves_the_state_before_or_after(self):
        torn = shadows = 0
        for seed in range(8):
            torn += "torn page dropped" in kinds(self.check(300 + seed, ending="torn")[1])
            shadows += len(self.check(320 + seed, ending="shadow")[1]["pending_deletion"]) > 0
        self.assertEqual(torn, 8)
        self.assertGreater(shadows, 3)

    def test_checkpoints_of_both_machines_say_what_the_scan_says(self):
        for seed in range(12):
            pointer = (4, 8)[seed % 2]
            volume, document = self.check(400 + seed, checkpoint=pointer, summary=seed % 3 != 0, inband=seed % 5 == 4)
            found = document["checkpoint"]
            self.assertEqual((found["valid"], found["differences"]), (True, []), seed)
            self.assertEqual(found["leaf_bytes"], [8 * pointer], seed)

    def test_a_checkpoint_that_lies_is_found_out(self):
        volume = live.build(500, 300, checkpoint=0)
        file = next(n for n in volume.nodes.values() if n.type == t.FILE and len(n.chunks) > 2)
        first, second = sorted(file.chunks)[:2]
        file.chunks[first], file.chunks[second] = file.chunks[second], file.chunks[first]
        volume.checkpoint(4)
        found = read(volume.flash.dump(), pages_per_block=32, checkpoint=True)["checkpoint"]
        self.assertTrue(found["valid"])
        self.assertEqual(len(found["differences"]), 2)
        volume = live.build(500, 300, checkpoint=4)
        page = next(p for p, (_, tag) in volume.flash.pages.items() if tag[0] == 0x21)
        data, tag = volume.flash.pages[page]
        volume.flash.pages[page] = (data[:600] + bytes([data[600] ^ 1]) + data[601:], tag)
        found = read(volume.flash.dump(), pages_per_block=32, checkpoint=True)["checkpoint"]
        self.assertFalse(found["valid"])


class Damage(unittest.TestCase):
    """Whatever is in a dump, the reader ends soon, with a document or its own error."""

    def setUp(self):
        def late(_signal, _frame):
            raise AssertionError("the reader does not end")
        self.before = signal.signal(signal.SIGALRM, late)

    def tearDown(self):
        signal.alarm(0)
        signal.signal(signal.SIGALRM, self.before)

    def images(self):
        yield plain.build(plain.sample(), page=1024, spare=32)[0], {}
        for seed, more in ((1, {}), (2, {"inband": True}), (3, {"tags_ecc": False})):
            volume = live.build(seed, 120, page=1024, spare=32, pages_per_block=16, blocks=40, checkpoint=4, **more)
            yield volume.flash.dump(), more

    def test_random_damage_never_breaks_the_reader(self):
        rng, step = random.Random(99), 1024 + 32
        for image, more in self.images():
            used = [p for p in range(len(image) // step) if image[p * step:p * step + 4] != b"\xff" * 4]
            for turn in range(60):
                broken = bytearray(image)
                for _ in range(rng.choice((1, 10, 200))):
                    page = rng.choice(used)
                    # Where the structure is: headers, tags in the spare area, tags in the page.
                    at = page * step + rng.choice((rng.randrange(step), rng.randrange(24), 1008 + rng.randrange(16),
                                                   1024 + rng.randrange(28), 488 + rng.randrange(60)))
                    broken[at] = rng.choice((0, 1, 0xFF, rng.randrange(256), broken[at] ^ 1 << rng.randrange(8)))
                if turn % 4 == 0:
                    a, b = rng.choice(used) * step, rng.choice(used) * step
                    broken[a:a + step] = broken[b:b + step]
                if turn % 10 == 0:
                    del broken[rng.randrange(len(broken)):]
                signal.alarm(20)
                try:
                    document = read(bytes(broken), **SMALL, **more, checkpoint=True,
                                    uncorrectable=[rng.choice(used)], endian=rng.choice(("auto", "little", "big")))
                    json.dumps(document)
                except DumpError:
                    self.assertNotEqual(len(broken) % step, 0)
                signal.alarm(0)

    def test_what_is_no_dump_is_read_or_refused(self):
        rng = random.Random(5)
        for image in (b"", b"\xff" * 1056 * 16, b"\0" * 1056 * 33, rng.randbytes(1056 * 20)):
            for more in ({}, {"inband": True}, {"tags_ecc": False}):
                signal.alarm(20)
                document = read(image, **SMALL, **more, checkpoint=True)
                self.assertEqual([entry["path"] for entry in document["objects"]], ["/", "/lost+found"])
        for wrong in (dict(page=0), dict(page="x"), dict(pages_per_block=0), dict(spare=8), dict(spare_offset=40),
                      dict(bad=3), dict(uncorrectable=["a"]), dict(endian="middle"), dict(inband=7), dict(drop=""),
                      dict(spare_free="a"), dict(bad_mark="a"), dict(page=True)):
            with self.assertRaises(DumpError, msg=str(wrong)):
                read(b"\xff" * 1056, **{**SMALL, **wrong})


class Commands(unittest.TestCase):
    def test_the_batch_mode_answers_every_line_and_the_command_line_agrees(self):
        with tempfile.TemporaryDirectory() as scratch:
            paths = [str(Path(scratch, name)) for name in ("image", "expected", "pages")]
            run([HERE / "writer.py", "live", paths[0], "--seed", "4", "--ending", "torn", "--expect", paths[1],
                 "--uncorrectable", paths[2]])
            asked = [{"dump": paths[0], "uncorrectable": json.loads(Path(paths[2]).read_text())},
                     {"dump": paths[0] + "x"}, {"dump": paths[0], "nonsense": 1}, {"dump": paths[0], "page": 1000}, 7]
            lines = "".join(json.dumps(line) + "\n" for line in asked) + "no json\n"
            out = run([HERE / "reader.py", "--lines", "--pages-per-block", "32"], lines).splitlines()
            self.assertEqual(len(out), 6)
            document = json.loads(out[0])
            self.assertEqual(document["objects"], json.loads(Path(paths[1]).read_text())["objects"])
            self.assertTrue(all(set(json.loads(line)) == {"error"} for line in out[1:]))
            alone = run([HERE / "reader.py", paths[0], "--pages-per-block", "32", "--uncorrectable", paths[2]])
            self.assertEqual(json.loads(alone), document)

    def test_every_option_of_the_reader_can_be_given_on_its_command_line(self):
        known = {action.dest for action in reader.arguments()._actions}
        self.assertEqual({field.name for field in dataclasses.fields(Options)} - known, set())


def run(command, given=""):
    done = subprocess.run([sys.executable, *map(str, command)], input=given, capture_output=True, text=True, check=True)
    return done.stdout


if __name__ == "__main__":
    unittest.main()
