//! Operations with losses of power: what is there afterwards may be there.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[path = "../../crates/yaffs2/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| support::fuzz::operations(data));
