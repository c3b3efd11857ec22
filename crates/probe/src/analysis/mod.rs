//! What a run cost, from the kernel's events: time on and off a core, file calls, page-cache misses, block
//! requests, in total, for each operation and for each file.
//!
//! A thread's time is split by its switches and wake-ups. The text of a trace counts in microseconds: what
//! lies within one of an operation's start or end may be attributed to its neighbour.

mod phone;

pub use phone::{Bursts, Parameters, PhoneRuns, PhoneSummary, longest, phone_summary};

use crate::ftrace::Twin;
use pocketstone_core::events::{Event, EventKind, EventLog, SystemCall, Window};
use pocketstone_core::events_threads::{ThreadState, ThreadTime, thread_times};
use pocketstone_core::log::Call;
use pocketstone_core::outcome::{Quantity, Unavailable};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeSet, HashMap};

/// What a run or an operation cost. Times are sums over threads, or over calls and requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OperationCost {
    /// Time on a core.
    pub on_core_ns: u64,
    /// Time off a core: the three below.
    pub off_core_ns: u64,
    /// Time in which a thread could run and had no core.
    pub waiting_ns: u64,
    /// Time asleep.
    pub sleeping_ns: u64,
    /// Time in state D: mostly waiting for a device.
    pub blocked_ns: u64,
    /// Times that a core was left.
    pub switches: u64,
    /// Times that a thread was made ready to run.
    pub wakeups: u64,
    /// Changes of any processor's frequency.
    pub frequency_changes: u64,
    /// Times that any processor went idle.
    pub idle_entries: u64,
    /// Read calls.
    pub reads: u64,
    /// Bytes they returned.
    pub read_bytes: u64,
    /// Time in them.
    pub read_ns: u64,
    /// Write calls.
    pub writes: u64,
    /// Bytes they wrote.
    pub written_bytes: u64,
    /// Time in them.
    pub write_ns: u64,
    /// Calls that wait until written data is durable.
    pub syncs: u64,
    /// Time in them.
    pub sync_ns: u64,
    /// Pages that came into the page cache.
    pub cache_misses: u64,
    /// Block requests that read, by anyone on the machine.
    pub block_reads: u64,
    /// Bytes they read.
    pub block_read_bytes: u64,
    /// Block requests that wrote or flushed, by anyone on the machine.
    pub block_writes: u64,
    /// Bytes they wrote.
    pub block_written_bytes: u64,
    /// Time from issue to completion, of requests whose issue was seen.
    pub block_ns: u64,
}

/// What a file is to a database, by its name's ending.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileRole {
    /// `-journal`: a rollback journal.
    Journal,
    /// `-wal`: a write-ahead log.
    Wal,
    /// `-shm`: its index, shared memory.
    SharedMemory,
    /// Any other file.
    Other,
}

impl FileRole {
    /// The role of a file of this name.
    pub fn of(name: &str) -> FileRole {
        let roles = [("-journal", FileRole::Journal), ("-wal", FileRole::Wal), ("-shm", FileRole::SharedMemory)];
        roles.into_iter().find(|(end, _)| name.ends_with(end)).map_or(FileRole::Other, |(_, role)| role)
    }
}

/// The calls on one file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FileCost {
    /// Its name; `None` stands for all files whose name is not known.
    pub file: Option<String>,
    /// What it is to a database; `None` without a name.
    pub role: Option<FileRole>,
    /// Read calls.
    pub reads: u64,
    /// Bytes they returned.
    pub read_bytes: u64,
    /// Time in them.
    pub read_ns: u64,
    /// Write calls.
    pub writes: u64,
    /// Bytes they wrote.
    pub written_bytes: u64,
    /// Time in them.
    pub write_ns: u64,
    /// Calls that wait until written data is durable.
    pub syncs: u64,
    /// Time in them.
    pub sync_ns: u64,
    /// Pages that came into the page cache.
    pub cache_misses: u64,
}

/// What a run cost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Analysis {
    /// Everything within the window, between operations included.
    pub total: OperationCost,
    /// Each operation, in the order of the calls; empty where costs cannot be attributed.
    pub operations: Vec<OperationCost>,
    /// Files with calls or cache misses, in the order of the log's files, the unknown ones last.
    pub files: Vec<FileCost>,
    /// What could not be said.
    pub unavailable: Vec<Unavailable>,
}

/// Says what happened within `window`: of the threads in `threads` alone, but for block requests,
/// frequencies and idle states, which belong to the machine. `calls` are the operations, in order of time and
/// not overlapping; costs are attributed to them by time, which is possible only if one thread ran them all:
/// `workers` says how many there were.
pub fn analyse(log: &EventLog, window: Window, threads: &BTreeSet<u32>, calls: &[Call], workers: u32) -> Analysis {
    let mut analysis = Analysis::default();
    let ordered = calls.windows(2).all(|c| end_ns(&c[0]) <= c[1].start_ns);
    if workers == 1 && ordered {
        analysis.operations = vec![OperationCost::default(); calls.len()];
    } else if !calls.is_empty() {
        analysis.unavailable.push(Unavailable {
            what: Quantity::CostOfOperations,
            why: match workers {
                1 => "operations overlap in time".into(),
                n => format!("{n} threads ran the operations, which cannot be attributed"),
            },
            cure: "run the workload with one thread".into(),
        });
    }
    let costs = Costs { window, calls, analysis: &mut analysis };
    costs.add(log, threads);
    analysis.files = file_costs(log, window, threads);
    analysis
}

struct Costs<'a> {
    window: Window,
    calls: &'a [Call],
    analysis: &'a mut Analysis,
}

impl Costs<'_> {
    /// Adds to the total and, where the moment is within one, to an operation.
    fn at(&mut self, time_ns: u64, mut add: impl FnMut(&mut OperationCost)) {
        add(&mut self.analysis.total);
        let next = self.calls.partition_point(|c| c.start_ns <= time_ns);
        if let Some(call) = next.checked_sub(1).filter(|n| time_ns < end_ns(&self.calls[*n])) {
            if let Some(operation) = self.analysis.operations.get_mut(call) {
                add(operation);
            }
        }
    }

    fn add(mut self, log: &EventLog, threads: &BTreeSet<u32>) {
        for time in thread_times(log, self.window, threads) {
            add_time(&time, &mut self.analysis.total, time.end_ns - time.start_ns);
            let first = self.calls.partition_point(|c| end_ns(c) <= time.start_ns);
            let within = self.calls[first..].iter().zip(self.analysis.operations.iter_mut().skip(first));
            for (call, operation) in within.take_while(|(c, _)| c.start_ns < time.end_ns) {
                let common = end_ns(call).min(time.end_ns).saturating_sub(call.start_ns.max(time.start_ns));
                add_time(&time, operation, common);
            }
        }
        let window = self.window;
        for event in log.events.iter().filter(|e| window.holds(e.time_ns)) {
            let mine = threads.contains(&event.pid);
            match event.kind {
                EventKind::Switch { prev, .. } if threads.contains(&prev) => {
                    self.at(event.time_ns, |c| c.switches += 1);
                }
                EventKind::Wake { pid } if threads.contains(&pid) => self.at(event.time_ns, |c| c.wakeups += 1),
                EventKind::Idle { state: Some(_), .. } => self.at(event.time_ns, |c| c.idle_entries += 1),
                EventKind::CacheMiss { pages, .. } if mine => {
                    self.at(event.time_ns, |c| c.cache_misses += u64::from(pages));
                }
                _ => {}
            }
        }
        for time_ns in frequency_changes(log).filter(|t| window.holds(*t)) {
            self.at(time_ns, |c| c.frequency_changes += 1);
        }
        for done in finished_calls(log, threads).filter(|d| window.holds(d.start_ns)) {
            self.at(done.start_ns, |c| {
                let (count, bytes, ns) = match done.call {
                    SystemCall::Read => (&mut c.reads, Some(&mut c.read_bytes), &mut c.read_ns),
                    SystemCall::Write => (&mut c.writes, Some(&mut c.written_bytes), &mut c.write_ns),
                    SystemCall::Sync => (&mut c.syncs, None, &mut c.sync_ns),
                    _ => return,
                };
                done.count(count, bytes, ns);
            });
        }
        for request in block_requests(log).filter(|r| window.holds(r.at_ns())) {
            self.at(request.at_ns(), |c| {
                let (count, bytes) = match request.write {
                    true => (&mut c.block_writes, &mut c.block_written_bytes),
                    false => (&mut c.block_reads, &mut c.block_read_bytes),
                };
                *count += 1;
                add(bytes, request.bytes);
                add(&mut c.block_ns, request.ns().unwrap_or(0));
            });
        }
    }
}

/// Adds a thread's span to what it cost.
fn add_time(time: &ThreadTime, cost: &mut OperationCost, ns: u64) {
    match time.state {
        ThreadState::Running => add(&mut cost.on_core_ns, ns),
        ThreadState::Waiting => add(&mut cost.waiting_ns, ns),
        ThreadState::Sleeping => add(&mut cost.sleeping_ns, ns),
        ThreadState::Blocked => add(&mut cost.blocked_ns, ns),
        ThreadState::Ended => return,
    }
    if time.state != ThreadState::Running {
        add(&mut cost.off_core_ns, ns);
    }
}

/// Adds; a log from a file may hold any numbers, whose sum stays at the largest.
fn add(sum: &mut u64, n: u64) {
    *sum = sum.saturating_add(n);
}

/// End of an operation; a log from a file may hold any numbers.
fn end_ns(call: &Call) -> u64 {
    call.start_ns.saturating_add(call.latency_ns)
}

/// Moments at which a processor's frequency became another one than it was known to be.
fn frequency_changes(log: &EventLog) -> impl Iterator<Item = u64> {
    let mut known: HashMap<u16, u32> = HashMap::new();
    log.events.iter().filter_map(move |event| {
        let EventKind::Frequency { cpu, khz } = event.kind else { return None };
        known.insert(cpu, khz).filter(|before| *before != khz).map(|_| event.time_ns)
    })
}

/// A file call that has returned.
struct FinishedCall {
    call: SystemCall,
    file: Option<u16>,
    start_ns: u64,
    end_ns: u64,
    result: i64,
}

impl FinishedCall {
    fn count(&self, count: &mut u64, bytes: Option<&mut u64>, ns: &mut u64) {
        *count += 1;
        add(ns, self.end_ns.saturating_sub(self.start_ns));
        if let Some(bytes) = bytes {
            add(bytes, u64::try_from(self.result).unwrap_or(0));
        }
    }
}

fn finished_calls(log: &EventLog, threads: &BTreeSet<u32>) -> impl Iterator<Item = FinishedCall> {
    let mut pairs = CallPairs::default();
    log.events.iter().filter(|e| threads.contains(&e.pid)).filter_map(move |event| pairs.event(event))
}

/// Puts the starts and ends of each thread's calls together.
#[derive(Debug, Default)]
struct CallPairs {
    begun: HashMap<u32, (SystemCall, Option<u16>, u64)>,
}

impl CallPairs {
    fn event(&mut self, event: &Event) -> Option<FinishedCall> {
        match event.kind {
            EventKind::Enter { call, file, .. } => {
                self.begun.insert(event.pid, (call, file, event.time_ns));
                None
            }
            EventKind::Exit { call, result } => {
                let (begun_call, file, start_ns) = self.begun.remove(&event.pid)?;
                let end_ns = event.time_ns;
                (begun_call == call).then_some(FinishedCall { call, file, start_ns, end_ns, result })
            }
            _ => None,
        }
    }
}

/// A block request that is done.
pub(crate) struct BlockRequest {
    issued_ns: Option<u64>,
    done_ns: u64,
    pub write: bool,
    pub bytes: u64,
}

impl BlockRequest {
    /// Its issue, or its completion where the issue was not seen.
    fn at_ns(&self) -> u64 {
        self.issued_ns.unwrap_or(self.done_ns)
    }

    fn ns(&self) -> Option<u64> {
        self.issued_ns.map(|issued| self.done_ns.saturating_sub(issued))
    }
}

/// Requests in order of their completion.
pub(crate) fn block_requests(log: &EventLog) -> impl Iterator<Item = BlockRequest> {
    let mut requests = RequestPairs::default();
    log.events.iter().filter_map(move |event| requests.event(event, Twin::None))
}

/// Requests that are followed at once: where there are more, those issued first, which never complete, are forgotten.
const MOST_REQUESTS: usize = 1 << 16;

/// Puts issues and completions of requests together. One that grew while it waited completes as more sectors than
/// were issued: the earliest issue at its first sector is its own. Its insertion is none if an issue follows.
#[derive(Debug, Default)]
struct RequestPairs {
    issued: HashMap<(u32, bool, u64), (u64, Twin)>,
}

impl RequestPairs {
    fn event(&mut self, event: &Event, twin: Twin) -> Option<BlockRequest> {
        match event.kind {
            EventKind::BlockIssue { device, write, sector, .. } => {
                match self.issued.get_mut(&(device, write, sector)) {
                    Some(issue) if issue.1 == Twin::Insert && twin == Twin::None => *issue = (event.time_ns, twin),
                    Some(_) => {}
                    None => {
                        self.make_room();
                        self.issued.insert((device, write, sector), (event.time_ns, twin));
                    }
                }
                None
            }
            EventKind::BlockComplete { device, write, sector, sectors } => Some(BlockRequest {
                issued_ns: self.issued.remove(&(device, write, sector)).map(|(ns, _)| ns),
                done_ns: event.time_ns,
                write,
                bytes: u64::from(sectors) * 512,
            }),
            _ => None,
        }
    }

    /// Forgets the older half of the requests if there are too many: the cost is spread over all of that half.
    fn make_room(&mut self) {
        if self.issued.len() < MOST_REQUESTS {
            return;
        }
        let mut times: Vec<u64> = self.issued.values().map(|(ns, _)| *ns).collect();
        let (_, middle_ns, _) = times.select_nth_unstable(MOST_REQUESTS / 2);
        let middle_ns = *middle_ns;
        self.issued.retain(|_, (ns, _)| *ns > middle_ns);
    }
}

fn file_costs(log: &EventLog, window: Window, threads: &BTreeSet<u32>) -> Vec<FileCost> {
    let name = |n: usize| log.files.get(n).cloned();
    let mut files: Vec<FileCost> = (0..=log.files.len())
        .map(|n| FileCost {
            file: name(n),
            role: log.files.get(n).map(|f| FileRole::of(f)),
            reads: 0,
            read_bytes: 0,
            read_ns: 0,
            writes: 0,
            written_bytes: 0,
            write_ns: 0,
            syncs: 0,
            sync_ns: 0,
            cache_misses: 0,
        })
        .collect();
    let place = |file: Option<u16>| file.map_or(log.files.len(), |f| usize::from(f).min(log.files.len()));
    for done in finished_calls(log, threads).filter(|d| window.holds(d.start_ns)) {
        let f = &mut files[place(done.file)];
        match done.call {
            SystemCall::Read => done.count(&mut f.reads, Some(&mut f.read_bytes), &mut f.read_ns),
            SystemCall::Write => done.count(&mut f.writes, Some(&mut f.written_bytes), &mut f.write_ns),
            SystemCall::Sync => done.count(&mut f.syncs, None, &mut f.sync_ns),
            _ => {}
        }
    }
    for event in log.events.iter().filter(|e| window.holds(e.time_ns) && threads.contains(&e.pid)) {
        if let EventKind::CacheMiss { file, pages, .. } = event.kind {
            files[place(file)].cache_misses += u64::from(pages);
        }
    }
    files.retain(|f| f.reads + f.writes + f.syncs + f.cache_misses > 0);
    files
}

#[cfg(test)]
mod tests;
