//! From a study's TOML to cells, results, statistics and verdicts.

pub mod model;
