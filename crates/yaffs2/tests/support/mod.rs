//! What the integration tests share: chips, operations, the reference model, a volume's tree, losses of power.
//!
//! Every test binary takes its own part of it.
#![allow(dead_code, missing_docs)]

pub mod apply;
pub mod fuzz;
pub mod model;
pub mod model_names;
pub mod op;
pub mod power;
pub mod recorder;
pub mod rows;
pub mod run;
pub mod shape;
pub mod tree;
pub mod writer;

/// How much to do: the long tests are the same tests with larger numbers.
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

/// One line on stderr: what a long test did.
pub fn say(line: &str) {
    use std::io::Write;
    // A closed stderr must not fail a test that passed.
    let _ = writeln!(std::io::stderr(), "{line}");
}
