//! Traces of any text: nothing panics, every line is accounted for, and the events survive their log.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[path = "../../crates/probe/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    support::ftrace_text(data);
});
