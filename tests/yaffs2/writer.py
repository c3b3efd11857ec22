#!/usr/bin/env python3
"""Makes YAFFS2 images in the forms of other makers, with the tree that a reader should find in them.

plain: as mkyaffs2image makes them, from a folder or a JSON description. live: as a kernel leaves a chip after a number
of operations chosen by a seed."""
import argparse
import json
import sys
from pathlib import Path

if __package__ in (None, ""):
    sys.path.insert(0, str(Path(__file__).resolve().parent))
import live
import plain
from flash import NoSpace


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    forms = p.add_subparsers(dest="form", required=True)
    a = forms.add_parser("plain", help="the form of mkyaffs2image")
    a.add_argument("source", help="a folder, a JSON description, or - for the built-in sample")
    a.add_argument("--big-endian", action="store_true")
    a.add_argument("--little-endian-tags", action="store_true", help="with --big-endian: as `mkyaffs2image DIR IMAGE convert`")
    a.add_argument("--yaffs1", choices=("spread", "packed"), help="of YAFFS1, tags there; --page 512 --spare 16")
    a.add_argument("--age", type=int, metavar="SEED", help="with --yaffs1: as years of writing leave a chip")
    b = forms.add_parser("live", help="the form of a kernel")
    b.add_argument("--seed", type=int, default=1)
    b.add_argument("--operations", type=int, default=300)
    b.add_argument("--pages-per-block", type=int, default=32)
    b.add_argument("--blocks", type=int, default=64)
    b.add_argument("--no-summary", dest="summary", action="store_false")
    b.add_argument("--checkpoint", type=int, choices=(0, 4, 8), default=0, metavar="BYTES",
                   help="end with a checkpoint of a machine with pointers of 4 or 8 bytes")
    b.add_argument("--hint-next", action="store_true", help="the checkpoint's hints name the block after their own")
    b.add_argument("--big-endian", action="store_true", help="as a big-endian kernel writes it, without a checkpoint")
    b.add_argument("--start-block", type=int, default=0,
                   help="the partition's first block: summaries and checkpoints count blocks from there")
    b.add_argument("--grown", action="store_true",
                   help="with --checkpoint: a file was grown by truncate, and the checkpoint alone has its size")
    b.add_argument("--ending", choices=("none", "torn", "shadow"), default="none",
                   help="torn: the last page is torn; shadow: power goes in the middle of a rename over a file")
    b.add_argument("--flips", type=int, default=0, help="how many pages have a flipped bit in their tags")
    b.add_argument("--garbage", type=float, default=0.0, help="how likely a program fails and leaves garbage: 0.01")
    b.add_argument("--bad", type=lambda text: [int(n) for n in text.split(",")], default=[], help="bad blocks: 3,7")
    b.add_argument("--uncorrectable", metavar="FILE", help="write a JSON list of the pages whose data is wrong")
    for form in (a, b):
        form.add_argument("image", help="the file to write")
        form.add_argument("--page", type=int, default=2048, help="bytes of data in a page (2048)")
        form.add_argument("--spare", type=int, default=64, help="bytes of spare area a page in the image (64)")
        form.add_argument("--spare-offset", type=int, default=0, help="where tags begin: 2 in Linux's layout (0)")
        form.add_argument("--inband", action="store_true", help="tags go into the pages")
        form.add_argument("--no-tags-ecc", dest="tags_ecc", action="store_false")
        form.add_argument("--expect", metavar="FILE", help='write the expected tree: {"objects": [...]}')
    return p


def main():
    asked = arguments().parse_args()
    layout = dict(page=asked.page, spare=asked.spare, spare_offset=asked.spare_offset, inband=asked.inband,
                  tags_ecc=asked.tags_ecc)
    uncorrectable = None
    try:
        if asked.form == "plain":
            entries = plain.sample() if asked.source == "-" else plain.description(asked.source)
            image, rows = plain.build(entries, order=">" if asked.big_endian else "<",
                                      tags_order="<" if asked.little_endian_tags else None,
                                      tags_of_yaffs1=asked.yaffs1, age=asked.age, **layout)
        else:
            volume = live.build(asked.seed, asked.operations, ending=asked.ending, checkpoint=asked.checkpoint,
                                hint_next=asked.hint_next, flips=asked.flips, garbage=asked.garbage, bad=asked.bad,
                                summary=asked.summary, order=">" if asked.big_endian else "<",
                                start_block=asked.start_block, grown=asked.grown,
                                pages_per_block=asked.pages_per_block, blocks=asked.blocks,
                                **layout)
            image, rows, uncorrectable = volume.flash.dump(), volume.rows(), volume.uncorrectable
        Path(asked.image).write_bytes(image)
        if asked.expect:
            Path(asked.expect).write_text(json.dumps({"objects": rows}, sort_keys=True, indent=1) + "\n")
        if uncorrectable is not None and asked.uncorrectable:
            Path(asked.uncorrectable).write_text(json.dumps(uncorrectable) + "\n")
    except (OSError, ValueError, KeyError, NoSpace) as fault:
        print(f"writer.py: {fault!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
