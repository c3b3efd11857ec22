//! Workloads as pure streams of operations: what is done, never how or on what.
//!
//! The same specification and seed give the same operations and the same file contents on every
//! machine.

mod app_start;
mod content;
pub mod database;
mod files;
mod population;
mod postmark;
mod read;

pub use app_start::app_start_operations;
pub use content::{Content, filler_bytes};
pub use files::{file_name, file_operations};
pub use population::{NewFile, population_files};
pub use postmark::postmark_operations;
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
    /// Open a file, for what follows until it is closed.
    Open {
        /// Number of the file.
        file: u32,
        /// To append to it, or else to read it.
        append: bool,
    },
    /// Close the file that is open.
    Close {
        /// Number of the file.
        file: u32,
    },
    /// Map a file into memory, for as long as the run takes.
    Map {
        /// Number of the file.
        file: u32,
    },
    /// Read a byte of a mapped file: where its page is not in memory, the kernel gets it.
    Touch {
        /// Number of the file.
        file: u32,
        /// Position in the file.
        offset: u64,
    },
    /// Have the kernel forget a file's pages. It belongs to the measurement, not to what is measured.
    Evict {
        /// Number of the file.
        file: u32,
    },
    /// Ask the kernel for a part of the file before it is read, by the call that the plan names. It is timed apart.
    Prefetch {
        /// Position in the file.
        offset: u64,
        /// How much.
        bytes: u64,
    },
    /// Do nothing for a while.
    Pause {
        /// How long.
        ns: u64,
    },
}

impl Operation {
    /// Whether a run's log of calls has it.
    pub fn is_logged(&self) -> bool {
        !matches!(self, Operation::Pause { .. } | Operation::Evict { .. } | Operation::Prefetch { .. })
    }
}

/// The operations of a workload, in order.
pub fn operations(workload: &Workload, seed: u64) -> Box<dyn Iterator<Item = Operation>> {
    match workload {
        Workload::Read(spec) => Box::new(read_operations(spec, seed)),
        Workload::Files(spec) => Box::new(file_operations(spec, seed)),
        Workload::Postmark(spec) => Box::new(postmark_operations(spec, seed)),
        Workload::AppStart(spec) => Box::new(app_start_operations(spec, seed)),
        // Its operations are prepared: see `database`.
        Workload::Database(_) => Box::new(std::iter::empty()),
    }
}
