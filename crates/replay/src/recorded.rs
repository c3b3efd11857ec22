//! Activities from recorded runs: from the events of a kernel, from latencies alone, from a phone's trace.

use crate::activity::{Activity, IoKind, Operation, Segment, Thread};
use pocketstone_core::events::{EventKind, EventLog, SystemCall, Window};
use pocketstone_core::events_threads::{ThreadState, ThreadTime, thread_times};
use pocketstone_core::log::Call;
use pocketstone_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// What a thread did in its operations, from the events of its run.
///
/// Time on a core becomes cycles: by the core's frequency where the log has one by then (what a frequency of
/// `f` kHz does in `t` ns are `f t / 10^6` cycles), else by `cycles_per_ns`. Time off it becomes a wait for a device
/// where the thread was in the state D, or within a call that reads, writes or syncs; of the kind of that call (of
/// reads, for D outside any call: a page that a memory access needs). Other time off a core within an operation
/// becomes a sleep. Time that it waited for a core is left out: the replay has its own cores.
///
/// What is on a core between two operations is charged to the later one: it is the program that prepares it. The rest
/// of a gap is the delay of the later one. So runs are to be recorded with delays that sleep. What comes before the
/// first operation and after the last one is left out.
///
/// An operation that wrote or synced is taken as one that ended a transaction.
///
/// # Errors
/// `ErrorKind::User` if events are not in order of time, calls overlap or are outside the window, a time is negative,
/// or the log does not know the thread; otherwise as [`Activity::check`].
pub fn from_events(
    log: &EventLog,
    window: Window,
    thread: u32,
    calls: &[Call],
    cycles_per_ns: f64,
) -> Result<Activity> {
    check_rate(cycles_per_ns)?;
    check_calls(calls)?;
    let recording = Recording::new(log, window, thread, cycles_per_ns)?;
    if let (Some(first), Some(last)) = (calls.first(), calls.last()) {
        let (start_ns, end_ns) = (first.start_ns, last.start_ns + last.latency_ns);
        if start_ns < window.start_ns || end_ns > window.end_ns {
            return Err(Error::user(format!(
                "the operations take from {start_ns} to {end_ns} ns, the window is from {} to {} ns",
                window.start_ns, window.end_ns
            ))
            .hint("give the window of the whole run, on the same clock as the calls"));
        }
    }
    let mut operations = Vec::with_capacity(calls.len());
    let mut cursor = Cursor::default();
    let mut before_ns = calls.first().map_or(0, |c| c.start_ns);
    for (call, number) in calls.iter().zip(1..) {
        let end_ns = call.start_ns + call.latency_ns;
        let mut operation = Operation::default();
        let mut rest = Tail::default();
        cursor.walk(&recording, before_ns, call.start_ns, |piece| match piece {
            Piece::Running { cycles } => rest.compute(&mut operation.segments, cycles),
            Piece::Off { ns, .. } => operation.delay_ns += ns,
        });
        cursor.walk(&recording, call.start_ns, end_ns, |piece| match piece {
            Piece::Running { cycles } => rest.compute(&mut operation.segments, cycles),
            Piece::Off { ns, io, call } => rest.off(&mut operation.segments, ns, io, call),
        });
        if recording.ended_ns.is_some_and(|ns| ns < end_ns) {
            return Err(Error::user(format!("thread {thread} ended before its operation {number}"))
                .hint("give each thread's calls with that thread's number"));
        }
        operation.transaction = recording.changes(call.start_ns, end_ns);
        operations.push(operation);
        before_ns = end_ns;
    }
    finished(operations)
}

/// What is known of a run by its latencies alone: everything is computing.
///
/// # Errors
/// `ErrorKind::User` if there are no calls, they are not in order of time or overlap, or a time is negative; otherwise
/// as [`Activity::check`].
pub fn from_calls(calls: &[Call], cycles_per_ns: f64) -> Result<Activity> {
    check_rate(cycles_per_ns)?;
    check_calls(calls)?;
    let mut before_ns = calls.first().map_or(0, |c| c.start_ns);
    let mut operations = Vec::with_capacity(calls.len());
    for call in calls {
        let segments = vec![Segment::Compute { cycles: cycles_of(call.latency_ns, cycles_per_ns) }];
        operations.push(Operation { delay_ns: call.start_ns - before_ns, segments, ..Operation::default() });
        before_ns = call.start_ns + call.latency_ns;
    }
    finished(operations)
}

/// A run on a phone between PocketData's marks SQL_START and SQL_END, of the thread that wrote them. The trace does
/// not say where a query begins. So an operation is what comes between two sleeps (waits for a device are no
/// sleeps, and losing the core is none): without delays all of it is one operation. Its first one starts at the mark.
///
/// With the activity comes the time on a core in ns, within operations, that had no frequency in the log and was taken
/// at `cycles_per_ns`.
///
/// # Errors
/// `ErrorKind::User` if a mark is missing, the marks or the events are in the wrong order, or nothing was done between
/// them.
pub fn from_phone(log: &EventLog, cycles_per_ns: f64) -> Result<(Activity, u64)> {
    check_rate(cycles_per_ns)?;
    let (pid, window) = log.phone_run()?;
    let recording = Recording::new(log, window, pid, cycles_per_ns)?;
    let mut operations: Vec<Operation> = Vec::new();
    let (mut operation, mut rest) = (Operation::default(), Tail::default());
    let mut began_ns = window.start_ns;
    let mut cursor = Cursor::default();
    for span in &recording.spans {
        cursor.walk(&recording, span.start_ns, span.end_ns, |piece| match piece {
            Piece::Running { cycles } => rest.compute(&mut operation.segments, cycles),
            Piece::Off { ns, io: Some(kind), call } => rest.off(&mut operation.segments, ns, Some(kind), call),
            Piece::Off { ns, io: None, .. } => {
                if !operation.segments.is_empty() {
                    operation.transaction = recording.changes(began_ns, span.start_ns);
                    operations.push(std::mem::take(&mut operation));
                    rest = Tail::default();
                }
                operation.delay_ns += ns;
                began_ns = span.end_ns;
            }
        });
    }
    if !operation.segments.is_empty() {
        operation.transaction = recording.changes(began_ns, window.end_ns);
        operations.push(operation);
    }
    Ok((finished(operations)?, cursor.assumed_ns))
}

/// The only thread's operations, checked.
fn finished(operations: Vec<Operation>) -> Result<Activity> {
    let activity = Activity { threads: vec![Thread { operations, background: false }] };
    activity.check()?;
    Ok(activity)
}

fn check_rate(cycles_per_ns: f64) -> Result<()> {
    match cycles_per_ns.is_finite() && cycles_per_ns > 0.0 {
        true => Ok(()),
        false => Err(Error::user(format!("{cycles_per_ns} cycles in a nanosecond"))
            .hint("cycles_per_ns is above 0: the recording core's frequency in GHz, times what its cycles are worth")),
    }
}

fn cycles_of(ns: u64, cycles_per_ns: f64) -> u64 {
    (ns as f64 * cycles_per_ns).round() as u64
}

/// A time that a signed clock would have below 0.
fn negative(ns: u64) -> bool {
    ns > i64::MAX as u64
}

/// One thread's calls, one after the other.
fn check_calls(calls: &[Call]) -> Result<()> {
    if calls.is_empty() {
        return Err(Error::user("the run has no calls").hint("replay a run that has operations"));
    }
    let mut before_ns = 0;
    for (call, number) in calls.iter().zip(1..) {
        for (what, ns) in [("start_ns", call.start_ns), ("latency_ns", call.latency_ns)] {
            if negative(ns) {
                return Err(Error::user(format!("operation {number}: {what} is negative ({})", ns as i64))
                    .hint("the call log is damaged; record the run again"));
            }
        }
        if call.start_ns < before_ns {
            return Err(Error::user(format!(
                "operation {number} starts at {} ns, operation {} ends at {before_ns} ns",
                call.start_ns,
                number - 1
            ))
            .hint("give one thread's calls in their order; of n threads, thread t has every n-th call"));
        }
        before_ns = call.start_ns + call.latency_ns;
    }
    Ok(())
}

/// A part of a thread's time.
enum Piece {
    Running {
        cycles: f64,
    },
    /// `call`: the number of the call that waits, where it is one on a file.
    Off {
        ns: u64,
        io: Option<IoKind>,
        call: Option<usize>,
    },
}

/// Puts pieces together: neighbours of one kind are one segment, and so are the waits of one call, in which a kernel
/// may wait several times: a sync is one request of the device that is modelled. What the call computes between
/// its waits comes after them. Cycles are rounded once for each segment.
#[derive(Default)]
struct Tail {
    cycles: f64,
    /// The call that waited last, and its segment.
    waited: Option<(usize, usize)>,
}

impl Tail {
    fn compute(&mut self, segments: &mut Vec<Segment>, cycles: f64) {
        match segments.last_mut() {
            Some(Segment::Compute { cycles: last }) => {
                self.cycles += cycles;
                *last = self.cycles.round() as u64;
            }
            _ => {
                self.cycles = cycles;
                segments.push(Segment::Compute { cycles: cycles.round() as u64 });
            }
        }
    }

    fn off(&mut self, segments: &mut Vec<Segment>, ns: u64, io: Option<IoKind>, call: Option<usize>) {
        let same_call = self.waited.filter(|(waited, _)| io.is_some() && Some(*waited) == call);
        if let Some(Segment::Io { ns: all, .. }) = same_call.and_then(|(_, at)| segments.get_mut(at)) {
            *all += ns;
            return;
        }
        match (segments.last_mut(), io) {
            (Some(Segment::Io { ns: last, kind }), Some(this)) if *kind == this && call.is_none() => *last += ns,
            (Some(Segment::Sleep { ns: last }), None) => *last += ns,
            (_, Some(kind)) => segments.push(Segment::Io { ns, kind }),
            (_, None) => segments.push(Segment::Sleep { ns }),
        }
        self.waited = call.filter(|_| io.is_some()).map(|call| (call, segments.len() - 1));
    }
}

/// A thread's recorded time.
struct Recording {
    /// In order, without holes.
    spans: Vec<ThreadTime>,
    /// Calls on files: start, end (of the window, where it did not return), which one.
    calls: Vec<(u64, u64, SystemCall)>,
    /// From when on it runs on a core of which frequency, in kHz; `None` where it is not known.
    speeds: Vec<(u64, Option<u32>)>,
    ended_ns: Option<u64>,
    cycles_per_ns: f64,
}

impl Recording {
    fn new(log: &EventLog, window: Window, thread: u32, cycles_per_ns: f64) -> Result<Self> {
        let unordered = |what: String| Error::user(what).hint("events are in order of time; record the run again");
        if window.end_ns < window.start_ns {
            return Err(unordered(format!(
                "the run ends at {} ns, before its start at {} ns",
                window.end_ns, window.start_ns
            )));
        }
        let mut before_ns = 0;
        for (event, number) in log.events.iter().zip(1..) {
            if negative(event.time_ns) {
                return Err(unordered(format!("event {number}: its time is negative ({} ns)", event.time_ns as i64)));
            }
            if event.time_ns < before_ns {
                return Err(unordered(format!(
                    "event {number} is at {} ns, the one before it at {before_ns} ns",
                    event.time_ns
                )));
            }
            before_ns = event.time_ns;
        }
        let spans = thread_times(log, window, &BTreeSet::from([thread]));
        if !spans.iter().any(|s| s.state == ThreadState::Running) {
            return Err(Error::user(format!("the log has no events of thread {thread} within the run"))
                .hint("name a thread of the run; the run's outcome lists them"));
        }
        let ended_ns = spans.iter().find(|s| s.state == ThreadState::Ended).map(|s| s.start_ns);
        let calls = file_calls(log, window, thread);
        Ok(Recording { spans, calls, speeds: speeds(log, thread), ended_ns, cycles_per_ns })
    }

    /// Whether a call that writes or syncs began within some time.
    fn changes(&self, start_ns: u64, end_ns: u64) -> bool {
        let from = self.calls.partition_point(|(start, ..)| *start < start_ns);
        let mut within = self.calls[from..].iter().take_while(|(start, ..)| *start < end_ns);
        within.any(|(_, _, call)| matches!(call, SystemCall::Write | SystemCall::Sync))
    }
}

/// The calls of a thread on files, from the log's start on.
fn file_calls(log: &EventLog, window: Window, thread: u32) -> Vec<(u64, u64, SystemCall)> {
    let mut calls: Vec<(u64, u64, SystemCall)> = Vec::new();
    let mut open = false;
    for event in log.events.iter().filter(|e| e.pid == thread) {
        match event.kind {
            EventKind::Enter { call, .. } => {
                calls.push((event.time_ns, window.end_ns, call));
                open = true;
            }
            EventKind::Exit { .. } if open => {
                if let Some(last) = calls.last_mut() {
                    last.1 = event.time_ns;
                }
                open = false;
            }
            _ => {}
        }
    }
    calls
}

/// The frequency that a thread runs at, whenever it changes.
fn speeds(log: &EventLog, thread: u32) -> Vec<(u64, Option<u32>)> {
    let mut of_core: BTreeMap<u16, u32> = BTreeMap::new();
    let mut core = log.events.iter().find(|e| e.pid == thread).map(|e| e.cpu);
    let mut speeds: Vec<(u64, Option<u32>)> = Vec::new();
    for event in &log.events {
        match event.kind {
            EventKind::Switch { next, .. } if next == thread => core = Some(event.cpu),
            EventKind::Frequency { cpu, khz } => {
                of_core.insert(cpu, khz);
            }
            // A core that it was not seen to get.
            _ if event.pid == thread && core != Some(event.cpu) => core = Some(event.cpu),
            _ => continue,
        }
        let speed = core.and_then(|c| of_core.get(&c).copied());
        if speeds.last().and_then(|s| s.1) != speed {
            speeds.push((event.time_ns, speed));
        }
    }
    speeds
}

/// Walks through a recording, forward only: the cost is linear.
#[derive(Default)]
struct Cursor {
    span: usize,
    call: usize,
    speed: usize,
    /// Time on a core whose frequency the log does not have.
    assumed_ns: u64,
}

impl Cursor {
    /// The pieces of some time, which is not before that of the walk before.
    fn walk(&mut self, recording: &Recording, start_ns: u64, end_ns: u64, mut each: impl FnMut(Piece)) {
        while let Some(span) = recording.spans.get(self.span) {
            let (from_ns, to_ns) = (span.start_ns.max(start_ns), span.end_ns.min(end_ns));
            if from_ns < to_ns {
                match span.state {
                    ThreadState::Running => each(Piece::Running { cycles: self.cycles(recording, from_ns, to_ns) }),
                    ThreadState::Waiting | ThreadState::Ended => {}
                    state => {
                        let (io, call) = self.kind(recording, from_ns, state == ThreadState::Blocked);
                        each(Piece::Off { ns: to_ns - from_ns, io, call });
                    }
                }
            }
            if span.end_ns > end_ns {
                break;
            }
            self.span += 1;
        }
    }

    fn cycles(&mut self, recording: &Recording, from_ns: u64, to_ns: u64) -> f64 {
        let speeds = &recording.speeds;
        let (mut at_ns, mut cycles) = (from_ns, 0.0);
        while at_ns < to_ns {
            while speeds.get(self.speed).is_some_and(|s| s.0 <= at_ns) {
                self.speed += 1;
            }
            let until_ns = speeds.get(self.speed).map_or(to_ns, |s| s.0.min(to_ns));
            let khz = self.speed.checked_sub(1).and_then(|s| speeds[s].1);
            if khz.is_none() {
                self.assumed_ns += until_ns - at_ns;
            }
            let rate = khz.map_or(recording.cycles_per_ns, |khz| f64::from(khz) / 1e6);
            cycles += (until_ns - at_ns) as f64 * rate;
            at_ns = until_ns;
        }
        cycles
    }

    /// What device a thread waits for that leaves its core at a moment, and the call that does.
    fn kind(&mut self, recording: &Recording, at_ns: u64, blocked: bool) -> (Option<IoKind>, Option<usize>) {
        while recording.calls.get(self.call).is_some_and(|c| c.1 <= at_ns) {
            self.call += 1;
        }
        let call = recording.calls.get(self.call).filter(|c| c.0 <= at_ns).map(|c| c.2);
        let kind = match call {
            Some(SystemCall::Read) => Some(IoKind::Read),
            Some(SystemCall::Write) => Some(IoKind::Write),
            Some(SystemCall::Sync) => Some(IoKind::Sync),
            Some(SystemCall::Delete | SystemCall::Truncate) if blocked => Some(IoKind::Write),
            _ => blocked.then_some(IoKind::Read),
        };
        (kind, call.map(|_| self.call))
    }
}

#[cfg(test)]
mod tests;
