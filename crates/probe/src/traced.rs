//! Recording what a kernel does by Perfetto's `traced`, which Android has for those who may not use tracefs themselves:
//! switches between threads, frequencies and idle states of the whole machine, for as long as a session of the program
//! `perfetto` lasts.

mod session;

pub use session::end_left;
pub(crate) use session::{Session, program};

use crate::conditions::Machine;
use crate::ftrace::Context;
use crate::left::numbers_are_the_kernels;
use crate::perfetto;
use crate::recorder::Recording;
use crate::usage;
use pocketstone_core::events::{Event, EventKind, EventLog};
use pocketstone_core::outcome::{Quantity, Unavailable};
use pocketstone_core::{Error, Result};
use rustix::time::{ClockId, clock_gettime};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;

/// What is recorded. A buffer of the kernel is drained four times a second and holds 16 MiB for each processor.
const CONFIG: &str = r#"buffers { size_kb: 65536 fill_policy: RING_BUFFER }
data_sources { config { name: "linux.ftrace" ftrace_config {
  ftrace_events: "sched/sched_switch"
  ftrace_events: "sched/sched_waking"
  ftrace_events: "sched/sched_wakeup_new"
  ftrace_events: "task/task_newtask"
  ftrace_events: "power/cpu_frequency"
  ftrace_events: "power/cpu_idle"
  buffer_size_kb: 16384
  drain_period_ms: 250
} } }
"#;

/// What clocks may differ by from the start to the end: they are read one after the other. More is a suspension.
pub const SUSPENDED_NS: u64 = 1_000_000;

/// A recording that is made.
pub struct Traced {
    pid: u32,
    children: bool,
    session: Session,
    /// CLOCK_BOOTTIME when it was found to record.
    begun_ns: u64,
    /// How much CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC, at the start.
    ahead_ns: i128,
    /// What was recorded, and the same at the end, once it is stopped.
    stopped: Option<(File, i128)>,
    frequencies_khz: Vec<(u16, u32)>,
    threads: BTreeSet<u32>,
}

impl Traced {
    /// Starts to record process `pid`, and with `children` also those that it starts.
    ///
    /// # Errors
    /// `ErrorKind::Board` if there is no `perfetto` here, or it does not record, with the fix as its hint.
    pub fn start(pid: u32, children: bool) -> Result<Traced> {
        let program = program()?;
        numbers_are_the_kernels()?;
        let session = Session::start(&program, "events", CONFIG, perfetto::has_events)?;
        let begun_ns = boot_ns();
        let threads = threads_of(pid);
        Ok(Traced {
            pid,
            children,
            session,
            begun_ns,
            ahead_ns: ahead_ns(),
            stopped: None,
            frequencies_khz: Machine::default().frequencies_khz(),
            threads,
        })
    }

    /// Stops recording. The process must still be there.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the session had ended before, or its trace cannot be had.
    pub fn stop(&mut self) -> Result<()> {
        let ahead_ns = ahead_ns();
        self.threads.extend(threads_of(self.pid));
        self.threads.insert(self.pid);
        self.stopped = Some((self.session.stop()?, ahead_ns));
        Ok(())
    }

    /// Reads what was recorded, after [`Traced::stop`].
    ///
    /// # Errors
    /// `ErrorKind::Board` if events were lost, the machine was suspended meanwhile, or the trace cannot be read;
    /// `ErrorKind::Bug` if it was not stopped.
    pub fn read(mut self) -> Result<Recording> {
        let stopped = self.stopped.take();
        let (trace, ahead_ns) = stopped.ok_or_else(|| Error::bug("a trace is read before it is stopped"))?;
        let suspended_ns = (ahead_ns - self.ahead_ns).unsigned_abs();
        if suspended_ns > u128::from(SUSPENDED_NS) {
            let why = format!("the machine was suspended for {} ms of the run", suspended_ns / 1_000_000);
            return Err(Error::board(why).hint("keep it awake: a wakelock, its screen on, or a cable"));
        }
        let reading = perfetto::read(BufReader::with_capacity(1 << 16, trace), &Context::default())?;
        if reading.has_other_clock {
            return Err(Error::board("the kernel's trace is not on CLOCK_BOOTTIME")
                .hint("use a phone whose kernel traces by that clock: Linux 4.10 or newer"));
        }
        let first_ns = reading.log.events.first().map(|event| event.time_ns);
        if first_ns.is_some_and(|first_ns| first_ns > self.begun_ns) {
            return Err(Error::board("the trace begins after the run did")
                .hint("end other sessions of perfetto on the phone: they share its buffers"));
        }
        if self.children {
            // In the order of their starts: whoever starts one has been started before.
            for (parent, child) in &reading.started {
                if self.threads.contains(parent) {
                    self.threads.insert(*child);
                }
            }
        }
        let log = joined(reading.log, self.ahead_ns, &self.threads, &self.frequencies_khz)?;
        let mut unavailable = not_for_everybody();
        if self.frequencies_khz.is_empty() {
            unavailable.push(Unavailable {
                what: Quantity::Frequencies,
                why: "this machine has no cpufreq that its user may read".into(),
                cure: String::new(),
            });
        }
        Ok(Recording { log, threads: self.threads, left_out: reading.left_out, unavailable })
    }
}

/// What `traced` does not record for those who are not root.
fn not_for_everybody() -> Vec<Unavailable> {
    let left_out = |what| Unavailable {
        what,
        why: "Android lets adb's user trace scheduling and frequencies only".into(),
        cure: "use a phone that is rooted: its tracefs has them".into(),
    };
    [Quantity::SystemCalls, Quantity::PageCacheMisses, Quantity::BlockRequests].map(left_out).into()
}

/// Events of a trace on CLOCK_BOOTTIME as those of a run on CLOCK_MONOTONIC: of the machine's switches and wakings
/// those of `threads`, and frequencies as they were at the start.
fn joined(log: EventLog, ahead_ns: i128, threads: &BTreeSet<u32>, frequencies_khz: &[(u16, u32)]) -> Result<EventLog> {
    let is_of = |event: &Event| match event.kind {
        EventKind::Switch { prev, next, .. } => threads.contains(&prev) || threads.contains(&next),
        EventKind::Wake { pid } => threads.contains(&pid),
        EventKind::Frequency { .. } | EventKind::Idle { .. } => true,
        _ => false,
    };
    let mut events = Vec::new();
    for event in log.events.into_iter().filter(is_of) {
        let time_ns = u64::try_from(i128::from(event.time_ns) - ahead_ns).ok();
        let time_ns = time_ns.ok_or_else(|| Error::board("an event is before the machine's start"))?;
        events.push(Event { time_ns, ..event });
    }
    if !events.iter().any(|event| matches!(event.kind, EventKind::Switch { .. })) {
        return Err(Error::board("the trace has no switch of the run's threads")
            .hint("look at what a session records by hand: perfetto -o FILE -t 5s sched/sched_switch"));
    }
    if let Some(time_ns) = events.first().map(|event| event.time_ns) {
        let at_start = |(cpu, khz): &(u16, u32)| {
            let kind = EventKind::Frequency { cpu: *cpu, khz: *khz };
            Event { time_ns, cpu: *cpu, pid: 0, kind }
        };
        events.splice(0..0, frequencies_khz.iter().map(at_start));
    }
    let mut named: BTreeSet<u32> = threads.clone();
    for event in &events {
        if let EventKind::Switch { prev, next, .. } = event.kind {
            named.extend([prev, next]);
        }
    }
    let tasks = log.tasks.into_iter().filter(|(thread, _)| named.contains(thread)).collect();
    Ok(EventLog { tasks, events, ..EventLog::default() })
}

/// CLOCK_BOOTTIME in ns.
pub(crate) fn boot_ns() -> u64 {
    u64::try_from(now(ClockId::Boottime)).unwrap_or_default()
}

fn now(clock: ClockId) -> i128 {
    let time = clock_gettime(clock);
    i128::from(time.tv_sec) * 1_000_000_000 + i128::from(time.tv_nsec)
}

/// How much CLOCK_BOOTTIME is ahead of CLOCK_MONOTONIC now.
fn ahead_ns() -> i128 {
    // Read in between: where this thread is preempted, once more.
    let mut best = (i128::MAX, 0);
    for _ in 0..5 {
        let before = now(ClockId::Monotonic);
        let boot = now(ClockId::Boottime);
        let after = now(ClockId::Monotonic);
        best = best.min((after - before, boot - (before + after) / 2));
    }
    best.1
}

fn threads_of(pid: u32) -> BTreeSet<u32> {
    usage::threads(pid).unwrap_or_default().into_iter().collect()
}

/// Whether there is a program `perfetto`.
pub fn is_here() -> bool {
    program().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_joined_to_the_runs_clock_and_holds_its_threads() {
        let at = |time_ns, cpu, pid, kind| Event { time_ns, cpu, pid, kind };
        let switch = |prev, next| EventKind::Switch { prev, state: b'S', next };
        let (idle, khz) = (EventKind::Idle { cpu: 1, state: None }, EventKind::Frequency { cpu: 0, khz: 600 });
        let log = EventLog {
            tasks: [(7, "app"), (8, "other"), (9, "neighbour")].map(|(pid, name)| (pid, name.to_owned())).into(),
            marks: vec!["x".into()],
            events: vec![
                at(5_000, 1, 8, switch(8, 0)),
                at(5_100, 0, 9, switch(9, 7)),
                at(5_200, 1, 0, idle),
                at(5_300, 0, 0, khz),
                at(5_400, 0, 7, EventKind::Wake { pid: 8 }),
                at(5_500, 1, 8, EventKind::Wake { pid: 7 }),
                at(5_600, 1, 8, EventKind::Mark { text: 0 }),
            ],
            ..EventLog::default()
        };
        let threads = BTreeSet::from([7]);
        let found = joined(log.clone(), 4_900, &threads, &[(0, 300)]).unwrap();
        let expected = [
            at(200, 0, 0, EventKind::Frequency { cpu: 0, khz: 300 }),
            at(200, 0, 9, switch(9, 7)),
            at(300, 1, 0, idle),
            at(400, 0, 0, khz),
            at(600, 1, 8, EventKind::Wake { pid: 7 }),
        ];
        assert_eq!(found.events, expected);
        assert_eq!(found.tasks, [(7, "app".to_owned()), (9, "neighbour".to_owned())]);
        // CLOCK_MONOTONIC may be ahead, as in a namespace of its own.
        assert_eq!(joined(log.clone(), -1_000, &threads, &[]).unwrap().events[0].time_ns, 6_100);
        assert!(joined(log.clone(), 5_150, &threads, &[]).is_err());
        let error = joined(log, 0, &BTreeSet::from([10]), &[]).unwrap_err();
        assert!(error.message().contains("no switch") && error.cure().is_some(), "{error}");
    }

    #[test]
    fn clocks_are_read_closely() {
        let differences: Vec<i128> = (0..50).map(|_| ahead_ns()).collect();
        let (least, most) = (differences.iter().min().unwrap(), differences.iter().max().unwrap());
        assert!(most - least < i128::from(SUSPENDED_NS), "{least} to {most}");
    }
}
