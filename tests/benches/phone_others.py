# What else ran on a phone's cores during its run, for docs/devices.md, in per cent of the run:
#     python3 phone_others.py YCSB_WorkloadA_LogTimingsql.log.gz
import collections, gzip, re, sys

shape = re.compile(r"^.*-(\d+)\s+\[(\d+)\] \S+\s+(\d+\.\d+): (\w+): (.*)$")
switch = re.compile(r"prev_comm=.* prev_pid=(\d+) prev_prio=.* next_comm=(.*) next_pid=(\d+)")
marks, switches = {}, []
with gzip.open(sys.argv[1], "rt", errors="replace", newline="\n") as lines:
    for line in lines:
        found = shape.match(line)
        if not found:
            continue
        pid, core, at, event, body = found.groups()
        if event == "sched_switch":
            prev, name, following = switch.search(body).groups()
            switches.append((float(at), int(core), int(prev), name, int(following)))
        elif event == "tracing_mark_write" and "SQL_" in body:
            marks["SQL_START" in body] = (float(at), int(pid))
(start, app), (end, _) = marks[True], marks[False]

cores, names, running = collections.defaultdict(collections.Counter), collections.Counter(), {}
for at, core, prev, name, following in switches + [(end, core, 0, "", 0) for core in {s[1] for s in switches}]:
    pid, since, known = running.get(core, (prev, start, "?"))
    time = max(0, min(at, end) - max(since, start))
    who = {0: "idle", app: "app"}.get(pid, "others")
    cores[core][who] += time
    if who == "others":
        names[known] += time
    running[core] = (following, at, name)

share = lambda time: round(100 * time / (end - start), 2)
print("run", round(end - start, 6), "s")
for core in sorted(cores):
    print("core", core, {who: share(time) for who, time in sorted(cores[core].items())})
print({name: share(time) for name, time in names.most_common(12)})
