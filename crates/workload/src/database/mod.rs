//! Database workloads: prepared, seeded, the same bytes everywhere.

mod analysis;
mod contacts;
mod delays;
mod distribution;
mod import;
mod literal;
mod pocketdata;
mod point;
mod printable;
mod published;
mod recipe;
mod requests;
mod result;
mod summary;
mod tokens;
mod trace;
mod ycsb;

pub use delays::delays;
pub(crate) use distribution::{Lognormal, gamma};
pub use import::{Imported, check_image, from_sql_log, import};
pub(crate) use point::PAGE_CACHE;
pub(crate) use point::of_point;
pub use point::{DATABASE_FACTORS, JournalMode, PageCache, Prepares};
pub use published::{from_published, to_published};
pub use recipe::{check, from_file, prepare};
pub use result::ResultDigest;
pub use summary::Summary;
pub use trace::{Statement, StatementKind, Step, Trace, Value};
