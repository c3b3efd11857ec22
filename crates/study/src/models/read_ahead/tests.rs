//! A run of four cells whose pages take a millisecond and four senses each.

use super::advise::read_ahead;
use super::*;
use crate::specification::cell::Cell;
use pocketstone_board::Measured;
use pocketstone_core::events::{Event, EventKind, EventLog, SystemCall};
use pocketstone_core::log::{Call, FlashKind, FlashLog, FlashOp};
use pocketstone_workload::plan::ReadAheadBy;
use serde_json::json;

const MS: u64 = 1_000_000;
const STUDY: &str = r#"
title = "t"
board = "virt-nand"
[[experiment]]
name = "e"
[experiment.factors]
file_system = "jffs2"
file_bytes = "1MiB"
requests = 8
[[read_ahead_model]]
name = "rules"
experiment = "e"
only = "requests = 8"
"#;

fn study(text: &str) -> Study {
    Study::parse("s.toml", text).unwrap()
}

fn call(start_ns: u64, latency_ns: u64) -> Call {
    Call { start_ns, latency_ns, intended_ns: start_ns }
}

/// Calls that take 10 us each and a millisecond for every page that they read; the senses are 4 to a page.
fn put(store: &mut Store, point: serde_json::Value, workload: serde_json::Value, read: &[u64], traced: bool) {
    let mut at = 0;
    let (mut calls, mut log) = (Vec::new(), FlashLog::default());
    let task = log.task_index("t");
    for pages in read {
        let latency_ns = MS / 100 + pages * MS;
        for n in 0..4 * pages {
            let op = FlashOp { time_ns: at + n * 1000, kind: FlashKind::Sense, page: 7, pages: 1, pid: 1, task };
            log.ops.push(op);
        }
        calls.push(call(at, latency_ns));
        at += latency_ns + 1000;
    }
    let window = point["read_ahead_bytes"].as_u64().unwrap();
    // The call gets as many pages as the window has, a millisecond each.
    let prefetched = (workload["prefetch"] == "willneed")
        .then(|| json!({ "latency_ns": window / 4096 * MS, "resident_pages": window / 4096 }));
    let mut outcome = json!({
        "format": 2, "facts": {}, "start_ns": 0, "end_ns": at, "calls": calls.len(), "chip": null, "flash": null,
        "read_ahead": { "bdi": "mtd-0", "default_bytes": 0, "bytes": window, "advice": "none",
                        "resident_pages_before": null },
        "database": null, "unavailable": [], "prefetched": null
    });
    outcome["prefetched"] = prefetched.into();
    let file_system = point["file_system"].clone();
    let plan = json!({ "format": 2, "seed": 1, "volume": { "file_system": file_system }, "trace": traced,
        "workload": workload, "read_ahead": null });
    let cell = Cell {
        number: 0,
        experiment: "e".into(),
        point: serde_json::from_value(point).unwrap(),
        plan: serde_json::from_value(plan).unwrap(),
        repetition: 1,
        traced,
    };
    let flash = traced.then_some(log);
    let measured = Measured { calls, flash, ..Measured::of(serde_json::from_value(outcome).unwrap()) };
    store.put(&cell, &Ok(measured), 1.0).unwrap();
}

fn reads(requests: u64) -> serde_json::Value {
    json!({ "kind": "read", "data": "random", "file_bytes": 1 << 20, "pattern": "sequential", "request_bytes": 4096,
            "requests": requests, "inter_arrival_ns": 0 })
}

fn point(window: u64) -> serde_json::Value {
    json!({ "file_system": "jffs2", "workload": "read", "requests": 8, "read_ahead_bytes": window })
}

/// Eight sequential requests, without read-ahead and with 128 KiB, plain and traced.
fn run(folder: &std::path::Path) -> Store {
    let mut store = Store::create(&folder.join("results"), []).unwrap();
    for traced in [false, true] {
        put(&mut store, point(0), reads(8), &[1; 8], traced);
        // Windows of 4, 8 and 16 pages, when pages 0, 1 and 4 are read.
        put(&mut store, point(131_072), reads(8), &[4, 8, 0, 0, 16, 0, 0, 0], traced);
    }
    store
}

#[test]
fn a_cells_reads_are_kept_under_each_rule_with_what_switching_read_ahead_off_saves() {
    let folder = tempfile::tempdir().unwrap();
    let (mut store, study) = (run(folder.path()), study(STUDY));
    let rows = |store: &Store| {
        let sql = "SELECT rules, read_ahead_bytes, page_reads, page_senses, total_ns, page_saving
                   FROM read_ahead_models WHERE model = 'rules' ORDER BY 1, 2";
        let row = |r: &rusqlite::Row<'_>| -> rusqlite::Result<(String, i64, i64, f64, f64, f64)> {
            Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?, r.get(5)?))
        };
        store.rows(sql, [], row).unwrap()
    };
    // Twice: what is there is made anew, not added to.
    for _ in 0..2 {
        refresh(&mut store, &study).unwrap();
        let found = rows(&store);
        assert_eq!(found.len(), 6, "two cells under three rules");
        for (rules, window, pages, senses, ns, saving) in found {
            // Every call without read-ahead read a page: 1.01 ms, touching it included.
            let expected = if window == 0 { (8, 32.0, 8.08e6, 0.0) } else { (28, 112.0, 28.28e6, 1.0 - 8.0 / 28.0) };
            assert_eq!((pages, senses), (expected.0, expected.1), "{rules} {window}");
            assert!((ns - expected.2).abs() < 1.0 && (saving - expected.3).abs() < 1e-9, "{rules} {ns} {saving}");
        }
    }
    let none = Study::parse("s.toml", &STUDY[..STUDY.find("[[read_ahead_model]]").unwrap()]).unwrap();
    refresh(&mut store, &none).unwrap();
    assert!(rows(&store).is_empty());
}

#[test]
fn what_the_model_does_not_cover_is_left_out_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = run(folder.path());
    let mut other = point(0);
    other["file_system"] = json!("directory");
    put(&mut store, other, reads(8), &[1; 8], false);
    refresh(&mut store, &study(STUDY)).unwrap();
    let said: Vec<(String, String)> =
        store.rows("SELECT why, cure FROM left_out", [], |r| Ok((r.get(0)?, r.get(1)?))).unwrap();
    assert!(said.len() == 1 && said[0].0.contains("directory") && said[0].1.contains("jffs2"), "{said:?}");
}

#[test]
fn the_advice_ranks_every_window_for_the_run_that_was_asked_about() {
    let folder = tempfile::tempdir().unwrap();
    let store = run(folder.path());
    let answer = read_ahead(&store, &study(STUDY), "read_ahead_bytes = 131072").unwrap();
    assert_eq!((answer.trials, answer.reads, answer.ranked.len()), (1, 8, 34));
    // Five calls touched a page alone: 10 us. The others took a millisecond more for each of 28 pages.
    assert!((answer.measured_ns - 28.08e6).abs() < 1.0 && (answer.modelled_ns - 28.08e6).abs() < 1.0);
    let best = &answer.ranked[0];
    assert_eq!((best.by, best.window_bytes, best.page_reads), (ReadAheadBy::Mount, 0, 8.0));
    assert!((best.total_ns - 8.08e6).abs() < 1.0 && best.over_best == 0.0);
    let recorded = answer.ranked.iter().find(|c| c.window_bytes == 131_072 && c.by == ReadAheadBy::Mount).unwrap();
    assert!((recorded.over_best - 20.0 / 8.08).abs() < 1e-6, "{recorded:?}");
    // A limit of 31 pages: 2, 4, 8 and 16 pages, for its 32nd part is less than a page.
    let worst = answer.ranked.last().unwrap();
    assert_eq!((worst.window_bytes, worst.page_reads), (126_976, 30.0));
    assert!(answer.run().contains("jffs2"));
    let error = read_ahead(&store, &study(STUDY), "requests = 9").unwrap_err();
    assert!(error.cure().is_some());
}

/// By hand, 40 pages: without a window each is read alone. With one of 32, the call brings 32, and the requests 4, 8
/// and 16 more.
#[test]
fn what_a_call_before_the_requests_reads_counts_in_advice_and_savings() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("results"), []).unwrap();
    let mut workload = reads(40);
    workload["prefetch"] = json!("willneed");
    put(&mut store, point(0), workload.clone(), &[1; 40], false);
    let with = [&[0; 32][..], &[4, 8, 0, 0, 16, 0, 0, 0]].concat();
    put(&mut store, point(131_072), workload, &with, false);
    let answer = read_ahead(&store, &study(STUDY), "read_ahead_bytes = 131072").unwrap();
    assert!((answer.measured_ns - 60.4e6).abs() < 1.0 && (answer.modelled_ns - 60.4e6).abs() < 1.0, "{answer:?}");
    let of = |bytes| answer.ranked.iter().find(|c| c.window_bytes == bytes && c.by == ReadAheadBy::Mount).unwrap();
    assert_eq!([0, 131_072].map(|bytes| of(bytes).page_reads), [40.0, 60.0]);
    assert!((of(0).total_ns - 40.4e6).abs() < 1.0 && (of(131_072).total_ns - 60.4e6).abs() < 1.0, "{answer:?}");
    refresh(&mut store, &study(STUDY)).unwrap();
    let sql =
        "SELECT page_saving, time_saving FROM read_ahead_models WHERE read_ahead_bytes = 131072 AND rules = '6.1'";
    let found: Vec<[f64; 2]> = store.rows(sql, [], |r| Ok([r.get(0)?, r.get(1)?])).unwrap();
    // Costs of a page are those of calls that read one and touched one.
    assert!((found[0][0] - 1.0 / 3.0).abs() < 1e-9 && (found[0][1] - 1.0 / 3.0).abs() < 1e-9, "{found:?}");
}

#[test]
fn a_databases_reads_come_from_its_event_log() {
    use pocketstone_replay::read_ahead::{LoggedFiles, Medium};
    let file = |kind, time_ns| Event { time_ns, cpu: 0, pid: 7, kind };
    let enter = |offset, time_ns| {
        let (call, file_number) = (SystemCall::Read, Some(1));
        file(EventKind::Enter { call, file: file_number, offset: Some(offset), bytes: 1024 }, time_ns)
    };
    let exit = |time_ns| file(EventKind::Exit { call: SystemCall::Read, result: 1024 }, time_ns);
    let miss = |page, time_ns| file(EventKind::CacheMiss { file: Some(1), page, pages: 1 }, time_ns);
    // Page 0 was cached before; 9 and 3 are read; the second read of page 9 finds it.
    let events = vec![
        enter(0, 10),
        exit(15),
        enter(9 * 4096, 20),
        miss(9, 25),
        exit(120),
        enter(3 * 4096, 130),
        miss(3, 140),
        exit(230),
        enter(9 * 4096 + 1024, 240),
        exit(246),
    ];
    let files = vec!["/proc/stat".to_owned(), "/mnt/pocketstone-database/data.sqlite".to_owned()];
    let log = EventLog { tasks: Vec::new(), files, marks: Vec::new(), events };
    let window = pocketstone_core::events::Window { start_ns: 0, end_ns: 1000 };
    let logged = |threads: &[u32]| LoggedFiles::from_log(&log, window, &threads.iter().copied().collect(), "database");
    assert_eq!(logged(&[8]).reads(), 0, "another process");
    let found = logged(&[7]);
    assert_eq!(found.latencies_ns().collect::<Vec<_>>(), [5, 100, 100, 6]);
    let medium = Medium { io_pages: 0, fan_out: None };
    let pages = |rules, kib: u64| {
        let work = found.work(medium, rules, Setting::raw_nand(kib << 10, Advice::Normal));
        work.iter().map(|w| w.pages).collect::<Vec<_>>()
    };
    let refused = |bytes| recorded::refuse_what_reads_do_not_tell(&found, Setting::raw_nand(bytes, Advice::Normal));
    assert!(refused(131_072).is_ok() && refused(0).unwrap_err().cure().unwrap().contains("read_ahead_bytes"));
    assert_eq!(pages(Rules::Linux6_1, 0), [0, 1, 1, 0]);
    assert_eq!(pages(Rules::Linux6_1, 128), [0, 1, 1, 0]);
    // The jump backward opened a window of 4 under the old rules.
    assert_eq!(pages(Rules::Linux3_12, 128), [0, 1, 4, 0]);
}

/// Calls without positions: page 0, and, once the file was closed, 0 again and 1. Page 3 comes by a fault.
#[test]
fn a_closed_file_is_read_from_its_start_and_faults_are_told_from_reads() {
    use pocketstone_replay::read_ahead::{LoggedFiles, Medium};
    let event = |time_ns, kind| Event { time_ns, cpu: 0, pid: 7, kind };
    let file = Some(0);
    let enter = |call| EventKind::Enter { call, file, offset: None, bytes: 4096 };
    let exit = |call, result| EventKind::Exit { call, result };
    let miss = |page| EventKind::CacheMiss { file, page, pages: 1 };
    let (read, close) = (SystemCall::Read, SystemCall::Close);
    let kinds = [
        enter(read),
        miss(0),
        exit(read, 4096),
        miss(3),
        enter(close),
        exit(close, 0),
        enter(read),
        exit(read, 4096),
        enter(read),
        miss(1),
        exit(read, 4096),
    ];
    let events = (1..).zip(kinds).map(|(time_ns, kind)| event(time_ns, kind)).collect();
    let log = EventLog { tasks: Vec::new(), files: vec!["/mnt/f/a".into()], marks: Vec::new(), events };
    let window = pocketstone_core::events::Window { start_ns: 0, end_ns: 1000 };
    let found = LoggedFiles::from_log(&log, window, &[7].into(), "/f/");
    let medium = Medium { io_pages: 0, fan_out: None };
    let work = found.work(medium, Rules::Linux6_1, Setting::raw_nand(0, Advice::Normal));
    assert_eq!(work.iter().map(|w| w.pages).collect::<Vec<_>>(), [1, 0, 1]);
    assert!((found.faulted() - 1.0 / 3.0).abs() < 1e-9);
    let setting = Setting::raw_nand(131_072, Advice::Normal);
    assert!(recorded::refuse_what_reads_do_not_tell(&found, setting).unwrap_err().chain().contains("page faults"));
}

#[test]
fn mistakes_in_the_study_are_shown_where_they_are() {
    let rules = |names: &str| format!("{STUDY}rules = {names}\n");
    assert_eq!(study(&rules("[\"6.1\"]")).read_ahead_models[0].rules, [Rules::Linux6_1]);
    assert!(study(STUDY).has_models());
    let section = &STUDY[STUDY.find("[[read_ahead_model]]").unwrap()..];
    for (text, word) in [
        (rules("[\"2.4\"]"), "unknown read-ahead rules"),
        (format!("{STUDY}{section}"), "duplicate read-ahead model"),
        (STUDY.replace("experiment = \"e\"", "experiment = \"f\""), "unknown experiment `f`"),
    ] {
        let error = Study::parse("s.toml", &text).unwrap_err();
        assert!(error.chain().contains(word) && error.chain().contains("s.toml:"), "{}", error.chain());
    }
}
