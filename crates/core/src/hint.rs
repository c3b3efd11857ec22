//! Hints from a database about its work, for CPU frequency scaling.

/// Something that a database knows and a kernel does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Hint {
    /// An operation starts.
    OperationStarts {
        /// Operations that are known to follow it without a delay: the rest of a batch.
        following: u32,
    },
    /// The thread is about to wait for a device.
    Blocks,
    /// The device has answered.
    Resumes,
    /// The operation has ended.
    OperationEnds {
        /// Whether a transaction ended with it: nobody waits for work that is left over.
        transaction_ended: bool,
        /// Time until the next operation is due, where it is known.
        next_in_ns: Option<u64>,
    },
}

/// Takes hints, on the thread that they are about.
pub trait TakesHints: Send {
    /// Handles a hint. It must be fast, and its failures must not affect the database.
    fn hint(&mut self, hint: Hint);
}

/// The clamp on a thread's utilisation, of 1024, for which schedutil chooses `speed` of `highest` (in any unit): it
/// takes the lowest operating point that is at least 1.25 x highest x utilisation / 1024.
pub fn clamp_of(speed: u32, highest: u32) -> u32 {
    (u64::from(speed) * 1024 * 4 / (u64::from(highest.max(1)) * 5)) as u32
}
