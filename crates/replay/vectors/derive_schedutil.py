"""Schedutil: a reference that keeps every busy time and sums it up by the definition of PELT."""

from derive_tools import N6, ceil_opp


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
    for version in [(4, 16), (5, 0), (5, 1), (5, 13), (5, 14), (6, 7), (6, 8)]:
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
    for version in [(4, 16), (4, 17), (5, 4), (5, 5), (6, 12)]:
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
    # Who leaves a core with a shared clock, which nothing holds: its estimate counts until 5.10.
    for version in [(5, 10), (5, 11)]:
        add(f"the estimate of who leaves on kernel {version[0]}.{version[1]}",
            ["busy 120ms, idle 100ms, busy 3900us, idle 1ms", "idle 1ms"],
            "woken to its estimate; at the idle entry before the next tick util alone is low: lowered from 5.11 on", version=version)
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
