//! The fits against published measurements.

use pocketstone_core::median::median;
use pocketstone_replay::device::{self, Device};
use pocketstone_replay::fit::{self, Calls, FixedWork, PinnedRun};
use pocketstone_replay::validate::{self, Check};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};

type Row = BTreeMap<String, String>;

fn devices() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices")
}

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

/// A table in `data`, whose README.md says where it comes from.
fn text(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Its rows by column.
fn csv(file: &str) -> Vec<Row> {
    let text = text(file);
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = |line: &str| names.iter().zip(line.split(',')).map(|(n, v)| ((*n).into(), v.into())).collect();
    lines.map(row).collect()
}

fn number(row: &Row, name: &str) -> f64 {
    row[name].parse().unwrap()
}

fn pixel2_rows() -> Vec<FixedWork> {
    let row = |r: &Row| FixedWork {
        cluster: r["cluster"].clone(),
        cpus: r["n_cpus"].parse().unwrap(),
        policy: r["policy"].clone(),
        runtime_s: number(r, "runtime_s"),
        energy_uah: number(r, "energy_uAh_to_completion"),
        window_uah: Some(number(r, "energy_uAh_fixed75s_window")),
    };
    csv("pixel2_fixed_work.csv").iter().map(row).collect()
}

#[test]
fn one_processor_of_the_pixel_2_predicts_two() {
    let rows = pixel2_rows();
    let device = Device::load(&devices(), "msm8998").unwrap();
    let pixel = fit::fixed_work(&rows, &device).unwrap();
    let mut table = format!("{:#?}\n", pixel.fit);
    for p in &pixel.predictions {
        let (row, runtime, energy) = (&p.row, p.runtime_error() * 100.0, p.energy_error() * 100.0);
        let name = format!("{} {} {} at {} kHz", row.cluster, row.cpus, row.policy, p.khz);
        let _ = writeln!(table, "{name}: runtime {runtime:+.1} %, energy {energy:+.1} %");
    }
    say(&table);
    assert_eq!(pixel.predictions.len(), 18);
    let sorted = |error: fn(&fit::Prediction) -> f64| {
        let mut errors: Vec<f64> = pixel.predictions.iter().map(|p| error(p).abs()).collect();
        (median(&mut errors).unwrap(), errors[17])
    };
    let (runtime, worst_runtime) = sorted(fit::Prediction::runtime_error);
    let (energy, worst_energy) = sorted(fit::Prediction::energy_error);
    say(&format!("runtime: median {runtime:.4}, worst {worst_runtime:.4}; energy: {energy:.4}, {worst_energy:.4}"));
    assert!(runtime < 0.01 && worst_runtime < 0.10, "{runtime} {worst_runtime}");
    assert!(energy <= 0.06 && worst_energy <= 0.15, "{energy} {worst_energy}");
    // A separate script (plain Python, normal equations) gave these for the same form and rows.
    let near = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-3;
    let got = (pixel.fit.base_ma, pixel.fit.per_ghz_ma, pixel.fit.per_mw_ma, pixel.fit.idle_ma.unwrap());
    assert!(near(got.0, 30.099) && near(got.1, 7.195) && near(got.2, 0.269) && near(got.3, 19.3953), "{got:?}");
    assert!(near(pixel.fit.pinned_per_ghz_ma, 7.617), "{}", pixel.fit.pinned_per_ghz_ma);
    // Rows of two processors, which were not fitted, show it as those of one do: by hand, mA at the highest frequency
    // where a policy pins it less mA under schedutil.
    let current = |cluster: &str, cpus: u32, policy: &str| {
        let row = rows.iter().find(|r| (r.cluster.as_str(), r.cpus, r.policy.as_str()) == (cluster, cpus, policy));
        row.map(|r| r.energy_uah * 3.6 / r.runtime_s).unwrap()
    };
    for (cluster, by_hand) in [("big", [30.35, 27.35]), ("little", [15.87, 15.81])] {
        for (cpus, by_hand) in (1..).zip(by_hand) {
            let more_ma = current(cluster, cpus, "fixed100") - current(cluster, cpus, "schedutil");
            assert!((more_ma - by_hand).abs() < 0.01, "{cluster} {cpus} {more_ma}");
        }
    }
    // The profile's awake and asleep costs are this fit's, at the battery's nominal voltage.
    assert!(near(device.awake_mw, got.0 * 3.85) && near(device.asleep_mw, got.3 * 3.85));
    // The reference material derives 17.55 to 17.59 Gcycles for the big cores.
    let big = pixel.fit.work["big"];
    assert!((17.55e9..17.60e9).contains(&big.cycles), "{big:?}");
    assert!(pixel.fit.work.values().all(|w| w.memory_share(2_000_000) < 0.005), "{:?}", pixel.fit.work);
}

#[test]
fn both_tables_are_predicted_as_well_as_aimed_at() {
    let tables = [
        ("measured_msm8974.csv", "nexus-5", "ondemand-legacy", [("cpu_s", 0.08, 0.25), ("wall_s", 0.05, 0.2)], 54),
        ("pixel2_fixed_work.csv", "msm8998", "schedutil", [("runtime_s", 0.01, 0.1), ("energy_uah", 0.06, 0.15)], 36),
    ];
    for (file, device, governor, quantities, rows) in tables {
        let text = text(file);
        let device = Device::load(&devices(), device).unwrap();
        let checks = validate::checks(file, &text, &device, &governor.parse().unwrap(), &[]).unwrap();
        assert_eq!(checks.len(), rows);
        for (quantity, aim, worst_aim) in quantities {
            let delay = |c: &Check, delay: &str| delay.is_empty() || c.row.split(' ').nth(1) == Some(delay);
            // Databases by delay, too.
            for of in if rows == 54 { ["", "0ms", "1ms", "log"].as_slice() } else { &[""] } {
                let checks = checks.iter().filter(|c| c.quantity == quantity && delay(c, of));
                let (median, worst) = validate::errors(checks).unwrap();
                say(&format!("{file} {quantity} {of}: median {median:.3}, {:+.3} of {}", worst.error(), worst.row));
                assert!(median <= aim && worst.error().abs() <= worst_aim, "{file} {quantity} {of} {median}");
            }
        }
    }
}

#[test]
fn more_processors_come_out_of_the_same_form() {
    let rows = pixel2_rows();
    let device = Device::load(&devices(), "msm8998").unwrap();
    let fit = fit::fixed_work(&rows, &device).unwrap().fit;
    let energy = |cpus| {
        let row = FixedWork { cpus, ..rows[3].clone() };
        fit.predict(&device, &row).unwrap().energy_uah
    };
    let steps: Vec<f64> = (1..4).map(|n| energy(n + 1) - energy(n)).collect();
    assert!(steps.iter().all(|s| *s > 0.0 && (s / steps[0] - 1.0).abs() < 1e-9), "{steps:?}");
    let error = fit.predict(&device, &FixedWork { cpus: 5, ..rows[3].clone() }).unwrap_err();
    assert!(error.chain().contains("`big` has 4 cores, not 5") && error.cure().is_some());
}

/// A row made by the form itself, with round numbers.
fn made(cpus: u32, percent: u32, khz: u32, power_mw: f64) -> FixedWork {
    let current_ma = 40.0 + 10.0 * f64::from(khz) / 1e6 + 0.25 * f64::from(cpus) * power_mw;
    let runtime_s = 9e9 / (f64::from(khz) * 1e3);
    let (cluster, policy) = ("krait".to_owned(), format!("fixed{percent}"));
    FixedWork { cluster, cpus, policy, runtime_s, energy_uah: current_ma * runtime_s / 3.6, window_uah: None }
}

#[test]
fn rows_of_known_parameters_give_them_back() {
    let device = Device::load(&devices(), "nexus-6").unwrap();
    // By hand from the table: 22 % of 2649600 is 582912, and the next point 652800; 50 % is 1324800; and so on.
    let points = [(11, 300_000, 60.04), (22, 652_800, 144.48), (50, 1_497_600, 402.32), (85, 2_265_600, 746.94)];
    let mut rows: Vec<FixedWork> = points.iter().map(|(p, khz, mw)| made(1, *p, *khz, *mw)).collect();
    rows.push(made(1, 100, 2_649_600, 1001.18));
    rows.push(made(3, 50, 1_497_600, 402.32));
    let got = fit::fixed_work(&rows, &device).unwrap();
    let close = |a: f64, b: f64| (a / b - 1.0).abs() < 1e-6;
    assert!(close(got.fit.base_ma, 40.0) && close(got.fit.per_ghz_ma, 10.0) && close(got.fit.per_mw_ma, 0.25));
    // All of them are pinned: what that costs cannot be told.
    assert_eq!(got.fit.pinned_per_ghz_ma, 0.0);
    assert!(close(got.fit.work["krait"].cycles, 9e9) && got.fit.idle_ma.is_none());
    assert_eq!((got.predictions.len(), got.predictions[0].khz), (1, 1_497_600));
    assert!(got.predictions[0].energy_error().abs() < 1e-6);
    assert!(fit::fixed_work(&rows[1..4], &device).unwrap_err().chain().contains("too few"));
    // The same work under a governor takes 3 mA/GHz less.
    let mut governed = made(1, 100, 2_649_600, 1001.18);
    governed.energy_uah -= 3.0 * 2.6496 * governed.runtime_s / 3.6;
    governed.policy = "schedutil".into();
    let mut both = rows.clone();
    both.extend([governed.clone(), FixedWork { cpus: 2, ..governed }]);
    let got = fit::fixed_work(&both, &device).unwrap();
    assert!(close(got.fit.per_ghz_ma, 7.0) && close(got.fit.pinned_per_ghz_ma, 3.0), "{:?}", got.fit);
    let current_ma = 40.0 + 7.0 * 2.6496 + 0.25 * 2.0 * 1001.18;
    assert!(close(got.predictions[1].energy_uah, current_ma * got.predictions[1].runtime_s / 3.6));
    rows[0].policy = "warp".into();
    assert!(fit::fixed_work(&rows, &device).unwrap_err().cure().unwrap().contains("fixedN"));
}

#[test]
fn a_parameter_that_would_be_negative_is_left_out() {
    let device = Device::load(&devices(), "nexus-6").unwrap();
    // The current falls with the clock beyond what the powers explain.
    let points = [(11, 300_000, 60.04), (22, 652_800, 144.48), (50, 1_497_600, 402.32), (100, 2_649_600, 1001.18)];
    let row = |(percent, khz, mw): (u32, u32, f64)| {
        let mut row = made(1, percent, khz, mw);
        row.energy_uah = (90.0 - 12.0 * f64::from(khz) / 1e6 + 0.25 * mw) * row.runtime_s / 3.6;
        row
    };
    let fit = fit::fixed_work(&points.map(row), &device).unwrap().fit;
    assert_eq!(fit.per_ghz_ma, 0.0);
    assert!(fit.base_ma > 50.0 && fit.per_mw_ma > 0.1, "{fit:?}");
}

#[test]
fn a_memory_share_is_found_where_there_is_one() {
    // 2e9 cycles and half a second: 2.5 s at 1 GHz, 1.5 s at 2 GHz, of which a third does not scale.
    let work = fit::work(&[(1_000_000, 2.5), (2_000_000, 1.5), (500_000, 4.5)]).unwrap();
    assert!((work.cycles / 2e9 - 1.0).abs() < 1e-9 && (work.stall_s - 0.5).abs() < 1e-9, "{work:?}");
    assert!((work.memory_share(2_000_000) - 1.0 / 3.0).abs() < 1e-9);
    // Faster than its clock: nothing is taken for a stall below 0.
    assert_eq!(fit::work(&[(1_000_000, 2.0), (2_000_000, 0.9)]).unwrap().stall_s, 0.0);
    assert!(fit::work(&[]).unwrap_err().cure().is_some());
}

#[test]
fn pinned_runs_give_cycles_and_the_profiles_storage_times() {
    let rows = csv("measured_msm8974.csv");
    let pinned = |workload: &str| {
        let is = |r: &&Row| r["workload"] == workload && r["delay"] == "0ms" && r["governor"] == "clean";
        let row = rows.iter().find(is).unwrap();
        let run = PinnedRun { khz: 2_265_600, cpu_s: number(row, "sql_cpu_s"), wall_s: number(row, "sql_wall_s") };
        fit::pinned(&run).unwrap()
    };
    // By hand: 1.047652 s x 2.2656 GHz, 1.069321 s - 1.047652 s.
    assert_eq!((pinned("C").cycles, pinned("C").io_ns), (2_373_560_371, 21_669_000));
    let calls = |reads, writes, syncs| Calls { reads, writes, syncs };
    let reader = (pinned("C").io_ns, calls(3625, 0, 0));
    let times = fit::storage_times(reader, (pinned("A").io_ns, calls(4073, 4986, 2234))).unwrap();
    assert_eq!((times.read_ns, times.write_ns, times.sync_ns), (5978, 5978, 1_570_517));
    for phone in ["nexus-5", "nexus-6"] {
        assert_eq!(Device::load(&devices(), phone).unwrap().storage.times, Some(times));
    }
    // E was not used: its syncs take as long within 5 %.
    let of_e = fit::storage_times(reader, (pinned("E").io_ns, calls(3719, 1037, 464))).unwrap();
    assert!((of_e.sync_ns as f64 / times.sync_ns as f64 - 1.0).abs() < 0.05);
    assert!(fit::storage_times(reader, (1, calls(4073, 4986, 2234))).is_none());
    assert!(fit::pinned(&PinnedRun { khz: 1, cpu_s: 2.0, wall_s: 1.0 }).unwrap_err().cure().is_some());
}

#[test]
fn freqbench_profiles_hold_what_was_measured() {
    let known = device::list(&devices()).unwrap();
    let all = csv("freqbench.csv");
    let mut checked = 0;
    for name in ["gs101", "gs201", "msm8996", "msm8998", "sdm845", "sm8250", "sm8350", "zuma", "zumapro"] {
        let rows: Vec<&Row> = all.iter().filter(|row| row["soc"] == name).collect();
        let device = known.iter().find(|d| d.name == name).unwrap();
        let mut measured: Vec<Vec<(u32, f64)>> = Vec::new();
        for (i, row) in rows.iter().enumerate() {
            if i == 0 || rows[i - 1]["cpu"] != row["cpu"] {
                measured.push(Vec::new());
            }
            measured.last_mut().unwrap().push((row["khz"].parse().unwrap(), number(row, "power_mw")));
        }
        let mut clusters: Vec<_> = device.clusters.iter().collect();
        clusters.sort_by_key(|c| c.points.last().unwrap().khz);
        measured.sort_by_key(|points| points.last().unwrap().0);
        assert_eq!(clusters.len(), measured.len());
        for (cluster, points) in clusters.iter().zip(&measured) {
            assert_eq!(cluster.points.len(), points.len());
            for (shipped, (khz, power_mw)) in cluster.points.iter().zip(points) {
                assert_eq!(shipped.khz, *khz);
                // Profiles are written to 1 uW, the table to a tenth of it.
                assert!((shipped.power_mw - power_mw).abs() <= 0.000551, "{name} {} {khz}", cluster.name);
            }
            checked += points.len();
        }
    }
    // All rows of the nine files.
    assert_eq!(checked, 414);
}
