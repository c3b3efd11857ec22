# What a published log of a phone says of its run: `read` gives the time and thread of its start, the time of its end, and
# of every switch of a core: time, core, the thread before, its state, the name of the one that follows, and that thread.
import gzip, re

shape = re.compile(r"^.*-(\d+)\s+\[(\d+)\] \S+\s+(\d+\.\d+): (\w+): (.*)$")
switch = re.compile(r"prev_pid=(\d+) prev_prio=\d+ prev_state=(\S+) ==> .*next_comm=(.*) next_pid=(\d+)")


def read(path):
    marks, switches = {}, []
    with gzip.open(path, "rt", errors="replace", newline="\n") as lines:
        for line in lines:
            found = shape.match(line)
            if not found:
                continue
            pid, core, at, event, body = found.groups()
            moved = event == "sched_switch" and switch.search(body)
            if moved:
                prev, state, name, following = moved.groups()
                switches.append((float(at), int(core), int(prev), state, name, int(following)))
            elif event == "tracing_mark_write" and "SQL_" in body:
                marks["SQL_START" in body] = (float(at), int(pid))
    (start, app), (end, _) = marks[True], marks[False]
    return start, app, end, switches
