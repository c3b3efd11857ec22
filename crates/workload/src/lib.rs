//! Workloads as pure streams of operations: what is done, never how or on what.
//!
//! The same specification and seed give the same operations and the same file contents on every
//! machine.

mod content;
pub mod database;
mod files;
mod read;

pub use content::{Content, filler_bytes};
pub use files::{file_name, file_operations};
pub use read::read_operations;

use pocketstone_core::plan::Workload;

/// One operation of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Read `bytes` bytes of a file at `offset`.
    Read {
        /// Number of the file; a `read` workload has one.
        file: u32,
        /// Position in the file.
        offset: u64,
        /// Bytes asked for.
        bytes: u64,
    },
    /// Overwrite `bytes` bytes of a file at `offset`.
    Write {
        /// Number of the file.
        file: u32,
        /// Position in the file.
        offset: u64,
        /// Bytes written.
        bytes: u64,
    },
    /// Write `bytes` bytes at a file's end.
    Append {
        /// Number of the file.
        file: u32,
        /// Bytes written.
        bytes: u64,
    },
    /// Create an empty file.
    Create {
        /// Number of the file.
        file: u32,
    },
    /// Delete a file.
    Delete {
        /// Number of the file.
        file: u32,
    },
    /// Ask for a file's attributes by its name.
    LookUp {
        /// Number of the file.
        file: u32,
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
        Workload::Files(spec) => Box::new(file_operations(spec, seed)),
        // Its operations are prepared: see `database`.
        Workload::Database(_) => Box::new(std::iter::empty()),
    }
}
