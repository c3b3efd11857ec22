//! Perfetto traces of any bytes: nothing panics, every event is accounted for, and an error says at which byte it is.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[path = "../../crates/probe/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    support::perfetto_trace(data);
});
