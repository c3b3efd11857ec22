//! What a stored cell did, as the input of a replay.

use crate::results::layers::worker;
use crate::results::store::{Store, StoredCell};
use pocketstone_core::Result;
use pocketstone_core::events::{EventKind, Window};
use pocketstone_core::outcome::Outcome;
use pocketstone_replay::activity::Activity;
use pocketstone_replay::device::Device;
use pocketstone_replay::recorded::{from_calls, from_events};

/// The activity of a cell in cycles of a device, and what it was taken from: `events`, or `calls` where a cell was
/// not traced or its thread's switches could not be had. Then all of every call is time on a core.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read, or the logs contradict themselves.
pub(crate) fn activity(store: &Store, cell: &StoredCell, device: &Device) -> Result<(Activity, &'static str)> {
    let cycles_per_ns = device.cycles_per_recorded_ns;
    let calls = store.calls(cell.id)?;
    let log = store.events(cell.id)?;
    let outcome: Outcome = store.json(cell.id, "outcome")?;
    let thread = worker(&log, &calls, outcome.process().map_or(0, |process| process.pid));
    let of_thread = |kind: &EventKind| match *kind {
        EventKind::Switch { prev, next, .. } => prev == thread || next == thread,
        _ => false,
    };
    if !log.events.iter().any(|e| of_thread(&e.kind)) {
        return Ok((from_calls(&calls, cycles_per_ns)?, "calls"));
    }
    let window = Window { start_ns: outcome.start_ns, end_ns: outcome.end_ns };
    let mut activity = from_events(&log, window, thread, &calls, cycles_per_ns)?;
    // An operation that wrote has ended its transaction: the lab's databases commit each.
    let sql = "SELECT number FROM operation_cost WHERE cell = ?1 AND writes > 0";
    let wrote: Vec<i64> = store.rows(sql, [cell.id], |r| r.get(0))?;
    if let Some(thread) = activity.threads.first_mut().filter(|t| t.operations.len() == calls.len()) {
        wrote.into_iter().for_each(|n| thread.operations[n as usize].transaction = true);
    }
    Ok((activity, "events"))
}
