//! Sequences of operations: volume and model agree.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[path = "../../crates/scmfs/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| support::fuzz::operations(data));
