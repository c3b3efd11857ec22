//! Two operations of 2 ms each, half of it on a core, replayed on a device with two operating points.

mod logs;

use super::*;
use crate::models::refresh::refresh;
use crate::specification::cell::Cell;
use crate::specification::setting::Lever;
use crate::views::charts;
use crate::views::model::Joined;
use pocketstone_board::Measured;
use pocketstone_core::events::{Event, EventKind, EventLog};
use pocketstone_core::log::Call;
use pocketstone_replay::device::{Cluster, FlashEnergy, IdleState, OperatingPoint};
use serde_json::json;

const MS: u64 = 1_000_000;
const STUDY: &str = r#"
title = "t"
board = "virt-nand"
repetitions = 2
[[experiment]]
name = "e"
[experiment.factors]
file_system = "directory"
workload = "pocketdata-c"
[[experiment]]
name = "reads"
[experiment.factors]
file_system = ["jffs2", "ubifs"]
file_bytes = "1MiB"
requests = 16
[[replay]]
name = "phones"
experiment = "e"
devices = ["small"]
governors = ["performance", "powersave"]
delay = ["recorded", "none"]
[[flash_energy]]
device = "small"
experiment = "reads"
[[chart]]
name = "plane"
title = "p"
caption = "c"
kind = "scatter"
x = { label = "latency", scale = "duration" }
y = { label = "energy" }
query = """SELECT governor AS series, l.median AS x, l.low AS x_low, l.high AS x_high, e.median AS y, e.low, e.high,
 'here' AS label FROM replay_summary l JOIN replay_summary e USING (replay, device, governor, delay)
 WHERE l.metric = 'mean_latency_ns' AND e.metric = 'energy_mj' AND delay = 'recorded' ORDER BY 1"""
[[frequency]]
name = "khz"
title = "f"
caption = "c"
replay = "phones"
only = "delay = 'none'"
from_ms = 1
"#;

/// No idle power, no time to wake up or to change the frequency: what is left can be computed by hand.
fn device() -> Device {
    let points =
        vec![OperatingPoint { khz: 1_000_000, power_mw: 100.0 }, OperatingPoint { khz: 2_000_000, power_mw: 400.0 }];
    let idle = vec![IdleState { name: "wfi".into(), power_mw: 0.0, exit_ns: 0, least_ns: 0 }];
    let constants = FlashEnergy {
        file_system: "jffs2".into(),
        workload: "read".into(),
        pattern: Some("sequential".into()),
        read_ahead: true,
        cpu_mw: 223.0,
        memory_mw: 29.0,
    };
    Device {
        name: "small".into(),
        description: "made up".into(),
        clusters: vec![Cluster { name: "all".into(), cores: 1, points, idle, ..Cluster::default() }],
        cycles_per_recorded_ns: 2.0,
        flash_energy: vec![constants],
        text: "first".into(),
        ..Device::default()
    }
}

fn devices() -> Devices {
    Devices::from([("small".into(), device())])
}

fn study(text: &str) -> Study {
    Study::parse("s.toml", text).unwrap()
}

/// A cell of the experiment with 2 calls of 2 ms; a traced one has a thread that leaves its core after 1 ms of each.
fn put(store: &mut Store, experiment: &str, point: serde_json::Value, seed: u64, traced: bool) {
    put_at(store, experiment, point, seed, traced, None);
}

/// The same on a core whose frequency is logged.
fn put_at(store: &mut Store, experiment: &str, point: serde_json::Value, seed: u64, traced: bool, khz: Option<u32>) {
    let calls = [0, 2].map(|ms| Call { start_ns: ms * MS, latency_ns: 2 * MS, intended_ns: ms * MS });
    let switch = |ms: u64, prev, next| {
        let kind = EventKind::Switch { prev, state: if prev == 0 { b'R' } else { b'S' }, next };
        Event { time_ns: ms * MS, cpu: 0, pid: prev, kind }
    };
    let frequency = khz.map(|khz| Event { time_ns: 0, cpu: 0, pid: 0, kind: EventKind::Frequency { cpu: 0, khz } });
    let switches = [switch(0, 0, 7), switch(1, 7, 0), switch(2, 0, 7), switch(3, 7, 0), switch(4, 0, 7)];
    let events = frequency.into_iter().chain(switches).collect();
    let database = json!({ "digest": "0", "engine": "x", "startup_ns": null, "process_ns": null, "pid": 7,
                           "threads": [7], "rows": 0, "usage": pocketstone_core::database::Usage::default() });
    let outcome = json!({
        "format": 2, "facts": {}, "start_ns": 0, "end_ns": 4 * MS, "calls": 2, "chip": null, "flash": null,
        "read_ahead": { "bdi": null, "default_bytes": 131_072, "bytes": 131_072, "advice": "none",
                        "resident_pages_before": null },
        "database": if traced { database } else { json!(null) }, "unavailable": []
    });
    let plan = json!({ "format": 1, "seed": seed, "volume": { "file_system": "jffs2" }, "trace": traced,
        "workload": { "kind": "read", "data": "random", "file_bytes": 4096, "pattern": "sequential",
                      "request_bytes": 4096, "requests": 2, "inter_arrival_ns": 0 }, "read_ahead": null });
    let cell = Cell {
        number: 0,
        experiment: experiment.into(),
        point: serde_json::from_value(point).unwrap(),
        repetition: seed as u32,
        traced,
        plan: serde_json::from_value(plan).unwrap(),
    };
    let log = EventLog { tasks: vec![(7, "db".into())], events, ..EventLog::default() };
    let outcome = serde_json::from_value(outcome).unwrap();
    let measured = Measured { calls: calls.to_vec(), events: traced.then_some(log), ..Measured::of(outcome) };
    store.put(&cell, &Ok(measured), 1.0).unwrap();
}

fn database_point(workload: &str) -> serde_json::Value {
    json!({ "file_system": "directory", "workload": workload, "engine": "sqlite", "delay": "none" })
}

/// Two seeds, each with its traced twin.
fn filled(folder: &Path) -> Store {
    let mut store = Store::create(folder, []).unwrap();
    for seed in [0, 1] {
        for traced in [false, true] {
            put(&mut store, "e", database_point("pocketdata-c"), seed, traced);
        }
    }
    store
}

fn refreshed(store: &mut Store, study: &Study, devices: &Devices) -> usize {
    let mut computed = 0;
    refresh(store, study, devices, None, &mut |_, total| {
        computed = total;
        Ok(())
    })
    .unwrap();
    computed
}

fn median(store: &Store, governor: &str, metric: &str) -> Option<(i64, f64)> {
    let sql = "SELECT n, median FROM replay_summary WHERE replay = 'phones' AND recorded_delay = 'none' AND
               delay = 'recorded' AND engine = 'sqlite' AND cores = 'all' AND batch = 1 AND power_scale = 1 AND
               governor = ?1 AND metric = ?2";
    store.rows(sql, [governor, metric], |r| Ok((r.get(0)?, r.get(1)?))).unwrap().first().copied()
}

#[test]
fn a_cell_is_replayed_from_its_twins_events_and_gives_what_one_computes_by_hand() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(folder.path());
    // 2 twins x 2 governors x 2 delays.
    assert_eq!(refreshed(&mut store, &study(STUDY), &devices()), 8);
    // 1 ms on a core of the recording machine is 2 000 000 cycles: 1 ms at 2 GHz, 2 ms at 1 GHz; and 1 ms asleep.
    for (governor, latency_ms, energy_mj, khz) in [("performance", 2.0, 0.8, 2e6), ("powersave", 3.0, 0.4, 1e6)] {
        let at = |metric| median(&store, governor, metric).unwrap();
        assert_eq!(at("mean_latency_ns"), (2, latency_ms * 1e6), "{governor}");
        assert_eq!(at("run_ns").1, 2.0 * latency_ms * 1e6);
        assert_eq!(at("mean_khz").1, khz);
        assert!((at("energy_mj").1 - energy_mj).abs() < 1e-9, "{governor}: {:?}", at("energy_mj"));
        assert!((at("energy_per_operation_uj").1 - energy_mj * 500.0).abs() < 1e-6);
    }
    let share = "SELECT khz, share FROM replay_residency WHERE governor = 'powersave' AND delay = 'none' ORDER BY khz";
    let shares: Vec<(i64, f64)> = store.rows(share, [], |r| Ok((r.get(0)?, r.get(1)?))).unwrap();
    assert_eq!(shares, [(1_000_000, 1.0), (2_000_000, 0.0)]);
    let sources: Vec<String> = store.rows("SELECT DISTINCT source FROM replay", [], |r| r.get(0)).unwrap();
    assert_eq!(sources, ["events"]);
    assert_eq!(store.fact("device.small").unwrap().as_deref(), Some("first"));
}

#[test]
fn what_is_there_stays_and_what_changed_is_computed_again() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(folder.path());
    let all = |store: &Store| -> Vec<(i64, String, String)> {
        let sql = "SELECT id, input, digest FROM replay ORDER BY id";
        store.rows(sql, [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).unwrap()
    };
    refreshed(&mut store, &study(STUDY), &devices());
    let first = all(&store);
    assert_eq!((refreshed(&mut store, &study(STUDY), &devices()), all(&store)), (0, first.clone()));
    // Half of them are not wanted any more, the other half stays.
    let fewer = study(&STUDY.replace("[\"performance\", \"powersave\"]", "[\"powersave\"]"));
    assert_eq!((refreshed(&mut store, &fewer, &devices()), all(&store).len()), (0, 4));
    assert!(all(&store).iter().all(|row| first.contains(row)) && median(&store, "performance", "run_ns").is_none());
    // Another profile.
    let other = Devices::from([("small".into(), Device { text: "second".into(), ..device() })]);
    assert_eq!(refreshed(&mut store, &fewer, &other), 4);
    // A cell that is measured again takes its replays with it.
    put(&mut store, "e", database_point("pocketdata-c"), 1, true);
    assert_eq!((refreshed(&mut store, &fewer, &other), all(&store).len()), (2, 4));
    let cells: Vec<i64> = store.rows("SELECT count(*) FROM cell WHERE status = 'done'", [], |r| r.get(0)).unwrap();
    assert_eq!(cells, [4]);
}

#[test]
fn a_calibration_scales_cycles_so_that_its_run_takes_the_published_time() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(folder.path());
    // The reference run has 2 x 2 000 000 cycles, and is to take 4 ms at 2 GHz: twice as many.
    let line =
        "calibrate = [{ workload = \"pocketdata-c\", on_core_s = 0.004, source = \"made up\" }]\n[[flash_energy]]";
    refreshed(&mut store, &study(&STUDY.replace("[[flash_energy]]", line)), &devices());
    assert_eq!(median(&store, "performance", "busy_ns"), Some((2, 4e6)));
    // A calibration of the cell's own workload goes before the first one, and another device's factor is that
    // device's: 4 ms at the other's 1 GHz are 4 000 000 cycles, of 4 000 000 there, so that nothing is scaled.
    let two = line
        .replace("[{", "[{ workload = \"pocketdata-a\", on_core_s = 9, source = \"made up\" }, {")
        .replace("source", "device = \"slow\", source")
        .replacen("device = \"slow\", ", "", 1);
    let point = OperatingPoint { khz: 1_000_000, power_mw: 100.0 };
    let mut slow = Device { name: "slow".into(), ..device() };
    slow.clusters[0].points = vec![point];
    let both = Devices::from([("small".into(), device()), ("slow".into(), slow)]);
    refreshed(&mut store, &study(&STUDY.replace("[[flash_energy]]", &two)), &both);
    assert_eq!(median(&store, "performance", "busy_ns"), Some((2, 2e6)));
    // Without the reference run nothing is made up; a cell's own delay needs no run with another one.
    let (other, folder) = (line.replace("source", "delay = \"1ms\", source"), tempfile::tempdir().unwrap());
    let own = line.replace("source", "delay = \"own\", source");
    let mut apart = Store::create(folder.path(), []).unwrap();
    let mut point = database_point("pocketdata-c");
    point["delay"] = json!("2ms");
    put(&mut apart, "e", point, 0, true);
    for (line, found) in [(other, None), (own, Some(4e6))] {
        refreshed(&mut apart, &study(&STUDY.replace("[[flash_energy]]", &line)), &devices());
        let sql = "SELECT max(median) FROM replay_summary WHERE recorded_delay = '2ms' AND delay = 'recorded' AND
                   governor = 'performance' AND metric = 'busy_ns'";
        let busy_ns: Vec<Option<f64>> = apart.rows(sql, [], |r| r.get(0)).unwrap();
        assert_eq!(busy_ns, [found], "{line}");
    }
    let line = line.replace("pocketdata-c", "pocketdata-a");
    refreshed(&mut store, &study(&STUDY.replace("[[flash_energy]]", &line)), &devices());
    let left: Vec<String> = store.rows("SELECT why FROM left_out", [], |r| r.get(0)).unwrap();
    assert!(left.iter().any(|why| why.contains("pocketdata-a")), "{left:?}");
    assert_eq!(median(&store, "performance", "busy_ns"), None);
}

#[test]
fn mistakes_in_a_replay_are_shown_with_their_line() {
    for (from, to, place, word) in [
        ("\"powersave\"]", "\"powerless\"]", "s.toml:20:29", "powerless"),
        ("\"none\"]", "\"soon\"]", "s.toml:21:9", "soon"),
        ("delay = [", "dealy = [", "s.toml:21:1", "dealy"),
        ("experiment = \"e\"", "experiment = \"x\"", "s.toml:18:14", "unknown experiment `x`"),
        ("replay = \"phones\"", "replay = \"tablets\"", "s.toml:39:10", "tablets"),
        ("from_ms = 1", "from_ms = 3\nto_ms = 2", "s.toml:39:10", "window"),
    ] {
        let text = Study::parse("s.toml", &STUDY.replacen(from, to, 1)).unwrap_err().chain();
        assert!(text.contains(place) && text.contains(word), "{text}");
    }
    let empty = tempfile::tempdir().unwrap();
    let text = super::devices(&study(STUDY), empty.path(), None).unwrap_err().chain();
    assert!(text.contains("s.toml:19:12") && text.contains("small"), "{text}");
    let wrong = study(&STUDY.replace("governors = [", "cluster = \"little\"\ngovernors = ["));
    assert!(check(&wrong, &devices()).unwrap_err().chain().contains("no cluster `little`"));
    let wrong = study(&STUDY.replace("AS series", "AS serie"));
    let text = crate::views::check::check_queries(&wrong).unwrap_err().chain();
    assert!(text.contains("s.toml:") && text.contains("no column `series`"), "{text}");
    crate::views::check::check_queries(&study(STUDY)).unwrap();
}

#[test]
fn powers_are_scaled_by_part() {
    let scaled = |text: &str| {
        let value = Lever::PowerScale.read(&text.into()).unwrap();
        Setting::default().with(Lever::PowerScale, &value).scaled(&Device { awake_mw: 10.0, ..device() }).unwrap()
    };
    let powers = |d: &Device| d.clusters[0].points.iter().map(|p| p.power_mw).collect::<Vec<_>>();
    assert_eq!((powers(&scaled("2")), scaled("2").awake_mw), (vec![200.0, 800.0], 20.0));
    assert_eq!((powers(&scaled("highest:0.5")), scaled("highest:0.5").awake_mw), (vec![100.0, 200.0], 10.0));
    assert_eq!((powers(&scaled("awake:1.2")), scaled("awake:1.2").awake_mw), (vec![100.0, 400.0], 12.0));
    for wrong in ["0", "-1", "x", "active", "wheels:2", "active:0"] {
        assert!(Lever::PowerScale.read(&wrong.into()).is_err(), "{wrong}");
    }
    assert_eq!(Lever::Cores.read(&4.into()).unwrap(), "4");
    assert!(Lever::Cores.read(&0.into()).is_err() && Lever::MemoryShare.read(&1.5.into()).is_err());
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let (study, devices) = (study(STUDY), devices());
    let (mut jobs, mut inputs) = (Vec::new(), Inputs::of(BTreeSet::new()));
    let mut none = References::of(&store, &study, &study.replays[0], &devices).unwrap();
    for cell in cells(&store, &study, &study.replays[0]).unwrap() {
        let (replay, device) = (&study.replays[0], &devices["small"]);
        jobs.extend(plan(&store, replay, &cell, device, &mut none, &mut inputs).unwrap());
    }
    let rows = |threads| work::on_cores(&jobs, threads).into_iter().flat_map(Result::unwrap).collect::<Vec<_>>();
    assert!(rows(1).len() == 8 && rows(1) == rows(3));
}

#[test]
fn devices_with_the_same_profile_have_their_replays_each() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(folder.path());
    let mut devices = devices();
    let rows = |store: &Store| -> Vec<(String, String)> {
        let sql = "SELECT device, count(*) || ' ' || min(input) FROM replay GROUP BY 1 ORDER BY 1";
        store.rows(sql, [], |r| Ok((r.get(0)?, r.get(1)?))).unwrap()
    };
    refreshed(&mut store, &study(STUDY), &devices);
    let one = rows(&store);
    devices.insert("twin".into(), Device { name: "twin".into(), ..devices["small"].clone() });
    let both = study(&STUDY.replace("[\"small\"]", "[\"small\", \"twin\"]"));
    refreshed(&mut store, &both, &devices);
    let two = rows(&store);
    let count = |row: &(String, String)| row.1.split(' ').next().map(str::to_owned);
    assert_eq!((two.len(), &two[0], count(&two[1])), (2, &one[0], count(&one[0])), "what was there is as it was");
    refreshed(&mut store, &both, &devices);
    assert_eq!(rows(&store), two);
}

#[test]
fn flash_energy_is_time_by_power_where_there_are_constants() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path(), []).unwrap();
    for file_system in ["jffs2", "ubifs"] {
        let point = json!({ "file_system": file_system, "workload": "read", "pattern": "sequential" });
        put(&mut store, "reads", point, 0, false);
    }
    refreshed(&mut store, &study(STUDY), &devices());
    // 4 ms of 223 mW and 29 mW.
    let sql = "SELECT file_system, median FROM summary WHERE metric = 'modelled_energy_mj'";
    let found: Vec<(String, f64)> = store.rows(sql, [], |r| Ok((r.get(0)?, r.get(1)?))).unwrap();
    assert!(found.len() == 1 && found[0].0 == "jffs2" && (found[0].1 - 1.008).abs() < 1e-12, "{found:?}");
    let left: Vec<String> = store.rows("SELECT what || ': ' || why FROM left_out", [], |r| r.get(0)).unwrap();
    assert!(left[0].contains("modelled energy on ubifs") && left[0].contains("only for jffs2"), "{left:?}");
}

#[test]
fn charts_show_what_replays_give_and_say_that_it_is_modelled() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(folder.path());
    let study = study(STUDY);
    refreshed(&mut store, &study, &devices());
    let plane = charts::chart(&store, &study, &study.charts[0]).unwrap();
    let places: Vec<(&str, f64)> = plane.series.iter().map(|s| (s.name.as_str(), s.points[0].x)).collect();
    assert_eq!(places, [("performance", 2e6), ("powersave", 3e6)]);
    assert!(plane.joined == Joined::Not && plane.caption.ends_with(pocketstone_core::origin::MODELLED));
    assert_eq!((plane.beside[1].x_low, plane.beside[1].label.as_str()), (Some(3e6), "here"));
    let profile = |_: &str| Ok(device());
    let steps = charts::frequency(&store, &study, &study.frequencies[0], &profile).unwrap().unwrap();
    assert_eq!(steps.series.iter().map(|s| s.name.as_str()).collect::<Vec<_>>(), ["performance", "powersave"]);
    // From 1 ms on, where the window begins, until the run's end at 4 ms; 2000 MHz all the time.
    let points: Vec<(f64, f64)> = steps.series[0].points.iter().map(|p| (p.x, p.y)).collect();
    assert_eq!(points, [(1e6, 2000.0), (4e6, 2000.0)]);
    // What it was recorded with, and what the replay had instead.
    let words = ["Recorded: workload=pocketdata-c", "Replayed: delay=none device=small, profile "];
    assert!(words.iter().all(|w| steps.caption.contains(w)), "{}", steps.caption);
    assert!(steps.caption.ends_with(pocketstone_core::origin::MODELLED));
    let table = charts::replay_table(&store, &study.replays[0]).unwrap().unwrap();
    assert_eq!((table.rows.len(), &table.rows[0][..3]), (4, &["small", "performance", "none"].map(String::from)[..]));
    assert!(charts::caveat(&store, &study).unwrap().unwrap().contains("small (profile "));
}

#[test]
fn advice_ranks_governors_for_the_trials_of_a_run() {
    use crate::models::advise::{Question, governor};
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(folder.path());
    put(&mut store, "e", database_point("pocketdata-b"), 0, false);
    let (study, device) = (study(STUDY), device());
    let ask = |only: &str, levers: &[String], budget: &str| {
        let budget = budget.parse().unwrap();
        let devices = folder.path();
        governor(
            &store,
            &study,
            &Question { only, device: &device, devices, levers, budget, governors: &[], recorded_khz: None },
        )
    };
    let answer = ask("workload = 'pocketdata-c'", &[], "2.5ms").unwrap();
    assert_eq!((answer.trials, answer.source, answer.cycles_scale), (2, ActivitySource::Events, 1.0));
    // By hand as above: 2 ms and 0.8 mJ at 2 GHz, 3 ms and 0.4 mJ at 1 GHz, which the budget leaves out.
    let first = &answer.advice.ranked[0];
    assert!(first.within && (first.mean_latency_ns - 2e6).abs() < 1.0 && (first.energy_mj - 0.8).abs() < 1e-9);
    let slow = answer.advice.ranked.iter().find(|a| a.governor.to_string() == "powersave").unwrap();
    assert!(!slow.within && (slow.energy_mj - 0.4).abs() < 1e-9);
    let answer = ask("workload = 'pocketdata-c'", &[], "50%").unwrap();
    let first = &answer.advice.ranked[0];
    assert!(first.within && (first.energy_mj - 0.4).abs() < 1e-9, "{first:?}");
    // Twice the power is twice the energy; a run without events has its calls alone.
    let answer = ask("workload = 'pocketdata-c'", &["power_scale=2".into()], "50%").unwrap();
    assert!((answer.advice.ranked[0].energy_mj - 0.8).abs() < 1e-9 && answer.levers == ["power_scale=2"]);
    assert_eq!(ask("workload = 'pocketdata-b'", &[], "10%").unwrap().source, ActivitySource::Calls);
    for (only, lever, word) in
        [("0", None, "no measured cell"), ("x = 1", None, "not a valid condition"), ("1", Some("warp=1"), "lever")]
    {
        let levers: Vec<String> = lever.into_iter().map(str::to_owned).collect();
        let error = ask(only, &levers, "10%").unwrap_err();
        assert!(error.chain().contains(word), "{}", error.chain());
    }
}

#[test]
fn what_a_reader_may_try_out_starts_with_the_numbers_of_the_results() {
    let folder = tempfile::tempdir().unwrap();
    let store = filled(folder.path());
    let twice = Device { name: "twice".into(), cycles_per_recorded_ns: 4.0, ..device() };
    let choices =
        crate::views::explorer::recorded(&store, &study(STUDY), &devices(), &[twice, device()]).unwrap().unwrap();
    assert_eq!(choices.devices.iter().map(|d| d.name.as_str()).collect::<Vec<_>>(), ["small", "twice"]);
    assert_eq!(choices.delays, ["recorded", "none", "1ms", "lognormal:6ms"]);
    assert_eq!(choices.grid, [1, 2], "the study's own");
    let [run] = &choices.runs[..] else { panic!("one point: {:?}", choices.runs) };
    assert_eq!(
        (run.name.as_str(), run.workload.as_str()),
        ("pocketdata-c", "engine=sqlite delay=none, seed 0, from events")
    );
    assert!(run.notes["twice"].contains("4 per nanosecond of the recording") && run.notes["twice"].contains("not cal"));
    // The other device needs twice the cycles for the same work.
    assert_eq!(run.levers["twice"], json!({ "seed": 0, "device_storage": false, "cycles_scale": 2.0 }));

    let made = crate::views::explorer::explorer(choices, Err(Error::board("none"))).unwrap();
    let performance = made.governors.iter().position(|g| g.spec == "performance").unwrap();
    let row = made.grid.iter().find(|r| r.of == [0, 0, 0, performance]).unwrap();
    // As the cell's replay by hand: 1 ms on a core at 2 GHz and 1 ms asleep, twice.
    assert_eq!((row.answer.mean_latency_ns, row.answer.run_ns), (Some(2e6), 4 * MS));
    assert!((row.answer.total_mj - 0.8).abs() < 1e-9);
    assert!(made.grid.iter().all(|r| r.of[0] == 0 && r.of[2] < 2) && made.devices.len() == 2);

    let without = STUDY.split("[[replay]]").next().unwrap();
    assert!(crate::views::explorer::recorded(&store, &study(without), &Devices::new(), &[device()]).unwrap().is_none());
    let mut model = crate::views::model::Model::default();
    // There is no such profile.
    crate::views::explorer::add(&mut model, &store, &study(STUDY), folder.path(), || Ok(Vec::new()));
    assert!(model.explorer.is_none() && model.left_out[0].why.contains("small"), "{:?}", model.left_out);
}

/// 1 ms on a core at 3 GHz is 3 000 000 cycles on every device: 1.5 ms at 2 GHz, and 1 ms asleep.
#[test]
fn recorded_frequencies_give_the_same_cycles_in_a_replay_and_to_a_reader() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(folder.path(), []).unwrap();
    put_at(&mut store, "e", database_point("pocketdata-c"), 0, true, Some(3_000_000));
    let twice = Device { name: "twice".into(), cycles_per_recorded_ns: 4.0, text: "second".into(), ..device() };
    let both = Devices::from([("small".into(), device()), ("twice".into(), twice)]);
    let study = study(&STUDY.replace("devices = [\"small\"]", "devices = [\"small\", \"twice\"]"));
    refreshed(&mut store, &study, &both);
    let choices = crate::views::explorer::recorded(&store, &study, &both, &[]).unwrap().unwrap();
    let notes: Vec<String> = choices.runs[0].notes.values().cloned().collect();
    let made = crate::views::explorer::explorer(choices, Err(Error::board("none"))).unwrap();
    let performance = made.governors.iter().position(|g| g.spec == "performance").unwrap();
    for (at, name) in ["small", "twice"].into_iter().enumerate() {
        let row = made.grid.iter().find(|r| r.of == [at, 0, 0, performance]).unwrap();
        let sql = "SELECT median FROM replay_summary WHERE device = ?1 AND governor = 'performance' AND
                   delay = 'recorded' AND metric = 'mean_latency_ns'";
        let replayed: Vec<f64> = store.rows(sql, [name], |r| r.get(0)).unwrap();
        assert_eq!((replayed, row.answer.mean_latency_ns), (vec![2.5e6], Some(2.5e6)), "{name}");
    }
    assert!(notes.iter().all(|note| note.contains("by its frequencies")), "{notes:?}");
}

/// Of 1 ms at 2 GHz, half does not scale. With what is awake, a cycle takes the least energy at 2 GHz (700 mW), waiting
/// for memory at 1 GHz (400 mW): 0.35 + 0.2 mJ for each operation. One frequency for both is 0.7 or 0.6 mJ.
#[test]
fn the_bounds_row_has_the_least_energy_of_any_policy() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = filled(folder.path());
    let text = STUDY.replace("\"powersave\"]", "\"powersave\", \"bound\"]\nmemory_share = 0.5");
    let awake = Devices::from([("small".into(), Device { awake_mw: 300.0, ..device() })]);
    refreshed(&mut store, &study(&text), &awake);
    let of_bound = |metric| median(&store, "bound", metric).unwrap().1;
    assert!((of_bound("energy_mj") - 1.1).abs() < 1e-9, "{}", of_bound("energy_mj"));
    assert_eq!(of_bound("mean_latency_ns"), 2e6);
    for governor in ["performance", "powersave"] {
        let bound_mj = median(&store, governor, "bound_mj").unwrap().1;
        assert!(of_bound("energy_mj") <= bound_mj + 1e-9, "{governor}: {bound_mj}");
    }
    let front = "SELECT min(energy_mj) FROM replay_front";
    let schedules: Vec<f64> = store.rows(front, [], |r| r.get(0)).unwrap();
    assert!((schedules[0] - 1.2).abs() < 1e-9, "{schedules:?}");
}
