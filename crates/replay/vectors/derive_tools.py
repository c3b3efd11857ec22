"""What the derivations of vectors share: tables of operating points, time lines, the files that they write."""

from pathlib import Path

N6 = [300000, 422400, 652800, 729600, 883200, 960000, 1036800, 1190400, 1267200, 1497600, 1574400, 1728000,
      1958400, 2265600, 2457600, 2496000, 2572800, 2649600]
N5 = [300000, 422400, 652800, 729600, 883200, 960000, 1036800, 1190400, 1267200, 1497600, 1574400, 1728000,
      1958400, 2265600]
OMAP = [125000, 250000, 500000, 550000, 600000, 720000]
TABLES = {"nexus6": N6, "nexus5": N5, "omap3530": OMAP}


def ceil_opp(table, khz):
    return min([f for f in table if f >= khz], default=table[-1])


def floor_opp(table, khz):
    return max([f for f in table if f <= khz], default=table[0])


def near_opp(table, khz):
    return min(table, key=lambda f: (abs(f - khz), f))


class Out:
    def __init__(self, name):
        self.name, self.vectors = name, []

    def add(self, name, governor, table, start, cores, derivation, expect=None, last=None, latency_ns=0, others=None):
        text = [f'[[vector]]', f'name = "{name}"', f"governor = '{governor}'", f'table = "{table}"',
                f"start_khz = {start}", "cores = [" + ", ".join(f'"{c}"' for c in cores) + "]"]
        if others is not None:
            text.append(f"others = [{others[0]}, {others[1]}]")
        if latency_ns:
            text.append(f"transition_latency_ns = {latency_ns}")
        if expect is not None:
            text.append("expect = [" + ", ".join(f"[{t}, {f}]" for t, f in expect) + "]")
        if last is not None:
            text.append(f"expect_last_khz = {last}")
        text.append(f'derivation = "{derivation}"')
        self.vectors.append("\n".join(text) + "\n")

    def write(self):
        head = "# Written by derive.py; change that.\n\n[tables]\n"
        head += "".join(f"{k} = {v}\n" for k, v in TABLES.items())
        path = Path(__file__).with_name(f"derived_{self.name}.toml")
        path.write_text(head + "\n" + "\n".join(self.vectors))


def window(length_us, load, rest="idle"):
    """A core's time line of one window: what is left of the load first, so that the window ends busy."""
    busy = length_us * load // 100
    assert busy * 100 == length_us * load
    return ([f"{rest} {length_us - busy}us"] if busy < length_us else []) + ([f"busy {busy}us"] if busy else [])


def line(*windows):
    return ", ".join(p for w in windows for p in w)


def walk(windows, start, step):
    """Changes from windows (length, load) by step(load, khz): the time of each window's end, where it changes."""
    time, khz, changes = 0, start, []
    for length, load in windows:
        time += length
        new = step(load, khz)
        if new != khz:
            changes.append((time, new))
        khz = new
    return changes, khz


NEXUS6 = ('above_hispeed_delay="20000 1400000:40000 1700000:20000",go_hispeed_load=90,hispeed_freq=1497600,'
          'target_loads="85 1500000:90 1800000:70",min_sample_time=40000,io_is_busy=1,sampling_down_factor=100000')


def target_load(khz):
    return 70 if khz >= 1800000 else 90 if khz >= 1500000 else 85


def fits(load, khz, target=target_load):
    """Where "the lowest point >= load x khz / target(f)" leads from khz; None where the search would have to bisect."""
    slow, fast, at = 0, 10**9, khz
    while True:
        new = ceil_opp(N6, load * khz // target(at))
        if new == at:
            return at
        slow, fast = (max(slow, at), fast) if new > at else (slow, min(fast, at))
        if not slow < new < fast:
            return None
        at = new
