use super::*;
use pocketstone_core::random::Random;

/// A Monsoon's file at 1 kHz: 100 mW, and in each cell 600 mW, at 4 V. Cells are in s of the board's clock; the
/// meter's clock is `offset_s` ahead at 0 and faster by `ppm`. What a cell takes is 0.6 J a second, known without
/// the code under test.
fn monsoon(cells: &[(f64, f64)], offset_s: f64, ppm: f64, total_s: f64, trigger: bool) -> String {
    sampled(1000.0, cells, offset_s, ppm, total_s, trigger)
}

/// The same at another rate.
fn sampled(hertz: f64, cells: &[(f64, f64)], offset_s: f64, ppm: f64, total_s: f64, trigger: bool) -> String {
    let mut text = String::from("# a comment\nTime (s),Main(mA),USB(mA),Main Voltage(V)");
    text += if trigger { ",Trigger (V)\n" } else { "\n" };
    let on_meter = |s: f64| offset_s + s * (1.0 + ppm / 1e6);
    let mut random = Random::new(1);
    for n in 0..(total_s * hertz) as u32 {
        let time = f64::from(n) / hertz;
        let busy = cells.iter().any(|(from, to)| (on_meter(*from)..on_meter(*to)).contains(&time));
        // Noise of up to 10 mW whose mean is 0.
        let mw = if busy { 600.0 } else { 100.0 } + (random.unit() - 0.5) * 20.0;
        text += &format!("{:.3},{:.4},0.0,4.0", 1000.0 + time, mw / 4.0);
        if trigger {
            text += if busy { ",3.3" } else { ",0.1" };
        }
        text.push('\n');
    }
    text
}

fn read(text: &str) -> MeterFile {
    MeterFile::parse("m.csv", text.as_bytes()).unwrap()
}

/// Windows by a board's clock that is at 5000 s when the first cell starts.
fn windows(cells: &[(f64, f64)]) -> Vec<Window> {
    let ns = |s: f64| 5_000_000_000_000 + (s * 1e9) as u64;
    cells.iter().map(|(from, to)| Window { start_ns: ns(*from), end_ns: ns(*to) }).collect()
}

/// Energies of the cells in mJ.
fn energies(file: &MeterFile, aligned: &Aligned, cells: &[Window]) -> Vec<f64> {
    let energy = |c: &Window| file.energy_uj(aligned.meter_ns(c.start_ns), aligned.meter_ns(c.end_ns)).unwrap() / 1e3;
    cells.iter().map(energy).collect()
}

#[track_caller]
fn close(found: &[f64], expected: &[f64], within: f64) {
    assert_eq!(found.len(), expected.len());
    assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() <= within * e), "{found:?}, not {expected:?}");
}

const UNEVEN: [(f64, f64); 4] = [(0.0, 1.0), (2.5, 3.0), (3.7, 5.7), (9.0, 9.4)];
const UNEVEN_MJ: [f64; 4] = [600.0, 300.0, 1200.0, 240.0];

#[test]
fn every_dialect_gives_the_same_power() {
    // 2 W for 1 s, then evenly up to 4 W in 0.5 s: 2 J + 1.5 J.
    let texts = [
        "Time (s),Main Avg Power (mW)\n7,2000\n8,2000\n8.5,4000\n",
        "time;power\n0,0;2,0\n1,0;2,0\n1,5;4,0\n",
        "time_ms\tcurrent_mA\tvoltage_mV\n0\t500\t4000\n1000\t500\t4000\n1500\t1000\t4000\n",
        "\u{feff}\"Time(ms)\",\"Main(mA)\",\"USB(mA)\",\"Main Voltage(V)\",\"USB Voltage(V)\"\r\n\
         0,500,9,4,9\r\n1000,500,9,4,9\r\n1500,1000,9,4,9\r\n",
        "Time (s),\"Main, Power (W)\"\r\n\r\n\"7\",\"2\"\r\n 8 , 2\r\n8.5,4,\r\n",
        "# by hand\n\nsample,time [us],power [\u{b5}W]\n1,0,2000000\n2,1e6,2000000\n3,1.5e6,4e6\n",
    ];
    for text in texts {
        let file = read(text);
        assert_eq!(file.end_ns(), 1_500_000_000, "{text}");
        let all = file.energy_uj(0, 1_500_000_000).unwrap();
        assert!((all - 3.5e6).abs() < 1e-3, "{all}: {text}");
        // From 3 W to 4 W in the last quarter second.
        let part = file.energy_uj(1_250_000_000, 1_500_000_000).unwrap();
        assert!((part - 0.875e6).abs() < 1e-3, "{part}: {text}");
    }
}

#[test]
fn what_is_wrong_with_a_file_is_said_with_its_line() {
    let cases = [
        ("", "m.csv is empty", "header line"),
        ("# only this\n", "m.csv is empty", "header line"),
        ("0,5\n1,5\n", "m.csv:1: the header line is missing", "Time (s)"),
        ("time,colour\n0,5\n", "m.csv:1: there is no power column", "Main"),
        ("power\n0\n", "m.csv:1: no column is a time", "Time (s)"),
        ("time,power\n0,5\n", "m.csv has 1 samples", "two"),
        ("time,power\n0,5\n1,x\n", "m.csv:3: `x` in column `power` is not a number", "#"),
        ("time,power\n0,5\n1,nan\n", "m.csv:3: `nan`", "#"),
        ("time,power\n0,5\n1\n", "m.csv:3: 1 columns, but the header has 2", "truncated"),
        ("time,power\n0,5\n1,5\n1,5\n", "m.csv:4: the time does not increase", "in order"),
        ("time,power\n0,5\n-1,5\n", "m.csv:3: the time does not increase", "in order"),
        ("time,power\n0,5\n1e300,5\n", "m.csv:3: invalid time", ""),
        ("time,power\n0,5\n1,1e300\n", "m.csv:3: ", "units"),
        ("time (min),power\n0,5\n", "m.csv:1: the unit of column `time (min)` is not a unit of time", "ms"),
        ("time (s),power (mJ)\n0,5\n", "m.csv:1: the unit of column `power (mJ)` is not a unit of power", "mw"),
        ("time,a power (W),b power (W)\n0,5,5\n", "m.csv:1: several columns are power", "keep"),
        ("time,power,trigger\n0,5,1\n1,5,0\n", "m.csv:2: the trigger is high from the first", "low"),
        ("time,power,trigger\n0,5,0\n1,5,1\n", "m.csv:3: the trigger rises and never falls", "end"),
    ];
    for (text, message, cure) in cases {
        let error = MeterFile::parse("m.csv", text.as_bytes()).unwrap_err();
        assert!(error.message().starts_with(message), "{text:?}: {}", error.message());
        assert!(error.cure().unwrap_or_default().contains(cure), "{text:?}: {:?}", error.cure());
    }
    let binary = MeterFile::parse("m.csv", b"time,power\n\xff\n").unwrap_err();
    assert!(binary.message().starts_with("m.csv:2: not text"));
}

#[test]
fn a_trigger_finds_the_cells_and_the_drift_of_the_clocks() {
    let cells = windows(&UNEVEN);
    let file = read(&monsoon(&UNEVEN, 3.2, 0.0, 15.0, true));
    let aligned = align(&file, &cells, Alignment::Trigger).unwrap();
    assert!(aligned.worst_ns.unwrap() <= 2e6, "{aligned:?}");
    close(&energies(&file, &aligned, &cells), &UNEVEN_MJ, 0.01);
    // 300 ppm over 100 s are 30 ms: without the fit the last cell would be off by them.
    let long = [(0.0, 1.0), (40.0, 40.5), (100.0, 100.2)];
    let file = read(&monsoon(&long, 3.2, 300.0, 110.0, true));
    let cells = windows(&long);
    let aligned = align(&file, &cells, Alignment::Trigger).unwrap();
    assert!((aligned.drift_ppm - 300.0).abs() < 20.0, "{aligned:?}");
    assert!((aligned.meter_ns(cells[2].start_ns) - 103_230_000_000).abs() < 2_000_000, "{aligned:?}");
    close(&energies(&file, &aligned, &cells), &[600.0, 300.0, 120.0], 0.01);
}

#[test]
fn cells_that_take_no_time_hide_no_others() {
    // As the null workload's: 10 us are no sample, so the trigger shows four pulses for six cells.
    let all = [UNEVEN[0], (1.6004, 1.60041), UNEVEN[1], UNEVEN[2], (7.1004, 7.10041), UNEVEN[3]];
    let (cells, text) = (windows(&all), |trigger| monsoon(&all, 3.2, 0.0, 15.0, trigger));
    for (trigger, how) in [(true, Alignment::Trigger), (false, Alignment::Pattern)] {
        let file = read(&text(trigger));
        assert!(file.pulses.as_ref().is_none_or(|p| p.len() == 4));
        let aligned = align(&file, &cells, how).unwrap();
        let shown: Vec<Window> = [0, 2, 3, 5].map(|n| cells[n]).to_vec();
        close(&energies(&file, &aligned, &shown), &UNEVEN_MJ, 0.02);
        // Power there is that of rest: 100 mW for 10 us are 1 uJ.
        assert!(energies(&file, &aligned, &cells[1..2])[0] < 0.002);
    }
}

#[test]
fn marks_that_do_not_match_are_refused() {
    let file = read(&monsoon(&UNEVEN, 3.2, 0.0, 15.0, true));
    let refused = |cells: &[(f64, f64)]| align(&file, &windows(cells), Alignment::Trigger).unwrap_err();
    // The fourth pulse begins at 12.2 s: behind two lines and 12200 samples.
    let error = refused(&UNEVEN[..3]);
    assert!(error.message().starts_with("m.csv:12203: the trigger rises 4 times, and the run has 3 cells"), "{error}");
    assert!(error.cure().unwrap().contains("POCKETSTONE_MARK"));
    let more: Vec<(f64, f64)> = UNEVEN.into_iter().chain([(12.0, 13.0)]).collect();
    assert!(refused(&more).message().contains("4 times, and the run has 5"));
    // As many, but at other times.
    let error = refused(&[(0.0, 1.0), (2.5, 3.0), (4.7, 6.7), (9.0, 9.4)]);
    assert!(error.message().starts_with("m.csv:") && error.message().contains("does not fit cell 3"), "{error}");
    let error = align(&file, &[], Alignment::Trigger).unwrap_err();
    assert!(error.message().contains("no cell was measured"));
    let bare = read("time,power\n0,1\n1,1\n");
    let error = align(&bare, &windows(&UNEVEN[..1]), Alignment::Trigger).unwrap_err();
    assert!(error.message().contains("no trigger column"));
    let overlapping = windows(&[(0.0, 1.0), (0.5, 2.0)]);
    assert!(align(&file, &overlapping, Alignment::Trigger).unwrap_err().message().contains("at the same time"));
}

#[test]
fn an_offset_is_taken_as_it_is() {
    let file = read(&monsoon(&UNEVEN, 3.2, 0.0, 15.0, false));
    let cells = windows(&UNEVEN);
    let aligned = align(&file, &cells, Alignment::Offset { first_ns: 3_200_000_000 }).unwrap();
    close(&energies(&file, &aligned, &cells), &UNEVEN_MJ, 0.01);
    let error = align(&file, &cells, Alignment::Offset { first_ns: 6_000_000_000 }).unwrap_err();
    assert!(error.message().starts_with("m.csv:15002: the measurement ends 14.999 s"), "{error}");
    assert!(error.cure().unwrap().contains("stop it after"));
}

#[test]
fn an_uneven_pattern_is_found_in_the_power_alone() {
    let cells = windows(&UNEVEN);
    for offset in [0.7, 3.2, 17.03] {
        let file = read(&monsoon(&UNEVEN, offset, 0.0, offset + 12.0, false));
        let aligned = align(&file, &cells, Alignment::Pattern).unwrap();
        let (fit, rival) = aligned.correlation.unwrap();
        assert!(fit > 0.95 && rival < 0.8 * fit, "{aligned:?}");
        assert!((aligned.meter_ns(cells[0].start_ns) as f64 / 1e9 - offset).abs() < 0.003, "{offset}: {aligned:?}");
        close(&energies(&file, &aligned, &cells), &UNEVEN_MJ, 0.02);
    }
}

#[test]
fn a_pattern_tells_how_clocks_drift() {
    // Each cell's place by the meter's clock is 3.2 s + t (1 + drift); what it takes is 0.6 J for each second.
    let hundred: Vec<(f64, f64)> = vec![(0.0, 1.0), (31.0, 31.5), (40.0, 42.0), (100.0, 100.2)];
    // Half an hour: 180 ppm are 324 ms from one end to the other, most of a cell.
    let half_hour: Vec<(f64, f64)> =
        (0..30u32).map(|n| f64::from(61 * n + 7 * n * n % 23)).map(|s| (s, s + 0.5)).collect();
    for (cells, hertz, ppm, near_ms, near_ppm) in [
        (&hundred, 1000.0, 150.0, 3.0, 30.0),
        (&hundred, 1000.0, -150.0, 3.0, 30.0),
        (&hundred, 1000.0, 0.0, 3.0, 30.0),
        (&half_hour, 50.0, 180.0, 10.0, 5.0),
        (&half_hour, 50.0, -120.0, 10.0, 5.0),
    ] {
        let end = cells[cells.len() - 1].1;
        let file = read(&sampled(hertz, cells, 3.2, ppm, end + 8.0, false));
        let windows = windows(cells);
        let aligned = align(&file, &windows, Alignment::Pattern).unwrap();
        assert!((aligned.drift_ppm - ppm).abs() < near_ppm, "{ppm}: {aligned:?}");
        for (window, cell) in windows.iter().zip(cells) {
            let truth_ms = (3.2 + cell.0 * (1.0 + ppm / 1e6)) * 1e3;
            let found_ms = aligned.meter_ns(window.start_ns) as f64 / 1e6;
            assert!((found_ms - truth_ms).abs() < near_ms, "{ppm}: {found_ms}, not {truth_ms}");
        }
        let truth: Vec<f64> = cells.iter().map(|(from, to)| (to - from) * 600.0).collect();
        close(&energies(&file, &aligned, &windows), &truth, 0.03);
    }
}

#[test]
fn a_pattern_does_not_stretch_beyond_what_crystals_do() {
    // 3000 ppm over half an hour are 5 s: no drift that is looked for brings the cells into place.
    let cells: Vec<(f64, f64)> = (0..30u32).map(|n| f64::from(61 * n + 7 * n * n % 23)).map(|s| (s, s + 0.5)).collect();
    let file = read(&sampled(50.0, &cells, 3.2, 3000.0, 1800.0, false));
    let error = align(&file, &windows(&cells), Alignment::Pattern).unwrap_err();
    assert!(error.message().contains("are not visible") && error.cure().is_some(), "{error}");
}

#[test]
fn a_pattern_that_fits_nowhere_or_twice_is_refused() {
    let even: Vec<(f64, f64)> = (0..30).map(|n| (f64::from(n), f64::from(n) + 0.5)).collect();
    let file = read(&monsoon(&even, 5.0, 0.0, 45.0, false));
    let error = align(&file, &windows(&even), Alignment::Pattern).unwrap_err();
    assert!(error.message().contains("position is ambiguous") && error.cure().is_some(), "{error}");
    let file = read(&monsoon(&[], 5.0, 0.0, 20.0, false));
    let error = align(&file, &windows(&UNEVEN), Alignment::Pattern).unwrap_err();
    assert!(error.message().contains("are not visible"), "{error}");
    let file = read(&monsoon(&UNEVEN, 0.0, 0.0, 6.0, false));
    let error = align(&file, &windows(&UNEVEN), Alignment::Pattern).unwrap_err();
    assert!(error.message().starts_with("m.csv:6002: the measurement ends 5.999 s after its start"), "{error}");
}

#[test]
fn a_hole_in_a_cell_is_no_energy() {
    let text = monsoon(&UNEVEN, 3.2, 0.0, 15.0, false);
    // 400 samples within the third cell are lost, as a meter loses them.
    let kept: Vec<&str> = text.lines().enumerate().filter(|(n, _)| !(8000..8400).contains(n)).map(|(_, l)| l).collect();
    let file = read(&kept.join("\n"));
    let error = align(&file, &windows(&UNEVEN), Alignment::Offset { first_ns: 3_200_000_000 }).unwrap_err();
    assert!(error.message().starts_with("m.csv:8001: samples are missing: 0.401 s"), "{error}");
}

#[test]
fn energy_that_flows_back_is_none_that_was_taken() {
    let file = read("Time (s),Power (mW)\n0,10\n1,-2\n2,10\n3,-40\n4,-40\n");
    assert_eq!(file.taken_uj(0, 2_000_000_000).unwrap(), 8_000.0);
    let error = file.taken_uj(0, 4_000_000_000).unwrap_err();
    assert!(error.message().starts_with("m.csv:5: the power is negative (-40 mW)"), "{error}");
    assert!(error.cure().is_some());
}
