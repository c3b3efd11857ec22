//! H2's process, driven by hand through its protocol, against SQLite on the same statements.

use pocketstone_core::database::{DatabaseEngine, DatabaseSpec, DatabaseWorkload, Recipe, SqlForm};
use pocketstone_core::error::ErrorKind;
use pocketstone_engine::database::{Task, TaskResult, Work, java};
use pocketstone_testing::{Need, Skip, or_skip};
use pocketstone_workload::database::{ResultDigest, StatementKind, Step, Trace, Value};
use rusqlite::Connection;
use rusqlite::types::{ToSqlOutput, ValueRef};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Whether H2 can run here.
fn h2() -> Result<(), Skip> {
    let Err(error) = java::available() else { return Ok(()) };
    // A jar that is there and does not work is no reason to skip anything.
    assert_eq!(error.kind(), ErrorKind::Board, "{}", error.chain());
    Err(Need::Engines.lacks(format_args!("H2: {}; {}", error.chain(), error.cure().unwrap_or(""))))
}

fn spec(sql: SqlForm) -> DatabaseSpec {
    let spec = DatabaseSpec::new(Recipe::new(DatabaseWorkload::File), DatabaseEngine::H2);
    DatabaseSpec { trace: "0".repeat(64), sql, ..spec }
}

/// Writes a task, and what it names, into `folder`, and returns the task's file.
fn write_task(folder: &Path, work: Work, trace: &Trace, spec: DatabaseSpec) -> PathBuf {
    let path = |name: &str| folder.join(name);
    std::fs::create_dir_all(path("database")).unwrap();
    std::fs::write(path("trace"), trace.encode()).unwrap();
    let task = Task {
        work,
        directory: path("database"),
        trace: path("trace"),
        calls: path("calls.bin"),
        // Another engine's: it is left alone.
        events: Some(path("events.bin")),
        result: path("result.json"),
        spec,
    };
    std::fs::write(path("task.json"), serde_json::to_vec(&task).unwrap()).unwrap();
    path("task.json")
}

fn result(folder: &Path) -> TaskResult {
    serde_json::from_slice(&std::fs::read(folder.join("result.json")).unwrap()).unwrap()
}

fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

struct Done {
    result: TaskResult,
    /// Words of the call log.
    calls: Vec<u64>,
    /// When the process was started, when it was told to go, and when it said that it is done.
    started_ns: u64,
    go_ns: u64,
    done_ns: u64,
}

/// One process, from its start to its end.
fn process(folder: &Path, work: Work, trace: &Trace, spec: DatabaseSpec) -> Done {
    let mut command = java::command(&write_task(folder, work, trace, spec)).unwrap();
    let started_ns = now_ns();
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("Java starts");
    let mut input = child.stdin.take().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut hear = |line: &str| {
        let next = output.next().map(Result::unwrap);
        assert_eq!(next.as_deref(), Some(line), "{:?}", std::fs::read_to_string(folder.join("result.json")));
    };
    hear("ready");
    let go_ns = now_ns();
    writeln!(input, "go").unwrap();
    hear("done");
    let done_ns = now_ns();
    drop(input);
    assert!(child.wait().unwrap().success());
    let result = result(folder);
    assert_eq!(result.failure, None);
    let calls = match work {
        Work::Load => Vec::new(),
        Work::Measure => std::fs::read(folder.join("calls.bin")).unwrap(),
    };
    let calls = calls.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
    Done { result, calls, started_ns, go_ns, done_ns }
}

/// What SQLite returns for the measured steps, after the loading ones: digest and rows.
fn by_sqlite(trace: &Trace) -> (String, u64) {
    let database = Connection::open_in_memory().unwrap();
    let mut ignored = ResultDigest::default();
    trace.loading().iter().for_each(|step| execute(&database, trace, step, &mut ignored));
    let mut digest = ResultDigest::default();
    trace.measured().iter().for_each(|step| execute(&database, trace, step, &mut digest));
    (digest.text(), digest.rows())
}

fn execute(database: &Connection, trace: &Trace, step: &Step, digest: &mut ResultDigest) {
    let values = trace.values(step).map(|value| {
        ToSqlOutput::Borrowed(match value {
            Value::Null => ValueRef::Null,
            Value::Integer(n) => ValueRef::Integer(n),
            Value::Real(x) => ValueRef::Real(x),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
            Value::Blob(bytes) => ValueRef::Blob(bytes),
        })
    });
    let mut statement = database.prepare(&trace.statement(step).text).unwrap();
    let columns = statement.column_count();
    if columns == 0 {
        digest.changed(statement.execute(rusqlite::params_from_iter(values)).unwrap() as u64);
        return digest.end();
    }
    let mut rows = statement.query(rusqlite::params_from_iter(values)).unwrap();
    while let Some(row) = rows.next().unwrap() {
        digest.row(columns);
        for column in 0..columns {
            match row.get_ref(column).unwrap() {
                ValueRef::Null => digest.value(Value::Null),
                ValueRef::Integer(n) => digest.integer(n),
                ValueRef::Real(x) => digest.real(x),
                ValueRef::Text(bytes) | ValueRef::Blob(bytes) => digest.bytes(bytes),
            }
        }
    }
    digest.end();
}

/// Records of two kinds of table, and every kind of operation on them.
fn trace() -> Trace {
    let mut trace = Trace::default();
    let mut sql = |text: &str| trace.add_statement(text, StatementKind::Sql, 0);
    let tables = [
        sql("CREATE TABLE usertable (YCSB_KEY VARCHAR PRIMARY KEY, FIELD0 VARCHAR(100), FIELD1 VARCHAR(100))"),
        sql("CREATE TABLE data(key int, number INTEGER, part decimal, share real, words TEXT)"),
    ];
    let insert = sql("INSERT INTO usertable VALUES (?, ?, ?)");
    let insert_data = sql("INSERT INTO data(key, number, part, share, words) VALUES (?, ?, ?, ?, ?)");
    let read = sql("SELECT * FROM usertable WHERE YCSB_KEY = ?");
    let update = sql("UPDATE usertable SET FIELD1 = ? WHERE YCSB_KEY = ?");
    let scan = sql("SELECT * FROM usertable WHERE YCSB_KEY >= ? ORDER BY YCSB_KEY LIMIT ?");
    let scan_data = sql("SELECT * FROM DATA WHERE key > ? ORDER BY key ASC LIMIT ?");
    let remove = sql("DELETE FROM data WHERE Key < ?");
    tables.into_iter().for_each(|table| trace.load(table, &[]).unwrap());
    for n in 0..200i64 {
        let (key, words) = (format!("user{:03}", n * 7919 % 200), format!("it's {n} \u{201e}Grüße\u{201c} ?"));
        trace.load(insert, &[Value::Text(&key), Value::Text(&words), Value::Null]).unwrap();
        let (big, part, share) = ((n + 1) << 45, n as f64 * 15.0187, n as f64 / 3.0);
        let text = if n % 5 == 0 { Value::Null } else { Value::Text(&words) };
        let row = [Value::Integer(n), Value::Integer(big), Value::Real(part), Value::Real(share), text];
        trace.load(insert_data, &row).unwrap();
    }
    for n in 0..60i64 {
        let key = format!("user{:03}", n * 31 % 240);
        trace.measure(n as u64 % 3 * 1_000_000, read, &[Value::Text(&key)], false).unwrap();
        trace.measure(0, update, &[Value::Text("new"), Value::Text(&key)], true).unwrap();
        trace.measure(0, scan, &[Value::Text(&key), Value::Integer(n % 7)], false).unwrap();
        trace.measure(0, scan_data, &[Value::Integer(n * 3), Value::Integer(20)], false).unwrap();
    }
    trace.measure(0, remove, &[Value::Integer(77)], false).unwrap();
    trace.measure(0, scan_data, &[Value::Integer(-1), Value::Integer(1000)], false).unwrap();
    trace
}

#[test]
fn h2_returns_what_sqlite_returns_in_both_forms_of_statements() {
    or_skip!(h2());
    let trace = trace();
    let expected = by_sqlite(&trace);
    for sql in [SqlForm::Prepared, SqlForm::Text] {
        let folder = tempfile::tempdir().unwrap();
        let loaded = process(folder.path(), Work::Load, &trace, spec(sql).loading());
        assert_eq!(loaded.result.digest, None);
        let Done { result, calls, started_ns, go_ns, done_ns } =
            process(folder.path(), Work::Measure, &trace, spec(sql));
        assert_eq!((result.digest.unwrap(), result.rows), expected, "{sql:?}");
        assert!(result.engine.starts_with("H2 2."), "{}", result.engine);

        // Java's clock is this process's clock, or they would not come in this order.
        let TaskResult { main_ns, loaded_ns, opened_ns, start_ns, end_ns, .. } = result;
        let times = [started_ns, main_ns, loaded_ns, opened_ns, go_ns, start_ns, end_ns, done_ns];
        assert!(times.is_sorted(), "{times:?}");

        assert_eq!(calls.len(), 3 * trace.operations());
        let ends = calls.chunks_exact(3).map(|call| call[0] + call[1]);
        let pauses = trace.measured().iter().filter(|step| !step.joined).map(|step| step.pause_ns);
        for (n, ((call, before), pause)) in calls.chunks_exact(3).skip(1).zip(ends).zip(pauses.skip(1)).enumerate() {
            assert_eq!(call[2], before + pause, "operation {}", n + 1);
            assert!(call[0] >= call[2], "operation {} starts too early", n + 1);
        }
        say_times(sql, &times, &calls);
    }
}

#[test]
fn h2_calculates_with_texts_as_sqlite_does() {
    or_skip!(h2());
    let mut trace = Trace::default();
    let mut sql = |text: &str| trace.add_statement(text, StatementKind::Sql, 0);
    let table = sql("CREATE TABLE YCSBDATA(key int, DAT_INT_0 int, DAT_STR_0 varchar(60))");
    let insert = sql("INSERT INTO YCSBDATA VALUES (?, ?, ?)");
    let update =
        sql("UPDATE YCSBDATA SET DAT_STR_0 = DAT_STR_0 + 5, DAT_INT_0 = 2*DAT_STR_0 - DAT_INT_0 WHERE key = 3");
    let all = sql("SELECT key, DAT_INT_0, DAT_STR_0, dat_str_0 * 3 FROM YCSBDATA ORDER BY key");
    trace.load(table, &[]).unwrap();
    // Texts without a number, with one in front, with spaces and a sign, and none.
    let texts = [Some("under the quiet"), Some("12 asymptotes"), Some("  -7x"), Some("40"), Some(""), None];
    for (n, text) in texts.into_iter().enumerate() {
        let text = text.map_or(Value::Null, Value::Text);
        trace.load(insert, &[Value::Integer(n as i64), Value::Integer(10), text]).unwrap();
    }
    trace.measure(0, all, &[], false).unwrap();
    trace.measure(0, update, &[], false).unwrap();
    trace.measure(0, all, &[], false).unwrap();
    let expected = by_sqlite(&trace);
    for form in [SqlForm::Prepared, SqlForm::Text] {
        let folder = tempfile::tempdir().unwrap();
        process(folder.path(), Work::Load, &trace, spec(form).loading());
        let result = process(folder.path(), Work::Measure, &trace, spec(form)).result;
        assert_eq!((result.digest.unwrap(), result.rows), expected, "{form:?}");
    }
}

/// For who reads the tests' output: what start-up costs, and how late operations start.
fn say_times(sql: SqlForm, times: &[u64; 8], calls: &[u64]) {
    let after = |n: usize| (times[n] - times[0]) / 1000;
    let mut late: Vec<u64> = calls.chunks_exact(3).map(|call| (call[0] - call[2]) / 1000).collect();
    late.sort_unstable();
    let first = (calls[0] + calls[1] - times[4]) / 1000;
    let _ = writeln!(
        std::io::stderr(),
        "H2, {sql:?}: main at {} us, workload at {} us, database open at {} us; first result {first} us behind go; \
         operations late by at most {} us",
        after(1),
        after(2),
        after(3),
        late[late.len() - 1]
    );
}

#[test]
fn threads_share_the_operations_and_give_no_digest() {
    or_skip!(h2());
    let mut trace = Trace::default();
    let create = trace.add_statement("CREATE TABLE t (k int PRIMARY KEY, v int)", StatementKind::Sql, 0);
    let insert = trace.add_statement("INSERT INTO t VALUES (?, 0)", StatementKind::Sql, 0);
    let read = trace.add_statement("SELECT * FROM t WHERE k = ?", StatementKind::Sql, 0);
    trace.load(create, &[]).unwrap();
    (0..100).for_each(|k| trace.load(insert, &[Value::Integer(k)]).unwrap());
    // The last one is not there.
    (0..101).for_each(|k| trace.measure(0, read, &[Value::Integer(k)], false).unwrap());
    let folder = tempfile::tempdir().unwrap();
    process(folder.path(), Work::Load, &trace, spec(SqlForm::Prepared));
    let spec = DatabaseSpec { threads: 3, ..spec(SqlForm::Prepared) };
    let done = process(folder.path(), Work::Measure, &trace, spec);
    assert_eq!((done.result.digest, done.result.rows), (None, 100));
    assert_eq!(done.calls.len(), 3 * 101);
}

#[test]
fn a_task_that_h2_cannot_do_fails_with_a_cure() {
    or_skip!(h2());
    let folder = tempfile::tempdir().unwrap();
    let mut spec = spec(SqlForm::Prepared);
    spec.configuration.journal_mode = Some("wal".into());
    let task = write_task(folder.path(), Work::Load, &Trace::default(), spec);
    let output = java::command(&task).unwrap().stdin(Stdio::null()).output().unwrap();
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0));
    let failure = result(folder.path()).failure.unwrap();
    assert_eq!(failure.message, "h2 has no journal_mode, which is set to wal");
    assert!(failure.hint.unwrap().contains("leave it out for h2"));
}
