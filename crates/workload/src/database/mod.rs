//! Database workloads: prepared, seeded, the same bytes everywhere.

mod result;
mod trace;

pub use result::ResultDigest;
pub use trace::{Statement, StatementKind, Step, Trace, Value};
