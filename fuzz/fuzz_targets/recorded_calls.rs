//! Texts of strace and files of calls: nothing panics, and what is read can be executed.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[allow(dead_code)]
#[path = "../../crates/workload/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    support::calls(data);
});
