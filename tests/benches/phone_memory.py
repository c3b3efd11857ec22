# How the time on a core of a phone's database operations scales with its clock, for docs/devices.md and the memory share
# of devices/nexus-5.toml:
#     python3 phone_memory.py YCSB_WorkloadA_LogTimingsql.log.gz workload_a_log.json.xz 2265600/300000
# The log has no frequencies, but its operations are of few kinds, each alike, and the governor has the core at the lowest
# or the highest frequency most of the time: each kind's times have two peaks, and a memory share says how far apart.
import collections, json, lzma, math, re, statistics, sys

import phone_log

start, app, end, switches = phone_log.read(sys.argv[1])

# The app's spans on a core, and from them its operations: between two sleeps of a millisecond or more.
spans, since = [], None
for at, _, prev, state, _, following in switches:
    if prev == app and since is not None and start < at and since < end:
        spans.append((max(since, start), min(at, end), state))
    since = at if following == app else since
operations, on_core, waited = [], 0, False
for span, after in zip(spans, spans[1:] + [(end, end, "")]):
    on_core += 1e3 * (span[1] - span[0])
    waited |= span[2].startswith("D")
    if span[2].startswith("S") and after[0] - span[1] > 0.0009:
        operations.append((on_core, waited))
        on_core, waited = 0, False

# What each operation is: the first two have no delay between them, the last has none after it.
workload = json.load(lzma.open(sys.argv[2]))
keys = {int(found[1]) for found in (re.search(r"VALUES \((\d+)", s["sql"]) for s in workload["init"]) if found}
queries = [q["sql"] for q in workload["benchmark"] if q["op"] == "query"]
kinds = [(q.split()[0], int(re.search(r"WHERE key = (\d+)", q)[1]) in keys) for q in queries]
assert len(operations) == len(queries) - 2, len(operations)
times = collections.defaultdict(list)
for (on_core, waited), kind in zip(operations[1:], kinds[2:]):
    assert waited == (kind == ("UPDATE", True)), "an update of a row that is there writes, and nothing else does"
    times[kind].append(on_core)


def peak(values):
    """The median around the most frequent time."""
    bins = collections.Counter(round(20 * math.log(v)) for v in values)
    at = math.exp(bins.most_common(1)[0][0] / 20)
    return statistics.median(v for v in values if abs(v / at - 1) < 0.12)


highest, lowest = map(int, sys.argv[3].split("/"))
clocks, sums, shares = highest / lowest, [0, 0], []
for kind, values in sorted(times.items()):
    # The peaks are more than a factor of 6 apart.
    middle = math.sqrt(min(values) * statistics.median(values))
    fast, slow = peak([v for v in values if v < middle]), peak([v for v in values if v >= middle])
    share = (clocks - slow / fast) / (clocks - 1)
    shares.append(share)
    sums = [sums[0] + kinds.count(kind) * fast, sums[1] + kinds.count(kind) * slow]
    there = "of a row that is there" if kind[1] else "of no row"
    print(f"{kind[0]} {there}: {kinds.count(kind)}, {fast:.3f} and {slow:.3f} ms, ratio {slow / fast:.2f}, share {share:.3f}")
share = (clocks - sums[1] / sums[0]) / (clocks - 1)
print(f"all: {sums[0] / 1e3:.3f} and {sums[1] / 1e3:.3f} s, ratio {sums[1] / sums[0]:.2f} of {clocks:.2f}, share {share:.3f}")
print(f"kinds' shares from {min(shares):.3f} to {max(shares):.3f}")
