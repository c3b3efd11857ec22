//! One run of a database from its operations down to the flash, as the results have it.

use super::store::Store;
use super::store::statements::statements;
use pocketstone_core::events::{Event, EventKind, EventLog, Window};
use pocketstone_core::events_threads::{ThreadState, thread_times};
use pocketstone_core::log::{Call, FlashLog};
use pocketstone_core::{Error, Result};
use pocketstone_workload::Workload;
use pocketstone_workload::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};

/// A cell's logs and executed operations.
pub struct Layers {
    /// SQL text of each operation; joined steps are parted by `; `.
    pub sql: Vec<String>,
    /// Each operation's times.
    pub calls: Vec<Call>,
    /// Kernel events, if traced.
    pub events: EventLog,
    /// Flash operations, if traced.
    pub flash: FlashLog,
    /// The engine's process.
    pub pid: u32,
    /// The thread that executed the operations.
    pub thread: u32,
    /// The process's other threads.
    pub threads: Vec<u32>,
}

impl Layers {
    /// The logs of a cell with a database.
    ///
    /// # Errors
    /// `ErrorKind::User` if the results lack required data.
    pub fn of(store: &Store, cell: i64) -> Result<Layers> {
        let plan: Plan = store.json(cell, "plan")?;
        let Workload::Database(spec) = &plan.workload else {
            return Err(Error::user(format!("cell {cell} has no database")));
        };
        let trace = store.trace(&spec.trace)?;
        let outcome: pocketstone_core::outcome::Outcome = store.json(cell, "outcome")?;
        let (pid, mut threads) = outcome.database.map_or((0, Vec::new()), |d| (d.pid, d.threads));
        threads.retain(|thread| *thread != pid);
        let events = store.events(cell)?;
        let calls = store.calls(cell)?;
        let thread = worker(&events, &calls, pid);
        Ok(Layers { sql: statements(&trace), calls, events, flash: store.flash(cell)?, pid, thread, threads })
    }

    /// The stretches of time in which the worker had a core.
    pub fn on_core(&self) -> Vec<(u64, u64)> {
        on_core(&self.events, self.thread)
    }
}

/// The thread that executes the operations: the one that makes the most system calls within them; a process
/// that makes none has its first thread.
pub(crate) fn worker(log: &EventLog, calls: &[Call], pid: u32) -> u32 {
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    let (Some(first), Some(last)) = (calls.first(), calls.last()) else { return pid };
    let window = first.start_ns..=last.start_ns + last.latency_ns;
    for event in &log.events {
        if matches!(event.kind, EventKind::Enter { .. }) && window.contains(&event.time_ns) {
            *counts.entry(event.pid).or_default() += 1;
        }
    }
    counts.into_iter().max_by_key(|(_, n)| *n).map_or(pid, |(thread, _)| thread)
}

/// The stretches in which a thread had a core; none where its switches were not traced.
fn on_core(log: &EventLog, thread: u32) -> Vec<(u64, u64)> {
    let switched =
        |e: &Event| matches!(e.kind, EventKind::Switch { prev, next, .. } if prev == thread || next == thread);
    let (Some(first), Some(last)) = (log.events.first(), log.events.last()) else { return Vec::new() };
    if !log.events.iter().any(switched) {
        return Vec::new();
    }
    let window = Window { start_ns: first.time_ns, end_ns: last.time_ns };
    let times = thread_times(log, window, &BTreeSet::from([thread]));
    times.iter().filter(|t| t.state == ThreadState::Running).map(|t| (t.start_ns, t.end_ns)).collect()
}
