//! Prepared workloads: what is read is written as the same bytes, and nothing panics.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[allow(dead_code)]
#[path = "../../crates/workload/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    support::trace(data);
});
