//! SQLite on volumes in process.

mod support;

mod crash;
mod extension;
mod ways;
