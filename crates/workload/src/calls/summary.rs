//! What recorded calls are, in numbers.

use super::Calls;
use crate::Operation;
use std::collections::BTreeMap;

/// How often a kind of call occurs, and the bytes that its calls move.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Total {
    /// Calls.
    pub calls: u64,
    /// Bytes.
    pub bytes: u64,
}

impl Calls {
    /// Totals by kind of call, as files of calls name it.
    pub fn totals(&self) -> BTreeMap<&'static str, Total> {
        let mut totals: BTreeMap<&'static str, Total> = BTreeMap::new();
        for operation in &self.operations {
            let (name, bytes) = match *operation {
                Operation::Read { bytes, .. } => ("read", bytes),
                Operation::Write { bytes, .. } | Operation::Append { bytes, .. } => ("write", bytes),
                Operation::Sync { .. } | Operation::SyncData { .. } | Operation::SyncFolder => ("sync", 0),
                Operation::Open { .. } | Operation::Create { .. } => ("open", 0),
                Operation::Close { .. } => ("close", 0),
                Operation::Truncate { .. } => ("truncate", 0),
                Operation::Delete { .. } => ("delete", 0),
                Operation::Rename { .. } => ("rename", 0),
                Operation::LookUp { .. } => ("look-up", 0),
                Operation::MakeDirectory { .. } => ("make-folder", 0),
                Operation::SetOwner { .. } => ("set-owner", 0),
                Operation::List => ("list", 0),
                // No call.
                Operation::Pause { .. } | other_workloads!() => continue,
            };
            let total = totals.entry(name).or_default();
            (total.calls, total.bytes) = (total.calls + 1, total.bytes + bytes);
        }
        totals
    }

    /// All pauses together in ns.
    pub fn pauses_ns(&self) -> u64 {
        let pauses = self.operations.iter().filter_map(|operation| match operation {
            Operation::Pause { ns } => Some(*ns),
            _ => None,
        });
        pauses.fold(0, u64::saturating_add)
    }
}
