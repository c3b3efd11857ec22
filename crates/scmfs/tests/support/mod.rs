//! What the integration tests share beyond what the tests of all file systems do: volumes, crash exploration, damage.
//!
//! Fuzz targets take a part of it.
#![allow(dead_code, missing_docs)]

pub mod churn;
pub mod expect;
pub mod explore;
pub mod fsx;
pub mod fuzz;
pub mod hostile;
pub mod mail;
pub mod many;
pub mod region;
pub mod run;
pub mod seal;
pub mod shape;
pub mod starts;
pub mod subject;
pub mod target;

#[allow(unused_imports, reason = "fuzz targets share this, and use none of them")]
pub use pocketstone_testing::{amount, say, seed};

/// Bytes from a file's start on that have space, up to the first that has none.
pub fn space_from_start(file: &pocketstone_scmfs::File) -> u64 {
    file.extents().iter().fold(0, |end, next| if next.offset == end { end + next.bytes } else { end })
}
