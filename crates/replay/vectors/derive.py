#!/usr/bin/env python3
"""Writes the derived vectors beside this script: the files named derived_*.toml.

It and its modules are written from published descriptions and from facts of kernels, not from the crate's code, and
work on windows rather than on events: a time line is built so that each sampling window has a known load, and what a
governor does after a window is one formula of (load, current frequency). Schedutil's utilisation is summed up from
every busy time by the definition of the series.
"""

from derive_phones import interactive, legacy, msm, sync, ticks
from derive_sampling import conservative, fixed, ondemand
from derive_schedutil import schedutil
from derive_tools import Out


def main():
    for make in [fixed, ondemand, legacy, msm, sync, conservative, interactive, ticks, schedutil]:
        out = Out(make.__name__)
        make(out)
        out.write()
        print(make.__name__, len(out.vectors))


if __name__ == "__main__":
    main()
