//! From a study's TOML to cells, results, statistics and verdicts.

pub mod advise;
pub mod cell;
mod charts;
pub mod compare;
pub mod energy;
pub mod explorer;
pub mod factor;
mod figures;
pub mod layers;
pub mod metrics;
pub mod model;
pub mod read_ahead;
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

/// What tests of this crate share.
#[cfg(test)]
mod testing {
    use pocketstone_core::outcome::{OUTCOME_FORMAT, Outcome, ReadAheadInForce};

    /// An outcome that says when it ran and nothing else, both in ns.
    pub fn nothing(start_ns: u64, end_ns: u64) -> Outcome {
        Outcome {
            format: OUTCOME_FORMAT,
            facts: Default::default(),
            read_ahead: ReadAheadInForce::default(),
            start_ns,
            end_ns,
            calls: 0,
            chip: None,
            flash: None,
            prefetched: None,
            database: None,
            energy: Vec::new(),
            unavailable: Vec::new(),
        }
    }
}
