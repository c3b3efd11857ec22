//! From a study's TOML to cells, results, statistics and verdicts.

pub mod advise;
pub mod cell;
mod charts;
pub mod compare;
pub mod energy;
pub mod factor;
mod figures;
pub mod layers;
pub mod metrics;
pub mod model;
pub mod replay;
mod report_files;
pub mod report_model;
pub mod run;
pub mod stats;
pub mod store;
pub mod study;
pub mod summarize;
pub mod traces;

pub use study::Study;
