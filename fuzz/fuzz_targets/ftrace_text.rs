//! Traces of any text: nothing panics, every line is accounted for, and the events survive their log.
#![no_main]

use pocketstone_core::events::Window;
use pocketstone_core::events_log::{decode_events, encode_events};
use pocketstone_probe::analysis::{analyse, phone_summary};
use pocketstone_probe::ftrace::{Context, read};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let context = Context { process: Some(1), narrow: data.len() % 2 == 0, ..Context::default() };
    let Ok(reading) = read(data, &context) else { return };
    assert_eq!(reading.lines, reading.used + reading.left_out.values().sum::<u64>());
    let log = reading.log;
    // Its only reason is a thread's number above Linux's largest.
    if let Ok(bytes) = encode_events(&log) {
        assert_eq!(decode_events(&bytes).unwrap(), log);
    }
    let _ = phone_summary(&log);
    let threads = log.tasks.iter().map(|(pid, _)| *pid).collect();
    let _ = analyse(&log, Window { start_ns: 0, end_ns: u64::MAX }, &threads, &[], 1);
});
