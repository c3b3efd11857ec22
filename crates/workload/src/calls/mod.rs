//! Recorded file calls as a workload: what an application did to its files, done again on any volume.
//!
//! Calls come from a text of strace ([`strace`]), the lab's own recording ([`events`]) or a file of calls ([`text`]),
//! which is also the form they are kept in.

/// The operations that no recording makes and no file of calls has: they are other workloads'. A pattern, so that a new
/// operation has to be decided on.
macro_rules! other_workloads {
    () => {
        Operation::CreateFile { .. }
            | Operation::Allocate { .. }
            | Operation::Attributes { .. }
            | Operation::SeekEnd { .. }
            | Operation::Map { .. }
            | Operation::Touch { .. }
            | Operation::ReadFile { .. }
            | Operation::WriteFile { .. }
            | Operation::Fill { .. }
            | Operation::ReadOpen { .. }
            | Operation::Archive { .. }
            | Operation::Turn { .. }
            | Operation::Evict { .. }
            | Operation::Invalidate { .. }
            | Operation::Prefetch { .. }
    };
}

pub mod events;
mod recorded;
pub mod strace;
mod summary;
pub mod text;

use crate::content::NewFile;
use crate::database::{PAGE_CACHE, PageCache, Prepares};
use crate::definition::{Defined, FileWorkload};
use crate::factor::{AnyFactor, Factor, Impossible, Point, Text, blame};
use crate::factors::DATA;
use crate::population::{Caches, Population, Sizes};
pub use crate::recording::{Calls, KeptCalls, Selection};
use crate::{Data, Operation};
use pocketstone_core::{Error, Result, words};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

words! {
    /// Whether pauses between recorded calls are kept.
    Pauses {
        /// As they were recorded, as far as they were.
        Own = "own",
        /// None: each call follows the one before it.
        None = "none",
    }
}

const CALLS_FILE: Factor<Text> =
    Factor::new("calls_file", "the recorded calls: a text of strace or a file of calls, relative to the study");
const CALLS_BELOW: Factor<Text> =
    Factor::new("calls_below", "only files below this folder are replayed; default: all but those of the system")
        .default("");
const CALLS_PAUSES: Factor<Pauses> =
    Factor::new("calls_pauses", "whether the pauses between recorded calls are kept").default("own");

/// The `calls` workload: recorded calls on files that are made as the recording says they were.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CallsSpec {
    /// Digest of the file with the calls, which whoever executes it has beside the order.
    pub trace: String,
    /// The files that there are before the first operation.
    pub files: Vec<NewFile>,
    /// Names of further numbers.
    pub names: Vec<String>,
    /// Most bytes of one call.
    pub request_bytes: u64,
    /// Whether anything is changed.
    pub writes: bool,
    /// Threads that share the operations.
    pub threads: u32,
    /// The files' contents, and what is written.
    pub data: Data,
    /// Whether caches have nothing of the files before the first operation.
    pub cold: bool,
    /// The pauses that each thread has of the calls, in ns, once these have been seen.
    #[serde(skip)]
    pauses_ns: u64,
    /// The operations, once they have been read.
    #[serde(skip)]
    operations: Option<Arc<[Operation]>>,
}

impl CallsSpec {
    /// The workload of calls that are kept under a digest, without the operations themselves.
    pub fn new(calls: &Calls, trace: String, data: Data, cold: bool) -> CallsSpec {
        let moved = calls.operations.iter().filter_map(moved_bytes);
        CallsSpec {
            trace,
            files: calls.files.clone(),
            names: calls.names.clone(),
            request_bytes: moved.max().unwrap_or(0),
            writes: calls.operations.iter().any(writes),
            threads: calls.threads,
            data,
            cold,
            pauses_ns: thread_pauses_ns(calls),
            operations: None,
        }
    }

    /// With the operations of the file that has them.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is no file of calls.
    pub fn with(&self, file: &[u8]) -> Result<CallsSpec> {
        let text = std::str::from_utf8(file).map_err(|e| Error::user("a file of calls is no text").because(e))?;
        let calls = text::decode(text, "the workload's file")?;
        let pauses_ns = thread_pauses_ns(&calls);
        Ok(CallsSpec { pauses_ns, operations: Some(calls.operations.into()), ..self.clone() })
    }
}

/// Threads share the operations, and the pauses between them.
fn thread_pauses_ns(calls: &Calls) -> u64 {
    calls.pauses_ns() / u64::from(calls.threads.max(1))
}

fn moved_bytes(operation: &Operation) -> Option<u64> {
    match *operation {
        Operation::Read { bytes, .. } | Operation::Write { bytes, .. } | Operation::Append { bytes, .. } => Some(bytes),
        _ => None,
    }
}

fn writes(operation: &Operation) -> bool {
    use crate::Purpose;
    !matches!(
        operation,
        Operation::Read { .. }
            | Operation::Open { purpose: Purpose::Read | Purpose::Write | Purpose::Append | Purpose::Direct, .. }
            | Operation::Close { .. }
            | Operation::LookUp { .. }
            | Operation::List
            | Operation::Pause { .. }
    )
}

impl Defined for CallsSpec {
    const NAME: &'static str = "calls";
    const ABOUT: &'static str = "an application's recorded calls on files";
    const SMALL: &'static str = "calls_file = 'app.strace'";
    const FACTORS: &'static [AnyFactor] =
        &[CALLS_FILE.any(), CALLS_BELOW.any(), CALLS_PAUSES.any(), DATA.any(), PAGE_CACHE.any()];

    fn of_point(point: &Point, prepares: &mut dyn Prepares) -> Result<Self, Impossible> {
        let selection = Selection { below: point.of(&CALLS_BELOW)?, pauses: point.of(&CALLS_PAUSES)? == Pauses::Own };
        let kept = prepares.calls(&point.of(&CALLS_FILE)?, &selection).map_err(blame(CALLS_FILE.name()))?;
        let cold = point.of(&PAGE_CACHE)? == PageCache::Cold;
        Ok(CallsSpec::new(&kept.calls, kept.digest, point.of(&DATA)?, cold))
    }
}

/// Reads calls from what a file holds; `name` is the file's.
///
/// # Errors
/// `ErrorKind::User` with the file and the line if it is not understood, or has no call on a selected file.
pub fn read(file: &[u8], name: &str, selection: &Selection) -> Result<Calls> {
    let text = std::str::from_utf8(file).map_err(|e| {
        Error::user(format!("{name} is no text"))
            .because(e)
            .hint("calls_file is a text of `strace -f -T` or a file of calls; job files of fio are the workload `fio`")
    })?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if !text.starts_with(text::KIND) {
        return strace::calls(text, name, selection);
    }
    if !selection.below.is_empty() {
        return Err(Error::user(format!("the files of {name} lie in no folders")).hint("omit calls_below"));
    }
    let mut calls = text::decode(text, name)?;
    if !selection.pauses {
        calls.operations.retain(|operation| !matches!(operation, Operation::Pause { .. }));
    }
    Ok(calls)
}

impl FileWorkload for CallsSpec {
    fn judge(&self) -> Result<(), Impossible> {
        match self.operations.is_some() {
            true => Ok(()),
            false => Err(Error::bug("recorded calls are measured without their file").into()),
        }
    }

    fn population(&self, seed: u64) -> Population {
        Population {
            files: self.files.len() as u64,
            file_bytes: self.files.iter().map(|file| file.bytes).max().unwrap_or(0),
            data: self.data,
            seed,
            sizes: Sizes::Listed { list: self.files.clone() },
            caches: if self.cold { Caches::Cold } else { Caches::Warm },
        }
    }

    fn operations(&self, _seed: u64) -> Box<dyn Iterator<Item = Operation>> {
        let operations = self.operations.clone().unwrap_or_default();
        Box::new((0..operations.len()).map(move |n| operations[n]))
    }

    fn request_bytes(&self) -> u64 {
        self.request_bytes
    }

    fn writes(&self) -> bool {
        self.writes
    }

    fn threads(&self) -> u32 {
        self.threads
    }

    fn pauses_ns(&self) -> u64 {
        self.pauses_ns
    }

    fn names(&self, _seed: u64) -> Vec<String> {
        self.files.iter().map(|file| file.name.clone()).chain(self.names.iter().cloned()).collect()
    }
}

#[cfg(test)]
mod tests;
