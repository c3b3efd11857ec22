//! Study specifications: TOML, factors, cells, and prepared workloads.

pub(crate) mod archive;
pub mod cell;
pub mod factor;
pub mod metric;
pub mod origin;
pub(crate) mod points;
pub mod recordings;
pub mod setting;
pub mod study;
pub mod traces;
