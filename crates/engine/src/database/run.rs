//! The measured loop on a database: operations, their pauses, and a call log.

use super::hints::{self, Informs, Transactions};
use super::{Database, cut};
use crate::clock::{now_ns, wait_until, wake_on_time};
use pocketstone_core::database::{Arrival, Waiting};
use pocketstone_core::hint::Hint;
use pocketstone_core::log::Call;
use pocketstone_core::{Error, Result};
use pocketstone_workload::database::{ResultDigest, Trace};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Barrier, OnceLock};

/// The recording of a run. All times are CLOCK_MONOTONIC, in ns.
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
    /// `ErrorKind::User` if the first step continues an earlier operation, or a pause lies within an operation.
    pub(super) fn new(trace: &Trace, arrival: Arrival) -> Result<Operations> {
        let steps = trace.measured();
        if let Some(n) = steps.iter().position(|s| s.joined && s.pause_ns > 0) {
            return Err(Error::user(format!("step {n} has a delay within its operation"))
                .hint("a delay must be before an operation's first step"));
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

    /// The steps of each operation, by their numbers.
    pub(super) fn steps(&self) -> impl Iterator<Item = std::ops::Range<usize>> + '_ {
        self.starts.windows(2).map(|ends| ends[0]..ends[1])
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
    /// the end of the operation before is the start. With hints, what their taker does is a part of the
    /// operation that they are about. `begin` says when the run begins, once everything is ready for it.
    fn execute<const HINTS: bool>(
        &self,
        database: &mut impl Database,
        begin: impl FnOnce() -> u64,
    ) -> Result<(Vec<Call>, ResultDigest)> {
        let (operations, steps) = (self.operations, self.trace.measured());
        let mine = (self.first..operations.count()).step_by(self.stride);
        // Written now, so that no operation pays for the log's page faults.
        let mut calls = vec![Call { start_ns: 1, latency_ns: 1, intended_ns: 1 }; mine.len()];
        let mut digest = ResultDigest::default();
        let mut told = if HINTS { Told::new(self) } else { Told::default() };
        let begin_ns = begin();
        let mut last_ns = now_ns();
        for (n, call) in mine.zip(&mut calls) {
            let (from, to) = (operations.starts[n], operations.starts[n + 1]);
            let intended_ns = match &operations.due_ns {
                Some(due) => begin_ns.saturating_add(due[n]),
                None => last_ns.saturating_add(steps[from].pause_ns),
            };
            let start_ns = if intended_ns > last_ns { wait_until(intended_ns, self.waiting) } else { last_ns };
            if HINTS {
                hints::say(Hint::OperationStarts { following: told.following(self, n, start_ns, begin_ns) });
            }
            for (number, step) in (from..).zip(&steps[from..to]) {
                if let Err(error) = database.execute(number, step, &mut digest) {
                    return Err(self.failed(n, number, error));
                }
            }
            last_ns = now_ns();
            *call = Call { start_ns, latency_ns: last_ns - start_ns, intended_ns };
            if HINTS {
                let transaction_ended = told.transactions.end_with(self.trace, &steps[from..to]);
                hints::say(Hint::OperationEnds { transaction_ended, next_in_ns: self.next_in(n, last_ns, begin_ns) });
            }
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
        }
        Ok((calls, digest))
    }

    /// Executes it, with hints to who is made for this thread.
    fn carry_out(
        &self,
        database: &mut impl Database,
        begin: impl FnOnce() -> u64,
        informs: Option<&Informs>,
    ) -> Result<(Vec<Call>, ResultDigest)> {
        match informs {
            None => self.execute::<false>(database, begin),
            Some(informs) => hints::during(informs(), || self.execute::<true>(database, begin)),
        }
    }

    /// Time from the end of operation `n` until this thread's next one is due; `None` behind the last one.
    fn next_in(&self, n: usize, now_ns: u64, begin_ns: u64) -> Option<u64> {
        let next = n + self.stride;
        (next < self.operations.count()).then(|| match &self.operations.due_ns {
            Some(due) => begin_ns.saturating_add(due[next]).saturating_sub(now_ns),
            None => self.trace.measured()[self.operations.starts[next]].pause_ns,
        })
    }

    #[cold]
    fn failed(&self, operation: usize, step: usize, error: Error) -> Error {
        self.stop.store(true, Ordering::Relaxed);
        let text = cut(&self.trace.statement(&self.trace.measured()[step]).text);
        Error::new(error.kind(), format!("operation {operation} failed: {text}")).because(error)
    }
}

/// What hints tell beside the operation itself.
#[derive(Default)]
struct Told {
    transactions: Transactions,
    /// Operations of this thread that follow each without a pause; empty where there is a timetable.
    following: Vec<u32>,
}

impl Told {
    fn new(share: &Share<'_>) -> Told {
        let (operations, steps) = (share.operations, share.trace.measured());
        let mut following = Vec::new();
        if operations.due_ns.is_none() {
            let mut behind = 0;
            let mine = (share.first..operations.count()).step_by(share.stride);
            following.extend(mine.rev().map(|n| {
                let own = behind;
                behind = if steps[operations.starts[n]].pause_ns == 0 { behind + 1 } else { 0 };
                own
            }));
            following.reverse();
        }
        Told { transactions: Transactions::default(), following }
    }

    /// Operations known to follow operation `n` without a pause. With a timetable: those that are due.
    fn following(&self, share: &Share<'_>, n: usize, now_ns: u64, begin_ns: u64) -> u32 {
        match &share.operations.due_ns {
            None => self.following[(n - share.first) / share.stride],
            Some(due) => {
                let waiting = due[n + 1..].partition_point(|d| begin_ns.saturating_add(*d) <= now_ns);
                (waiting / share.stride) as u32
            }
        }
    }
}

/// Executes all operations, one thread for each connection; each tells of its work where `informs` makes
/// somebody to tell.
///
/// # Errors
/// As [`Database::execute`], of the first thread in which an operation fails, with the operation's number and its
/// statement; `ErrorKind::Bug` if a thread panics.
pub(super) fn run<D: Database + Send>(
    connections: &mut [D],
    operations: &Operations,
    trace: &Trace,
    waiting: Waiting,
    informs: Option<&Informs>,
) -> Result<Measured> {
    let (stop, begin, stride) = (AtomicBool::new(false), OnceLock::new(), connections.len());
    let share = |first| Share { operations, trace, waiting, first, stride, stop: &stop };
    let shares = match connections {
        [connection] => {
            wake_on_time();
            vec![share(0).carry_out(connection, now_ns, informs)?]
        }
        _ => {
            let together = Barrier::new(stride);
            let thread = |(first, connection)| {
                let (share, together, begin) = (share(first), &together, &begin);
                move || {
                    wake_on_time();
                    let all_ready = || {
                        together.wait();
                        *begin.get_or_init(now_ns)
                    };
                    share.carry_out(connection, all_ready, informs)
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
