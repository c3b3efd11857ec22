//! What the fuzz targets `ftrace_text`, `perfetto_trace` and `meter_file` check, for them and for the tests that replay
//! their corpora. Not every user needs all of it.
#![allow(dead_code)]

use pocketstone_core::events::Window;
use pocketstone_core::events_log::{decode_events, encode_events};
use pocketstone_probe::analysis::{PhoneRuns, analyse, phone_summary};
use pocketstone_probe::bench_meter::{self, Alignment, MeterFile, align};
use pocketstone_probe::ftrace::{Context, read, read_from};
use pocketstone_probe::perfetto;

/// A trace of any text: nothing panics, every line is accounted for, and the events survive their log. Whether it
/// was read.
pub fn ftrace_text(data: &[u8]) -> bool {
    let context = Context { process: Some(1), narrow: data.len() % 2 == 0, ..Context::default() };
    let Ok(reading) = read(data, &context) else { return false };
    assert_eq!(reading.lines, reading.used + reading.left_out.values().sum::<u64>());
    let log = reading.log;
    // Its only reason is a thread's number above Linux's largest.
    if let Ok(bytes) = encode_events(&log) {
        assert_eq!(decode_events(&bytes).unwrap(), log);
    }
    // The same lines with their events taken while they are read: as many, and runs of the same names.
    let mut runs = PhoneRuns::default();
    let bit_by_bit = read_from(data, &context, &mut runs).unwrap();
    assert_eq!(
        (bit_by_bit.lines, bit_by_bit.used, bit_by_bit.left_out),
        (reading.lines, reading.used, reading.left_out)
    );
    for run in runs.end().iter().flatten() {
        assert!(run.on_core_khz_ns.values().fold(0u64, |sum, ns| sum.saturating_add(*ns)) <= run.on_core_ns);
        assert!(run.bursts.max_ns <= Some(run.on_core_ns) && run.mean_khz().is_none_or(f64::is_finite));
    }
    if let Ok(run) = phone_summary(&log) {
        assert_eq!((run.app, run.start_ns), log.phone_run().map(|(app, window)| (app, window.start_ns)).unwrap());
    }
    let threads = log.tasks.iter().map(|(pid, _)| *pid).collect();
    let _ = analyse(&log, Window { start_ns: 0, end_ns: u64::MAX }, &threads, &[], 1);
    true
}

/// A Perfetto trace of any bytes: nothing panics, every event is accounted for, and events are in the order of their
/// times whoever takes them. Whether it was read.
pub fn perfetto_trace(data: &[u8]) -> bool {
    let context = Context::default();
    if let Err(error) = perfetto::rails(data) {
        assert!(error.message().contains("at byte ") && error.cure().is_some(), "{error}");
    }
    let mut runs = PhoneRuns::default();
    let bit_by_bit = match perfetto::read_from(data, &context, &mut runs) {
        Ok(reading) => reading,
        Err(error) => {
            assert!(error.message().contains("at byte ") && error.cure().is_some(), "{error}");
            return false;
        }
    };
    assert_eq!(bit_by_bit.lines, bit_by_bit.used + bit_by_bit.left_out.values().sum::<u64>());
    for run in runs.end().iter().flatten() {
        assert!(run.on_core_khz_ns.values().fold(0u64, |sum, ns| sum.saturating_add(*ns)) <= run.on_core_ns);
        assert!(run.bursts.max_ns <= Some(run.on_core_ns) && run.mean_khz().is_none_or(f64::is_finite));
    }
    let whole = perfetto::read(data, &context);
    assert_eq!(whole.is_err(), bit_by_bit.losses > 0);
    let Ok(whole) = whole else { return true };
    assert_eq!((whole.lines, whole.used, &whole.left_out), (bit_by_bit.lines, bit_by_bit.used, &bit_by_bit.left_out));
    let log = whole.log;
    assert!(log.events.len() as u64 == whole.used && log.events.windows(2).all(|w| w[0].time_ns <= w[1].time_ns));
    // Its only reason is a thread's number above Linux's largest.
    if let Ok(bytes) = encode_events(&log) {
        assert_eq!(decode_events(&bytes).unwrap(), log);
    }
    let threads = log.tasks.iter().map(|(pid, _)| *pid).collect();
    let _ = analyse(&log, Window { start_ns: 0, end_ns: u64::MAX }, &threads, &[], 1);
    true
}

/// A meter's file of any text: nothing panics, energies are numbers and add up, and a run is found or refused.
/// Whether it was read.
pub fn meter_file(data: &[u8]) -> bool {
    let Ok(file) = MeterFile::parse("fuzz.csv", data) else { return false };
    assert!(file.samples.windows(2).all(|w| w[0].time_ns < w[1].time_ns));
    let (middle, end) = (file.end_ns() / 2, file.end_ns());
    if let Ok(all) = file.energy_uj(0, end) {
        let parts = file.energy_uj(0, middle).unwrap() + file.energy_uj(middle, end).unwrap();
        assert!(all.is_finite() && (all - parts).abs() <= 1e-6 * (1.0 + all.abs()) + 1e3, "{all} {parts}");
    }
    let second = 1_000_000_000;
    let window = |(from, to): (u64, u64)| bench_meter::Window { start_ns: from * second, end_ns: to * second };
    let cells = [(10, 11), (13, 15)].map(window);
    for how in [Alignment::Trigger, Alignment::Pattern, Alignment::Offset { first_ns: 0 }] {
        if let Ok(aligned) = align(&file, &cells, how) {
            assert!(aligned.meter_ns(cells[1].end_ns) <= end);
        }
    }
    true
}
