//! What threads did with their time: on a core, waiting for one, asleep, waiting for a device.

use crate::events::{EventKind, EventLog, Window};
use std::collections::{BTreeMap, BTreeSet};

/// What a thread was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadState {
    /// It had a core.
    Running,
    /// It could run and had no core.
    Waiting,
    /// It slept.
    Sleeping,
    /// ThreadState D: mostly waiting for a device.
    Blocked,
    /// It was gone.
    Ended,
}

/// A span of a thread's time, within the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ThreadTime {
    /// Which thread.
    pub thread: u32,
    /// What it did.
    pub state: ThreadState,
    /// Start of the span.
    pub start_ns: u64,
    /// Its end, excluded.
    pub end_ns: u64,
}

/// The state that a thread which leaves its core goes into, by the kernel's letter.
fn state_of(letter: u8) -> ThreadState {
    match letter {
        b'R' => ThreadState::Waiting,
        b'D' => ThreadState::Blocked,
        b'X' | b'x' | b'Z' => ThreadState::Ended,
        _ => ThreadState::Sleeping,
    }
}

/// Splits the threads' time within the window. Before a thread's first event, that event tells what it was
/// doing: it ran if it leaves a core or does something else, slept if it is woken, waited if it gets a core.
/// One that was started within the window is first seen when it is made ready: it counts as asleep before.
pub fn thread_times(log: &EventLog, window: Window, threads: &BTreeSet<u32>) -> Vec<ThreadTime> {
    let mut times = Vec::new();
    let mut now: BTreeMap<u32, (ThreadState, u64)> = BTreeMap::new();
    let mut change = |thread: u32, at_ns: u64, before: ThreadState, after: Option<ThreadState>| {
        if !threads.contains(&thread) {
            return;
        }
        let (state, since) = now.get(&thread).copied().unwrap_or((before, window.start_ns));
        let after = after.unwrap_or(state);
        // A wake-up changes nothing for a thread that runs or waits for a core already.
        if before == ThreadState::Sleeping && matches!(state, ThreadState::Running | ThreadState::Waiting) {
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
                change(prev, event.time_ns, ThreadState::Running, Some(state_of(state)));
                change(next, event.time_ns, ThreadState::Waiting, Some(ThreadState::Running));
            }
            EventKind::Wake { pid } => change(pid, event.time_ns, ThreadState::Sleeping, Some(ThreadState::Waiting)),
            _ => change(event.pid, event.time_ns, ThreadState::Running, None),
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
