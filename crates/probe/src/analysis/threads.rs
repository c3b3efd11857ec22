//! What threads did with their time: on a core, waiting for one, asleep, waiting for a device.

use super::Window;
use pocketstone_core::events::{EventKind, EventLog};
use std::collections::{BTreeMap, BTreeSet};

/// What a thread was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    Running,
    /// It could run and had no core.
    Waiting,
    Sleeping,
    /// State D.
    Blocked,
    Ended,
}

/// A span of a thread's time, within the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ThreadTime {
    pub thread: u32,
    pub state: State,
    pub start_ns: u64,
    pub end_ns: u64,
}

/// The state that a thread which leaves its core goes into, by the kernel's letter.
fn state_of(letter: u8) -> State {
    match letter {
        b'R' => State::Waiting,
        b'D' => State::Blocked,
        b'X' | b'x' | b'Z' => State::Ended,
        _ => State::Sleeping,
    }
}

/// Splits the threads' time within the window. Before a thread's first event, that event tells what it was
/// doing: it ran if it leaves a core or does something else, slept if it is woken, waited if it gets a core.
/// One that was started within the window is first seen when it is made ready: it counts as asleep before.
pub(crate) fn thread_times(log: &EventLog, window: Window, threads: &BTreeSet<u32>) -> Vec<ThreadTime> {
    let mut times = Vec::new();
    let mut now: BTreeMap<u32, (State, u64)> = BTreeMap::new();
    let mut change = |thread: u32, at_ns: u64, before: State, after: Option<State>| {
        if !threads.contains(&thread) {
            return;
        }
        let (state, since) = now.get(&thread).copied().unwrap_or((before, window.start_ns));
        let after = after.unwrap_or(state);
        // A wake-up changes nothing for a thread that runs or waits for a core already.
        if before == State::Sleeping && matches!(state, State::Running | State::Waiting) {
            return;
        }
        if state == after && now.contains_key(&thread) {
            return;
        }
        let (start_ns, end_ns) = (since.max(window.start_ns), at_ns.min(window.end_ns));
        if start_ns < end_ns {
            times.push(ThreadTime { thread, state, start_ns, end_ns });
        }
        now.insert(thread, (after, at_ns));
    };
    for event in &log.events {
        match event.kind {
            EventKind::Switch { prev, state, next } => {
                change(prev, event.time_ns, State::Running, Some(state_of(state)));
                change(next, event.time_ns, State::Waiting, Some(State::Running));
            }
            EventKind::Wake { pid } => change(pid, event.time_ns, State::Sleeping, Some(State::Waiting)),
            _ => change(event.pid, event.time_ns, State::Running, None),
        }
    }
    let last: Vec<u32> = now.keys().copied().collect();
    for thread in last {
        let (state, since) = now[&thread];
        let start_ns = since.max(window.start_ns);
        if start_ns < window.end_ns {
            times.push(ThreadTime { thread, state, start_ns, end_ns: window.end_ns });
        }
    }
    times
}
