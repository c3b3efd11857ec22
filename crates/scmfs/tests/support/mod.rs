//! What the integration tests share: the reference model, operations, a volume's tree, crash exploration.
//!
//! Every test binary takes its own part of it.
#![allow(dead_code, missing_docs)]

pub mod churn;
pub mod content;
pub mod decode;
pub mod errno;
pub mod expect;
pub mod explore;
pub mod fsx;
pub mod fuzz;
pub mod mail;
pub mod many;
pub mod model;
pub mod model_names;
pub mod on_volume;
pub mod op;
pub mod region;
pub mod run;
pub mod seal;
pub mod shape;
pub mod starts;
pub mod tree;

/// How much to do: the long tests are the same tests with larger numbers, those on emulated processors with
/// smaller ones.
pub fn amount(bounded: u64, torture: u64) -> u64 {
    match std::env::var("POCKETSTONE_LESS").ok().and_then(|text| text.parse::<u64>().ok()) {
        _ if std::env::var_os("POCKETSTONE_TORTURE").is_some() => torture,
        // On an emulated processor: a part of it.
        Some(less) if bounded >= 100 => bounded.div_ceil(less.max(1)),
        _ => bounded,
    }
}

/// The seed of a randomised test: `POCKETSTONE_SEED`, to repeat a failure, or the one in the source.
pub fn seed(default: u64) -> u64 {
    std::env::var("POCKETSTONE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// One line on stderr: what a long test did, or a table.
pub fn say(line: &str) {
    use std::io::Write;
    // A closed stderr must not fail a test that passed.
    let _ = writeln!(std::io::stderr(), "{line}");
}
