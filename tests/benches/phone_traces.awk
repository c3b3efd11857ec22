# The run of a phone's log by the plainest reading, for comparison:
#     zcat YCSB_WorkloadC_NoTimingsql.log.gz | awk -f phone_traces.awk
# From the mark _START to the mark _END: who wrote it, wall time, time on a core and bursts, in microseconds.
{
    # The time is the first word that is a number with a point and a colon behind it.
    for (i = 1; i <= NF && $i !~ /^[0-9]+\.[0-9]+:$/; i++);
    split($i, t, /[.:]/)
    us = t[1] * 1000000 + t[2]
}
/tracing_mark_write: .*_START"/ {
    match($0, /-[0-9]+ +(\([^)]*\) +)?\[/)
    app = substr($0, RSTART + 1) + 0
    start = since = us
    running = 1
}
/sched_switch: / && app {
    match($0, / prev_pid=[0-9]+ prev_prio/); prev = substr($0, RSTART + 10) + 0
    match($0, / next_pid=[0-9]+ next_prio/); following = substr($0, RSTART + 10) + 0
    if (prev == app && running) { sum += us - since; bursts++; running = 0 }
    if (following == app) { since = us; running = 1 }
}
/tracing_mark_write: .*_END"/ && app {
    if (running) { sum += us - since; bursts++ }
    print "app", app, "wall", us - start, "on core", sum, "bursts", bursts
    app = 0; sum = bursts = 0
}
