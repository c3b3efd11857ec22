//! What a run did, apart from how fast its processor was: the input of every replay.

use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// A recorded or synthetic run.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Activity {
    /// Threads that start together. The run ends when the last of those with operations has ended.
    pub threads: Vec<Thread>,
}

/// One thread: its operations one after the other.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Thread {
    /// The operations.
    pub operations: Vec<Operation>,
    /// Whether it is other work of the machine: it is repeated until the others have ended, is not counted among
    /// the operations, and its energy is.
    #[serde(default)]
    pub background: bool,
}

/// One operation, with the delay before it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Operation {
    /// Pause between the end of the operation before and the start of this one. The thread sleeps, or looks at
    /// the clock where the levers say so.
    pub delay_ns: u64,
    /// How long before the end of that pause it was wanted: 0, but for operations that waited for their batch.
    /// Its response time counts from then.
    #[serde(default)]
    pub held_ns: u64,
    /// What it did, in order.
    pub segments: Vec<Segment>,
    /// Whether it changed something and ended a transaction.
    #[serde(default)]
    pub transaction: bool,
}

/// A part of an operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Segment {
    /// On a core; takes `cycles / frequency`.
    Compute {
        /// Processor cycles of the device that is modelled.
        cycles: u64,
    },
    /// On a core, waiting for memory; takes the same time at every frequency.
    Stall {
        /// Nanoseconds.
        ns: u64,
    },
    /// Off the core, waiting for a device: what kernels call iowait.
    Io {
        /// Nanoseconds.
        ns: u64,
        /// What for.
        kind: IoKind,
    },
    /// Off the core for another reason, such as a lock.
    Sleep {
        /// Nanoseconds.
        ns: u64,
    },
}

/// What a device was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum IoKind {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To make written data durable.
    Sync,
}

/// Most cycles of all segments together: at 1 MHz, time stays below 2^60 ns.
const MOST_CYCLES: u64 = 1_000_000_000_000_000;
/// Most cycles of one segment: in kHz * ns, they stay below 2^63.
const MOST_SEGMENT_CYCLES: u64 = 9_000_000_000_000;
/// Longest time of all that is not computing together: more than three years.
const MOST_NS: u64 = 100_000_000_000_000_000;

impl Activity {
    /// Whether it can be replayed.
    ///
    /// # Errors
    /// `ErrorKind::User` if there is no operation to replay, a time or a number of cycles is too large (a negative one,
    /// in most cases), or a background thread would be repeated without end because it takes no time. Numbers in
    /// messages count from 1.
    pub fn check(&self) -> Result<()> {
        if self.threads.iter().all(|t| t.background || t.operations.is_empty()) {
            return Err(Error::user("the activity has no foreground operation")
                .hint("give at least one operation to a thread that is not a background thread"));
        }
        let (mut all_ns, mut all_cycles) = (0u64, 0u64);
        for (thread, number) in self.threads.iter().zip(1..) {
            let (before_ns, before_cycles) = (all_ns, all_cycles);
            for (operation, at) in thread.operations.iter().zip(1..) {
                let place = |segment: Option<usize>| match segment {
                    None => format!("thread {number}, operation {at}"),
                    Some(n) => format!("thread {number}, operation {at}, segment {}", n + 1),
                };
                let time = |ns: u64, what: &str, segment| {
                    if ns <= MOST_NS {
                        return Ok(ns);
                    }
                    let shown = if ns > i64::MAX as u64 { format!("{}", ns as i64) } else { ns.to_string() };
                    Err(Error::user(format!("{}: {what} of {shown} ns is out of range", place(segment)))
                        .hint("times are from 0 to 10^17 ns; a negative one comes from events in the wrong order"))
                };
                time(operation.held_ns, "held_ns", None)?;
                all_ns += time(operation.delay_ns, "delay_ns", None)?;
                for (n, segment) in operation.segments.iter().enumerate() {
                    match *segment {
                        Segment::Compute { cycles } if cycles > MOST_SEGMENT_CYCLES => {
                            return Err(Error::user(format!("{}: {cycles} cycles are too many", place(Some(n))))
                                .hint("a segment has at most 9 * 10^12 cycles; split a longer one"));
                        }
                        Segment::Compute { cycles } => all_cycles += cycles,
                        Segment::Stall { ns } => all_ns += time(ns, "a stall", Some(n))?,
                        Segment::Io { ns, .. } => all_ns += time(ns, "a wait for a device", Some(n))?,
                        Segment::Sleep { ns } => all_ns += time(ns, "a sleep", Some(n))?,
                    }
                }
                if all_ns > MOST_NS || all_cycles > MOST_CYCLES {
                    return Err(Error::user(format!("{}: the activity is too long at this point", place(None)))
                        .hint("all times together are at most 10^17 ns, all cycles 10^15; replay a part of it"));
                }
            }
            let nothing = (all_ns, all_cycles) == (before_ns, before_cycles);
            if thread.background && nothing && !thread.operations.is_empty() {
                return Err(Error::user(format!("thread {number} repeats in the background but takes no time"))
                    .hint("give it a delay or some cycles, or remove the thread"));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(operation: Operation) -> Activity {
        let fine = Operation { segments: vec![Segment::Compute { cycles: 1 }], ..Operation::default() };
        Activity { threads: vec![Thread { operations: vec![fine, operation], background: false }] }
    }

    fn refused(activity: &Activity) -> String {
        let error = activity.check().unwrap_err();
        assert!(error.cure().is_some(), "{}", error.chain());
        error.chain()
    }

    #[test]
    fn errors_name_thread_operation_and_segment() {
        let negative = one(Operation { delay_ns: 0u64.wrapping_sub(5), ..Operation::default() });
        assert_eq!(refused(&negative), "thread 1, operation 2: delay_ns of -5 ns is out of range");
        let segments = vec![Segment::Sleep { ns: 1 }, Segment::Io { ns: MOST_NS + 1, kind: IoKind::Sync }];
        let long = one(Operation { segments, ..Operation::default() });
        assert!(
            refused(&long).starts_with("thread 1, operation 2, segment 2: a wait for a device of 100000000000000001")
        );
        let segments = vec![Segment::Compute { cycles: MOST_SEGMENT_CYCLES + 1 }];
        let many = one(Operation { segments, ..Operation::default() });
        assert!(refused(&many).starts_with("thread 1, operation 2, segment 1: 9000000000001 cycles"));
        let both = Operation { delay_ns: MOST_NS, segments: vec![Segment::Stall { ns: 1 }], ..Operation::default() };
        assert!(refused(&one(both)).contains("operation 2: the activity is too long"));
    }

    #[test]
    fn nothing_to_replay_and_endless_repetition_are_refused() {
        assert!(refused(&Activity::default()).contains("no foreground operation"));
        let mut activity = one(Operation::default());
        activity.check().unwrap();
        activity.threads.push(Thread { operations: vec![Operation::default()], background: true });
        assert!(refused(&activity).contains("thread 2 repeats"));
        activity.threads[0].background = true;
        assert!(refused(&activity).contains("no foreground operation"));
    }

    #[test]
    fn it_reads_what_it_writes() {
        let segments = vec![
            Segment::Compute { cycles: 7 },
            Segment::Stall { ns: 1 },
            Segment::Io { ns: 2, kind: IoKind::Write },
            Segment::Sleep { ns: 3 },
        ];
        let activity = one(Operation { delay_ns: 4, held_ns: 5, segments, transaction: true });
        let text = serde_json::to_string(&activity).unwrap();
        assert!(text.contains(r#"{"io":{"ns":2,"kind":"write"}}"#), "{text}");
        assert_eq!(serde_json::from_str::<Activity>(&text).unwrap(), activity);
        assert!(
            serde_json::from_str::<Activity>(r#"{"threads":[{"operations":[{"delay_ns":-1,"segments":[]}]}]}"#)
                .is_err()
        );
    }
}
