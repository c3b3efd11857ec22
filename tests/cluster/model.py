"""What limits a volume of GlusterFS on many machines, from what speed.py has printed for few.

usage: model.py < LINES

Each line is one run of speed.py. An operation takes the client c0 + c1 n of a processor's time and each of the n bricks
that take part in it b, with the server of its SCMFS volume. The client's comes from runs with 1 and 3 bricks, a brick's
from those with 3, because one alone has no copies to keep equal; what they say of 2 is compared with runs of 2. Then: what
one client and all bricks of 3, 30 and 300 machines with three copies can do at most in a second, with one processor for
each. Networks and disks are no part of it.
"""

import re
import sys

# What all bricks take part in: of a volume of copies all that changes files, and of a spread one folders.
WANTED = {"copies": ("made", "appended", "written", "looked at"),
          "spread": ("folders made", "folders listed")}
MACHINES = (3, 30, 300)
COPIES = 3


def measured(lines):
    """Processor ms of the client, and of all bricks, by kind, operation and number of bricks: the least of all runs, for
    what else the machine does only adds to it."""
    figures, runs = re.compile(r"(.*) [\d.]+/s, ([\d.]+) \+ ([\d.]+) \+ ([\d.]+) ms"), {}
    for line in lines:
        medium, kind, bricks, *parts = [part.strip() for part in line.split(";")]
        if medium != "scmfs":
            continue
        for part in parts:
            what, *of_roles = figures.fullmatch(part).groups()
            client, serving, servers = map(float, of_roles)
            # One brick is both.
            for kind_of in ("copies", "spread") if bricks == "1" else (kind,):
                runs.setdefault((kind_of, what, int(bricks)), []).append((client, serving + servers))
    return {key: [min(times) for times in zip(*found)] for key, found in runs.items()}


def main():
    times = measured(filter(str.strip, sys.stdin))
    for kind, operations in WANTED.items():
        for what in operations:
            (client1, _), (client2, bricks2), (client3, bricks3) = (times[kind, what, n] for n in (1, 2, 3))
            each_brick = (client3 - client1) / 2
            fixed, brick = client1 - each_brick, bricks3 / 3
            said, found = fixed + 2 * each_brick + 2 * brick, client2 + bricks2
            print(f"{kind}; {what}: client {fixed:.2f} + {each_brick:.2f} n ms, brick {brick:.2f} ms; with 2 bricks "
                  f"{said:.2f} ms, measured {found:.2f} ms, error {said / found - 1:+.0%}")
            for machines in MACHINES:
                part = COPIES if kind == "copies" else machines
                client = fixed + each_brick * part
                everything = machines / part / brick if brick else float("inf")
                print(f"    {machines} machines: one client {1e3 / client:.0f}/s, all bricks {1e3 * everything:.0f}/s: "
                      f"{everything * client:.1f} clients keep them busy")


if __name__ == "__main__":
    main()
