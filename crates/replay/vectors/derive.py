#!/usr/bin/env python3
"""Writes the derived vectors beside this script: the files named derived_*.toml.

It is written from the published descriptions of the governors, not from the crate's code, and works on windows
rather than on events: a time line is built so that each sampling window has a known load, and what a governor does
after a window is one formula of (load, current frequency). Utilisation comes from the closed form of the series.
"""

from fractions import Fraction
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


def fixed(o):
    for table in ["nexus6", "nexus5", "omap3530"]:
        t = TABLES[table]
        o.add(f"performance on {table}", "performance", table, t[0], ["idle 1ms, busy 2ms"],
              f"pinned at the highest operating point, {t[-1]}, from the start", [(0, t[-1])])
        o.add(f"powersave on {table}", "powersave", table, t[-1], ["idle 1ms, busy 2ms"],
              f"pinned at the lowest operating point, {t[0]}, from the start", [(0, t[0])])
        for percent in [1, 25, 50, 75, 100]:
            want = Fraction(t[-1] * percent, 100)
            o.add(f"fixed {percent} per cent on {table}", f"fixed:{percent}", table, t[3],
                  ["busy 1ms"], f"{percent}% of {t[-1]} is {float(want):.0f}; nearest is {near_opp(t, want)}",
                  last=near_opp(t, want))
    for khz in [1, 1382399, 1382400, 1382401, 1267200, 9999999]:
        o.add(f"fixed {khz} kHz on nexus6", f"fixed:{khz}kHz", "nexus6", 300000, ["busy 1ms"],
              f"the operating point nearest to {khz} (1382400 lies in the middle of 1267200 and 1497600: the lower)",
              last=near_opp(N6, khz))


def ondemand(o):
    lo, hi = N6[0], N6[-1]

    def at(more=""):
        return "ondemand{" + ",".join(x for x in ["sampling_rate=10000,up_threshold=80", more] if x) + "}"

    def step(up):
        return lambda load, khz: hi if load > up else near_opp(N6, lo + Fraction(load * (hi - lo), 100))

    for load in [1, 3, 7, 10, 15, 20, 25, 30, 34, 40, 45, 50, 55, 60, 65, 70, 75, 79, 80, 81, 90, 100]:
        for start in [300000, 2649600] if load in (30, 80, 81) else [1267200]:
            want = lo + load * (hi - lo) // 100
            changes, _ = walk([(10000, load)], start, step(80))
            o.add(f"load {load} from {start}", at(), "nexus6", start, [line(window(10000, load))],
                  f"current: above 80 the maximum, else nearest to {lo} + {load} x {hi - lo} / 100 = {want}", changes)
    # The default threshold of kernels that account idle time exactly (NO_HZ) is 95.
    for load in [94, 95, 96]:
        changes, _ = walk([(20000, load)], 300000, step(95))
        o.add(f"load {load} with the default up_threshold", "ondemand{sampling_rate=20000}", "nexus6", 300000,
              [line(window(20000, load))], "above 95 the maximum, else proportional; the sample is after 20 ms", changes)
    for factor in [2, 5]:
        # At the maximum the next sample is after `factor` periods; after it, one period again.
        loads = [(10000, 100), (10000 * factor, 40), (10000, 20)]
        changes, _ = walk(loads, 300000, step(80))
        o.add(f"down factor {factor}", at(f"sampling_down_factor={factor}"), "nexus6", 300000,
              [line(*[window(*w) for w in loads])],
              f"10 ms: maximum; next sample {factor} periods later at 40%; then a period again at 20%", changes)
        loads = [(10000, 100), (10000 * factor, 100), (10000 * factor, 40), (10000, 20)]
        changes, _ = walk(loads, 300000, step(80))
        o.add(f"down factor {factor} stays while busy", at(f"sampling_down_factor={factor}"), "nexus6", 300000,
              [line(*[window(*w) for w in loads])],
              "a second full sample at the maximum keeps the long period, as the factor is kept until it leaves", changes)
    for io, load in [(0, 30), (1, 100), (0, 60), (1, 100)]:
        busy = 30 if load in (30,) or (io and not any("io 7000" in v for v in o.vectors if "io_is_busy=1" in v)) else 60
        changes, _ = walk([(10000, 100 if io else busy)], 960000, step(80))
        o.add(f"io_is_busy {io} with busy {busy} and the rest iowait", at(f"io_is_busy={io}"), "nexus6", 960000,
              [line(window(10000, busy, "io"))],
              f"busy {busy}%, iowait {100 - busy}%: load {100 if io else busy} as iowait counts only with io_is_busy", changes)
    for loads in [(10, 70), (70, 10), (81, 10), (40, 40)]:
        changes, _ = walk([(10000, max(loads))], 960000, step(80))
        o.add(f"two cores {loads[0]} and {loads[1]}", at(), "nexus6", 960000,
              [line(window(10000, l)) for l in loads], f"the busiest core counts: {max(loads)}", changes)
    for bias in [100, 250]:
        # Load 100: target 2649600, wanted target - target x bias / 1000, between two points for parts of a period.
        want = hi - hi * bias // 1000
        low, high = floor_opp(N6, want), ceil_opp(N6, want)
        part = Fraction(want - low, high - low) * 10000
        o.add(f"powersave_bias {bias}", at(f"powersave_bias={bias}"), "nexus6", 300000, ["busy 19ms"],
              f"maximum less {bias} thousandths is {want}: {high} for {float(part):.1f} us of 10 ms, then {low}",
              [(10000, high), (10000 + int(part), low)])


    # Default periods: the first sample of a busy core is when the first period is over.
    #   before 4.14     max(10 ms, 1000 x latency)
    #   4.14 to 6.8     max(2 ticks, min(1000 x latency, 10 ms))
    #   6.9 to 6.11     max(2 ticks, latency if above 2 ms, else min(1000 x latency, 2 ms))
    #   6.12            max(2 ticks, 1.5 x latency)
    # A latency below 1 us counts as none: 1 ms instead of the formula with the latency.
    def period_us(latency_us, version, hz):
        ticks = 2 * 1000000 // hz
        if version < (4, 14):
            return max(10000, 1000 * latency_us)
        if latency_us == 0:
            return max(ticks, 1000)
        if version < (6, 9):
            return max(ticks, min(1000 * latency_us, 10000))
        if version < (6, 12):
            return max(ticks, latency_us if latency_us > 2000 else min(1000 * latency_us, 2000))
        return max(ticks, latency_us + latency_us // 2)

    for version, latency_us, hz in [((4, 9), 1, 250), ((4, 9), 12, 250), ((4, 13), 100, 1000), ((4, 14), 1, 250),
                                    ((4, 14), 100, 250), ((4, 19), 100, 100), ((5, 10), 9, 250), ((5, 10), 3, 1000),
                                    ((6, 8), 500, 300), ((6, 9), 500, 1000), ((6, 11), 3000, 1000), ((6, 11), 1, 1000),
                                    ((6, 12), 500, 1000), ((6, 12), 8000, 1000), ((6, 12), 0, 2000), ((6, 12), 0, 250)]:
        name = ".".join(map(str, version))
        period = period_us(latency_us, version, hz)
        for governor, to in [("ondemand", hi), ("conservative", 422400)]:
            o.add(f"{governor} default period of {name} with {latency_us} us at {hz} Hz",
                  f"{governor}{{kernel={name},hz={hz}}}", "nexus6", 300000, [f"busy {period + 1000}us"],
                  f"kernel {name}, latency {latency_us} us, {hz} Hz: {period} us; load 100 -> {to}", [(period, to)],
                  latency_ns=latency_us * 1000)
    for hz, rate in [(250, 5000), (1000, 1500), (100, 12000)]:
        least = 2 * 1000000 // hz
        o.add(f"no period is shorter than two ticks of {hz} Hz", f"ondemand{{hz={hz},sampling_rate={rate}}}", "nexus6",
              300000, [f"busy {least + 1000}us"], f"{rate} us is less than two ticks, {least} us", [(least, hi)])
    o.add("no period was shorter than 10 ms before 4.14", "ondemand{kernel=4.13,hz=1000,sampling_rate=3000}", "nexus6",
          300000, ["busy 11ms"], "3000 us is less than 10 ms, the least of 4.13", [(10000, hi)])


def legacy(o):
    n5 = ("up_threshold=90,down_differential=10,sampling_rate=50000,sampling_down_factor=4,io_is_busy=1,"
          "up_threshold_multi_core=70,optimal_freq=960000,sync_freq=960000")

    def step(table, up, diff, optimal=None):
        def one(load, khz):
            if load > up:
                return table[-1]
            if optimal and load > optimal[0] and khz < optimal[1]:
                return optimal[1]
            if load < up - diff:
                return ceil_opp(table, load * khz // (up - diff))
            return khz
        return one

    for start in [2265600, 960000, 422400, 300000]:
        for load in [2, 20, 50, 69, 70, 71, 79, 80, 81, 90, 91, 100]:
            changes, _ = walk([(50000, load)], start, step(N5, 90, 10))
            o.add(f"one core {load} from {start}", f"ondemand-legacy{{{n5}}}", "nexus5", start,
                  [line(window(50000, load))],
                  f"above 90 the maximum; below 80 lowest point >= {load} x {start} / 80 = {load * start / 80:.0f}; else stays",
                  changes)
    for start, load in [(300000, 69), (300000, 70), (300000, 71), (300000, 90), (300000, 91), (883200, 75),
                        (960000, 75), (1036800, 75), (960000, 81)]:
        opt = n5.replace("sync_freq=960000", "sync_freq=0")
        changes, _ = walk([(50000, load)], start, step(N5, 90, 10, (70, 960000)))
        o.add(f"multi-core optimal {load} from {start}", f"ondemand-legacy{{{opt}}}", "nexus5", start,
              [line(window(50000, load)), line(window(50000, 10))],
              "two cores on-line: above 70 and below 960000 to optimal_freq 960000; otherwise as with one core", changes)
    for load in [69, 70, 80, 81]:
        changes, _ = walk([(10000, load)], 2649600, step(N6, 80, 10))
        o.add(f"defaults {load}", "ondemand-legacy", "nexus6", 2649600, [line(window(10000, load))],
              f"80/10 and 10 ms: below 70 lowest >= {load} x 2649600 / 70", changes)
    for load in [91, 92, 95, 96]:
        changes, _ = walk([(10000, load)], 960000, step(N6, 95, 3))
        o.add(f"micro accounting {load}", "ondemand-legacy{up_threshold=95,down_differential=3}", "nexus6", 960000,
              [line(window(10000, load))], "95/3: above 95 the maximum, below 92 down, else it stays", changes)
    # The least period is 10 ms; the default is 1000 transition latencies.
    o.add("least sampling period", "ondemand-legacy{sampling_rate=1000}", "nexus6", 300000, ["busy 15ms"],
          "minimum sample 10 ms, whatever sampling_rate says", [(10000, 2649600)])
    o.add("sampling period from the latency", "ondemand-legacy", "omap3530", 125000, ["busy 350ms"],
          "1000 x 300 us = 300 ms, the OMAP3530's transition latency", [(300000, 720000)], latency_ns=300000)
    for io in [0, 1]:
        text = n5.replace("io_is_busy=1", f"io_is_busy={io}")
        changes, _ = walk([(50000, 100 if io else 20)], 960000, step(N5, 90, 10))
        o.add(f"legacy io_is_busy {io}", f"ondemand-legacy{{{text}}}", "nexus5", 960000,
              [line(window(50000, 20, "io"))], f"20% busy and 80% iowait is load {100 if io else 20}", changes)
    # sampling_down_factor 4: after the jump, 200 ms; a middling load keeps the factor; lowering ends it.
    loads = [(50000, 100), (200000, 85), (200000, 60), (50000, 20)]
    changes, _ = walk(loads, 300000, step(N5, 90, 10))
    o.add("legacy down factor 4", f"ondemand-legacy{{{n5}}}", "nexus5", 300000,
          [line(*[window(*w) for w in loads])],
          "50 ms: maximum; samples 4 periods apart: 85% stays, 60% lowers to >= 1699200; then 50 ms: 20%", changes)


def msm(o):
    """Qualcomm's additions, for the Nexus 5's settings: what a sample does, in the order of the kernel's rules."""
    up, diff, multi, multi_diff, any_load, optimal, sync = 90, 10, 70, 3, 80, 960000, 960000
    set_ = ("up_threshold=90,down_differential=10,sampling_rate=50000,up_threshold_multi_core=70,"
            "optimal_freq=960000,sync_freq=960000")

    def sample(load, khz, others):
        other, other_khz = others
        if other_khz == N5[-1] and khz >= optimal:
            other = any_load
        if load > up:
            return N5[-1], "load > 90: the maximum"
        if other > any_load:
            return max(khz, sync), f"the other core's {other} > 80: at least sync_freq, and nothing else"
        if load > multi:
            return max(khz, optimal), "load > 70: at least optimal_freq, and nothing else"
        if khz == N5[0]:
            return khz, "at the minimum nothing is lowered"
        assert load < up - diff
        wanted, why = load * khz // (up - diff), f"{load} x {khz} / 80 = {load * khz // (up - diff)}"
        if other > multi - diff and wanted < sync:
            wanted, why = sync, why + f", the other core's {other} > 60: not below sync_freq"
        if load > multi - multi_diff:
            wanted, why = optimal, why + ", load > 67: optimal_freq"
        return ceil_opp(N5, wanted), why

    for khz in [300000, 729600, 960000, 1574400, 2265600]:
        for load in [10, 66, 67, 68, 70, 71, 80, 90, 91]:
            for others in [(0, 300000), (60, 960000), (61, 960000), (80, 960000), (81, 960000), (40, 2265600)]:
                # All combinations are too many: near the thresholds, and one frequency of each kind.
                if others[0] in (60, 61, 80) and load not in (10, 68, 80) or others[0] == 40 and load not in (10, 68, 71):
                    continue
                if others[0] == 0 and khz == 2265600 and load in (66, 67, 80):
                    continue
                new, why = sample(load, khz, others)
                if khz == 729600 and others[0] in (60, 61):
                    continue
                name = f"msm {load} from {khz} beside {others[0]} at {others[1]}"
                o.add(name, f"ondemand-legacy{{{set_}}}", "nexus5", khz, [line(window(50000, load))], why,
                      [(50000, new)] if new != khz else [], others=others)
    # The same as a property of the scenario; two of them, the larger one counts.
    for own, scenario in [((0, 300000), (81, 960000)), ((81, 960000), (10, 300000)), ((10, 300000), (40, 2265600))]:
        other = (max(own[0], scenario[0]), max(own[1], scenario[1]))
        new, why = sample(10, 1574400, other)
        o.add(f"msm others of the scenario {scenario[0]} at {scenario[1]} and of the replay {own[0]}",
              f"ondemand-legacy{{{set_},others_load={scenario[0]},others_freq={scenario[1]}}}", "nexus5", 1574400,
              [line(window(50000, 10))], why, [(50000, new)] if new != 1574400 else [], others=own)
    # Another core's load is the higher one of its last two samples: of two cores with one clock.
    o.add("msm another core's load of the sample before", f"ondemand-legacy{{{set_}}}", "nexus5", 1574400,
          [line(*[window(50000, 10)] * 3), line(window(50000, 85), window(50000, 10), window(50000, 10))],
          "50 ms: the other core has 85: held. 100 ms: 10, but 85 before: held. 150 ms: 10: 10 x 1574400 / 80 -> 300000",
          [(150000, 300000)])
    # Without other cores and without the two frequencies none of these rules are there.
    o.add("msm none of it without other cores", f"ondemand-legacy{{{set_}}}", "nexus5", 1574400,
          [line(window(50000, 71))], "one core: 71 x 1574400 / 80 = 1397280 -> 1497600", [(50000, 1497600)])
    o.add("msm none of it without its frequencies",
          "ondemand-legacy{up_threshold=90,down_differential=10,sampling_rate=50000,up_threshold_multi_core=70}", "nexus5",
          1574400, [line(window(50000, 71))], "mainline's kernel: 71 x 1574400 / 80 = 1397280 -> 1497600",
          [(50000, 1497600)], others=(85, 960000))


def sync(o):
    """Interactive's rule of Qualcomm's kernels, with the settings of an MSM8974 phone."""
    set_ = ('above_hispeed_delay="20000 1400000:40000 1700000:20000",go_hispeed_load=90,hispeed_freq=1190400,'
            'target_loads="85 1500000:90 1800000:70",min_sample_time=0,io_is_busy=1,timer_slack=-1,sync_freq=1036800,'
            "up_threshold_any_cpu_load=50,up_threshold_any_cpu_freq=1190400")
    for khz in [300000, 960000, 1190400]:
        for load in [20, 60, 84, 90]:
            for others in [(49, 2265600), (50, 1267200), (50, 1190400), (100, 300000)]:
                fit = fits(load, khz)
                if fit is None:
                    continue
                if load >= 90:
                    new = 1190400 if khz < 1190400 else max(fit, 1190400)
                    why = "load 90: hispeed_freq 1190400 at least"
                elif fit < 1036800:
                    busy = others[0] >= 50 and others[1] > 1190400
                    new = 1036800 if busy else fit
                    why = f"choice {fit} < sync_freq 1036800; other core {others[0]}% at {others[1]}: " + (
                        "at least 50 and above 1190400: sync_freq" if busy else "not both at least 50 and above 1190400")
                else:
                    new, why = (1190400 if khz < 1190400 < fit else fit), f"choice {fit} is not below sync_freq"
                # At or above hispeed_freq, raising waits 20 ms since 0, which have passed.
                o.add(f"interactive sync {load} from {khz} beside {others[0]} at {others[1]}", f"interactive{{{set_}}}",
                      "nexus6", khz, [line(window(20000, load))], why, [(20000, new)] if new != khz else [], others=others)
    for scenario in [(50, 1267200), (49, 1267200)]:
        new = 1036800 if scenario[0] >= 50 else 300000
        o.add(f"interactive sync with the scenario's {scenario[0]}",
              f"interactive{{{set_},others_load={scenario[0]},others_freq={scenario[1]}}}", "nexus6", 960000,
              [line(window(20000, 20))], "choice 300000: sync_freq where the scenario's core has at least 50",
              [(20000, new)])


def conservative(o):
    def chain(table, start, windows, up, down, percent, factor, legacy):
        """Wanted frequency after n steps up and m down is start + (n - m) x step within the bounds."""
        size = table[-1] * percent // 100
        time, khz, want, skipped, changes = 0, start, start, 0, []
        for length, load in windows:
            time += length
            new = khz
            if load > up:
                want, skipped = min(want + size, table[-1]), 0
                new = floor_opp(table, want)
            else:
                skipped += 1
                if skipped == factor:
                    skipped = 0
                    if load < down and not (khz == table[0] and want == table[0]):
                        want = max(want - size, table[0])
                        new = (floor_opp if legacy else ceil_opp)(table, want)
            if new != khz:
                changes.append((time, new))
                khz = new
        return changes

    runs = [("full load climbs by 5%", 300000, [100] * 24), ("idle falls by 5%", 2649600, [10] * 24),
            ("80 is not above 80", 960000, [80] * 3), ("81 is above 80", 960000, [81] * 3),
            ("20 is not below 20", 960000, [20] * 3), ("19 is below 20", 960000, [19] * 3),
            ("up and down", 960000, [90, 90, 10, 10, 10, 90]), ("a middling load stays", 1267200, [50, 60, 70]),
            ("the top is the top", 2572800, [100, 100, 100, 5, 5]), ("the bottom is the bottom", 422400, [5] * 4 + [90] * 3)]
    for legacy, factor in [(False, 1), (True, 5)]:
        governor = "conservative-legacy" if legacy else "conservative"
        spec = governor if legacy else "conservative{sampling_rate=10000}"
        for name, start, loads in runs:
            loads = [l for l in loads for _ in range(5 if legacy and l < 50 and len(loads) < 10 else 1)]
            w = [(10000, l) for l in loads]
            o.add(f"{governor}: {name}", spec, "nexus6", start, [line(*[window(*x) for x in w])],
                  f"steps of 5% of 2649600 = 132480 from {start} by loads; down every {factor} samples",
                  chain(N6, start, w, 80, 20, 5, factor, legacy))
    for factor in [1, 2, 3]:
        w = [(10000, 10)] * 8
        o.add(f"conservative sampling_down_factor {factor}", f"conservative{{sampling_down_factor={factor},sampling_rate=10000}}", "nexus6",
              2649600, [line(*[window(*x) for x in w])], f"a step down of 132480 at every {factor}. sample",
              chain(N6, 2649600, w, 80, 20, 5, factor, False))
    w = [(10000, 10)] * 3 + [(10000, 90)] + [(10000, 10)] * 5
    o.add("conservative an upward step starts the count again", "conservative{sampling_down_factor=4,sampling_rate=10000}", "nexus6", 960000,
          [line(*[window(*x) for x in w])], "3 samples, then one up, then 4 more until a step down",
          chain(N6, 960000, w, 80, 20, 5, 4, False))
    for percent in [0, 10, 50, 100]:
        w = [(20000, 95)] * 4 + [(20000, 3)] * 3
        expect = [] if percent == 0 else chain(N6, 652800, w, 70, 30, percent, 1, False)
        o.add(f"conservative freq_step {percent}",
              f"conservative{{freq_step={percent},up_threshold=70,down_threshold=30,sampling_rate=20000}}", "nexus6",
              652800, [line(*[window(*x) for x in w])], f"steps of {percent}% of 2649600; 0 never changes anything", expect)
    o.add("conservative two cores", "conservative{sampling_rate=10000}", "nexus6", 960000,
          [line(window(10000, 5)), line(window(10000, 85))], "the busiest core, 85, is above 80: 960000 + 132480 -> 1036800",
          [(10000, 1036800)])


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


def interactive(o):
    # One window from a start below hispeed_freq: nothing delays the raise.
    for start in [300000, 652800, 960000, 1267200]:
        for load in [10, 40, 66, 85, 86, 89, 90, 100]:
            fit = fits(load, start)
            if fit is None:
                continue
            # Lowering waits: the floor is the start, set at 0, and min_sample_time is 40 ms.
            new = 1497600 if load >= 90 else min(fit, 1497600)
            expect = [(20000, new)] if new > start else []
            o.add(f"below hispeed {load} from {start}", f"interactive{{{NEXUS6}}}", "nexus6", start,
                  [line(window(20000, load))],
                  f"load {load}: from 90 on hispeed_freq 1497600, else lowest f >= {load * start} / target(f) = {fit}; "
                  "lowering waits 40 ms", expect)
    # Lowering from below the maximum: the floor is set at 0; at 20 ms it waits, at 40 ms it is old enough.
    for start, load in [(1267200, 10), (1267200, 30), (1958400, 20), (1574400, 40), (960000, 50)]:
        fit = fits(load, start)
        o.add(f"lowering waits for min_sample_time {load} from {start}", f"interactive{{{NEXUS6}}}", "nexus6", start,
              [line(window(20000, load), window(20000, load))],
              f"{load * start} / target(f): {fit}; 20 ms < min_sample_time 40 ms, 40 ms is not", [(40000, fit)])
    # At the maximum sampling_down_factor 100 ms stands for min_sample_time; the timer is on as it was armed at 0.
    for loads in [5, 6]:
        o.add(f"lowering from the maximum waits for sampling_down_factor with {loads} windows", f"interactive{{{NEXUS6}}}",
              "nexus6", 2649600, [line(*[window(20000, 20)] * loads)],
              "20 x 2649600 / target(f) = 652800 (85); the floor is old enough at 100 ms, the fifth window's end",
              [(100000, 652800)])
    # Raising at or above hispeed_freq: windows of 20 ms, evaluations that wait do not count.
    for start, delay in [(1497600, 40000), (1574400, 40000), (1728000, 20000), (1958400, 20000)]:
        khz, time, since, expect = start, 0, 0, []
        for _ in range(8):
            time += 20000
            wait = 20000 if khz >= 1700000 or khz < 1400000 else 40000
            if khz == 2649600:
                break
            fit = fits(100, khz)
            assert fit is not None
            if fit > khz and time - since < wait:
                continue
            since, khz = time, fit
            expect.append((time, fit))
        o.add(f"full load at {start}", f"interactive{{{NEXUS6}}}", "nexus6", start, ["busy 160ms"],
              f"each raise waits above_hispeed_delay of the present target ({delay} us at {start}), then 100 x f / target",
              expect)
    # Target loads alone, no hispeed: one target for all, so the choice is load x f / target.
    for target in [50, 70, 90, 100]:
        for load in [30, 60, 95]:
            fit = fits(load, 960000, lambda _: target)
            expect = [(20000, fit)] if fit != 960000 else []
            o.add(f"target load {target} at {load}",
                  f"interactive{{target_loads={target},go_hispeed_load=100,min_sample_time=0}}", "nexus6", 960000,
                  [line(window(20000, load))], f"lowest point >= {load} x 960000 / {target} = {load * 960000 / target:.0f}",
                  expect)
    # Defaults: target load 90, go_hispeed_load 99, hispeed_freq the maximum, 20 ms and 80 ms.
    for load in [98, 99, 100]:
        new = 2649600 if load >= 99 else fits(load, 960000, lambda _: 90)
        o.add(f"defaults at {load}", "interactive", "nexus6", 960000, [line(window(20000, load))],
              f"from 99 on hispeed_freq, the maximum; else lowest >= {load} x 960000 / 90", [(20000, new)])
    for n in [3, 4]:
        expect = [(80000, fits(20, 1958400, lambda _: 90))] if n == 4 else []
        o.add(f"defaults lower after {n} windows", "interactive", "nexus6", 1958400, [line(*[window(20000, 20)] * n)],
              "lowering waits 80 ms, which is the fourth window's end: 20 x 1958400 / 90 = 435200", expect)
    for rate in [5000, 30000]:
        o.add(f"timer_rate {rate}", f"interactive{{hz=1000,timer_rate={rate}}}", "nexus6", 300000, ["busy 40ms"],
              f"the first evaluation is after {rate} us", [(rate, 2649600)])
    for io in [0, 1]:
        fit = 2649600 if io else fits(60, 960000, lambda _: 90)
        o.add(f"interactive io_is_busy {io}", f"interactive{{io_is_busy={io},min_sample_time=0}}", "nexus6", 960000,
              [line(window(20000, 60, "io"))], f"60% busy and 40% iowait is load {100 if io else 60}", [(20000, fit)])


def ticks(o):
    """Timers of the phone era: whole ticks, rounded up, from the tick before the moment of arming."""

    def tick(hz):
        return Fraction(10**9 // hz, 1000)  # a kernel's tick is cut to whole nanoseconds

    def whole(delay, hz):
        return -(-delay * hz // 1000000) * tick(hz)

    def after(now, delay, hz):
        return now // tick(hz) * tick(hz) + whole(delay, hz)

    def together(now, delay, hz):
        period = whole(delay, hz)
        return (now // period + 1) * period

    def cut(changes):
        return [(int(time), khz) for time, khz in changes]

    # A busy core at the start: one tick after another, and nothing is at 15 ms where a tick is 10 ms.
    for hz, delay in [(100, 15000), (128, 15000), (250, 15000), (1000, 15000), (100, 50000), (128, 50000), (250, 50000),
                      (300, 50000), (100, 1000), (1000, 11500)]:
        first = after(0, max(delay, 10000), hz)
        o.add(f"ondemand-legacy first sample of {delay} us at {hz} Hz", f"ondemand-legacy{{hz={hz},sampling_rate={delay}}}",
              "nexus5", 300000, [f"busy {int(first) + 5000}us"],
              f"{max(delay, 10000)} us in whole ticks of {float(tick(hz)):.3f} us, rounded up: {float(first):.3f} us",
              cut([(first, N5[-1])]))
        first = after(0, delay, hz)
        o.add(f"interactive first evaluation of {delay} us at {hz} Hz", f"interactive{{hz={hz},timer_rate={delay}}}",
              "nexus6", 300000, [f"busy {int(first) + 5000}us"],
              f"{delay} us in whole ticks of {float(tick(hz)):.3f} us, rounded up: {float(first):.3f} us",
              cut([(first, N6[-1])]))

    # An idle domain defers the sample of 50 ms: it is at the first tick on which the core works, which has begun at
    # `begins`. Of one core the next delay counts from there; several cores' samples are at multiples of the period.
    for hz in [100, 128, 250]:
        for begins in [80000, 83000, 121000]:
            for cores in [1, 2]:
                late = -(-begins // tick(hz)) * tick(hz)
                load = int(100 * (late - begins) / late)
                down = ceil_opp(N5, load * 960000 // 80)
                period = whole(50000, hz)
                again = late + period if cores == 1 else together(late, 50000, hz)
                name = "one core" if cores == 1 else "two cores"
                o.add(f"ondemand-legacy deferred to a tick of {hz} Hz, {name}, {begins}",
                      f"ondemand-legacy{{down_differential=10,hz={hz},sampling_rate=50000,up_threshold=90}}", "nexus5",
                      960000, [f"idle {begins}us, busy {int(again) + 3000 - begins}us"] + ["idle 1ms"] * (cores - 1),
                      f"first tick from {begins} on: {float(late):.3f} with load {load} -> {down}; then "
                      f"{float(again):.3f} " + ("50 ms later, in ticks" if cores == 1 else "the next multiple of the period"),
                      cut([(late, down), (again, N5[-1])]))

    # sampling_down_factor 4 with two cores: from 50 ms on a period is 200 ms, and its next multiple is 200 ms, not 250.
    for hz in [100, 1000]:
        o.add(f"ondemand-legacy down factor of two cores at {hz} Hz",
              f"ondemand-legacy{{down_differential=10,hz={hz},sampling_down_factor=4,sampling_rate=50000,up_threshold=90}}",
              "nexus5", 960000, ["busy 60ms, idle 130ms, busy 15ms", "idle 1ms"],
              "50 ms: the maximum; the next sample is at 200 ms: 20 of 150 ms are 13%: 13 x 2265600 / 80 = 368160",
              [(50000, 2265600), (200000, 422400)])

    # Conservative of the phone era samples at multiples of its period, also with one core.
    for hz, rate in [(100, 15000), (100, 30000), (128, 30000), (250, 30000)]:
        first = whole(rate, hz)
        late = -(-(first * 2 + 100) // tick(hz)) * tick(hz)
        begins = int(first * 2 + 100)
        again = together(late, rate, hz)
        o.add(f"conservative-legacy deferred with a period of {rate} us at {hz} Hz",
              f"conservative-legacy{{hz={hz},sampling_rate={rate}}}", "nexus6", 300000,
              [f"idle {begins}us, busy {int(again) + 2000 - begins}us"],
              f"late at {float(late):.3f} with a load below 80, then at {float(again):.3f}, a multiple of "
              f"{float(first):.3f}: load 100: 300000 + 132480 -> 422400", cut([(again, 422400)]))

    # Interactive is armed in the middle of a tick, when the core idles at the maximum at `idles`: the window is from
    # there to a whole tick.
    for hz in [100, 128, 250, 1000]:
        for idles, gap in [(55000, 6000), (58500, 9000), (61250, 3000), (67000, 12000)]:
            first, ends = after(0, 20000, hz), after(idles, 20000, hz)
            window = ends - idles
            if ends <= idles + gap:
                continue
            load = (window - gap) / window
            want = ceil_opp(N6, int(load * 2649600) * 100 // 90)
            again = after(ends, 20000, hz)
            changes = [(first, 2649600)] + ([(ends, want), (again, 2649600)] if want != 2649600 else [])
            o.add(f"interactive armed at {idles} for {gap} idle at {hz} Hz",
                  f"interactive{{hz={hz},min_sample_time=0,timer_slack=-1}}", "nexus6", 300000,
                  [f"busy {idles}us, idle {gap}us, busy {int(again) + 2000 - idles - gap}us"],
                  f"armed at {idles} until {float(ends):.3f}: {float(load * 100):.2f}% of 2649600 / 0.90 -> {want}; then "
                  "20 ms in ticks at load 100", cut(changes))

    # The slack is in whole ticks as well, on top of a timer in whole ticks.
    for hz, slack in [(100, 5000), (100, 15000), (128, 30000), (1000, 30500)]:
        runs = after(0, 20000, hz) + whole(slack, hz)
        o.add(f"interactive slack of {slack} us at {hz} Hz", f"interactive{{hz={hz},min_sample_time=0,timer_slack={slack}}}",
              "nexus6", 960000, [f"idle {int(runs) + 30000}us, busy 1ms"],
              f"20 ms and {slack} us in whole ticks each: {float(runs):.3f} us: load 0", cut([(runs, 300000)]))


PERIOD = 1024 * 1024  # ns: 1024 units, each of which is a shift of nanoseconds by ten bits
Y = 0.5 ** (1 / 32)


class Unsure(Exception):
    """A utilisation so near to a whole number that rounding decides."""


class Core:
    """What the scheduler keeps of a core, with every busy time it ever had: PELT as the sum that defines it."""

    def __init__(self):
        self.clock = self.behind = 0
        self.busy = []  # (from, to, share) on the clock of tracking
        self.seen = -1  # the period in which the scheduler last looked; the first wake-up finds one ended
        self.rest = self.util = 0
        self.ewma = self.last = 0
        self.changed = self.counts = False
        self.boost, self.pending, self.told = 0, False, 0

    def defined(self):
        now, into = divmod(self.clock, PERIOD)
        total = 0.0
        for start, end, share in self.busy:
            while start < end:
                period = start // PERIOD
                stop = min(end, (period + 1) * PERIOD)
                total += (stop - start) * share * Y ** (now - period)
                start = stop
        u = 1024 * total / (PERIOD * Y / (1 - Y) + into)
        if 0.5 < u and min(u % 1, 1 - u % 1) < 1e-4:
            raise Unsure
        return int(u)


def schedutil_run(table, start, lines, version=(6, 12), up=0, down=0, hz=250, invariant=True):
    """Changes of schedutil, from the facts of its kernels; times in ns, `lines` by core: (kind, ns)."""
    fmax, tick = table[-1], 10**9 // hz
    cores = [Core() for _ in lines]
    state = {"khz": start, "changed": None, "idled": True}
    changes = []

    def demand(c, now):
        if c.boost and now - c.told > tick:
            c.boost, c.pending = 0, False
        if c.boost and not c.pending:
            c.boost = c.boost // 2 if c.boost // 2 >= 128 else 0
        c.pending = False
        estimate = max(c.ewma, c.last) if c.counts else 0
        return max(c.util, estimate, c.boost)

    def word(c, io, now):
        if c.boost and now - c.told > tick:
            c.boost, c.pending = (128, True) if io else (0, False)
        elif io and not c.pending:
            c.boost, c.pending = min(2 * c.boost, 1024) if c.boost else 128, True
        c.told = now
        since = 10**18 if state["changed"] is None else now - state["changed"]
        if since < min(up, down):
            return
        u, khz = max(demand(x, now) for x in cores), state["khz"]
        base = fmax if invariant else khz
        if version < (5, 14):
            want = (base + base // 4) * u // 1024
        elif version < (6, 8):
            want = base * (u + u // 4) // 1024
        else:
            want = (base if invariant else base + base // 4) * min(u + u // 4, 1024) // 1024
        new = ceil_opp(table, want)
        held = len(cores) == 1 and not state["idled"]
        state["idled"] = False
        if new > khz and since >= up or new < khz and since >= down and not held:
            state["khz"], state["changed"] = new, now
            changes.append((now, new))

    def look(c):
        period = c.clock // PERIOD
        ended, c.seen = period > c.seen, period
        if ended:
            c.util, c.changed = c.defined(), True
        return ended

    spans = []
    for line_ in lines:
        at, all_ = 0, []
        for kind, ns in line_:
            all_.append((at, kind))
            at += ns
        spans.append((all_, at))
    end = max(at for _, at in spans)
    kinds, io = ["idle"] * len(cores), [False] * len(cores)
    moments = sorted({t for all_, _ in spans for t, _ in all_} | {at for _, at in spans}
                     | set(range(tick, end + 1, tick)))
    before = 0
    for now in moments:
        for c, kind in zip(cores, kinds):
            passed = now - before
            if kind != "busy":
                if passed:
                    c.clock += passed + c.behind
                    c.behind = 0
            elif version < (5, 1):
                c.busy.append((c.clock, c.clock + passed, state["khz"] / fmax if invariant else 1))
                c.clock += passed
            else:
                scaled = (passed * (state["khz"] if invariant else fmax) + c.rest)
                step, c.rest = divmod(scaled, fmax)
                c.busy.append((c.clock, c.clock + step, 1))
                c.clock += step
                c.behind += passed - step
        before = now
        if now % tick == 0 and now:
            for c, kind in zip(cores, kinds):
                if kind == "busy" and look(c):
                    word(c, False, now)
        for n, (c, (all_, stop)) in enumerate(zip(cores, spans)):
            new = next((k for t, k in all_ if t == now), "idle" if now == stop else kinds[n])
            old, kinds[n] = kinds[n], new
            io[n] |= old == "io"
            if new == "busy" and old != "busy":
                c.counts = version >= (4, 17)
                if io[n]:
                    word(c, True, now)
                if look(c):
                    word(c, False, now)
                io[n] = False
            elif old == "busy" and new != "busy":
                if version >= (5, 11):
                    c.counts = False
                if look(c):
                    word(c, False, now)
                c.counts = False
                if version >= (4, 17) and c.changed:
                    c.changed = False
                    if version >= (5, 5) and c.util >= c.ewma:
                        c.ewma = c.last = c.util
                    elif abs(c.util - c.ewma) >= 10:
                        c.ewma, c.last = (3 * c.ewma + c.util) // 4, c.util
                state["idled"] = True
    return changes


def schedutil(o):
    units = {"ms": 1000000, "us": 1000, "ns": 1}

    def parts(text):
        for part in text.split(", "):
            kind, length = part.split(" ")
            yield kind, int(length[:-2]) * units[length[-2:]]

    def add(name, cores, derivation, start=300000, rate=1000, **more):
        cores = [cores] if isinstance(cores, str) else cores
        up, down = more.pop("up", rate), more.pop("down", rate)
        said = [f"rate_limit_us={rate}"] if (up, down) == (rate, rate) else [
            f"up_rate_limit_us={up},down_rate_limit_us={down}"]
        said += [f"hz={more['hz']}"] if "hz" in more else []
        said += ["frequency_invariant=0"] if not more.get("invariant", True) else []
        said += [f"kernel={'.'.join(map(str, more['version']))}"] if "version" in more else []
        try:
            changes = schedutil_run(N6, start, [list(parts(c)) for c in cores], up=up * 1000, down=down * 1000, **more)
        except Unsure:
            return
        o.add(name, f"schedutil{{{','.join(said)}}}", "nexus6", start, cores, derivation,
              [(t // 1000, khz) for t, khz in changes])

    # Always busy from 0, at the lowest frequency: the clock of tracking runs at f / fmax, ticks every 4 ms.
    for rate in [0, 1000, 4000, 8000, 10000, 20000]:
        add(f"busy from the lowest with a rate limit of {rate}", "busy 240ms",
            "work w: util = 1024 (1 - y^(w / 1.048576 ms)); w grows by f/fmax; looked at on ticks in a new period", rate=rate)
    for hz in [100, 300, 1000]:
        add(f"{hz} ticks a second", "busy 100ms", f"as with 250, at {hz} ticks a second", rate=0, hz=hz)
    for version in [(4, 16), (5, 0), (5, 13), (5, 14), (6, 7), (6, 8)]:
        add(f"busy from the lowest on kernel {version[0]}.{version[1]}", "busy 200ms",
            "before 5.1 time is as it is and util is scaled by f/fmax; headroom (f + f/4) u, f (u + u/4), at most 1024",
            version=version)
    # Not invariant: util by wall time, times the current frequency; from 6.8 on 1.25 times it and a headroom on util.
    for version in [(4, 19), (5, 14), (6, 8)]:
        for ms in [10, 20, 40, 80, 160]:
            add(f"not invariant for {ms} ms on kernel {version[0]}.{version[1]}", f"busy {ms + 2}ms",
                "at 0 util is 0: lowest; then from the current frequency: until 6.7 1.25 x current x util / 1024, from "
                "6.8 on 1.25 x current x min(1.25 x util, 1024) / 1024", start=960000, rate=0, version=version,
                invariant=False)
    # A job, then sleep, then its wake-up: without an estimate what is left of util, with one what the job had.
    for version in [(4, 16), (4, 17), (5, 5), (6, 12)]:
        for busy, idle in [(60, 1), (60, 20), (60, 200), (150, 50), (300, 300), (20, 20)]:
            add(f"woken after {busy} ms and {idle} ms asleep on kernel {version[0]}.{version[1]}",
                f"busy {busy}ms, idle {idle}ms, busy 2ms, idle {idle}ms, busy 2ms",
                "before 4.17 the wake-up has util y^n of the sleep; then at least the average of the utils it slept "
                "with, which rises at once from 5.5 on and else by a quarter", version=version)
    # What the estimate falls by: a long job, then short ones.
    for version in [(4, 17), (6, 12)]:
        add(f"the estimate falls by quarters on kernel {version[0]}.{version[1]}",
            "busy 120ms, " + ", ".join(["idle 40ms, busy 6ms"] * 6), "average = (3 average + util) / 4 at each sleep",
            version=version)
    # Wake-ups from a device: the boost doubles, is halved by each word without one, and survives an idle entry in
    # whose period of tracking the wake-up was.
    for busy, wait in [(100, 1900), (700, 1300), (300, 700), (50, 450), (1000, 1000), (3000, 1000), (100, 3950)]:
        for rate in [0, 50, 1000, 5000]:
            add(f"saturated: {busy} us and {wait} us for a device, rate limit {rate}",
                "io 2ms, " + ", ".join([f"busy {busy}us, io {wait}us"] * 8) + ", busy 100us",
                "the boost is 128 and doubles by wake-up; used and halved by a second word of the wake-up, the idle "
                "entry and ticks, where a period ended and the rate limit lets them", rate=rate)
    for version in [(4, 19), (5, 10), (5, 14)]:
        add(f"saturated with long jobs on kernel {version[0]}.{version[1]}",
            "io 2ms, " + ", ".join(["busy 9ms, io 1500us"] * 12) + ", busy 1ms",
            "until 5.10 the idle entry counts the estimate of who leaves", version=version)
    # The default limit, by kernel and transition latency: a wake-up 1 us before it is over changes nothing, and its
    # boost waits for the next one. Ticks of 20 ms keep the boost over the longest limit.
    def limit_us(latency_us, version):
        if version >= (6, 12):
            return latency_us + latency_us // 2
        if version >= (6, 9):
            return latency_us if latency_us > 2000 else min(1000 * latency_us, 2000)
        return min(1000 * latency_us, 10000) if version >= (4, 14) else 1000 * latency_us

    for version, latency_us in [((4, 13), 12), ((4, 14), 12), ((4, 19), 5), ((6, 8), 7), ((6, 9), 7), ((6, 11), 3500),
                                ((6, 12), 3500), ((6, 12), 1300), ((6, 12), 9000)]:
        limit = limit_us(latency_us, version)
        name = ".".join(map(str, version))
        for early in [0, 1]:
            wait = limit - 100 - early
            cores = [f"io 2ms, busy 100us, io {wait}us, busy 100us, io 600us, busy 100us"]
            lines = [[("io", 2000000), ("busy", 100000), ("io", wait * 1000), ("busy", 100000), ("io", 600000),
                      ("busy", 100000)]]
            run = schedutil_run(N6, 300000, lines, version, limit * 1000, limit * 1000, 50)
            o.add(f"default rate limit of {name} with a latency of {latency_us} us, {early} us early",
                  f"schedutil{{hz=50,kernel={name}}}", "nexus6", 300000, cores,
                  f"the limit is {limit} us; the boost of 128 at 2 ms, 256 at the first wake-up after the limit",
                  [(t // 1000, khz) for t, khz in run], latency_ns=latency_us * 1000)
    # Android's limits.
    for up, down in [(500, 20000), (0, 20000), (5000, 500), (4000, 8000)]:
        add(f"up limit {up}, down limit {down}",
            "io 2ms, " + ", ".join(["busy 200us, io 1800us"] * 5) + ", " + ", ".join(["busy 200us, idle 6ms"] * 6)
            + ", busy 1ms", "the shorter limit first; then since the last change up's for raising, down's for lowering",
            up=up, down=down)
    # A shared clock: no rule holds the frequency of a core that has not idled.
    for cores, name in [(["io 2ms, busy 10ms", "idle 1ms"], "shared"), (["io 2ms, busy 10ms"], "of its own")]:
        add(f"lowered while busy: a clock {name}", cores,
            "422400 for the boost; at the tick it ends, and only a shared clock is lowered without idling")
    add("a busy core holds up its shared clock", ["busy 90ms", "idle 60ms, busy 10us, idle 20ms, busy 10us"],
        "the second core's util is small; the first one's counts as it was on its own tick", rate=0)
    add("another core's boost counts on a shared clock", ["busy 30ms", "io 2ms, busy 100us, io 1900us, busy 100us"],
        "the boost of the second core is the larger demand; at the first one's ticks it is used and ends")


def main():
    for make in [fixed, ondemand, legacy, msm, sync, conservative, interactive, ticks, schedutil]:
        out = Out(make.__name__)
        make(out)
        out.write()
        print(make.__name__, len(out.vectors))


if __name__ == "__main__":
    main()
