//! Files of any text: nothing panics, energies are numbers and add up, and a run is found or refused.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[path = "../../crates/probe/tests/support/mod.rs"]
mod support;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    support::meter_file(data);
});
