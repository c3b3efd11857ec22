//! What tests share.

use crate::calls::{Calls, KeptCalls, Selection};
use crate::database::Prepares;
use crate::{Operation, Purpose};
use pocketstone_core::Result;
use pocketstone_core::database::Recipe;
use pocketstone_core::log::Call;

/// An operation as text, in the form that the digests of streams were taken of.
pub fn text(operation: &Operation) -> String {
    match operation {
        Operation::Open { file, purpose } => {
            format!("Open {{ file: {file}, append: {} }};", *purpose == Purpose::Append)
        }
        Operation::CreateFile { file } => format!("Create {{ file: {file} }};"),
        other => format!("{other:?};"),
    }
}

/// A run whose operations took these times in nanoseconds, one after the other.
pub fn took(latencies_ns: impl IntoIterator<Item = u64>) -> Vec<Call> {
    latencies_ns.into_iter().map(|latency_ns| Call { start_ns: 0, latency_ns, intended_ns: 0 }).collect()
}

/// Prepares nothing.
pub struct Unprepared;

impl Prepares for Unprepared {
    fn digests(&mut self, _recipe: &Recipe, _seed: u64) -> Result<(String, String)> {
        Ok(Default::default())
    }

    fn files(&mut self, path: &str) -> Result<String> {
        Ok(format!("digest of {path}"))
    }

    fn text(&mut self, _path: &str) -> Result<String> {
        Ok("[job]\nsize=4k\n".into())
    }

    fn calls(&mut self, path: &str, _selection: &Selection) -> Result<KeptCalls> {
        let calls = Calls { threads: 1, ..Calls::default() };
        Ok(KeptCalls { digest: format!("digest of {path}"), calls: calls.into() })
    }
}
