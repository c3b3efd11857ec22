//! What a phone's trace says by itself: the run between its marks.

use super::block_requests;
use pocketstone_core::Result;
use pocketstone_core::events::EventLog;
use pocketstone_core::events_threads::{ThreadState, thread_times};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// A run on a phone, between the marks SQL_START and SQL_END.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PhoneSummary {
    /// The thread that wrote the marks.
    pub app: u32,
    /// When it wrote the first one.
    pub start_ns: u64,
    /// From one mark to the other.
    pub runtime_ns: u64,
    /// Time of that thread on a core.
    pub on_core_ns: u64,
    /// Its spans on a core.
    pub bursts: Bursts,
    /// Block requests of the machine that ended in that time, reading.
    pub block_reads: u64,
    /// Bytes they read.
    pub block_read_bytes: u64,
    /// Requests that wrote or flushed.
    pub block_writes: u64,
    /// Bytes they wrote.
    pub block_written_bytes: u64,
    /// Mean time from issue to completion, of requests that have both in that time.
    pub block_mean_ns: Option<u64>,
}

/// Spans of a thread on a core, from switch to switch.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bursts {
    /// How many.
    pub count: u64,
    /// Mean length; `None` without any.
    pub mean_ns: Option<u64>,
    /// Longest.
    pub max_ns: Option<u64>,
}

/// Sums up a trace with PocketData's marks.
///
/// # Errors
/// As [`EventLog::phone_run`].
pub fn phone_summary(log: &EventLog) -> Result<PhoneSummary> {
    let (app, window) = log.phone_run()?;
    let mut summary = PhoneSummary {
        app,
        start_ns: window.start_ns,
        runtime_ns: window.end_ns - window.start_ns,
        on_core_ns: 0,
        bursts: Bursts::default(),
        block_reads: 0,
        block_read_bytes: 0,
        block_writes: 0,
        block_written_bytes: 0,
        block_mean_ns: None,
    };
    let times = thread_times(log, window, &BTreeSet::from([app]));
    for ns in times.iter().filter(|t| t.state == ThreadState::Running).map(|t| t.end_ns - t.start_ns) {
        summary.on_core_ns = summary.on_core_ns.saturating_add(ns);
        summary.bursts.count += 1;
        summary.bursts.max_ns = summary.bursts.max_ns.max(Some(ns));
    }
    summary.bursts.mean_ns = summary.on_core_ns.checked_div(summary.bursts.count);
    let (mut timed, mut sum_ns) = (0u64, 0u64);
    for request in block_requests(log).filter(|r| window.holds(r.done_ns)) {
        match request.write {
            true => {
                (summary.block_writes, summary.block_written_bytes) =
                    (summary.block_writes + 1, summary.block_written_bytes + request.bytes)
            }
            false => {
                (summary.block_reads, summary.block_read_bytes) =
                    (summary.block_reads + 1, summary.block_read_bytes + request.bytes)
            }
        }
        if let Some(ns) = request.ns().filter(|_| window.holds(request.at_ns())) {
            (timed, sum_ns) = (timed + 1, sum_ns.saturating_add(ns));
        }
    }
    summary.block_mean_ns = sum_ns.checked_div(timed);
    Ok(summary)
}
