//! What a process used, by the kernel's own account.

use pocketstone_core::database::Usage;
use procfs::ProcError;
use procfs::process::{Process, Status};
use std::collections::BTreeMap;

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
        let on_core_ns = cpu_clock_ns(pid);
        let process = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok());
        let stat = process.as_ref().and_then(|p| p.stat().ok());
        let switches = process.as_ref().and_then(switches);
        let io = process.as_ref().and_then(|p| p.io().ok());
        Snapshot {
            on_core_ns,
            // In clock ticks of 10 ms.
            kernel_ns: stat.as_ref().map(|s| s.stime * tick_ns()),
            major_faults: stat.as_ref().map(|s| s.majflt),
            switches,
            io: io.map(|io| [io.syscr, io.syscw, io.read_bytes, io.write_bytes]),
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

/// The threads of a process.
///
/// # Errors
/// `io::ErrorKind::NotFound` if there is no such process.
pub fn threads(pid: u32) -> std::io::Result<Vec<u32>> {
    let of = |process: Process| process.tasks().ok();
    let tasks = i32::try_from(pid).ok().and_then(|pid| Process::new(pid).ok()).and_then(of);
    let tasks = tasks.ok_or(std::io::ErrorKind::NotFound)?;
    Ok(tasks.flatten().filter_map(|task| task.tid.try_into().ok()).collect())
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

fn switches(process: &Process) -> Option<BTreeMap<u32, [u64; 2]>> {
    let of = |status: Status| Some([status.voluntary_ctxt_switches?, status.nonvoluntary_ctxt_switches?]);
    let mut all = BTreeMap::new();
    for task in process.tasks().ok()?.flatten() {
        let status = match task.status() {
            Ok(status) => status,
            Err(ProcError::Incomplete(_) | ProcError::InternalError(_)) => return None,
            // A thread that ends while this looks has no status any more.
            Err(_) => continue,
        };
        all.insert(task.tid.try_into().ok()?, of(status)?);
    }
    (!all.is_empty()).then_some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_testing::wait::until;

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
        // What it wrote is here before the kernel has counted the call: it is counted when it waits again.
        let stat = format!("/proc/{}/stat", child.id());
        let waits = || std::fs::read_to_string(&stat).unwrap().contains(") S ");
        output.read_line(&mut String::new()).unwrap();
        until("it waits to be told to go on", waits);
        let before = Snapshot::of(child.id());
        let start = std::time::Instant::now();
        child.stdin.as_mut().unwrap().write_all(b"go\n").unwrap();
        output.read_line(&mut String::new()).unwrap();
        until("it waits for its end", waits);
        let used = Snapshot::of(child.id()).since(&before);
        let passed = start.elapsed().as_nanos() as u64;
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
