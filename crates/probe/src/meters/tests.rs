use super::run::Account;
use super::*;
use std::time::{Duration, Instant};

/// A tree with these files.
fn tree(files: &[(&str, &str)]) -> tempfile::TempDir {
    let tree = tempfile::tempdir().unwrap();
    files.iter().for_each(|(file, text)| put(tree.path(), file, text));
    tree
}

fn put(root: &Path, file: &str, text: &str) {
    let path = root.join("sys").join(file);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    // At once, as a file of the kernel changes: who reads meanwhile sees one text or the other.
    let beside = root.join("beside");
    fs::write(&beside, format!("{text}\n")).unwrap();
    fs::rename(beside, path).unwrap();
}

/// Name, scope and first reading of every meter.
fn found(tree: &tempfile::TempDir) -> Vec<(String, Scope, Reading)> {
    let mut found = Found::on(tree.path());
    found.meters.iter_mut().map(|m| (m.name.clone(), m.scope, m.read().unwrap())).collect()
}

const PACKAGE: &str = "class/powercap/intel-rapl:0";

fn rapl() -> tempfile::TempDir {
    let mut files = Vec::new();
    let zones = [("0", "package-0"), ("0:0", "core"), ("0:1", "uncore"), ("0:2", "dram"), ("1", "psys")];
    for (zone, name) in zones {
        let folder = format!("class/powercap/intel-rapl:{zone}");
        files.push((format!("{folder}/name"), name));
        files.push((format!("{folder}/energy_uj"), "1000"));
        files.push((format!("{folder}/max_energy_range_uj"), "262143328850"));
    }
    files.push(("class/powercap/intel-rapl/enabled".into(), "1"));
    // The same package by another way.
    files.push(("class/powercap/intel-rapl-mmio:0/name".into(), "package-0"));
    files.push(("class/powercap/intel-rapl-mmio:0/energy_uj".into(), "77"));
    tree(&files.iter().map(|(f, t)| (f.as_str(), *t)).collect::<Vec<_>>())
}

#[test]
fn zones_of_rapl_have_their_names_and_scopes() {
    let all = found(&rapl());
    let names: Vec<(&str, Scope)> = all.iter().map(|(n, s, _)| (n.as_str(), *s)).collect();
    let expected = [
        ("rapl:package-0", Scope::Package),
        ("rapl:core-0", Scope::Core),
        ("rapl:uncore-0", Scope::Rail),
        ("rapl:dram-0", Scope::Memory),
        ("rapl:psys", Scope::Machine),
    ];
    assert_eq!(names, expected);
}

#[test]
fn a_counter_that_starts_again_goes_on() {
    let tree = rapl();
    let mut meters = Found::on(tree.path()).meters;
    let mut read = |value: &str| {
        put(tree.path(), &format!("{PACKAGE}/energy_uj"), value);
        meters[0].read().unwrap()
    };
    let Reading::TotalUj(start) = read("262143328000") else { panic!() };
    let mut since = |value: &str| match read(value) {
        Reading::TotalUj(total) => total - start,
        other => panic!("{other:?}"),
    };
    assert_eq!(since("262143328800"), 800.0);
    // 50 to the end of its range, and 150 from there on.
    assert_eq!(since("150"), 1000.0);
    assert_eq!(since("160"), 1010.0);
}

#[test]
fn hwmon_tells_energy_power_or_voltage_and_current() {
    let tree = tree(&[
        ("class/hwmon/hwmon0/name", "power_meter"),
        ("class/hwmon/hwmon0/power1_average", "45000000"),
        ("class/hwmon/hwmon0/power1_average_interval", "1000"),
        ("class/hwmon/hwmon0/power1_input", "1"),
        ("class/hwmon/hwmon1/name", "amd_energy"),
        ("class/hwmon/hwmon1/energy1_label", "Esocket0"),
        ("class/hwmon/hwmon1/energy1_input", "123456"),
        ("class/hwmon/hwmon1/power1_input", "2"),
        ("class/hwmon/hwmon2/name", "ina3221"),
        ("class/hwmon/hwmon2/in1_label", "VDD_IN"),
        ("class/hwmon/hwmon2/in1_input", "5000"),
        ("class/hwmon/hwmon2/curr1_input", "620"),
        ("class/hwmon/hwmon2/in4_input", "9"),
        ("class/hwmon/hwmon3/name", "coretemp"),
        ("class/hwmon/hwmon3/temp1_input", "40000"),
    ]);
    let expected = [
        ("hwmon:power_meter:power1".into(), Scope::Machine, Reading::PowerUw(45e6)),
        ("hwmon:amd_energy:Esocket0".into(), Scope::Package, Reading::TotalUj(123_456.0)),
        // 5 V and 620 mA are 3.1 W.
        ("hwmon:ina3221:VDD_IN".into(), Scope::Machine, Reading::PowerUw(3.1e6)),
    ];
    assert_eq!(found(&tree), expected);
}

#[test]
fn iio_scales_power_or_multiplies_voltage_by_current() {
    let ina = "bus/iio/devices/iio:device0";
    let other = "bus/iio/devices/iio:device1";
    let tree = tree(&[
        (&format!("{ina}/name"), "ina226"),
        (&format!("{ina}/in_power2_raw"), "100"),
        (&format!("{ina}/in_power2_scale"), "12.5"),
        (&format!("{ina}/in_voltage1_raw"), "5"),
        (&format!("{ina}/in_current3_raw"), "5"),
        (&format!("{other}/name"), "adc"),
        (&format!("{other}/in_voltage0_raw"), "3900"),
        (&format!("{other}/in_voltage0_offset"), "100"),
        (&format!("{other}/in_voltage_scale"), "0.5"),
        (&format!("{other}/in_current0_input"), "250"),
        (&format!("{other}/in_voltage1_raw"), "1"),
    ]);
    let expected = [
        ("iio:ina226:in_power2".into(), Scope::Rail, Reading::PowerUw(1_250_000.0)),
        // (3900 + 100) * 0.5 is 2 V; times 250 mA is 500 mW.
        ("iio:adc:in_voltage0".into(), Scope::Rail, Reading::PowerUw(500_000.0)),
    ];
    assert_eq!(found(&tree), expected);
}

#[test]
fn rails_of_a_pixel_are_counters() {
    let rails = "bus/iio/devices/iio:device0/energy_value";
    let text = "t=349894\nCH0(T=349894)[S10M_VDD_TPU], 5578756\nCH1(T=349894)[VSYS_PWR_MODEM], 29110940\n";
    let tree = tree(&[(rails, text), ("bus/iio/devices/iio:device0/name", "s2mpg10-odpm")]);
    let expected = [
        ("odpm:s2mpg10-odpm:S10M_VDD_TPU".into(), Scope::Rail, Reading::TotalUj(5_578_756.0)),
        ("odpm:s2mpg10-odpm:VSYS_PWR_MODEM".into(), Scope::Rail, Reading::TotalUj(29_110_940.0)),
    ];
    assert_eq!(found(&tree), expected);
    put(tree.path(), rails, "t=1\nCH0(T=1)[A], many\n");
    let broken = Found::on(tree.path()).unavailable().unwrap();
    assert!(broken.why.contains("energy_value:2: `CH0(T=1)[A], many` is not a rail's energy"), "{}", broken.why);
}

/// A battery that feeds its machine, with these files, and where it is.
fn battery(files: &[(&str, &str)]) -> (&'static str, tempfile::TempDir) {
    let folder = "class/power_supply/BAT0";
    let tree = tree(&[]);
    for (file, text) in [("type", "Battery"), ("status", "Discharging")].iter().chain(files) {
        put(tree.path(), &format!("{folder}/{file}"), text);
    }
    (folder, tree)
}

#[test]
fn a_battery_measures_only_while_it_is_used() {
    let (folder, tree) = battery(&[("charge_now", "2000000"), ("voltage_now", "4000000")]);
    for (file, text) in [("type", "Battery"), ("scope", "Device"), ("status", "Discharging"), ("power_now", "5")] {
        put(tree.path(), &format!("class/power_supply/mouse/{file}"), text);
    }
    // 2 Ah at 4 V are 8 Wh, 28.8 kJ.
    assert_eq!(found(&tree), [("battery:BAT0".into(), Scope::Machine, Reading::SteppedUj(-28.8e9))]);
    put(tree.path(), &format!("{folder}/energy_now"), "1000");
    assert_eq!(found(&tree)[0].2, Reading::SteppedUj(-3.6e6));
    put(tree.path(), &format!("{folder}/current_now"), "-500000");
    assert_eq!(found(&tree)[0].2, Reading::PowerUw(2e6));
    put(tree.path(), &format!("{folder}/power_now"), "1900000");
    assert_eq!(found(&tree)[0].2, Reading::PowerUw(1.9e6));
    put(tree.path(), &format!("{folder}/status"), "Charging");
    let missing = Found::on(tree.path()).unavailable().unwrap();
    assert!(missing.why.contains("`Charging`") && missing.cure.contains("unplug"), "{missing:?}");
}

#[test]
fn a_battery_tells_the_same_power_whichever_sign_its_driver_gives_what_flows_out() {
    let (folder, tree) = battery(&[("voltage_now", "3800000")]);
    // 250 mA at 3.8 V are 0.95 W.
    for microamperes in ["250000", "-250000"] {
        put(tree.path(), &format!("{folder}/current_now"), microamperes);
        assert_eq!(found(&tree)[0].2, Reading::PowerUw(950_000.0), "{microamperes}");
    }
    for microwatts in ["950000", "-950000"] {
        put(tree.path(), &format!("{folder}/power_now"), microwatts);
        assert_eq!(found(&tree)[0].2, Reading::PowerUw(950_000.0), "{microwatts}");
    }
}

/// Gauges of Pixels are batteries as well, and Samsung's `current_now` is in mA.
#[test]
fn of_a_phones_batteries_one_is_read_and_what_no_phone_takes_is_refused() {
    let phone = |microamperes: &str| {
        let tree = tree(&[]);
        fs::create_dir_all(tree.path().join("system/bin")).unwrap();
        for name in ["battery", "maxfg"] {
            let files = [("type", "Battery"), ("status", "Discharging"), ("voltage_now", "4000000")];
            for (file, text) in files.iter().chain(&[("current_now", microamperes)]) {
                put(tree.path(), &format!("class/power_supply/{name}/{file}"), text);
            }
        }
        tree
    };
    assert_eq!(found(&phone("350000")), [("battery:battery".into(), Scope::Machine, Reading::PowerUw(1.4e6))]);
    let in_milliamperes = Found::on(phone("350").path()).unavailable().unwrap();
    assert!(in_milliamperes.why.contains("1.40 mW, which no phone takes"), "{in_milliamperes:?}");
}

#[test]
fn a_charger_that_is_plugged_in_ends_a_batterys_measurement() {
    let (folder, tree) = battery(&[("power_now", "950000")]);
    let mut unavailable = Vec::new();
    let metered = Resting::begin(tree.path(), Duration::from_millis(5), &mut unavailable).run();
    put(tree.path(), &format!("{folder}/status"), "Charging");
    assert!(metered.end().finish(&mut unavailable).is_empty());
    assert_eq!(unavailable.len(), 1);
    assert!(unavailable[0].what.words() == "energy" && unavailable[0].why.contains("`Charging`"), "{unavailable:?}");
    assert_eq!(unavailable[0].cure, "unplug the charger");
}

#[test]
fn a_meter_that_could_be_had_is_named_beside_those_that_are() {
    let tree = rapl();
    put(tree.path(), "class/power_supply/BAT0/type", "Battery");
    put(tree.path(), "class/power_supply/BAT0/status", "Full");
    let found = Found::on(tree.path());
    assert_eq!(found.meters.len(), 5);
    let missing = found.unavailable().unwrap();
    // That there is no IIO has no cure, and is no news where there is another meter.
    let why = "the battery BAT0 is `Full`, so its power is not the machine's";
    assert_eq!((missing.what.words(), missing.why.as_str()), ("energy by some meters", why));
    assert_eq!(missing.cure, "unplug the charger");
}

#[test]
fn sampled_power_is_integrated_by_trapezoids() {
    let mut account = Account::default();
    // 1 W for 1 s, then evenly up to 3 W within 2 s: 1 J + 4 J.
    for (time_ns, watts) in [(5_000_000_000, 1.0), (6_000_000_000, 1.0), (8_000_000_000, 3.0)] {
        account.add(time_ns, Reading::PowerUw(watts * 1e6));
    }
    assert_eq!((account.energy_uj, account.duration_ns(), account.samples), (5e6, 3_000_000_000, 3));
    assert!((account.mean_mw().unwrap() - 5000.0 / 3.0).abs() < 1e-9);
    let mut counter = Account::default();
    [(0, 40.0), (10, 45.0), (20, 90.0)].iter().for_each(|(t, total)| counter.add(*t, Reading::TotalUj(*total)));
    assert_eq!(counter.energy_uj, 50.0);
    assert_eq!(Account::default().mean_mw(), None);
}

#[test]
fn a_run_is_measured_by_every_meter_and_what_it_takes_at_rest_is_known() {
    // Who samples may get no processor during a run, and be left with the samples at its ends.
    assert!((0..20).any(|_| run_of_every_meter() > 2));
}

/// A run with every meter; how often power was sampled.
fn run_of_every_meter() -> u64 {
    let tree = rapl();
    let sensor = "class/hwmon/hwmon0/power1_input";
    put(tree.path(), "class/hwmon/hwmon0/name", "ina238");
    put(tree.path(), sensor, "2000000");
    let mut unavailable = Vec::new();
    let resting = Resting::begin(tree.path(), Duration::from_millis(50), &mut unavailable);
    assert!(unavailable.is_empty());
    let begin = Instant::now();
    let metered = resting.run();
    std::thread::sleep(Duration::from_millis(300));
    put(tree.path(), &format!("{PACKAGE}/energy_uj"), "900");
    let readings = metered.end().finish(&mut unavailable);
    let ran_ns = begin.elapsed().as_nanos() as u64;
    let named = |name: &str| readings.iter().find(|r| r.meter == name);
    // From 1000 to the end of its range and 900 beyond.
    assert_eq!(named("rapl:package-0").unwrap().energy_uj, 262_143_328_850 - 100);
    let sampled = named("hwmon:ina238:power1").unwrap();
    assert!((300_000_000..=ran_ns).contains(&sampled.duration_ns), "{sampled:?}");
    assert_eq!(sampled.energy_uj, (sampled.duration_ns as f64 * 2e6 / 1e9).round() as u64);
    assert!((sampled.idle_mw.unwrap() - 2000.0).abs() < 1e-6 && sampled.samples >= 2, "{sampled:?}");
    assert!(sampled.active_uj().unwrap().abs() <= 1.0);
    // Psys and the parts of the package stood still: one entry for all.
    assert!(named("rapl:psys").is_none());
    assert_eq!(unavailable.len(), 1);
    assert_eq!(unavailable[0].what.words(), "energy by some meters");
    assert!(unavailable[0].why.contains("rapl:psys did not move in "), "{unavailable:?}");
    assert_eq!(unavailable[0].cure, "a longer run");
    sampled.samples
}

#[test]
fn a_meter_that_goes_away_is_missing_and_not_0() {
    let tree = tree(&[("class/hwmon/hwmon0/power1_input", "2000000")]);
    let mut unavailable = Vec::new();
    let metered = Resting::begin(tree.path(), Duration::from_millis(5), &mut unavailable).run();
    fs::remove_file(tree.path().join("sys/class/hwmon/hwmon0/power1_input")).unwrap();
    assert!(metered.end().finish(&mut unavailable).is_empty());
    assert!(unavailable[0].what.words() == "energy" && unavailable[0].why.contains("power1_input"), "{unavailable:?}");
}

#[test]
fn a_machine_without_meters_says_so_once_with_the_cure() {
    let mut unavailable = Vec::new();
    let bare = tempfile::tempdir().unwrap();
    let begin = Instant::now();
    let metered = Resting::begin(bare.path(), Duration::from_millis(20), &mut unavailable).run();
    assert!(begin.elapsed() >= Duration::from_millis(20), "a bench meter needs the rest");
    assert!(metered.end().finish(&mut unavailable).is_empty());
    assert_eq!(unavailable.len(), 1);
    for word in ["sys/class/powercap", "sys/class/hwmon", "sys/bus/iio/devices", "sys/class/power_supply"] {
        assert!(unavailable[0].why.contains(word), "{unavailable:?}");
    }
    assert!(unavailable[0].cure.contains("pocketstone energy"));
}

#[test]
fn this_machine_has_meters_or_says_why_not() {
    let found = Found::on(Path::new("/"));
    match found.unavailable() {
        Some(missing) => assert!(found.meters.is_empty() && !missing.why.is_empty() && !missing.cure.is_empty()),
        None => assert!(!found.meters.is_empty()),
    }
}
