# Ftrace text in Perfetto's form, by the field numbers of the published perfetto_trace.proto and by nothing of the crates:
#     python3 to_perfetto.py phone|plain < LOG > TRACE
# "phone" is as a phone's traced writes it: drained four times a second, switches and wakings as numbers side by side with
# a table of names, packets compressed together. "plain" has each event as a message of its own.
import re, sys, zlib

compact = sys.argv[1] == "phone"
shape = re.compile(r"^\s*(.*)-(\d+)\s+(?:\(.{7}\)\s+)?\[(\d+)\] \S+\s+(\d+)\.(\d{6}): (\w+): (.*)$", re.S)


def varint(value):
    value &= (1 << 64) - 1
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def number(field, value):
    return varint(field << 3) + varint(value)


def data(field, value):
    value = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
    return varint(field << 3 | 2) + varint(len(value)) + value


def packed(field, values):
    return data(field, b"".join(map(varint, values))) if values else b""


# As Linux 3.10 numbers them, which the trace says it is of; a `+` stands for a thread that was preempted.
states = {"R": 0, "S": 1, "D": 2, "T": 4, "t": 8, "Z": 16, "X": 32, "x": 64, "K": 128, "W": 256, "P": 512}


def makedev(text):
    major, minor = map(int, text.split(","))
    return (minor & 0xFF) | major << 8 | (minor & ~0xFF) << 12


def payload(event, body):
    """Field and message of an event that is neither a switch nor a waking."""
    if event in ("tracing_mark_write", "print"):
        text = body.split(": ", 1)[-1] if event == "print" else body
        return data(3, data(2, text + "\n"))
    if event in ("cpu_frequency", "cpu_idle"):
        state, cpu = re.match(r"state=(\d+) cpu_id=(\d+)", body).groups()
        return data(11 if event == "cpu_frequency" else 13, number(1, int(state)) + number(2, int(cpu)))
    if event.startswith("block_rq_"):
        field = {"block_rq_issue": 45, "block_rq_complete": 125, "block_rq_insert": 126}[event]
        dev, kind, sector, sectors = re.match(r"(\S+) (\S+) .*\) (\d+) \+ (\d+)", body).groups()
        return data(field, number(1, makedev(dev)) + number(2, int(sector)) + number(3, int(sectors)) + data(5, kind))
    return None


def switch(body):
    left, right = body.split(" ==> ")
    prev = re.match(r"prev_comm=(.*) prev_pid=(\d+) prev_prio=(\d+) prev_state=(\S+)$", left)
    following = re.match(r"next_comm=(.*) next_pid=(\d+) next_prio=(\d+)", right)
    state = states[prev[4][0]] | (0x400 if prev[4].endswith("+") else 0)
    return prev[1], int(prev[2]), int(prev[3]), state, following[1], int(following[2]), int(following[3])


def waking(body):
    found = re.match(r"comm=(.*) pid=(\d+) prio=(\d+)", body)
    return found[1], int(found[2]), int(found[3])


rows = []
for text in sys.stdin.buffer.read().decode("utf-8", "surrogateescape").split("\n"):
    m = shape.match(text.rstrip("\r"))
    if m:
        rows.append((int(m[4]) * 10**9 + int(m[5]) * 1000, int(m[3]), int(m[2]), m[6], m[7]))

packets = []


def bundle(cpu, events):
    out, names = b"", []

    def index(name):
        if name not in names:
            names.append(name)
        return names.index(name)

    switches, wakings = [], []
    for time, pid, event, body in events:
        head = number(1, time) + number(2, pid)
        if event == "sched_switch":
            prev_comm, prev, prev_prio, state, comm, following, prio = switch(body)
            if compact:
                switches.append((time, state, following, prio, index(comm)))
                continue
            what = data(1, prev_comm) + number(2, prev) + number(3, prev_prio) + number(4, state)
            what = data(4, what + data(5, comm) + number(6, following) + number(7, prio))
        elif event in ("sched_waking", "sched_wakeup", "sched_wakeup_new"):
            comm, woken, prio = waking(body)
            if compact and event == "sched_waking":
                wakings.append((time, woken, cpu, prio, index(comm)))
                continue
            field = {"sched_waking": 20, "sched_wakeup": 17, "sched_wakeup_new": 114}[event]
            what = data(field, data(1, comm) + number(2, woken) + number(3, prio))
        else:
            what = payload(event, body)
        if what is not None:
            out += data(2, head + what)

    def later(times):
        return [time - before for time, before in zip(times, [0] + times[:-1])]

    table = b""
    if switches:
        times, *others = map(list, zip(*switches))
        for field, column in zip((1, 2, 3, 4, 6), (later(times), *others)):
            table += packed(field, column)
    table += b"".join(data(5, name) for name in names)
    if wakings:
        times, *others = map(list, zip(*wakings))
        for field, column in zip((7, 8, 9, 10, 11), (later(times), *others)):
            table += packed(field, column)
    out += data(4, table) if table else b""
    return data(1, data(1, number(1, cpu) + out) + number(10, 2))


clocks = data(1, number(1, 6) + number(2, 10**9)) + data(1, number(1, 3) + number(2, 10**9))
packets.append(data(1, data(6, clocks + number(2, 6)) + number(10, 1)))
packets.append(data(1, data(45, data(1, data(1, "Linux") + data(3, "3.10.40-perf"))) + number(10, 1)))
drained = {}
for time, cpu, pid, event, body in sorted(rows, key=lambda row: row[0]):
    drained.setdefault(time // 250_000_000, {}).setdefault(cpu, []).append((time, pid, event, body))
for _, by_cpu in sorted(drained.items()):
    for cpu, events in sorted(by_cpu.items()):
        packets.append(bundle(cpu, events))
if compact:
    grouped = [b"".join(packets[at : at + 8]) for at in range(0, len(packets), 8)]
    packets = [data(1, data(50, zlib.compress(group))) for group in grouped]
sys.stdout.buffer.write(b"".join(packets))
