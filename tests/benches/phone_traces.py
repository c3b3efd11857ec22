# The numbers of published.rs, by other means than the crate's:
#     python3 phone_traces.py YCSB_WorkloadC_NoTimingsql.log.gz
import collections, gzip, json, re, sys

shape = re.compile(r"^\s*(.*)-(\d+)\s+\[(\d+)\] \S+\s+(\d+)\.(\d{6}): (\w+): (.*)$", re.S)
rows, reasons, lines = [], collections.Counter(), 0
calls = collections.defaultdict(list)
wanted = {"sched_switch", "block_rq_insert", "block_rq_complete", "tracing_mark_write"}
actions = {"read", "pread64", "write", "pwrite64", "fsync", "fdatasync", "open", "close", "unlinkat", "unlink"}
for text in gzip.open(sys.argv[1], "rb").read().decode("utf-8", "replace").split("\n")[:-1]:
    lines += 1
    m = shape.match(text)
    if not m:
        reasons["comment" if text.startswith("#") else "blank"] += 1
        continue
    t, pid, event, body = int(m[4]) * 10**9 + int(m[5]) * 1000, int(m[2]), m[6], m[7]
    if event in wanted:
        rows.append((t, pid, event, body))
    elif event.startswith("plsc_"):
        j = json.loads(body)
        if j["action"] in actions:
            calls[j["action"]].append((j, pid))
        else:
            reasons[event + " " + j["action"]] += 1
    else:
        reasons["?" + event] += 1
start, = [(t, p) for t, p, e, b in rows if e == "tracing_mark_write" and "SQL_START" in b]
end, = [(t, p) for t, p, e, b in rows if e == "tracing_mark_write" and "SQL_END" in b]
app, t0, t1 = start[1], start[0], end[0]
# On core: from the mark on (it runs), from switch to switch.
since, runs = t0, []
for t, p, e, b in rows:
    if e != "sched_switch" or not t0 <= t <= t1:
        continue
    prev = int(re.search(r" prev_pid=(\d+) prev_prio", b)[1])
    following = int(re.search(r" next_pid=(\d+) next_prio", b)[1])
    if prev == app and since is not None:
        runs.append(t - since)
        since = None
    if following == app:
        since = t
if since is not None:
    runs.append(t1 - since)
runs = [r for r in runs if r > 0]
queued, done, times = {}, collections.Counter(), []
for t, p, e, b in rows:
    if not e.startswith("block"):
        continue
    dev, kind, sector, sectors = re.match(r"(\S+) (\S+) .*\) (\d+) \+ (\d+)", b).groups()
    key = (dev, kind[0] == "R", sector)
    if e == "block_rq_insert":
        queued.setdefault(key, t)
        continue
    began = queued.pop(key, None)
    if t0 <= t < t1:
        done["reads" if key[1] else "writes"] += 1
        done["read_bytes" if key[1] else "written_bytes"] += int(sectors) * 512
        if began is not None and began >= t0:
            times.append(t - began)
print("lines", lines, "left out", sum(reasons.values()), dict(reasons))
print("events by action", {k: len(v) for k, v in calls.items()})
print("app", app, "runtime", t1 - t0, "on core", sum(runs), "bursts", len(runs), sum(runs) // len(runs), max(runs))
print("block", dict(done), "mean", sum(times) // max(1, len(times)), "of", len(times))
mine = {k: [j for j, p in v if p == app and t0 <= j["start"] < t1] for k, v in calls.items()}
kinds = [("reads", ("read", "pread64")), ("writes", ("write", "pwrite64")), ("syncs", ("fsync", "fdatasync"))]
for name, among in kinds:
    found = [j for a in among for j in mine.get(a, [])]
    print(name, len(found), sum(max(0, j["retval"]) for j in found), sum(j["delta"] for j in found))
