//! From a study's TOML to cells, results, statistics and verdicts.
//!
//! Each layer uses those above it alone.

pub mod specification;

pub mod results;

pub mod models;

pub mod views;

pub mod run;

pub use specification::study::Study;

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
            block: None,
            translation: None,
            prefetched: None,
            filled_bytes: None,
            space: None,
            database: None,
            command: None,
            energy: Vec::new(),
            others: None,
            counted: Default::default(),
            cuts: Vec::new(),
            worn: None,
            unavailable: Vec::new(),
        }
    }
}
