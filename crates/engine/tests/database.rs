//! Every engine returns what a map in memory would, and the measured loop keeps its times in order.

mod database_support;

use database_support::{Rows, engines, measured, spec};
use pocketstone_core::database::{Arrival, Configuration, DatabaseEngine, DatabaseSpec, SqlForm, Waiting};
use pocketstone_engine::database::{Session, load};
use pocketstone_testing::Need;
use pocketstone_workload::database::{ResultDigest, StatementKind, Trace, Value};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

#[derive(Debug, Clone)]
enum Action {
    Read(i64),
    Put(i64, String, Option<i64>),
    SetA(i64, String),
    Scan(i64, u8),
    ScanAfter(i64, u8),
}

fn actions() -> impl Strategy<Value = Vec<Action>> {
    let key = || -20i64..20;
    let text = || "[a-z'?éß\"-]{0,12}";
    let action = prop_oneof![
        key().prop_map(Action::Read),
        (key(), text(), prop::option::of(any::<i64>())).prop_map(|(k, a, b)| Action::Put(k, a, b)),
        (key(), text()).prop_map(|(k, a)| Action::SetA(k, a)),
        (key(), 0u8..8).prop_map(|(k, n)| Action::Scan(k, n)),
        (key(), 0u8..8).prop_map(|(k, n)| Action::ScanAfter(k, n)),
    ];
    prop::collection::vec(action, 1..60)
}

type Row = (String, Option<i64>);

/// A key as the workload's tables have it.
fn with_key<T>(text_keys: bool, key: i64, use_it: impl FnOnce(Value<'_>) -> T) -> T {
    match text_keys {
        // Of one width, so that texts are in the order of the numbers.
        true => use_it(Value::Text(&format!("user{:03}", key + 500))),
        false => use_it(Value::Integer(key)),
    }
}

fn number(b: Option<i64>) -> Value<'static> {
    b.map_or(Value::Null, Value::Integer)
}

/// The workload of some actions, and the digest that its results have by a map.
fn model(actions: &[Action], text_keys: bool) -> (Trace, String, u64) {
    let mut rows = Rows::new(if text_keys { "VARCHAR(20)" } else { "INTEGER" });
    let mut map: BTreeMap<i64, Row> = BTreeMap::new();
    let mut digest = ResultDigest::default();
    for key in [-7, 0, 7, 14] {
        with_key(text_keys, key, |k| rows.trace.load(rows.insert, &[k, Value::Text("loaded"), Value::Null])).unwrap();
        map.insert(key, ("loaded".into(), None));
    }
    let show = |digest: &mut ResultDigest, key: i64, row: &Row| {
        digest.row(3);
        with_key(text_keys, key, |k| digest.value(k));
        digest.value(Value::Text(&row.0));
        digest.value(number(row.1));
    };
    for action in actions {
        let (insert, update_a, update_both, scan, after, read) =
            (rows.insert, rows.update_a, rows.update_both, rows.scan, rows.scan_after, rows.read);
        match action {
            Action::Read(key) => {
                with_key(text_keys, *key, |k| rows.then(0, read, &[k]));
                map.get(key).iter().for_each(|row| show(&mut digest, *key, row));
            }
            Action::Put(key, a, b) => {
                let (a_value, b_value) = (Value::Text(a), number(*b));
                match map.insert(*key, (a.clone(), *b)) {
                    None => with_key(text_keys, *key, |k| rows.then(0, insert, &[k, a_value, b_value])),
                    Some(_) => with_key(text_keys, *key, |k| rows.then(0, update_both, &[a_value, b_value, k])),
                }
                digest.changed(1);
            }
            Action::SetA(key, a) => {
                with_key(text_keys, *key, |k| rows.then(0, update_a, &[Value::Text(a), k]));
                let row = map.get_mut(key);
                digest.changed(u64::from(row.is_some()));
                if let Some(row) = row {
                    row.0.clone_from(a);
                }
            }
            Action::Scan(key, n) | Action::ScanAfter(key, n) => {
                let (statement, from) = match action {
                    Action::Scan(..) => (scan, Bound::Included(*key)),
                    _ => (after, Bound::Excluded(*key)),
                };
                with_key(text_keys, *key, |k| rows.then(0, statement, &[k, Value::Integer(i64::from(*n))]));
                let found = map.range((from, Bound::Unbounded)).take(usize::from(*n));
                found.for_each(|(key, row)| show(&mut digest, *key, row));
            }
        }
        digest.end();
    }
    (rows.trace, digest.text(), digest.rows())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn every_engine_returns_what_a_map_would(actions in actions(), text_keys: bool) {
        let (trace, digest, rows) = model(&actions, text_keys);
        for engine in engines() {
            let mut spec = spec(engine);
            if engine != DatabaseEngine::Bdb {
                spec.configuration.synchronous = Some("off".into());
            }
            let result = measured(&spec, &trace).unwrap();
            prop_assert_eq!(result.digest.as_deref(), Some(&digest[..]), "{:?}", engine);
            prop_assert_eq!(result.rows, rows);
            prop_assert_eq!(result.calls.len(), actions.len());
            if engine.speaks_sql() {
                spec.sql = SqlForm::Text;
                let result = measured(&spec, &trace).unwrap();
                prop_assert_eq!(result.digest.as_deref(), Some(&digest[..]), "{:?} as text", engine);
            }
        }
    }
}

#[test]
fn an_operation_has_all_its_joined_steps() {
    let mut rows = Rows::new("INTEGER").with(2);
    rows.then(0, rows.read, &[Value::Integer(0)]);
    rows.trace.measure(0, rows.update_a, &[Value::Text("x"), Value::Integer(0)], true).unwrap();
    rows.then(0, rows.read, &[Value::Integer(0)]);
    let mut digest = ResultDigest::default();
    for (text, ended) in [("row 0", true), ("x", false)] {
        digest.row(3);
        [Value::Integer(0), Value::Text(text), Value::Integer(0)].into_iter().for_each(|v| digest.value(v));
        digest.end();
        if ended {
            digest.changed(1);
            digest.end();
        }
    }
    for engine in engines() {
        let result = measured(&spec(engine), &rows.trace).unwrap();
        assert_eq!((result.calls.len(), result.rows, result.digest), (2, 2, Some(digest.text())), "{engine:?}");
    }
    let nobody = measured(&spec(DatabaseEngine::Null), &rows.trace).unwrap();
    assert_eq!((nobody.calls.len(), nobody.rows), (2, 0));
}

#[test]
fn calls_are_in_order_and_no_response_is_below_its_service_time() {
    let mut rows = Rows::new("INTEGER").with(10);
    (0..200).for_each(|n| rows.then(1_000_000, rows.read, &[Value::Integer(n % 10 * 10)]));
    for (arrival, waiting) in
        [(Arrival::Closed, Waiting::Sleep), (Arrival::Open, Waiting::Busy), (Arrival::Open, Waiting::Sleep)]
    {
        let mut spec = spec(DatabaseEngine::Sqlite);
        (spec.arrival, spec.waiting) = (arrival, waiting);
        let run = measured(&spec, &rows.trace).unwrap();
        assert_eq!(run.calls.len(), 200);
        for pair in run.calls.windows(2) {
            let (end, next) = (pair[0].start_ns + pair[0].latency_ns, pair[1]);
            assert!(next.start_ns >= end, "operations overlap: {pair:?}");
            let due = if arrival == Arrival::Closed { end } else { pair[0].intended_ns } + 1_000_000;
            assert_eq!(next.intended_ns, due);
        }
        assert!(run.calls.iter().all(|c| c.start_ns >= c.intended_ns && c.response_ns() >= c.latency_ns));
        assert_eq!(
            (run.start_ns, run.end_ns),
            (run.calls[0].start_ns, {
                let last = run.calls[199];
                last.start_ns + last.latency_ns
            })
        );
    }
}

#[test]
fn behind_a_slow_operation_a_timetable_queues_and_a_thinking_user_does_not() {
    let mut rows = Rows::new("INTEGER").with(1);
    // Counting to 300,000 takes milliseconds, the pauses behind it 10 us.
    let slow = rows.trace.add_statement(
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000) SELECT max(i) FROM n",
        StatementKind::Sql,
        0,
    );
    rows.then(10_000, slow, &[]);
    (0..20).for_each(|_| rows.then(10_000, rows.read, &[Value::Integer(0)]));
    let late = |arrival| {
        let mut spec = spec(DatabaseEngine::Sqlite);
        spec.arrival = arrival;
        let run = measured(&spec, &rows.trace).unwrap();
        (run.calls[0].latency_ns, run.calls[1].late_ns())
    };
    let (service, queued) = late(Arrival::Open);
    assert!(queued >= service - 10_000, "{queued} ns after {service} ns");
    // Woken late at worst, which has nothing to do with the operation before.
    let late_thinker = (0..5).map(|_| late(Arrival::Closed)).map(|(service, late)| late < service);
    assert!(late_thinker.into_iter().any(|on_time| on_time));
}

#[test]
fn threads_share_the_operations_in_turn() {
    let mut rows = Rows::new("INTEGER").with(10);
    (0..101).for_each(|n| rows.then(0, rows.read, &[Value::Integer(n % 10 * 10)]));
    (0..7).for_each(|n| rows.then(0, rows.update_a, &[Value::Text("new"), Value::Integer(n * 10)]));
    for engine in engines() {
        let mut spec = spec(engine);
        spec.threads = 3;
        let run = measured(&spec, &rows.trace).unwrap();
        assert_eq!((run.calls.len(), run.rows, run.digest), (108, 101, None), "{engine:?}");
        for thread in 0..3 {
            let mine: Vec<_> = run.calls.iter().skip(thread).step_by(3).collect();
            assert!(mine.windows(2).all(|w| w[1].start_ns >= w[0].start_ns + w[0].latency_ns), "{engine:?}");
        }
    }
    let mut spec = spec(DatabaseEngine::Sqlite);
    spec.threads = 0;
    assert!(measured(&spec, &rows.trace).unwrap_err().cure().unwrap().contains("1 or more"));
}

#[test]
fn many_threads_read_at_once() {
    // Each reads before its pause and after it: none has ended when the last one begins.
    let threads = 200;
    let mut rows = Rows::new("INTEGER").with(1);
    (0..2 * threads).for_each(|n| {
        rows.then(if n < threads { 0 } else { 100_000_000 }, rows.read, &[Value::Integer(0)]);
    });
    let spec = DatabaseSpec { threads, ..spec(DatabaseEngine::Lmdb) };
    let run = measured(&spec, &rows.trace).unwrap();
    assert_eq!((run.calls.len(), run.rows), (400, 400));
}

#[test]
fn a_failed_operation_is_named_with_its_statement() {
    let mut rows = Rows::new("INTEGER").with(3);
    rows.then(0, rows.read, &[Value::Integer(0)]);
    rows.then(0, rows.insert, &[Value::Integer(20), Value::Null, Value::Null]);
    for engine in engines() {
        for threads in [1, 2] {
            let mut spec = spec(engine);
            spec.threads = threads;
            let chain = measured(&spec, &rows.trace).unwrap_err().chain();
            assert!(chain.starts_with("operation 1 failed: INSERT INTO rows VALUES (?, ?, ?): "), "{chain}");
        }
    }
}

#[test]
fn a_database_that_was_not_loaded_or_is_there_already_is_refused() {
    let rows = Rows::new("INTEGER").with(1);
    let trace = Arc::new(rows.trace);
    for engine in engines().into_iter().filter(|e| *e != DatabaseEngine::Lmdb) {
        let folder = tempfile::tempdir().unwrap();
        let error = Session::open(&spec(engine), folder.path(), trace.clone()).err().unwrap();
        assert_eq!(error.cure(), Some("load it first"));
        load(&spec(engine), folder.path(), &trace).unwrap();
        let error = load(&spec(engine), folder.path(), &trace).unwrap_err();
        assert!(error.chain().contains("already exists"), "{}", error.chain());
    }
}

#[test]
fn engines_without_sql_refuse_it_and_settings_that_they_do_not_have() {
    let mut sql = Rows::new("INTEGER").with(1);
    let count = sql.trace.add_statement("SELECT count(*) FROM rows", StatementKind::Sql, 0);
    sql.then(0, count, &[]);
    let mut tables = Rows::new("INTEGER").with(1);
    let other = tables.trace.add_statement("SELECT * FROM others WHERE id = ?", StatementKind::Read, 0);
    tables.then(0, other, &[Value::Integer(1)]);
    for engine in engines().into_iter().filter(|e| !e.speaks_sql()) {
        let error = measured(&spec(engine), &sql.trace).unwrap_err();
        assert!(error.chain().contains("SELECT count(*) FROM rows"), "{}", error.chain());
        assert!(error.cure().unwrap().contains("sqlite"));
        assert!(measured(&spec(engine), &tables.trace).unwrap_err().chain().contains("others, rows"));
        let set = |set: fn(&mut Configuration)| {
            let mut spec = spec(engine);
            set(&mut spec.configuration);
            measured(&spec, &Rows::new("INTEGER").trace).map(drop).map_err(|e| e.chain())
        };
        let name = engine.name();
        assert_eq!(set(|c| c.journal_mode = Some("wal".into())), Err(format!("{name} has no journal_mode")));
        assert_eq!(set(|c| c.page_bytes = Some(4096)), Err(format!("{name} has no page_bytes")));
        assert_eq!(
            set(|c| c.synchronous = Some("extra".into())),
            Err(format!("{name} does not support synchronous = `extra`"))
        );
        assert_eq!(set(|c| c.synchronous = Some("normal".into())), Ok(()));
        let mut text = spec(engine);
        text.sql = SqlForm::Text;
        assert!(measured(&text, &Rows::new("INTEGER").trace).unwrap_err().cure().unwrap().contains("prepared"));
    }
}

/// Set for the process that works on a small volume: its folder.
const SMALL_VOLUME: &str = "POCKETSTONE_TEST_SMALL_VOLUME";

#[test]
fn a_full_volume_is_named_as_such() {
    let works = std::process::Command::new("unshare").args(["-rm", "true"]).status();
    if !works.is_ok_and(|s| s.success()) {
        return Need::Namespaces.lacks("this machine has no user namespaces for a small volume").end();
    }
    let folder = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=3m none \"$1\" && exec \"$2\" --exact fills_a_small_volume --ignored";
    let output = std::process::Command::new("unshare")
        .args(["-rm", "sh", "-c", script, "sh"])
        .arg(folder.path())
        .arg(std::env::current_exe().unwrap())
        .env(SMALL_VOLUME, folder.path())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains("1 passed"), "{text}{output:?}");
}

#[test]
#[ignore = "another test starts it on a small volume"]
fn fills_a_small_volume() {
    let volume = std::env::var_os(SMALL_VOLUME).expect("the volume's folder");
    let mut rows = Rows::new("INTEGER").with(1);
    let text = "x".repeat(4000);
    (1..1500).for_each(|n| rows.then(0, rows.insert, &[Value::Integer(n), Value::Text(&text), Value::Null]));
    let trace = Arc::new(rows.trace);
    for engine in engines().into_iter().filter(|e| *e != DatabaseEngine::Bdb) {
        let folder = std::path::Path::new(&volume).join(engine.name());
        std::fs::create_dir(&folder).unwrap();
        let full = load(&spec(engine), &folder, &trace)
            .and_then(|()| Session::open(&spec(engine), &folder, trace.clone())?.run());
        let error = full.unwrap_err();
        assert!(error.cure().is_some_and(|c| c.contains("the volume is full")), "{engine:?}: {}", error.chain());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
