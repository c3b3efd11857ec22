//! Damaged checkpoints: nothing panics, and what is verified can be restored.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[path = "../../crates/scmfs/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| support::fuzz::checkpoint(data));
