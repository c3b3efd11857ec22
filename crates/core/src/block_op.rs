//! What a block device is asked to do.

use crate::words;

words! {
    /// Commands of a block device.
    BlockOp {
        /// Read.
        Read = "read",
        /// Write.
        Write = "write",
        /// Empty the cache of what was written.
        Flush = "flush",
        /// Forget what is there.
        Discard = "discard",
    }
}
