//! What a run did, apart from how fast its processor was: the input of every replay.

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
