//! What a stored cell did, as the input of a replay.

use crate::results::layers::worker;
use crate::results::store::{Store, StoredCell};
use pocketstone_core::Result;
use pocketstone_core::events::{EventKind, EventLog, Window};
use pocketstone_core::log::Call;
use pocketstone_core::outcome::Outcome;
use pocketstone_replay::activity::Activity;
use pocketstone_replay::device::Device;
use pocketstone_replay::recorded::{from_calls, from_events};

pocketstone_core::words! {
    /// What an activity is taken from.
    ActivitySource {
        /// Kernel events: what a thread had of a core is known.
        Events = "events",
        /// Calls alone: each counts entirely as time on a core.
        Calls = "calls",
        /// The log of a phone.
        Log = "log",
    }
}

impl ActivitySource {
    /// That of several trials taken together: what is said of calls holds as soon as one has nothing else.
    pub fn of_trials(trials: impl IntoIterator<Item = Self>) -> Self {
        trials.into_iter().find(|source| *source == Self::Calls).unwrap_or(Self::Events)
    }
}

/// A cell's logs: read once, they give its activity on any device.
pub(crate) struct Recording {
    calls: Vec<Call>,
    /// `None` where the cell was not traced or its thread's switches could not be had.
    events: Option<Events>,
}

struct Events {
    log: EventLog,
    window: Window,
    thread: u32,
    /// Numbers of the operations that wrote.
    wrote: Vec<i64>,
}

impl Recording {
    /// The logs of a cell.
    ///
    /// # Errors
    /// `ErrorKind::User` if the results cannot be read.
    pub fn of(store: &Store, cell: &StoredCell) -> Result<Self> {
        let calls = store.calls(cell.id)?;
        let log = store.events(cell.id)?;
        let outcome: Outcome = store.json(cell.id, "outcome")?;
        let thread = worker(&log, &calls, outcome.process().map_or(0, |process| process.pid));
        let of_thread = |kind: &EventKind| match *kind {
            EventKind::Switch { prev, next, .. } => prev == thread || next == thread,
            _ => false,
        };
        if !log.events.iter().any(|e| of_thread(&e.kind)) {
            return Ok(Recording { calls, events: None });
        }
        let window = Window { start_ns: outcome.start_ns, end_ns: outcome.end_ns };
        let sql = "SELECT number FROM operation_cost WHERE cell = ?1 AND writes > 0";
        let wrote = store.rows(sql, [cell.id], |r| r.get(0))?;
        Ok(Recording { calls, events: Some(Events { log, window, thread, wrote }) })
    }

    /// The activity in cycles of a device. Without events, all of every call is time on a core.
    ///
    /// # Errors
    /// `ErrorKind::User` if the logs contradict themselves.
    pub fn activity(&self, device: &Device) -> Result<Activity> {
        let cycles_per_ns = device.cycles_per_recorded_ns;
        let Some(Events { log, window, thread, wrote }) = &self.events else {
            return from_calls(&self.calls, cycles_per_ns);
        };
        let mut activity = from_events(log, *window, *thread, &self.calls, cycles_per_ns)?;
        // An operation that wrote has ended its transaction: the lab's databases commit each.
        if let Some(thread) = activity.threads.first_mut().filter(|t| t.operations.len() == self.calls.len()) {
            wrote.iter().for_each(|n| thread.operations[*n as usize].transaction = true);
        }
        Ok(activity)
    }

    /// What the activity is taken from.
    pub fn source(&self) -> ActivitySource {
        if self.events.is_some() { ActivitySource::Events } else { ActivitySource::Calls }
    }

    /// Whether time on a core became cycles by the frequencies of the recording machine's cores.
    pub fn has_frequencies(&self) -> bool {
        let frequency = |kind: &EventKind| matches!(kind, EventKind::Frequency { .. });
        self.events.as_ref().is_some_and(|events| events.log.events.iter().any(|e| frequency(&e.kind)))
    }
}

/// The activity of a cell in cycles of a device, and what it was taken from, as a [`Recording`] has them.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read, or the logs contradict themselves.
pub(crate) fn activity(store: &Store, cell: &StoredCell, device: &Device) -> Result<(Activity, ActivitySource)> {
    let recording = Recording::of(store, cell)?;
    Ok((recording.activity(device)?, recording.source()))
}

#[cfg(test)]
mod tests {
    use super::ActivitySource::{self, Calls, Events};

    #[test]
    fn one_trial_without_events_is_enough_for_the_note_on_calls() {
        for (trials, of_all) in [(&[Events, Events][..], Events), (&[Calls, Events], Calls), (&[Events, Calls], Calls)]
        {
            assert_eq!(ActivitySource::of_trials(trials.iter().copied()), of_all);
        }
    }
}
