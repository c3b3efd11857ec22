//! Workloads as pure streams of operations, independent of how and on what they run, and the plans and orders that
//! boards execute.
//!
//! The same specification and seed give the same operations and the same file contents on every
//! machine. Each workload is defined in one file, of which [`postmark`] is an example (those on databases in
//! [`database`]): its factors, what a point of a study makes of it, its files, its operations and its own metrics.
//! [`table`] has a line for each.

pub mod androsh;
pub mod app_start;
pub mod calls;
pub mod capacity;
pub mod command;
mod conditions;
mod content;
pub mod database;
pub mod definition;
mod effect;
pub mod factor;
pub mod factors;
pub mod filebench;
pub mod files;
pub mod fileset;
pub mod fio;
pub mod iozone;
pub mod lookup;
pub mod metrics;
mod operation;
pub mod plan;
pub mod population;
pub mod postmark;
pub mod read;
pub mod recording;
pub mod table;
#[cfg(test)]
mod testing;
pub mod tree;

pub use androsh::AndroshSpec;
pub use app_start::AppStartSpec;
pub use calls::CallsSpec;
pub use capacity::CapacitySpec;
pub use command::CommandSpec;
pub use content::{Content, Data, NewFile, filler_bytes};
pub use definition::FileWorkload;
pub use effect::{Effect, Part};
pub use filebench::FilebenchSpec;
pub use files::{FileOperation, FilesSpec, Sync};
pub use fio::FioSpec;
pub use iozone::{IozoneSpec, Pass, Passes};
pub use lookup::{LookupSpec, NamesAre};
pub use operation::{Operation, Prefetch, Purpose};
pub use population::{Caches, Population, Sizes, directory_name, file_name};
pub use postmark::PostmarkSpec;
pub use read::{ReadAccess, ReadSpec, read_operations};
pub use table::{Definition, Workload};
