# What a phone's `perfetto` does, as far as the lab asks it to: a session that is told by standard input what to record,
# has written something once it records, ends with Ctrl-C, and leaves a trace on CLOCK_BOOTTIME. What it recorded is made
# up: the lab's engine is on processor 3 for 0.6 of each millisecond, first at 300 MHz and in the second half at 900 MHz;
# and of two power rails one takes 1.5 W and the other one 0.25 W, all the time, read ten times a second.
import os, signal, subprocess, sys, time

here, words = os.path.dirname(os.path.abspath(__file__)), sys.argv[1:]
refused = os.path.join(here, "perfetto.refused")
if os.path.exists(refused):
    sys.exit(open(refused).read())
assert words[:3] == ["--txt", "-c", "-"] and words[3] == "-o" and len(words) == 5, words
asked = sys.stdin.read()
is_power = "android.power" in asked
with open(f"/data/local/tmp/{'power' if is_power else 'perfetto'}.config", "w") as config:
    config.write(asked)


def now_us():
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1000


def engine():
    """The other process of who has started this one."""
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            stat = open(f"/proc/{pid}/stat").read()
        except OSError:
            continue
        if int(stat.rsplit(")", 1)[1].split()[1]) == os.getppid() and int(pid) != os.getpid():
            return int(pid)


def number(value):
    """A number as protobuf has it."""
    low, rest = value & 0x7F, value >> 7
    return bytes([low | 0x80]) + number(rest) if rest else bytes([low])


def part(field, content):
    """A field of a message: a number, or what has a length."""
    if isinstance(content, int):
        return number(field << 3) + number(content)
    return number(field << 3 | 2) + number(len(content)) + content


def power_rails(start_us, end_us):
    """The packets of `android.power`: names first, then every 100 ms the energy in uWs of both rails."""
    rails = {0: (b"S2M_VDD_CPUCL2", b"CPU(BIG)", 1500), 7: (b"S10M_VDD2L", b"DDR", 250)}
    named = [part(1, part(1, n) + part(2, name) + part(3, feeds)) for n, (name, feeds, _) in rails.items()]
    yield part(1, part(40, b"".join(named)))
    for us in range(start_us, end_us + 1, 100_000):
        read = [part(2, part(1, n) + part(2, us // 1000) + part(3, mw * (us // 1000))) for n, (*_, mw) in rails.items()]
        yield part(1, part(8, us * 1000) + part(40, b"".join(read)))


signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
start = now_us()
with open(words[4], "wb") as trace:
    # What `traced` says of itself, and a little later the first of what it is told: of processor 1, or of both rails.
    trace.write(b"\x0a\x02\x50\x01")
    trace.flush()
    time.sleep(0.3)
    switch_ns, to_idle = start * 1000, part(2, 1) + part(7, 0)
    event = part(1, switch_ns) + part(2, 1) + part(4, to_idle)
    first = [part(1, part(10, 1) + part(1, part(1, 1) + part(2, event)))]
    trace.writelines(power_rails(start, start) if is_power else first)
    trace.flush()
    signal.sigwait([signal.SIGINT])
    if is_power:
        trace.writelines(power_rails(start, now_us()))
        sys.exit()
    end, pid = now_us(), engine()

    def line(us, cpu, thread, event):
        return f"  x-{thread} [{cpu:03}] ...1 {us // 10**6}.{us % 10**6:06}: {event}\n"

    def switch(us, cpu, prev, following):
        names = {0: "swapper", 1: "init"}
        prev, following = (f"comm={names.get(thread, 'engine')} {{}}pid={thread} {{}}prio=120" for thread in (prev, following))
        event = f"prev_{prev} prev_state=S ==> next_{following}".replace("{}", "prev_", 2).replace("{}", "next_", 2)
        return line(us, cpu, 0, f"sched_switch: {event}")

    text = [line(start, 3, 0, "cpu_frequency: state=300000 cpu_id=3")]
    for us in range(start, end, 1000):
        text += [switch(us, 3, 0, pid), switch(us + 300, 0, 0, 1), switch(us + 400, 0, 1, 0), switch(us + 600, 3, pid, 0)]
    text.append(line((start + end) // 2, 3, 0, "cpu_frequency: state=900000 cpu_id=3"))
    script = os.path.join(here, "to_perfetto.py")
    trace.write(subprocess.run(["python3", script, "phone"], input="".join(text).encode(), stdout=subprocess.PIPE).stdout)
