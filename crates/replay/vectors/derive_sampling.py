"""Fixed frequencies, and the governors of mainline that sample."""

from fractions import Fraction

from derive_tools import N6, TABLES, ceil_opp, floor_opp, line, near_opp, walk, window


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

    for version, latency_us, hz in [((4, 9), 1, 250), ((4, 9), 90, 250), ((4, 13), 100, 1000), ((4, 14), 1, 250),
                                    ((4, 14), 100, 250), ((4, 19), 100, 100), ((5, 10), 9, 250), ((5, 10), 3, 1000),
                                    ((6, 8), 500, 300), ((6, 9), 500, 1000), ((6, 11), 3000, 1000), ((6, 11), 1, 1000),
                                    ((6, 12), 500, 1000), ((6, 12), 8000, 1000), ((6, 12), 0, 2000), ((6, 12), 0, 250)]:
        name = ".".join(map(str, version))
        for governor, to in [("ondemand", hi), ("conservative", 422400)]:
            least = 20 * 1000000 // hz if governor == "conservative" and version < (4, 14) else 0
            period = max(period_us(latency_us, version, hz), least)
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
        # Of 2000 ticks a second 20 are 10 ms, which no period is shorter than.
        spec = "conservative-legacy{hz=2000}" if legacy else "conservative{sampling_rate=10000}"
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
