//! Recorded calls on files, in the form in which they are kept.

use crate::Operation;
use crate::content::NewFile;
use std::collections::BTreeMap;
use std::sync::Arc;

/// What was recorded, ready to be done again.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Calls {
    /// Threads that share the operations, 1 or more.
    pub threads: u32,
    /// The files that there are before the first operation; their numbers are their places.
    pub files: Vec<NewFile>,
    /// Names of the numbers behind those: files that are made, and further descriptors of a file.
    pub names: Vec<String>,
    /// The operations.
    pub operations: Vec<Operation>,
    /// How many calls are not among them, by their name or by why.
    pub left_out: BTreeMap<String, u64>,
}

/// Which of a recording's calls are replayed, and how.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Selection {
    /// Only files below this folder; empty: all but those of the system.
    pub below: String,
    /// Whether the pauses between calls are kept.
    pub pauses: bool,
}

/// Calls that are kept.
#[derive(Debug, Clone, Default)]
pub struct KeptCalls {
    /// Digest of their file.
    pub digest: String,
    /// The calls.
    pub calls: Arc<Calls>,
}
