//! The words every room of pocketstone shares: units, seeded randomness, the plan that a board
//! executes, and the results that come back.
//!
//! Nothing here does input or output; everything is the same on every machine.

pub mod bytes;
pub mod database;
pub mod error;
pub mod events;
mod events_join;
pub mod events_log;
pub mod events_threads;
pub mod hint;
pub mod inode;
pub mod log;
pub mod outcome;
pub mod plan;
pub mod random;
pub mod units;

pub use error::{Error, ErrorKind, Result};
