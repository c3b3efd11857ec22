//! A thread that is replayed: where it is in its operations.

use crate::activity::{IoKind, Operation, Segment, Thread};
use crate::outcome::OperationTimes;
use pocketstone_core::hint::Hint;

/// Work in a cycle: progress is counted in kHz * ns.
const WORK_PER_CYCLE: u64 = 1_000_000;

/// What a thread does on a core.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Work {
    /// Nothing yet: what comes next is to be looked up.
    Unknown,
    /// It computes: kHz * ns that are left.
    Cycles(u64),
    /// It waits for memory: nanoseconds that are left.
    Memory(u64),
    /// It looks at the clock until then.
    Clock(u64),
}

/// What a thread does next.
pub(super) enum Next {
    /// It runs.
    Run(Work),
    /// It leaves its core until then, for a device or not.
    Off { until_ns: u64, io: Option<IoKind> },
    /// It says something.
    Hint(Hint),
    /// It has ended.
    Ended,
}

/// What was done of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// Nothing.
    Fresh,
    /// Its delay.
    Delayed,
    /// Its start, and so many segments.
    Segments(usize),
    /// The device was waited for that the segment of that number wants; its hint was given before.
    Blocking(usize),
    /// Everything; its end was told.
    Done,
}

pub(super) struct Replaying<'a> {
    operations: &'a [Operation],
    pub(super) background: bool,
    busy_waiting: bool,
    batch: usize,
    /// The operation.
    at: usize,
    step: Step,
    /// What it does on its core, or did when it lost it.
    pub(super) work: Work,
    /// The device that it waits for.
    pub(super) io: Option<IoKind>,
    /// The end of the operation before: its delay counts from then, also if it has no core yet.
    before_ns: u64,
    /// End of the pause that its moment counts from.
    paused_until_ns: u64,
    start_ns: u64,
    pub(super) times: Vec<OperationTimes>,
}

impl<'a> Replaying<'a> {
    pub(super) fn new(thread: &'a Thread, busy_waiting: bool, batch: u32) -> Self {
        let counted = if thread.background { 0 } else { thread.operations.len() };
        Replaying {
            operations: &thread.operations,
            background: thread.background,
            busy_waiting: busy_waiting && !thread.background,
            batch: batch as usize,
            at: 0,
            step: Step::Fresh,
            work: Work::Unknown,
            io: None,
            before_ns: 0,
            paused_until_ns: 0,
            start_ns: 0,
            times: Vec::with_capacity(counted),
        }
    }

    /// Whether the replay waits for its end.
    pub(super) fn counts(&self) -> bool {
        !self.background && !self.operations.is_empty()
    }

    /// The delay that it starts with, where it sleeps: it needs no core for that.
    pub(super) fn first_sleep(&mut self) -> Option<u64> {
        let delay_ns = self.operations.first().map(|o| o.delay_ns).filter(|ns| *ns > 0 && !self.busy_waiting)?;
        (self.step, self.paused_until_ns) = (Step::Delayed, delay_ns);
        Some(delay_ns)
    }

    /// Operations that follow this one in its batch.
    fn following(&self) -> u32 {
        let of_batch = self.batch - 1 - self.at % self.batch;
        of_batch.min(self.operations.len() - 1 - self.at) as u32
    }

    /// What it does next; it is on a core.
    pub(super) fn next(&mut self, now_ns: u64) -> Next {
        loop {
            if self.at == self.operations.len() {
                if !self.background || self.operations.is_empty() {
                    return Next::Ended;
                }
                self.at = 0;
            }
            let operation = &self.operations[self.at];
            match self.step {
                Step::Fresh => {
                    self.step = Step::Delayed;
                    let until_ns = self.before_ns + operation.delay_ns;
                    if self.at % self.batch == 0 {
                        self.paused_until_ns = until_ns;
                    }
                    match operation.delay_ns {
                        0 => {}
                        _ if self.busy_waiting => return Next::Run(Work::Clock(until_ns)),
                        _ => return Next::Off { until_ns, io: None },
                    }
                }
                Step::Delayed => {
                    (self.step, self.start_ns) = (Step::Segments(0), now_ns);
                    return Next::Hint(Hint::OperationStarts { following: self.following() });
                }
                Step::Segments(n) => {
                    let Some(segment) = operation.segments.get(n) else {
                        self.step = Step::Done;
                        self.ended(operation, now_ns);
                        let next_in_ns = (self.following() > 0).then_some(0);
                        let transaction_ended = operation.transaction;
                        return Next::Hint(Hint::OperationEnds { transaction_ended, next_in_ns });
                    };
                    self.step = Step::Segments(n + 1);
                    match *segment {
                        Segment::Compute { cycles: 0 } | Segment::Stall { ns: 0 } => {}
                        Segment::Io { ns: 0, .. } | Segment::Sleep { ns: 0 } => {}
                        Segment::Compute { cycles } => return Next::Run(Work::Cycles(cycles * WORK_PER_CYCLE)),
                        Segment::Stall { ns } => return Next::Run(Work::Memory(ns)),
                        Segment::Sleep { ns } => return Next::Off { until_ns: now_ns + ns, io: None },
                        Segment::Io { .. } => {
                            self.step = Step::Blocking(n);
                            return Next::Hint(Hint::Blocks);
                        }
                    }
                }
                Step::Blocking(n) => match (self.io.take(), operation.segments[n]) {
                    (None, Segment::Io { ns, kind }) => {
                        self.io = Some(kind);
                        return Next::Off { until_ns: now_ns + ns, io: Some(kind) };
                    }
                    _ => {
                        self.step = Step::Segments(n + 1);
                        return Next::Hint(Hint::Resumes);
                    }
                },
                Step::Done => (self.at, self.step, self.before_ns) = (self.at + 1, Step::Fresh, now_ns),
            }
        }
    }

    fn ended(&mut self, operation: &Operation, now_ns: u64) {
        if self.background {
            return;
        }
        let wanted_ns = self.paused_until_ns.saturating_sub(operation.held_ns);
        let latency_ns = now_ns - self.start_ns;
        self.times.push(OperationTimes { start_ns: self.start_ns, latency_ns, response_ns: now_ns - wanted_ns });
    }
}
