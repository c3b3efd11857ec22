//! SQLite on volumes in process.

mod support;

mod crash;
mod ways;
