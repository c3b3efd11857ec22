"""Governors of the phone era: ondemand with what Qualcomm added, interactive, and their ticks."""

from fractions import Fraction

from derive_tools import N5, N6, NEXUS6, ceil_opp, fits, line, walk, window


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
    for hz, rate in [(100, 50000), (100, 215000), (128, 190000), (250, 90000)]:
        # No period is shorter than 20 ticks.
        period = max(rate, 20 * 1000000 // hz)
        first = whole(period, hz)
        late = -(-(first * 2 + 100) // tick(hz)) * tick(hz)
        begins = int(first * 2 + 100)
        again = together(late, period, hz)
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
