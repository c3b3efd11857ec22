//! Execution and timing of a workload's operations.
//!
//! On files: an [`Executor`] for each thread, on a [`Tree`]: the kernel's files ([`KernelTree`], or
//! past its page cache [`DirectTree`]), or a volume of SCMFS
//! or YAFFS2 in this process ([`VolumeTree`]). On databases: [`database`].

mod calls;
mod child;
mod clock;
pub mod command;
pub mod database;
mod direct;
mod executor;
mod in_process;
pub mod installed;
mod kernel;
mod mapping;
mod populate;
mod run;
mod tree;

pub use child::{at_end, end_with_this_process};
pub use clock::now_ns;
pub use direct::DirectTree;
pub use executor::Executor;
pub use in_process::{InProcess, ScmfsMap, ScmfsTree, VolumeFile, VolumeTree, Yaffs2Tree, open_scmfs};
pub use kernel::{KernelTree, resident_pages};
pub use mapping::Mapping;
pub use populate::populate;
pub use run::{Recording, run};
pub use tree::{NoMap, Touch, Tree};

use pocketstone_core::Result;
use pocketstone_workload::Operation;

/// Executes operations. Preparation ends when an engine is created; `execute` is timed.
pub trait Engine {
    /// Executes one operation and returns the number of bytes it moved.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the operation fails, after which the run ends.
    fn execute(&mut self, operation: &Operation) -> Result<u64>;
}
