//! What a trace holds, whatever it is written in, and who takes its events while it is read.

use super::files::Files;
use super::threads::Threads;
use pocketstone_core::events::{Event, EventKind, EventLog};
use pocketstone_core::{Error, Result};
use std::collections::{BTreeMap, HashMap};

/// What a trace is written in.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Form {
    /// The text of tracefs' file `trace`.
    #[default]
    Text,
    /// Perfetto's binary form.
    Perfetto,
}

/// What a trace holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Reading {
    /// What it is written in.
    pub form: Form,
    /// Its events.
    pub log: EventLog,
    /// Lines of a text; of Perfetto's form its events, and its packets that hold something else.
    pub lines: u64,
    /// Those that are no event of the log, by reason: `comment`, `blank line`, `event not used: NAME`.
    pub left_out: BTreeMap<String, u64>,
    /// Those that gave events.
    pub used: u64,
    /// Threads whose process the trace names, and the process; ascending.
    pub processes: BTreeMap<u32, u32>,
    /// Threads and processes that were started while it was recorded, as far as it says: who started, and whom.
    pub started: Vec<(u32, u32)>,
    /// How often events were lost, where that does not end the reading.
    pub losses: u64,
    /// What Perfetto's form says of its clocks.
    pub clocks: Option<Clocks>,
    /// Perfetto's form has times that are not on CLOCK_BOOTTIME, and not how they differ from it.
    pub has_other_clock: bool,
    twins: [Twins; 2],
}

/// Moments that a trace has on two clocks: its first and its last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clocks {
    /// CLOCK_BOOTTIME and CLOCK_MONOTONIC at the first.
    pub first: (u64, u64),
    /// The same at the last.
    pub last: (u64, u64),
}

impl Clocks {
    /// How long the machine was suspended between them: CLOCK_BOOTTIME goes on then.
    pub fn suspended_ns(&self) -> u64 {
        let ahead = |(boot_ns, monotonic_ns): (u64, u64)| i128::from(boot_ns) - i128::from(monotonic_ns);
        u64::try_from(ahead(self.last) - ahead(self.first)).unwrap_or(0)
    }
}

/// Two kernels' events for one thing: the second is left out where the trace has the first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Twin {
    /// It has none.
    None,
    /// sched_wakeup, beside sched_waking.
    Wakeup,
    /// block_rq_insert, beside block_rq_issue.
    Insert,
}

/// Whether a trace has the first of two twins, and how many of the second.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Twins {
    has_first: bool,
    seconds: u64,
}

/// The twins, by the name of the second.
const TWINS: [(Twin, &str); 2] = [(Twin::Wakeup, "sched_wakeup"), (Twin::Insert, "block_rq_insert")];

/// Reasons of their own for lines that are left out; a kernel has about 2,000 events, and a damaged log any number.
const MOST_REASONS: usize = 4096;

/// The longest reason of its own, in bytes: names of events are short.
const LONGEST_REASON_BYTES: usize = 128;

/// The most events that are all kept at once: a text of the greatest length that is kept has about as many.
const MOST_KEPT: usize = 12 << 20;

/// Takes a trace's events while it is read. They come in the order of a text's lines, and by time of Perfetto's form:
/// calls of phones, which are written when they have returned, come after events that are later than their starts.
pub trait Sink {
    /// An event that is no mark.
    fn event(&mut self, event: Event, twin: Twin);
    /// A mark: the event, whose index says nothing, and its text.
    fn mark(&mut self, event: Event, text: &str);
    /// Between these times, events were lost.
    fn lost(&mut self, from_ns: u64, until_ns: u64) {
        let _ = (from_ns, until_ns);
    }
}

impl Reading {
    /// One of which nothing is known yet.
    pub(crate) fn of(form: Form) -> Reading {
        Reading { form, ..Reading::default() }
    }

    /// Takes what is known of threads and files at the end, and leaves out the second of each two twins.
    pub(crate) fn end(mut self, mut threads: Threads, files: Files) -> Reading {
        self.leave_out_twins();
        self.processes = std::mem::take(&mut threads.processes);
        self.started = std::mem::take(&mut threads.started);
        self.log.tasks = threads.into_names();
        self.log.files = files.names;
        self
    }

    /// Counts a line that is no event.
    pub(crate) fn leave_out(&mut self, reason: &str) {
        let left_out = &mut self.left_out;
        let has_room = left_out.len() < MOST_REASONS && reason.len() <= LONGEST_REASON_BYTES;
        let known = left_out.contains_key(reason) || has_room;
        let reason = if known { reason } else { "event not used: others" };
        match left_out.get_mut(reason) {
            Some(count) => *count += 1,
            None => drop(left_out.insert(reason.to_owned(), 1)),
        }
    }

    /// Takes note of the second of two twins.
    pub(crate) fn has_second(&mut self, twin: Twin) {
        if let Some(at) = TWINS.iter().position(|(of, _)| *of == twin) {
            self.twins[at].seconds += 1;
        }
    }

    /// Takes note of the first of two twins, which are named by the second.
    pub(crate) fn has_first(&mut self, twin: Twin) {
        if let Some(at) = TWINS.iter().position(|(of, _)| *of == twin) {
            self.twins[at].has_first = true;
        }
    }

    /// Leaves out the second of each two twins that the trace has both of.
    fn leave_out_twins(&mut self) {
        for (twins, (_, name)) in self.twins.into_iter().zip(TWINS) {
            if twins.has_first && twins.seconds > 0 {
                self.left_out.insert(format!("event not used: {name}"), twins.seconds);
                self.used -= twins.seconds;
            }
        }
    }

    fn is_left_out(&self, twin: Twin) -> bool {
        TWINS.iter().zip(self.twins).any(|((of, _), twins)| *of == twin && twins.has_first)
    }
}

/// Reads a trace into a log.
///
/// # Errors
/// As `read`; `ErrorKind::Board` if events were lost; `ErrorKind::User` if there are too many.
pub(crate) fn collect(read: impl FnOnce(&mut dyn Sink) -> Result<Reading>) -> Result<Reading> {
    let mut collected = Collected::default();
    let mut reading = read(&mut collected)?;
    if let Some((from_ns, until_ns)) = collected.lost {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (from, until) = (seconds(from_ns), seconds(until_ns));
        return Err(Error::board(format!("the kernel lost events between {from:.6} s and {until:.6} s of the trace"))
            .hint("record a shorter run, or with a larger buffer"));
    }
    if collected.beyond > 0 {
        let all = MOST_KEPT as u64 + collected.beyond;
        return Err(Error::user(format!("it has {all} events; at most {MOST_KEPT} are kept at once"))
            .hint("record a shorter run, or fewer kinds of event"));
    }
    let mut events = collected.events;
    events.retain(|(_, twin)| !reading.is_left_out(*twin));
    // Phones write a call when it has returned: its start lies behind the lines before.
    events.sort_by_key(|(e, _)| e.time_ns);
    reading.log.events = events.into_iter().map(|(e, _)| e).collect();
    reading.log.marks = collected.marks;
    Ok(reading)
}

/// All events of a trace, as a log has them.
#[derive(Default)]
struct Collected {
    events: Vec<(Event, Twin)>,
    /// Events for which there was no room.
    beyond: u64,
    marks: Vec<String>,
    index: HashMap<String, u32>,
    lost: Option<(u64, u64)>,
}

impl Collected {
    fn put(&mut self, event: Event, twin: Twin) {
        match self.events.len() < MOST_KEPT {
            true => self.events.push((event, twin)),
            false => self.beyond += 1,
        }
    }
}

impl Sink for Collected {
    fn event(&mut self, event: Event, twin: Twin) {
        self.put(event, twin);
    }

    fn mark(&mut self, event: Event, text: &str) {
        let index = match self.index.get(text) {
            Some(index) => *index,
            None => {
                let index = self.marks.len() as u32;
                self.marks.push(text.to_owned());
                self.index.insert(text.to_owned(), index);
                index
            }
        };
        self.put(Event { kind: EventKind::Mark { text: index }, ..event }, Twin::None);
    }

    fn lost(&mut self, from_ns: u64, until_ns: u64) {
        self.lost.get_or_insert((from_ns, until_ns));
    }
}

/// Whether a block request writes, by its letters; `None` of a discard. What is neither read nor discard (write, flush)
/// counts as writing.
pub(crate) fn block_request(letters: &str) -> Option<bool> {
    // A flush before the request is written in front of it, as another F.
    let discard = matches!(letters.trim_start_matches('F').as_bytes().first(), Some(b'D'));
    (!discard).then(|| !letters.starts_with('R'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_lost_events_is_no_log() {
        let error = collect(|sink| {
            sink.lost(1_500_000_000, 2_000_000_000);
            sink.lost(3_000_000_000, 4_000_000_000);
            Ok(Reading::default())
        });
        let said = error.unwrap_err();
        assert!(said.message().contains("between 1.500000 s and 2.000000 s") && said.cure().is_some(), "{said}");
    }

    /// CLOCK_BOOTTIME ran on for 0.7 s while CLOCK_MONOTONIC stood.
    #[test]
    fn time_suspended_is_what_one_clock_gained() {
        let clocks = Clocks { first: (5_000, 3_000), last: (1_700_005_000, 1_000_003_000) };
        assert_eq!(clocks.suspended_ns(), 700_000_000);
        assert_eq!(Clocks { first: (5_000, 3_000), last: (9_000, 7_001) }.suspended_ns(), 0);
    }
}
