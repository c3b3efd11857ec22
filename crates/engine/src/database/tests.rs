//! SQLite and its relatives from within: settings, locks, images, texts.

use super::*;
use pocketstone_core::database::{Arrival, Configuration, DatabaseSpec, DatabaseWorkload, Recipe, SqlForm};
use pocketstone_core::hint::{Hint, TakesHints};
use pocketstone_testing::Need;
use pocketstone_workload::database::{StatementKind, Trace, Value};
use std::sync::{Arc, Mutex};
use std::thread::ThreadId;

pub(super) fn spec(engine: DatabaseEngine) -> DatabaseSpec {
    DatabaseSpec::new(Recipe::new(DatabaseWorkload::File), engine)
}

fn sql_engines() -> Vec<DatabaseEngine> {
    let there = |engine: &DatabaseEngine| match available(*engine) {
        Ok(_) => true,
        Err(error) => {
            let _ = Need::Engines.lacks(error.chain());
            false
        }
    };
    [DatabaseEngine::Sqlite, DatabaseEngine::Bdb].into_iter().filter(there).collect()
}

/// A workload of statements without values; the first `loading` ones load.
fn texts(loading: usize, texts: &[&str]) -> Arc<Trace> {
    let mut trace = Trace::default();
    for (n, text) in texts.iter().enumerate() {
        let statement = trace.add_statement(*text, StatementKind::Sql, 0);
        match n < loading {
            true => trace.load(statement, &[]).unwrap(),
            false => trace.measure(0, statement, &[], false).unwrap(),
        }
    }
    Arc::new(trace)
}

fn run_in(folder: &Path, spec: &DatabaseSpec, trace: &Arc<Trace>) -> Result<Measured> {
    load(spec, folder, trace)?;
    Session::open(spec, folder, trace.clone())?.run()
}

fn run(spec: &DatabaseSpec, trace: &Arc<Trace>) -> Result<Measured> {
    run_in(tempfile::tempdir().unwrap().path(), spec, trace)
}

/// The digest of results written down here: rows of values for each step, or the number of changes.
fn expected(steps: &[std::result::Result<&[&[Value<'_>]], u64>]) -> Option<String> {
    let mut digest = ResultDigest::default();
    for step in steps {
        match step {
            Err(changed) => digest.changed(*changed),
            Ok(rows) => rows.iter().for_each(|row| {
                digest.row(row.len());
                row.iter().for_each(|v| digest.value(*v));
            }),
        }
        digest.end();
    }
    Some(digest.text())
}

#[test]
fn every_type_of_value_is_read_and_texts_of_several_statements_run_all() {
    let trace = texts(
        1,
        &[
            "CREATE TABLE t (k INTEGER PRIMARY KEY, x REAL, s TEXT, b BLOB)",
            "INSERT INTO t VALUES (1, 0.5, 'one', x'00ff'); INSERT INTO t VALUES (2, 2.0, '', NULL); -- two",
            "SELECT * FROM t ORDER BY k",
            "UPDATE t SET s = 'new' WHERE k > 0",
            "CREATE TABLE u (n INTEGER); INSERT INTO u VALUES (9); SELECT n FROM u",
            "DELETE FROM t WHERE k = 3",
        ],
    );
    let first = [Value::Integer(1), Value::Real(0.5), Value::Text("one"), Value::Blob(&[0, 255])];
    let second = [Value::Integer(2), Value::Real(2.0), Value::Text(""), Value::Null];
    let digest = expected(&[Err(2), Ok(&[&first, &second]), Err(2), Ok(&[&[Value::Integer(9)]]), Err(0)]);
    for engine in sql_engines() {
        for sql in [SqlForm::Prepared, SqlForm::Text] {
            let result = run(&DatabaseSpec { sql, ..spec(engine) }, &trace).unwrap();
            assert_eq!((result.digest, result.rows), (digest.clone(), 3), "{engine:?} {sql:?}");
        }
    }
    let in_memory = Session::in_memory(&spec(DatabaseEngine::Sqlite), trace).unwrap().run().unwrap();
    assert_eq!(in_memory.digest, digest);
}

fn configured(set: impl FnOnce(&mut Configuration)) -> DatabaseSpec {
    let mut spec = spec(DatabaseEngine::Sqlite);
    set(&mut spec.configuration);
    spec
}

#[test]
fn settings_are_in_force_while_operations_run() {
    let settings = ["page_size", "journal_mode", "synchronous", "locking_mode", "cache_size", "busy_timeout"];
    let settings = settings.map(|name| format!("PRAGMA {name}"));
    let settings: Vec<&str> = settings.iter().map(String::as_str).collect();
    let trace = texts(1, &[&["CREATE TABLE t (k)"], &settings[..]].concat());
    let spec = configured(|c| {
        c.page_bytes = Some(1024);
        c.journal_mode = Some("persist".into());
        c.synchronous = Some("off".into());
        c.locking_mode = Some("exclusive".into());
        c.cache_bytes = Some(512 << 10);
        c.busy_timeout_ms = Some(1234);
    });
    let digest = expected(&[
        Ok(&[&[Value::Integer(1024)]]),
        Ok(&[&[Value::Text("persist")]]),
        Ok(&[&[Value::Integer(0)]]),
        Ok(&[&[Value::Text("exclusive")]]),
        Ok(&[&[Value::Integer(-512)]]),
        Ok(&[&[Value::Integer(1234)]]),
    ]);
    assert_eq!(run(&spec, &trace).unwrap().digest, digest);
}

#[test]
fn a_setting_that_is_no_word_or_is_not_taken_is_refused() {
    let trace = texts(1, &["CREATE TABLE t (k)", "SELECT * FROM t"]);
    let refused = |set: fn(&mut Configuration)| {
        let error = run(&configured(set), &trace).unwrap_err();
        (error.chain(), error.cure().unwrap().to_owned())
    };
    let (chain, cure) = refused(|c| c.journal_mode = Some("fast".into()));
    assert_eq!(chain, "journal_mode has no value `fast`");
    assert!(cure.contains("delete, truncate, persist, memory, wal, off"));
    assert!(refused(|c| c.synchronous = Some("2".into())).1.contains("extra"));
    assert!(refused(|c| c.locking_mode = Some("none".into())).1.contains("exclusive"));
    assert!(refused(|c| c.page_bytes = Some(1000)).1.contains("power of two"));
    assert!(refused(|c| c.cache_bytes = Some(1000)).1.contains("1024"));
    // The file system of this machine has no atomic writes, or its SQLite is not compiled for them.
    let (chain, cure) = refused(|c| c.journal_mode = Some("atomic".into()));
    assert!(chain.starts_with("journal_mode=atomic was requested") && chain.contains("no atomic writes"), "{chain}");
    assert!(cure.contains("f2fs") || cure.contains("LIBSQLITE3_FLAGS=SQLITE_ENABLE_BATCH_ATOMIC_WRITE"), "{cure}");
    // A database in memory has no WAL.
    let wal = configured(|c| c.journal_mode = Some("wal".into()));
    let error = Session::in_memory(&wal, trace.clone()).err().unwrap();
    assert!(
        error.chain().starts_with("journal_mode=wal was requested of sqlite, memory is in force"),
        "{}",
        error.chain()
    );
    assert!(error.cure().unwrap().contains("exclusive"));
    // A loaded database keeps its pages.
    let folder = tempfile::tempdir().unwrap();
    load(&configured(|c| c.page_bytes = Some(1024)), folder.path(), &trace).unwrap();
    let error = Session::open(&configured(|c| c.page_bytes = Some(8192)), folder.path(), trace).err().unwrap();
    assert!(error.chain().contains("page_size=8192 was requested of sqlite, 1024 is in force"), "{}", error.chain());
}

#[test]
fn berkeley_db_takes_some_settings_and_refuses_the_others() {
    if let Err(error) = available(DatabaseEngine::Bdb) {
        return Need::Engines.lacks(error.chain()).end();
    }
    let settings = ["PRAGMA page_size", "PRAGMA synchronous", "PRAGMA cache_size"];
    let trace = texts(1, &[&["CREATE TABLE t (k INTEGER)"], &settings[..]].concat());
    let run = |configuration| run(&DatabaseSpec { configuration, ..spec(DatabaseEngine::Bdb) }, &trace);
    let (page_bytes, cache_bytes) = (Some(8192), Some(1 << 20));
    let taken = Configuration { page_bytes, cache_bytes, synchronous: Some("off".into()), ..Default::default() };
    // Its cache is counted in pages: 2^20 / 8192.
    let [page, synchronous, cache] = [8192, 0, 128].map(|n| [Value::Integer(n)]);
    let digest = expected(&[Ok(&[&page]), Ok(&[&synchronous]), Ok(&[&cache])]);
    assert_eq!(run(taken).unwrap().digest, digest);
    let wal = run(Configuration { journal_mode: Some("wal".into()), ..Default::default() }).unwrap_err();
    assert!(wal.chain().contains("journal_mode=wal was requested of bdb, delete is in force"), "{}", wal.chain());
    let lock = run(Configuration { locking_mode: Some("exclusive".into()), ..Default::default() }).unwrap_err();
    assert!(lock.chain().contains("locking_mode=exclusive was requested of bdb, normal is"), "{}", lock.chain());
    let extra = run(Configuration { synchronous: Some("extra".into()), ..Default::default() }).unwrap_err();
    assert!(extra.chain().contains("synchronous=extra was requested of bdb, normal is in force"), "{}", extra.chain());
}

#[test]
fn a_locked_database_is_named_with_who_may_hold_it() {
    let trace = texts(1, &["CREATE TABLE t (k INTEGER)", "INSERT INTO t VALUES (1)"]);
    let holder = texts(0, &["BEGIN EXCLUSIVE"]);
    // Berkeley DB is left out: it waits for a lock without end.
    let spec = spec(DatabaseEngine::Sqlite);
    let folder = tempfile::tempdir().unwrap();
    load(&spec, folder.path(), &trace).unwrap();
    let mut holds = Session::open(&spec, folder.path(), holder).unwrap();
    let mut waits = Session::open(&spec, folder.path(), trace).unwrap();
    holds.run().unwrap();
    let error = waits.run().unwrap_err();
    assert!(error.chain().starts_with("operation 0 failed: INSERT INTO t VALUES (1): "), "{}", error.chain());
    assert!(error.chain().contains("data.sqlite: database is locked"), "{}", error.chain());
    assert!(error.cure().unwrap().contains("another process") && error.cure().unwrap().contains("300 ms"));
    drop(holds);
    waits.run().unwrap();
    // With a time to wait that the holder does not take, it is no failure.
    let trace = texts(0, &["INSERT INTO t VALUES (2)"]);
    let mut holds = Session::open(&spec, folder.path(), texts(0, &["BEGIN EXCLUSIVE"])).unwrap();
    let patient = configured(|c| c.busy_timeout_ms = Some(60_000));
    let mut waits = Session::open(&patient, folder.path(), trace).unwrap();
    holds.run().unwrap();
    std::thread::scope(|scope| {
        let waited = scope.spawn(move || waits.run().map(|_| ()));
        std::thread::sleep(std::time::Duration::from_millis(600));
        drop(holds);
        waited.join().unwrap().unwrap();
    });
}

#[test]
fn a_workload_may_start_from_a_database_file() {
    let folder = tempfile::tempdir().unwrap();
    let made = texts(2, &["CREATE TABLE t (k INTEGER)", "INSERT INTO t VALUES (5)"]);
    load(&spec(DatabaseEngine::Sqlite), folder.path(), &made).unwrap();
    let mut trace = (*texts(1, &["INSERT INTO t VALUES (6)", "SELECT sum(k) FROM t"])).clone();
    trace.image = std::fs::read(folder.path().join("data.sqlite")).unwrap();
    let trace = Arc::new(trace);
    let result = run(&spec(DatabaseEngine::Sqlite), &trace).unwrap();
    assert_eq!(result.digest, expected(&[Ok(&[&[Value::Integer(11)]])]));
    for engine in [DatabaseEngine::Bdb, DatabaseEngine::Lmdb, DatabaseEngine::Redb] {
        assert!(run(&spec(engine), &trace).unwrap_err().cure().unwrap().contains("sqlite"));
    }
    let mut bad = (*trace).clone();
    bad.image.fill(7);
    let error = run(&spec(DatabaseEngine::Sqlite), &Arc::new(bad)).unwrap_err();
    assert!(error.chain().contains("file is not a database"), "{}", error.chain());
}

#[test]
fn statements_reach_no_file_but_their_database() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::create_dir(path("users")).unwrap();
    load(&spec(DatabaseEngine::Sqlite), &path("users"), &texts(1, &["CREATE TABLE photos (name)"])).unwrap();
    let theirs = path("users/data.sqlite");
    let before = std::fs::read(&theirs).unwrap();
    let (theirs_sql, copy) = (theirs.display(), path("copy"));
    let attach = format!("ATTACH '{theirs_sql}' AS o; DROP TABLE o.photos");
    let computed = format!("ATTACH '{theirs_sql}' || '' AS o; DROP TABLE o.photos");
    let into = format!("VACUUM INTO '{}'", copy.display());
    let allowed = ["ATTACH ':memory:' AS m", "CREATE TABLE m.t (a)", "ATTACH '' AS e", "VACUUM"];
    for refused in [&attach, &computed, &into] {
        let measured = texts(1, &[&["CREATE TABLE t (a)", refused], &allowed[..]].concat());
        let failed = failing(&measured).unwrap();
        let lines: Vec<usize> = failed.iter().map(|(line, _)| *line).collect();
        assert_eq!(lines, [0], "{refused}: {}", failed[0].1.chain());
        assert!(failed[0].1.chain().contains("cannot attach another file"), "{}", failed[0].1.chain());
        assert!(reference(&measured).is_err() && reference(&texts(1, &[refused])).is_err(), "{refused}");
        let error = run(&spec(DatabaseEngine::Sqlite), &measured).unwrap_err();
        assert!(error.chain().contains("cannot attach another file"), "{}", error.chain());
    }
    for engine in sql_engines() {
        assert!(run(&spec(engine), &texts(1, &["CREATE TABLE t (a)", &attach])).is_err(), "{engine:?}");
        run(&spec(engine), &texts(1, &[&["CREATE TABLE t (a)"], &allowed[..]].concat())).unwrap();
    }
    assert!(std::fs::read(&theirs).unwrap() == before && !copy.exists());
}

#[test]
fn a_wrong_statement_and_wrong_values_are_named() {
    let trace = texts(1, &["CREATE TABLE t (k)", "SELEKT 1"]);
    for engine in sql_engines() {
        let chain = run(&spec(engine), &trace).unwrap_err().chain();
        assert!(chain.starts_with("operation 0 failed: SELEKT 1: ") && chain.contains("syntax error"), "{chain}");
    }
    let mut trace = Trace::default();
    let select = trace.add_statement("SELECT ?, ?", StatementKind::Sql, 0);
    trace.measure(0, select, &[Value::Null], false).unwrap();
    let error = Session::in_memory(&spec(DatabaseEngine::Sqlite), Arc::new(trace)).err().unwrap();
    assert_eq!(error.chain(), "step 0 has 1 values for 2 question marks: SELECT ?, ?");
    let long = "SELECT ".to_owned() + &"1+".repeat(200) + "x";
    let chain = run(&spec(DatabaseEngine::Sqlite), &texts(0, &[&long])).unwrap_err().chain();
    assert!(chain.contains("...: ") && chain.find("...: ") == Some("operation 0 failed: ".len() + 200), "{chain}");
}

#[test]
fn engines_say_their_versions() {
    // SQLite's is that of the header its constants come from.
    let sqlite = libsqlite3_sys::SQLITE_VERSION.to_str().unwrap();
    assert_eq!(available(DatabaseEngine::Sqlite).unwrap(), format!("SQLite {sqlite}"));
    assert!(available(DatabaseEngine::Lmdb).unwrap().starts_with("LMDB 0.9."));
    let manifest = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../Cargo.toml")).unwrap();
    let redb = manifest.lines().find_map(|l| l.strip_prefix("redb = \"~")).unwrap().trim_end_matches('"');
    assert_eq!(available(DatabaseEngine::Redb).unwrap(), format!("redb {redb}"));
    match available(DatabaseEngine::Bdb) {
        Ok(version) => assert!(version.starts_with("Berkeley DB 5."), "{version}"),
        Err(error) => assert!(error.cure().unwrap().contains("apt-get install")),
    }
}

#[test]
fn a_timetable_begins_when_everything_is_ready_for_it() {
    let mut trace = Trace::default();
    let nothing = trace.add_statement("SELECT 1", StatementKind::Sql, 0);
    (0..200_000).for_each(|_| trace.measure(0, nothing, &[], false).unwrap());
    let trace = Arc::new(trace);
    let spec = DatabaseSpec { arrival: Arrival::Open, ..spec(DatabaseEngine::Null) };
    // The call log has 4.8 MB: to touch its pages takes longer.
    let on_time = || {
        let first = run(&spec, &trace).unwrap().calls[0];
        first.start_ns - first.intended_ns < 50_000
    };
    assert!((0..10).any(|_| on_time()));
}

/// Writes down what it is told, with the thread it is told on.
struct Listens(Arc<Mutex<Vec<(ThreadId, Hint)>>>);

impl TakesHints for Listens {
    fn hint(&mut self, hint: Hint) {
        self.0.lock().unwrap().push((std::thread::current().id(), hint));
    }
}

fn told(spec: &DatabaseSpec, trace: &Arc<Trace>) -> Vec<(ThreadId, Hint)> {
    let folder = tempfile::tempdir().unwrap();
    load(spec, folder.path(), trace).unwrap();
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = said.clone();
    let informs = move || Box::new(Listens(heard.clone())) as Box<dyn TakesHints>;
    Session::open(spec, folder.path(), trace.clone()).unwrap().run_informing(Some(&informs)).unwrap();
    // Who listened is gone with the run.
    super::hints::say(Hint::Blocks);
    let said = said.lock().unwrap();
    said.clone()
}

#[test]
fn threads_tell_when_their_operations_start_and_end_and_what_follows() {
    let mut trace = Trace::default();
    let texts = ["CREATE TABLE t (a)", "SELECT a FROM t", "UPDATE t SET a = 1", "BEGIN", "COMMIT"];
    let [table, select, update, begin, commit] = texts.map(|t| trace.add_statement(t, StatementKind::Sql, 0));
    trace.load(table, &[]).unwrap();
    for (pause_ns, statement, joined) in
        [(0, select, false), (0, update, false), (1_000_000, begin, false), (0, update, true), (0, commit, false)]
    {
        trace.measure(pause_ns, statement, &[], joined).unwrap();
    }
    let starts = |following| Hint::OperationStarts { following };
    let ends = |transaction_ended, next_in_ns| Hint::OperationEnds { transaction_ended, next_in_ns };
    let all = told(&spec(DatabaseEngine::Sqlite), &Arc::new(trace));
    let hints: Vec<Hint> = all.iter().map(|(_, hint)| *hint).collect();
    let expected = [
        starts(1),
        ends(false, Some(0)),
        starts(0),
        ends(true, Some(1_000_000)),
        // It is within a transaction still.
        starts(1),
        ends(false, Some(0)),
        starts(0),
        ends(true, None),
    ];
    assert_eq!(hints, expected);
    assert!(all.iter().all(|(thread, _)| *thread == std::thread::current().id()));
}

#[test]
fn each_thread_tells_of_its_own_operations_alone() {
    let mut trace = Trace::default();
    let nothing = trace.add_statement("SELECT 1", StatementKind::Sql, 0);
    (0..5).for_each(|_| trace.measure(0, nothing, &[], false).unwrap());
    let spec = DatabaseSpec { threads: 2, ..spec(DatabaseEngine::Null) };
    let all = told(&spec, &Arc::new(trace));
    let mut following: Vec<Vec<u32>> = Vec::new();
    let threads: std::collections::HashSet<ThreadId> = all.iter().map(|(thread, _)| *thread).collect();
    for thread in threads {
        let own = all.iter().filter(|(t, _)| *t == thread);
        following.push(
            own.filter_map(|(_, h)| match h {
                Hint::OperationStarts { following } => Some(*following),
                _ => None,
            })
            .collect(),
        );
    }
    following.sort();
    assert_eq!(following, [vec![1, 0], vec![2, 1, 0]]);
}
