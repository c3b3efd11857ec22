//! Events in the order of their times: a trace has them by processor, a drained buffer behind the other.

use crate::ftrace::{Sink, Twin};
use pocketstone_core::events::{Event, EventKind};
use pocketstone_core::{Error, Result};
use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

/// Events that are held back until later ones are known to be later. Perfetto drains a kernel's buffers several times a
/// second, of all processors each time: what is between is far less.
const MOST_HELD: usize = 1 << 18;

/// Bytes of the texts of marks among them.
const MOST_TEXT_BYTES: usize = 1 << 23;

/// What happened, for what is held.
enum What {
    Event(Twin),
    /// An event of which only its processor is known: the thread is the one that is on it then.
    OfWhoever(Twin),
    Mark(Box<str>),
    /// From the event's time until this one, events were lost.
    Lost(u64),
}

struct Held {
    event: Event,
    /// Events of one time stay in the order in which they came.
    number: u64,
    what: What,
}

impl Held {
    fn key(&self) -> (u64, u64) {
        (self.event.time_ns, self.number)
    }
}

impl PartialEq for Held {
    fn eq(&self, other: &Held) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Held {}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Held {
    fn cmp(&self, other: &Held) -> Ordering {
        self.key().cmp(&other.key())
    }
}

/// Hands events on in the order of their times.
pub(super) struct Ordered<'a> {
    sink: &'a mut dyn Sink,
    held: BinaryHeap<Reverse<Held>>,
    number: u64,
    text_bytes: usize,
    /// The time of the last event that was handed on.
    handed_on_ns: u64,
    /// The thread on each processor, as far as the events handed on tell.
    running: BTreeMap<u16, u32>,
}

impl<'a> Ordered<'a> {
    pub fn new(sink: &'a mut dyn Sink) -> Ordered<'a> {
        Ordered { sink, held: BinaryHeap::new(), number: 0, text_bytes: 0, handed_on_ns: 0, running: BTreeMap::new() }
    }

    /// An event that is no mark.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it is earlier than what had to be handed on.
    pub fn event(&mut self, event: Event, twin: Twin) -> Result<()> {
        self.put(event, What::Event(twin))
    }

    /// An event whose thread, and whose thread that leaves, is whichever is on the processor then.
    ///
    /// # Errors
    /// As [`Ordered::event`].
    pub fn of_whoever(&mut self, time_ns: u64, cpu: u16, kind: EventKind, twin: Twin) -> Result<()> {
        self.put(Event { time_ns, cpu, pid: 0, kind }, What::OfWhoever(twin))
    }

    /// A mark.
    ///
    /// # Errors
    /// As [`Ordered::event`].
    pub fn mark(&mut self, event: Event, text: &str) -> Result<()> {
        self.put(event, What::Mark(text.into()))
    }

    /// Events were lost.
    pub fn lost(&mut self, from_ns: u64, until_ns: u64) {
        // What is known of the time before is handed on already if need be.
        let time_ns = from_ns.max(self.handed_on_ns);
        let event = Event { time_ns, cpu: 0, pid: 0, kind: EventKind::Mark { text: 0 } };
        let _ = self.put(event, What::Lost(until_ns));
    }

    fn put(&mut self, event: Event, what: What) -> Result<()> {
        if event.time_ns < self.handed_on_ns {
            let (early, late) = (event.time_ns as f64 / 1e9, self.handed_on_ns as f64 / 1e9);
            let why = format!("an event at {early:.6} s comes after {MOST_HELD} others, up to {late:.6} s");
            return Err(Error::board(why).hint("record with a shorter drain_period_ms, or fewer kinds of event"));
        }
        if let What::Mark(text) = &what {
            self.text_bytes += text.len();
        }
        self.number += 1;
        self.held.push(Reverse(Held { event, number: self.number, what }));
        while self.held.len() > MOST_HELD || self.text_bytes > MOST_TEXT_BYTES {
            self.hand_on();
        }
        Ok(())
    }

    /// The trace has ended.
    pub fn end(&mut self) {
        while !self.held.is_empty() {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        let Some(Reverse(Held { mut event, what, .. })) = self.held.pop() else { return };
        self.handed_on_ns = event.time_ns;
        match what {
            What::Event(twin) => {
                self.runs(&event);
                self.sink.event(event, twin);
            }
            What::OfWhoever(twin) => {
                event.pid = self.running.get(&event.cpu).copied().unwrap_or(0);
                if let EventKind::Switch { prev, .. } = &mut event.kind {
                    *prev = event.pid;
                }
                self.runs(&event);
                self.sink.event(event, twin);
            }
            What::Mark(text) => {
                self.text_bytes -= text.len();
                self.runs(&event);
                self.sink.mark(event, &text);
            }
            What::Lost(until_ns) => self.sink.lost(event.time_ns, until_ns),
        }
    }

    fn runs(&mut self, event: &Event) {
        let thread = match event.kind {
            EventKind::Switch { next, .. } => next,
            _ => event.pid,
        };
        self.running.insert(event.cpu, thread);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Seen(Vec<(u64, u16, u32, String)>);

    impl Sink for Seen {
        fn event(&mut self, event: Event, _twin: Twin) {
            self.0.push((event.time_ns, event.cpu, event.pid, format!("{:?}", event.kind)));
        }

        fn mark(&mut self, event: Event, text: &str) {
            self.0.push((event.time_ns, event.cpu, event.pid, text.to_owned()));
        }

        fn lost(&mut self, from_ns: u64, until_ns: u64) {
            self.0.push((from_ns, 0, 0, format!("lost until {until_ns}")));
        }
    }

    fn switch(next: u32) -> EventKind {
        EventKind::Switch { prev: 0, state: b'S', next }
    }

    fn wake(time_ns: u64, cpu: u16, pid: u32) -> Event {
        Event { time_ns, cpu, pid, kind: EventKind::Wake { pid: 9 } }
    }

    /// By processor, and the second one's events lie between those of the first.
    #[test]
    fn events_are_handed_on_by_time_with_the_thread_that_is_on_the_processor() {
        let mut seen = Seen::default();
        let mut ordered = Ordered::new(&mut seen);
        ordered.mark(wake(10, 0, 7), "A_START").unwrap();
        ordered.of_whoever(20, 0, switch(8), Twin::None).unwrap();
        ordered.of_whoever(40, 0, EventKind::Wake { pid: 7 }, Twin::None).unwrap();
        ordered.of_whoever(15, 1, switch(6), Twin::None).unwrap();
        ordered.of_whoever(30, 1, switch(0), Twin::None).unwrap();
        ordered.event(wake(30, 1, 0), Twin::None).unwrap();
        ordered.lost(25, 35);
        ordered.end();
        let text = |kind: EventKind| format!("{kind:?}");
        let left = |prev: u32, next| text(EventKind::Switch { prev, state: b'S', next });
        let expected = [
            (10, 0, 7, "A_START".into()),
            // Nothing was known of processor 1.
            (15, 1, 0, left(0, 6)),
            (20, 0, 7, left(7, 8)),
            (25, 0, 0, "lost until 35".into()),
            (30, 1, 6, left(6, 0)),
            (30, 1, 0, text(EventKind::Wake { pid: 9 })),
            (40, 0, 8, text(EventKind::Wake { pid: 7 })),
        ];
        assert_eq!(seen.0, expected);
    }

    #[test]
    fn so_many_are_held_and_one_that_is_too_late_is_an_error() {
        let mut seen = Seen::default();
        let mut ordered = Ordered::new(&mut seen);
        for time_ns in 0..MOST_HELD as u64 + 3 {
            ordered.event(wake(1000 + time_ns, 0, 1), Twin::None).unwrap();
        }
        assert_eq!((ordered.held.len(), ordered.handed_on_ns), (MOST_HELD, 1002));
        ordered.event(wake(1002, 1, 1), Twin::None).unwrap();
        let error = ordered.event(wake(999, 1, 1), Twin::None).unwrap_err();
        assert!(error.cure().is_some(), "{error}");
        let long = "x".repeat(1 << 20);
        for time_ns in 0..64 {
            ordered.mark(wake(1 << 40 | time_ns, 0, 1), &long).unwrap();
        }
        assert!(ordered.text_bytes <= MOST_TEXT_BYTES && ordered.held.len() < 16);
    }
}
