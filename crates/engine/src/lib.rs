//! What executes a workload's operations, and times each of them.

mod clock;
pub mod database;
mod directory;
mod files;
mod mapping;
mod posix;
mod run;
mod scmfs;
mod session;

pub use clock::now_ns;
pub use directory::PosixDirectory;
pub use files::{Directory, Files, Purpose, populate};
pub use mapping::{Mapped, Mapping};
pub use posix::{PosixFile, evict, resident_pages, write_file};
pub use run::{Recording, run};
pub use scmfs::ScmfsDirectory;
pub use session::Session;

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
