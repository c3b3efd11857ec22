#!/usr/bin/env python3
"""Reads a raw dump of a YAFFS2 chip and prints the tree of files that a mount by scan sees, as one JSON document."""
import argparse
import dataclasses
import json
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent))
import checkpoint
from chip import Dump, DumpError, Options
from scan import Scan
from tree import Tree

FIELDS = {field.name for field in dataclasses.fields(Options)}


def read(image, options):
    """The document of a dump's bytes."""
    scan = Scan(Dump(image, options))
    tree = Tree(scan)
    document = tree.document()
    if options.checkpoint:
        places = {o.id for _, o in tree.objects_below + tree.lost}
        document["checkpoint"] = checkpoint.report(scan, places)
    return document


def read_file(path, options):
    """The document of a dump in a file."""
    try:
        image = Path(path).read_bytes()
    except (OSError, ValueError, TypeError) as fault:
        raise DumpError(f"cannot read {path}: {fault}") from fault
    return read(image, options)


def numbers(given, what):
    """A list of numbers: itself, or the JSON file that it names."""
    if isinstance(given, str):
        try:
            given = json.loads(Path(given).read_text())
        except (OSError, ValueError) as fault:
            raise DumpError(f"cannot read {what} pages in {given}: {fault}") from fault
    return given


def from_line(line, defaults):
    """The document that a line of the batch mode asks for, or what is wrong."""
    try:
        try:
            asked = json.loads(line)
        except (ValueError, RecursionError) as fault:
            raise DumpError(f"the line is no JSON: {fault}") from fault
        if not isinstance(asked, dict) or "dump" not in asked:
            raise DumpError('a line is an object with "dump", a path')
        path = asked.pop("dump")
        unknown = sorted(asked.keys() - FIELDS)
        if unknown:
            raise DumpError(f"no such option: {', '.join(unknown)}")
        options = dataclasses.replace(defaults, **asked)
        options.uncorrectable = numbers(options.uncorrectable, "uncorrectable")
        return read_file(path, options)
    except DumpError as fault:
        return {"error": str(fault)}


def arguments():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("dump", nargs="?", help="file with data and spare area of every page; none with --lines")
    p.add_argument("--lines", action="store_true",
                   help='read lines {"dump": PATH, OPTION: VALUE...} from stdin, write a line for each')
    p.add_argument("--page", type=int, default=2048, help="bytes of data in a page (2048)")
    p.add_argument("--spare", type=int, default=64, help="bytes of spare area a page in the dump (64)")
    p.add_argument("--spare-offset", type=int, default=0, help="where free spare bytes begin: 2 in Linux's layout (0)")
    p.add_argument("--spare-free", type=int, help="how many spare bytes are free (all from there on)")
    p.add_argument("--pages-per-block", type=int, default=64, help="pages in an erase block (64)")
    p.add_argument("--inband", action="store_true", help="tags are in the last 16 bytes of the pages")
    p.add_argument("--no-tags-ecc", dest="tags_ecc", action="store_false", help="tags are 16 bytes without code")
    p.add_argument("--endian", choices=("auto", "little", "big"), default="auto")
    p.add_argument("--bad", type=lambda text: [int(n) for n in text.split(",")], default=[], help="bad blocks: 3,7")
    p.add_argument("--bad-mark", type=int, help="spare byte of a block's first page that is not 0xFF if it is bad "
                                                "(0 when --spare-offset is not 0)")
    p.add_argument("--uncorrectable", default=[], metavar="FILE", help="JSON list of pages whose data is wrong")
    p.add_argument("--drop", choices=("newest", "all", "none"), default="newest",
                   help="which uncorrectable pages count as never written (newest: the last page of the newest block)")
    p.add_argument("--no-summary", dest="summary", action="store_false", help="look at tags only")
    p.add_argument("--keep-lost-and-found", action="store_true", help="do not empty lost+found at the mount")
    p.add_argument("--checkpoint", action="store_true", help="decode the checkpoint and compare it with the scan")
    return p


def main():
    asked = arguments().parse_args()
    options = Options(**{name: getattr(asked, name) for name in FIELDS})
    if asked.lines:
        for line in sys.stdin:
            if line.strip():
                print(json.dumps(from_line(line, options), sort_keys=True), flush=True)
        return 0
    try:
        if asked.dump is None:
            raise DumpError("say which dump, or --lines")
        options.uncorrectable = numbers(options.uncorrectable, "uncorrectable")
        document = read_file(asked.dump, options)
    except DumpError as fault:
        print(f"reader.py: {fault}", file=sys.stderr)
        return 1
    json.dump(document, sys.stdout, sort_keys=True, indent=1)
    print()
    return 0


if __name__ == "__main__":
    sys.exit(main())
