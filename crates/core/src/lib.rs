//! Shared vocabulary of all pocketstone crates: units, seeded randomness, volumes, boards, and results.
//!
//! This crate does no I/O and is platform-independent.

pub mod block;
pub mod block_log;
pub mod block_op;
pub mod block_record;
pub mod board;
pub mod bytes;
pub mod chip;
pub mod counted;
pub mod database;
pub mod error;
pub mod events;
mod events_join;
pub mod events_log;
pub mod events_threads;
mod failure;
pub mod faults;
pub mod frame;
pub mod hint;
pub mod log;
pub mod median;
pub mod metric;
pub mod origin;
pub mod outcome;
pub mod pattern;
pub mod run_marks;
pub mod translation;
pub mod unavailable;
pub mod units;
pub mod volume;
pub mod words;

pub use pocketstone_random as random;

pub use error::{Error, ErrorKind, Result};
