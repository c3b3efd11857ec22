//! What a database knows of its own work, for whoever sets the processor's speed.

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
    /// Acts on a hint. It must be quick, and what goes wrong in it must not disturb the database.
    fn hint(&mut self, hint: Hint);
}

/// Takes them and does nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHints;

impl TakesHints for NoHints {
    fn hint(&mut self, _: Hint) {}
}
