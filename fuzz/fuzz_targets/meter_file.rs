//! Files of any text: nothing panics, energies are numbers and add up, and a run is found or refused.
#![no_main]

use pocketstone_probe::bench_meter::{Alignment, MeterFile, Window, align};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let Ok(file) = MeterFile::parse("fuzz.csv", data) else { return };
    assert!(file.samples.windows(2).all(|w| w[0].time_ns < w[1].time_ns));
    let (middle, end) = (file.end_ns() / 2, file.end_ns());
    if let Ok(all) = file.energy_uj(0, end) {
        let parts = file.energy_uj(0, middle).unwrap() + file.energy_uj(middle, end).unwrap();
        assert!(all.is_finite() && (all - parts).abs() <= 1e-6 * (1.0 + all.abs()) + 1e3, "{all} {parts}");
    }
    let second = 1_000_000_000;
    let cells = [(10, 11), (13, 15)].map(|(from, to)| Window { start_ns: from * second, end_ns: to * second });
    for how in [Alignment::Trigger, Alignment::Pattern, Alignment::Offset { first_ns: 0 }] {
        if let Ok(aligned) = align(&file, &cells, how) {
            assert!(aligned.meter_ns(cells[1].end_ns) <= end);
        }
    }
});
