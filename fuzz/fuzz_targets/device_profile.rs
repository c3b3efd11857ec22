//! Device profiles: nothing panics, and what is taken keeps what models count on.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[path = "../../crates/replay/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    support::device_profile(data);
});
