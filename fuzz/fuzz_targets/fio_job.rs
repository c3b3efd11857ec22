//! Job files of fio: nothing panics, and what is accepted stays inside its files.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[allow(dead_code)]
#[path = "../../crates/workload/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    support::fio_job(data);
});
