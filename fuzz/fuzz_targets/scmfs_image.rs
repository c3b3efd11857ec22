//! Damaged volumes: nothing panics, and what fsck has repaired is sound.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[path = "../../crates/scmfs/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| support::fuzz::image(data));
