//! The measured loop on a database: operations, their pauses, and a call log.

use super::{Database, cut};
use crate::clock::{now_ns, wait_until, wake_on_time};
use pocketstone_core::database::{Arrival, Waiting};
use pocketstone_core::log::Call;
use pocketstone_core::{Error, Result};
use pocketstone_workload::database::{ResultDigest, Trace};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};

/// What a run leaves behind. All times are CLOCK_MONOTONIC, in ns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Measured {
    /// One entry per operation, in their order.
    pub calls: Vec<Call>,
    /// Digest of everything returned, 16 hexadecimal digits; `None` with several threads.
    pub digest: Option<String>,
    /// Rows returned.
    pub rows: u64,
    /// Start of the first operation.
    pub start_ns: u64,
    /// End of the last one.
    pub end_ns: u64,
}

/// Where the operations begin among the measured steps, and when.
pub(super) struct Operations {
    /// First step of each operation, then the number of steps.
    starts: Vec<usize>,
    /// When each is due from the run's start on, where there is a timetable: the sum of all pauses so far,
    /// whichever thread executes them.
    due_ns: Option<Vec<u64>>,
}

impl Operations {
    /// # Errors
    /// When the first step belongs to an operation before it, or a pause lies within an operation.
    pub(super) fn new(trace: &Trace, arrival: Arrival) -> Result<Operations> {
        let steps = trace.measured();
        if let Some(n) = steps.iter().position(|s| s.joined && s.pause_ns > 0) {
            return Err(Error::user(format!("step {n} has a delay within its operation"))
                .hint("a delay is before an operation's first step"));
        }
        if steps.first().is_some_and(|s| s.joined) {
            return Err(Error::user("the first step belongs to no operation").hint("prepare the workload again"));
        }
        let mut starts: Vec<usize> = (0..steps.len()).filter(|n| !steps[*n].joined).collect();
        let due_ns = (arrival == Arrival::Open).then(|| {
            let sum = |sum: &mut u64, at: &usize| {
                *sum = sum.saturating_add(steps[*at].pause_ns);
                Some(*sum)
            };
            starts.iter().scan(0, sum).collect()
        });
        starts.push(steps.len());
        Ok(Operations { starts, due_ns })
    }

    /// Number of operations.
    fn count(&self) -> usize {
        self.starts.len() - 1
    }
}

/// One thread's share: operations `first`, `first + stride`, ...
struct Share<'a> {
    operations: &'a Operations,
    trace: &'a Trace,
    waiting: Waiting,
    first: usize,
    stride: usize,
    /// Set by a thread that failed.
    stop: &'a AtomicBool,
}

impl Share<'_> {
    /// Executes it. A call costs one reading of the clock, and another one behind a pause: without a pause,
    /// the end of the operation before is the start.
    fn execute(&self, database: &mut impl Database, begin_ns: u64) -> Result<(Vec<Call>, ResultDigest)> {
        let (operations, steps) = (self.operations, self.trace.measured());
        let mine = (self.first..operations.count()).step_by(self.stride);
        // Written now, so that no operation pays for the log's page faults.
        let mut calls = vec![Call { start_ns: 1, latency_ns: 1, intended_ns: 1 }; mine.len()];
        let mut digest = ResultDigest::default();
        let mut last_ns = now_ns();
        for (n, call) in mine.zip(&mut calls) {
            let (from, to) = (operations.starts[n], operations.starts[n + 1]);
            let intended_ns = match &operations.due_ns {
                Some(due) => begin_ns.saturating_add(due[n]),
                None => last_ns.saturating_add(steps[from].pause_ns),
            };
            let start_ns = if intended_ns > last_ns { wait_until(intended_ns, self.waiting) } else { last_ns };
            for (number, step) in (from..).zip(&steps[from..to]) {
                if let Err(error) = database.execute(number, step, &mut digest) {
                    return Err(self.failed(n, number, error));
                }
            }
            last_ns = now_ns();
            *call = Call { start_ns, latency_ns: last_ns - start_ns, intended_ns };
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok((calls, digest))
    }

    #[cold]
    fn failed(&self, operation: usize, step: usize, error: Error) -> Error {
        self.stop.store(true, Ordering::Relaxed);
        let text = cut(&self.trace.statement(&self.trace.measured()[step]).text);
        Error::new(error.kind(), format!("operation {operation} failed: {text}")).because(error)
    }
}

/// Executes all operations, one thread for each connection.
///
/// # Errors
/// The first failed operation of the first thread that has one.
pub(super) fn run<D: Database + Send>(
    connections: &mut [D],
    operations: &Operations,
    trace: &Trace,
    waiting: Waiting,
) -> Result<Measured> {
    let (stop, begin, stride) = (AtomicBool::new(false), OnceLock::new(), connections.len());
    let share = |first| Share { operations, trace, waiting, first, stride, stop: &stop };
    let shares = match connections {
        [connection] => {
            wake_on_time();
            vec![share(0).execute(connection, now_ns())?]
        }
        _ => {
            let together = Barrier::new(stride);
            let thread = |(first, connection)| {
                let (share, together, begin) = (share(first), &together, &begin);
                move || {
                    wake_on_time();
                    together.wait();
                    share.execute(connection, *begin.get_or_init(now_ns))
                }
            };
            std::thread::scope(|scope| {
                let threads = connections.iter_mut().enumerate().map(|c| scope.spawn(thread(c)));
                // All are started before the first one is waited for.
                let threads: Vec<_> = threads.collect();
                let ended = threads.into_iter().map(|t| t.join().unwrap_or_else(|_| Err(panicked())));
                ended.collect::<Result<Vec<_>>>()
            })?
        }
    };
    let digest = if stride == 1 { Some(shares[0].1.text()) } else { None };
    let rows = shares.iter().map(|(_, digest)| digest.rows()).sum();
    let calls = match stride {
        1 => shares.into_iter().next().map(|(calls, _)| calls).unwrap_or_default(),
        _ => (0..operations.count()).map(|n| shares[n % stride].0[n / stride]).collect(),
    };
    let ends = calls.iter().map(|c| c.start_ns + c.latency_ns);
    let (start_ns, end_ns) = match (calls.iter().map(|c| c.start_ns).min(), ends.max()) {
        (Some(start), Some(end)) => (start, end),
        _ => (now_ns(), now_ns()),
    };
    Ok(Measured { calls, digest, rows, start_ns, end_ns })
}

fn panicked() -> Error {
    Error::bug("a thread that executed operations panicked")
}
