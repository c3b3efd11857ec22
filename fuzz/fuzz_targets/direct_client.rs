//! A hostile client of a mount's server: nothing but itself is harmed.
#![no_main]

// The body is the tests', which replay this target's corpus.
#[path = "../../crates/mount/tests/client/mod.rs"]
mod client;

libfuzzer_sys::fuzz_target!(|data: &[u8]| client::run(data));
