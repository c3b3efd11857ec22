//! Workloads as pure streams of operations: what is done, never how or on what.
//!
//! The same specification and seed give the same operations and the same file contents on every
//! machine.

mod content;
mod read;

pub use content::{Content, filler_bytes};
pub use read::read_operations;

use pocketstone_core::plan::Workload;

/// One operation of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Read `bytes` bytes of the target file at `offset`.
    Read {
        /// Position in the file.
        offset: u64,
        /// Bytes asked for.
        bytes: u64,
    },
    /// Do nothing for a while.
    Pause {
        /// How long.
        ns: u64,
    },
}

/// The operations of a workload, in order.
pub fn operations(workload: &Workload, seed: u64) -> Box<dyn Iterator<Item = Operation>> {
    match workload {
        Workload::Read(spec) => Box::new(read_operations(spec, seed)),
    }
}
