//! What executes a workload's operations, and times each of them.

mod posix;
mod run;

pub use posix::{PosixFile, evict, resident_pages};
pub use run::{Recording, run};

use pocketstone_core::Result;
use pocketstone_workload::Operation;

/// Executes operations. Preparation is over when an engine exists; `execute` is what gets timed.
pub trait Engine {
    /// Executes one operation and returns the number of bytes it moved.
    ///
    /// # Errors
    /// When the operation failed; the run ends there.
    fn execute(&mut self, operation: &Operation) -> Result<u64>;
}
