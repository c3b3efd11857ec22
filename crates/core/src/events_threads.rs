//! How threads spent their time: on a core, waiting for one, asleep, waiting for a device.

use crate::events::{Event, EventKind, EventLog, Window};
use std::collections::{BTreeMap, BTreeSet};

/// What a thread was doing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ThreadState {
    /// On a core.
    Running,
    /// Runnable without a core.
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

/// Splits threads' time while events come, in order. Before a thread's first event, that event tells what it was
/// doing: it ran if it leaves a core or does something else, slept if it is woken, waited if it gets a core.
/// One that was started within the time is first seen when it is made ready: it counts as asleep before.
///
/// Kernels may leave out the switch from their idle thread (6.18 does, where a core that idled is given what was
/// woken). A thread that does something or leaves a core without having been given one had it since it was woken.
#[derive(Debug)]
pub struct ThreadClock {
    start_ns: u64,
    /// What each does, since when, and whether it was woken for it; `None` before its first event.
    now: BTreeMap<u32, Option<(ThreadState, u64, bool)>>,
}

impl ThreadClock {
    /// Splits the time of these threads from a moment on.
    pub fn new(start_ns: u64, threads: &BTreeSet<u32>) -> ThreadClock {
        ThreadClock { start_ns, now: threads.iter().map(|thread| (*thread, None)).collect() }
    }

    /// Takes an event. `each` is told of the spans that it ends, which begin at the first moment at the earliest.
    pub fn event(&mut self, event: &Event, mut each: impl FnMut(ThreadTime)) {
        let at_ns = event.time_ns;
        match event.kind {
            EventKind::Switch { prev, state, next } => {
                self.change(prev, at_ns, ThreadState::Running, Some(state_of(state)), &mut each);
                self.change(next, at_ns, ThreadState::Waiting, Some(ThreadState::Running), &mut each);
            }
            EventKind::Wake { pid } => {
                self.change(pid, at_ns, ThreadState::Sleeping, Some(ThreadState::Waiting), &mut each);
            }
            _ => self.change(event.pid, at_ns, ThreadState::Running, None, &mut each),
        }
    }

    /// What a thread that is followed does now, where an event has told it.
    pub fn state(&self, thread: u32) -> Option<ThreadState> {
        self.now.get(&thread).copied().flatten().map(|(state, ..)| state)
    }

    /// Tells of the spans up to the end.
    pub fn end(&self, end_ns: u64, mut each: impl FnMut(ThreadTime)) {
        for (thread, now) in &self.now {
            let Some((state, since, _)) = *now else { continue };
            let start_ns = since.max(self.start_ns);
            if start_ns < end_ns {
                each(ThreadTime { thread: *thread, state, start_ns, end_ns });
            }
        }
    }

    /// `before` is what the event says that the thread did until now, `after` what it does next if not the same.
    fn change(
        &mut self,
        thread: u32,
        at_ns: u64,
        before: ThreadState,
        after: Option<ThreadState>,
        each: &mut impl FnMut(ThreadTime),
    ) {
        let Some(now) = self.now.get_mut(&thread) else { return };
        let (state, since, woken) = now.unwrap_or((before, self.start_ns, false));
        // It acts, and was given no core that one saw.
        let unseen = before == ThreadState::Running && state == ThreadState::Waiting && woken;
        let state = if unseen { ThreadState::Running } else { state };
        let after = after.unwrap_or(state);
        // A wake-up changes nothing for a thread that runs or waits for a core already.
        if before == ThreadState::Sleeping && matches!(state, ThreadState::Running | ThreadState::Waiting) {
            return;
        }
        if state == after && now.is_some() {
            *now = Some((state, since, woken && !unseen));
            return;
        }
        let start_ns = since.max(self.start_ns);
        if start_ns < at_ns {
            each(ThreadTime { thread, state, start_ns, end_ns: at_ns });
        }
        *now = Some((after, at_ns, before == ThreadState::Sleeping));
    }
}

/// Splits the threads' time within the window, as a [`ThreadClock`] does.
pub fn thread_times(log: &EventLog, window: Window, threads: &BTreeSet<u32>) -> Vec<ThreadTime> {
    let mut times = Vec::new();
    let mut clock = ThreadClock::new(window.start_ns, threads);
    let mut put = |time: ThreadTime| {
        let time = ThreadTime { end_ns: time.end_ns.min(window.end_ns), ..time };
        if time.start_ns < time.end_ns {
            times.push(time);
        }
    };
    log.events.iter().for_each(|event| clock.event(event, &mut put));
    clock.end(window.end_ns, put);
    times
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::events::SystemCall;

    const ME: u32 = 7;

    fn times(events: &[(u64, EventKind)]) -> Vec<(ThreadState, u64, u64)> {
        let of = |kind: &EventKind| if matches!(kind, EventKind::Wake { .. }) { 0 } else { ME };
        let event =
            |(time_ns, kind): &(u64, EventKind)| Event { time_ns: *time_ns, cpu: 0, pid: of(kind), kind: *kind };
        let log = EventLog { events: events.iter().map(event).collect(), ..EventLog::default() };
        let window = Window { start_ns: 0, end_ns: 1_000 };
        thread_times(&log, window, &BTreeSet::from([ME])).iter().map(|t| (t.state, t.start_ns, t.end_ns)).collect()
    }

    const fn leaves(state: u8) -> EventKind {
        EventKind::Switch { prev: ME, state, next: 0 }
    }

    const COMES: EventKind = EventKind::Switch { prev: 0, state: b'R', next: ME };
    const WAKES: EventKind = EventKind::Wake { pid: ME };
    const ACTS: EventKind = EventKind::Exit { call: SystemCall::Read, result: 0 };

    #[test]
    fn a_switch_from_the_idle_thread_that_was_left_out_is_known_by_what_the_thread_does_next() {
        use ThreadState::{Blocked, Running, Waiting};
        let seen = [(100, leaves(b'D')), (200, WAKES), (230, COMES), (300, leaves(b'D')), (400, WAKES), (400, COMES)];
        let expected =
            [(Running, 0, 100), (Blocked, 100, 200), (Waiting, 200, 230), (Running, 230, 300), (Blocked, 300, 400)];
        assert_eq!(times(&seen)[..5], expected);
        // It leaves the core that it was not seen to get; then it acts, and is taken off its core.
        let unseen = [
            (100, leaves(b'D')),
            (200, WAKES),
            (300, leaves(b'D')),
            (400, WAKES),
            (450, ACTS),
            (500, leaves(b'R')),
            (550, COMES),
        ];
        let expected = [
            (Running, 0, 100),
            (Blocked, 100, 200),
            (Running, 200, 300),
            (Blocked, 300, 400),
            (Running, 400, 500),
            (Waiting, 500, 550),
            (Running, 550, 1_000),
        ];
        assert_eq!(times(&unseen), expected);
        // One that was taken off its core waits, whatever the next event's clock says, and so does one that sleeps.
        let late = [(100, leaves(b'R')), (101, ACTS), (200, COMES), (300, leaves(b'S')), (301, ACTS)];
        let expected =
            [(Running, 0, 100), (Waiting, 100, 200), (Running, 200, 300), (ThreadState::Sleeping, 300, 1_000)];
        assert_eq!(times(&late), expected);
    }
}
