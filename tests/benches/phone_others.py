# What else ran on a phone's cores during its run, for docs/devices.md, in per cent of the run:
#     python3 phone_others.py YCSB_WorkloadA_LogTimingsql.log.gz
import collections, sys

import phone_log

start, app, end, switches = phone_log.read(sys.argv[1])

cores, names, running = collections.defaultdict(collections.Counter), collections.Counter(), {}
for at, core, prev, _, name, following in switches + [(end, core, 0, "", "", 0) for core in {s[1] for s in switches}]:
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
