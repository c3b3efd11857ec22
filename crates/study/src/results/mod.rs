//! Results: the store, the metrics of a cell, statistics over cells, and comparison of runs.

pub(crate) mod change_points;
pub mod compare;
pub mod dip;
pub mod energy;
pub mod history;
pub mod layers;
pub mod left_out;
pub mod merge;
pub mod metrics;
pub(crate) mod replay_statistics;
pub mod resumed;
mod statistics;
pub mod stats;
pub mod store;
