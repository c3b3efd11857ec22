//! Logs of phones as the source of a study's replays.

use super::*;
use pocketstone_core::Result;

const LOGS: &str = r#"
title = "t"
board = "virt-nand"
[[experiment]]
name = "e"
[experiment.factors]
file_system = "directory"
workload = "pocketdata-c"
[[replay]]
name = "phones"
logs = ["WorkloadC_NoTimingsql.log", "folder"]
recorded_khz = 1000000
devices = ["small"]
governors = ["performance", "powersave", "bound"]
"#;

/// A run whose app is on a core for `ms` at a time, twice, with 5 ms asleep between.
fn log(ms: u64) -> String {
    let line = |ms: u64, thread: u32, event: &str| format!("t-{thread} [000] ...1 1.{ms:03}000: {event}\n");
    let switch = |ms: u64, prev: u32, next: u32| {
        let event = format!(
            "sched_switch: prev_comm=t prev_pid={prev} prev_prio=120 prev_state=S ==> next_comm=t next_pid={next} \
             next_prio=120"
        );
        line(ms, prev, &event)
    };
    [
        line(0, 7, "print: SQL_START"),
        switch(ms, 7, 0),
        switch(ms + 5, 0, 7),
        line(2 * ms + 5, 7, "print: SQL_END"),
        switch(2 * ms + 6, 7, 0),
    ]
    .concat()
}

type Found = (String, Option<String>, Option<String>, String, f64);

fn busy(store: &Store) -> Vec<Found> {
    let sql = "SELECT log, workload, recorded_delay, governor, median FROM replay_summary
               WHERE replay = 'phones' AND metric = 'busy_ns' ORDER BY log, governor";
    store.rows(sql, [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?))).unwrap()
}

fn brought(store: &mut Store, text: &str, tables: &Path) -> Result<usize> {
    let mut computed = 0;
    store.clear_left_out()?;
    refresh(store, &study(text), &devices(), Some(tables), &mut |_, total| {
        computed = total;
        Ok(())
    })?;
    Ok(computed)
}

fn left_out(store: &Store) -> Vec<(String, String)> {
    store.left_out().unwrap().into_iter().map(|l| (format!("{}: {}", l.what, l.why), l.cure)).collect()
}

#[test]
fn a_phones_log_is_replayed_like_a_cell() {
    let folder = tempfile::tempdir().unwrap();
    let [beside, tables] = ["beside", "tables"].map(|name| folder.path().join(name));
    std::fs::create_dir_all(tables.join("folder")).unwrap();
    std::fs::create_dir(&beside).unwrap();
    // One is beside the study, the others are where the published tables are.
    std::fs::write(beside.join("WorkloadC_NoTimingsql.log"), log(10)).unwrap();
    std::fs::write(tables.join("folder/x.ftrace"), log(4)).unwrap();
    std::fs::write(tables.join("folder/y.log"), "nonsense\n").unwrap();
    let mut store = Store::create(&folder.path().join("results"), []).unwrap();
    store.set_facts([("study.folder", beside.to_str().unwrap())]).unwrap();

    assert_eq!(brought(&mut store, LOGS, &tables).unwrap(), 6);
    // 20 ms and 8 ms at 1 GHz, which is the lowest frequency of the device; its highest is twice that.
    let named = |log: &str, words: Option<[&str; 2]>, governor: &str, ms: f64| -> Found {
        let [workload, delay] = [0, 1].map(|n| words.map(|words| words[n].to_owned()));
        (log.to_owned(), workload, delay, governor.to_owned(), ms * 1e6)
    };
    let c = ("WorkloadC_NoTimingsql.log", Some(["C", "none"]));
    let expected = [
        named(c.0, c.1, "performance", 10.0),
        named(c.0, c.1, "powersave", 20.0),
        named("folder/x.ftrace", None, "performance", 4.0),
        named("folder/x.ftrace", None, "powersave", 8.0),
    ];
    assert_eq!(busy(&store), expected);
    let regrets = "SELECT count(*) FROM replay_summary WHERE metric = 'regret'";
    assert_eq!(store.rows(regrets, [], |r| r.get::<_, i64>(0)).unwrap(), [4]);
    let rows = "SELECT DISTINCT source, cell, repetition FROM replays";
    let rows: Vec<(String, Option<i64>, Option<i64>)> =
        store.rows(rows, [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?))).unwrap();
    assert_eq!(rows, [("log".to_owned(), None, None)]);
    let skipped = left_out(&store);
    assert!(skipped.len() == 1 && skipped[0].0.contains("folder/y.log"), "{skipped:?}");
    let table = charts::replay_table(&store, &study(LOGS).replays[0]).unwrap().unwrap();
    assert!(table.columns.contains(&"log".to_owned()) && table.rows.len() == 6, "{:?}", table.columns);

    // What is there is not computed again; what is gone stays as it was; what is another log is computed anew.
    assert_eq!(brought(&mut store, LOGS, &tables).unwrap(), 0);
    std::fs::remove_dir_all(tables.join("folder")).unwrap();
    std::fs::write(beside.join("WorkloadC_NoTimingsql.log"), log(20)).unwrap();
    assert_eq!(brought(&mut store, LOGS, &tables).unwrap(), 3);
    assert_eq!(busy(&store)[0].4, 20e6);
    assert_eq!(busy(&store)[2..], expected[2..]);
    assert!(left_out(&store).is_empty());
    let fewer = LOGS.replace(", \"folder\"", "");
    assert_eq!((brought(&mut store, &fewer, &tables).unwrap(), busy(&store).len()), (0, 2));
    // A log that was never there is told of, and so is one that does not say at which frequency it was recorded.
    let absent = fewer.replace("WorkloadC", "WorkloadA");
    brought(&mut store, &absent, &tables).unwrap();
    let [(why, cure)] = &left_out(&store)[..] else { panic!("one thing is skipped") };
    assert!(why.contains("there is no WorkloadA") && cure.contains(REFERENCE), "{why} {cure}");
    brought(&mut store, &fewer.replace("recorded_khz = 1000000\n", ""), &tables).unwrap();
    let [(why, cure)] = &left_out(&store)[..] else { panic!("one thing is skipped") };
    assert!(why.contains("frequency") && cure.contains("recorded_khz"), "{why} {cure}");
}

#[test]
fn logs_of_one_workload_have_rows_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let mut store = Store::create(&folder.path().join("results"), []).unwrap();
    for (phone, ms) in [("a", 10), ("b", 30)] {
        std::fs::create_dir(folder.path().join(phone)).unwrap();
        std::fs::write(folder.path().join(phone).join("WorkloadC_NoTimingsql.log"), log(ms)).unwrap();
    }
    let logs = "\"a/WorkloadC_NoTimingsql.log\", \"b/WorkloadC_NoTimingsql.log\"";
    let text = LOGS.replace("\"WorkloadC_NoTimingsql.log\", \"folder\"", logs);
    brought(&mut store, &text, folder.path()).unwrap();
    let table = charts::replay_table(&store, &study(&text).replays[0]).unwrap().unwrap();
    let [log, governor, on_core] =
        ["log", "governor", "on core"].map(|name| table.columns.iter().position(|c| c == name).unwrap());
    let slowest = table.rows.iter().filter(|row| row[governor] == "powersave");
    let shown: Vec<[&str; 2]> = slowest.map(|row| [row[log].as_str(), row[on_core].as_str()]).collect();
    assert_eq!(shown, [["a/WorkloadC_NoTimingsql.log", "20 ms"], ["b/WorkloadC_NoTimingsql.log", "60 ms"]]);
}

#[test]
fn a_replay_has_one_source_of_runs() {
    let with = |more: &str| LOGS.replace("recorded_khz = 1000000\n", more);
    for (text, word) in [
        (with("experiment = 'e'\n"), "one source of runs"),
        (LOGS.replace("logs = [\"WorkloadC_NoTimingsql.log\", \"folder\"]\n", ""), "one source of runs"),
        (with("only = '1'\n"), "`only`"),
        (with("calibrate = [{ workload = 'C', on_core_s = 1, source = 'x' }]\n"), "calibrates a log"),
        (with("recorded_khz = 0\n"), "recorded_khz"),
        (LOGS.replace("logs = [\"WorkloadC_NoTimingsql.log\", \"folder\"]", "experiment = 'e'"), "recorded_khz"),
    ] {
        let error = Study::parse("s.toml", &text).unwrap_err();
        assert!(error.chain().contains(word) && error.chain().contains("s.toml:"), "{word}: {}", error.chain());
    }
}
