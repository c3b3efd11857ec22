//! Chips of others, YAFFS1 and big-endian ones: nothing panics, nothing goes on for ever.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[path = "../../crates/yaffs2/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| support::foreign::foreign(data));
