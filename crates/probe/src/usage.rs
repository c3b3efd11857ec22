//! What a process used, by the kernel's own account.

use pocketstone_core::database::Usage;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The kernel's counters of a process at one moment; a counter that cannot be read is `None`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    on_core_ns: Option<u64>,
    kernel_ns: Option<u64>,
    major_faults: Option<u64>,
    /// Voluntary and involuntary switches of each thread.
    switches: Option<BTreeMap<u32, [u64; 2]>>,
    /// syscr, syscw, read_bytes, write_bytes.
    io: Option<[u64; 4]>,
}

impl Snapshot {
    /// The counters of process `pid` now.
    pub fn of(pid: u32) -> Snapshot {
        let folder = Path::new("/proc").join(pid.to_string());
        let stat = fs::read_to_string(folder.join("stat")).ok();
        let stat = stat.as_deref();
        Snapshot {
            on_core_ns: cpu_clock_ns(pid),
            // Fields 15 and 12 of proc(5): stime in clock ticks (10 ms), majflt.
            kernel_ns: stat.and_then(|s| field(s, 15)).map(|ticks| ticks * tick_ns()),
            major_faults: stat.and_then(|s| field(s, 12)),
            switches: switches(&folder.join("task")),
            io: fs::read_to_string(folder.join("io")).ok().as_deref().and_then(io),
        }
    }

    /// Time on a core since the process began.
    pub fn on_core_ns(&self) -> Option<u64> {
        self.on_core_ns
    }

    /// What was used since `earlier`, a snapshot of the same process. Switches are `None` where a thread has
    /// ended since then, for its counts went with it; one that began since then as well is not noticed.
    pub fn since(&self, earlier: &Snapshot) -> Usage {
        let less = |now: Option<u64>, then: Option<u64>| now?.checked_sub(then?);
        let io = |n: usize| less(self.io.map(|c| c[n]), earlier.io.map(|c| c[n]));
        let switches = |n: usize| {
            let (now, then) = (self.switches.as_ref()?, earlier.switches.as_ref()?);
            let whole = then.keys().all(|thread| now.contains_key(thread));
            let sum = |of: &BTreeMap<u32, [u64; 2]>| of.values().map(|c| c[n]).sum::<u64>();
            whole.then(|| sum(now).checked_sub(sum(then)))?
        };
        Usage {
            on_core_ns: less(self.on_core_ns, earlier.on_core_ns),
            kernel_ns: less(self.kernel_ns, earlier.kernel_ns),
            voluntary_switches: switches(0),
            involuntary_switches: switches(1),
            read_calls: io(0),
            write_calls: io(1),
            device_read_bytes: io(2),
            device_write_bytes: io(3),
            major_faults: less(self.major_faults, earlier.major_faults),
        }
    }
}

/// The process's CPU time, all threads, those that have ended included.
fn cpu_clock_ns(pid: u32) -> Option<u64> {
    // clock_getcpuclockid(3): the complement of the process's number, shifted, with 2 for the scheduler's
    // clock (CPUCLOCK_SCHED of the kernel's posix-timers).
    let clock = (!i32::try_from(pid).ok().filter(|p| *p > 0)? << 3) | 2;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a timespec of our own that the call fills; a wrong clock is an error, no more.
    if unsafe { libc::clock_gettime(clock, &mut time) } != 0 {
        return None;
    }
    // Both are 32 bits wide on some machines.
    #[allow(clippy::unnecessary_fallible_conversions, clippy::useless_conversion)]
    let (seconds, rest) = (u64::try_from(time.tv_sec).ok()?, u64::try_from(time.tv_nsec).ok()?);
    Some(seconds * 1_000_000_000 + rest)
}

fn tick_ns() -> u64 {
    1_000_000_000 / rustix::param::clock_ticks_per_second()
}

/// Field `n` of /proc/PID/stat, counted from 1; the second, the name, may hold spaces and brackets.
fn field(stat: &str, n: usize) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(") ")?;
    rest.split(' ').nth(n - 3)?.parse().ok()
}

fn switches(tasks: &Path) -> Option<BTreeMap<u32, [u64; 2]>> {
    let mut all = BTreeMap::new();
    for task in fs::read_dir(tasks).ok()?.flatten() {
        // A thread that ends while this looks has no status any more.
        let Ok(status) = fs::read_to_string(task.path().join("status")) else { continue };
        let thread = task.file_name().to_str()?.parse().ok()?;
        all.insert(thread, [value(&status, "voluntary_ctxt_switches")?, value(&status, "nonvoluntary_ctxt_switches")?]);
    }
    (!all.is_empty()).then_some(all)
}

fn io(text: &str) -> Option<[u64; 4]> {
    Some([value(text, "syscr")?, value(text, "syscw")?, value(text, "read_bytes")?, value(text, "write_bytes")?])
}

/// The number in a line `name: number`.
fn value(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_as_proc_writes_them() {
        let stat = "7 (a) b (c) S 1 2 3 4 5 6 77 8 99 10 1111 1222 13 14 20 0 1 0";
        // pid 1, comm 2, state 3, ppid 4, ..., flags 9, minflt 10, cminflt 11, majflt 12, ..., utime 14, stime 15.
        assert_eq!((field(stat, 12), field(stat, 14), field(stat, 15)), (Some(99), Some(1111), Some(1222)));
        let text = "rchar: 9\nwchar: 8\nsyscr: 1\nsyscw: 2\nread_bytes: 3\nwrite_bytes: 4\ncancelled_write_bytes: 5\n";
        assert_eq!(io(text), Some([1, 2, 3, 4]));
        let status = "voluntary_ctxt_switches:\t12\nnonvoluntary_ctxt_switches:\t3\n";
        assert_eq!(value(status, "voluntary_ctxt_switches"), Some(12));
        assert_eq!(value(status, "nonvoluntary_ctxt_switches"), Some(3));
    }

    #[test]
    fn what_another_process_used_is_counted() {
        // It waits for another process, then counts to 200,000 on its core, then waits for its input's end.
        const SCRIPT: &str = "echo ready; read x; sleep 0.05; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; \
            echo done; read x";
        let mut child = std::process::Command::new("/bin/sh")
            .args(["-c", SCRIPT])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        use std::io::{BufRead, Write};
        let mut output = std::io::BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut String::new()).unwrap();
        let before = Snapshot::of(child.id());
        let start = std::time::Instant::now();
        child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        output.read_line(&mut String::new()).unwrap();
        let passed = start.elapsed().as_nanos() as u64;
        let used = Snapshot::of(child.id()).since(&before);
        drop(child.stdin.take());
        child.wait().unwrap();
        let on_core = used.on_core_ns.unwrap();
        assert!(on_core > 1_000_000 && on_core <= passed + 10_000_000, "{on_core} of {passed}");
        assert!(used.kernel_ns.unwrap() <= on_core + 20_000_000);
        // "done" is one call. How many bytes a shell reads at once is its own affair.
        if let Some(calls) = used.read_calls {
            assert!(calls >= 1, "{calls}");
            assert_eq!(used.write_calls, Some(1));
        }
        assert!(used.voluntary_switches.unwrap() >= 1);
        let gone = Snapshot::of(child.id());
        assert_eq!(gone.since(&before), Usage::default());
    }

    #[test]
    fn a_thread_that_ended_takes_its_switches_along() {
        let snapshot = |threads: &[(u32, u64)]| Snapshot {
            on_core_ns: Some(5),
            kernel_ns: None,
            major_faults: Some(1),
            switches: Some(threads.iter().map(|(t, n)| (*t, [*n, 2 * n])).collect()),
            io: None,
        };
        let used = snapshot(&[(1, 5), (3, 2)]).since(&snapshot(&[(1, 4)]));
        assert_eq!((used.voluntary_switches, used.involuntary_switches), (Some(3), Some(6)));
        assert_eq!((used.on_core_ns, used.kernel_ns, used.major_faults), (Some(0), None, Some(0)));
        let used = snapshot(&[(1, 5)]).since(&snapshot(&[(1, 4), (2, 1)]));
        assert_eq!(used.voluntary_switches, None);
    }
}
