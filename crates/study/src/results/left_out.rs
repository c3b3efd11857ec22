//! Something skipped in a run.

use pocketstone_core::Error;
use serde::Serialize;

/// Something a run left out.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct LeftOut {
    /// What.
    pub what: String,
    /// Why.
    pub why: String,
    /// The fix; empty if there is none.
    pub cure: String,
}

impl LeftOut {
    /// Something that was left out for an error.
    pub fn new(what: impl Into<String>, error: &Error) -> Self {
        LeftOut { what: what.into(), why: error.chain(), cure: error.cure().unwrap_or_default().to_owned() }
    }
}
