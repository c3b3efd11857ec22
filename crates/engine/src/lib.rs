//! What executes a workload's operations, and times each of them.

mod clock;
pub mod database;
mod directory;
mod files;
mod posix;
mod run;
mod scmfs;

pub use clock::now_ns;
pub use directory::PosixDirectory;
pub use files::{Directory, Files, populate};
pub use posix::{PosixFile, evict, resident_pages};
pub use run::{Recording, run};
pub use scmfs::ScmfsDirectory;

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
