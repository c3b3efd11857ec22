//! What comes over a connection to a board: nothing panics, and what comes out does not depend on how it was cut.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[path = "../../crates/core/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    support::frames(data);
});
