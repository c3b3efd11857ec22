//! Something skipped in a run.

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
