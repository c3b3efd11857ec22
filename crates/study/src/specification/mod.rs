//! Study specifications: TOML, factors, cells and their shares, and prepared workloads.

pub(crate) mod archive;
pub mod cell;
pub mod factor;
pub(crate) mod guess;
pub mod metric;
pub mod phone_logs;
pub(crate) mod points;
pub mod recordings;
mod refusals;
pub mod setting;
pub mod shares;
pub mod study;
pub mod traces;
pub mod volume;
#[cfg(test)]
mod wrong_values;
