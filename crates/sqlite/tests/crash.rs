//! The power is cut at any store of transactions of every kind: what is left is the state before or after one of them,
//! and a sound database.

use crate::support::{Home, integrity, show, text};
use pocketstone_media::crash::{CrashState, Limits, Recorder};
use pocketstone_media::{Heap, Pcm, PcmOptions, Region};
use pocketstone_random::Random;
use pocketstone_scmfs::{CreateOptions, Geometry, OpenOptions, Volume, check};
use pocketstone_testing::{amount, say, seed};
use rusqlite::Connection;
use rusqlite::types::Value;
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;

/// Small, as each state is an image of it.
const BYTES: u64 = 3 << 20;
const GEOMETRY: Geometry = Geometry::new(1024, 32 << 10);

/// What one transaction does: the number is from the seed.
type Kind = (&'static str, fn(&mut Connection, u64) -> rusqlite::Result<()>);

const KINDS: [Kind; 10] = [
    ("insert", |c, n| c.execute("INSERT INTO t VALUES (?1, hex(?1 * 7919))", [n as i64]).map(drop)),
    ("update one", |c, n| c.execute("UPDATE t SET v = v || 'x' WHERE id % 50 = ?1 % 50", [n as i64]).map(drop)),
    ("delete", |c, n| c.execute("DELETE FROM t WHERE id % 13 = ?1 % 13", [n as i64]).map(drop)),
    ("long values", |c, n| {
        c.execute("REPLACE INTO t VALUES (5000 + ?1 % 4, hex(zeroblob(10000)) || ?1)", [n as i64]).map(drop)
    }),
    ("table", |c, n| {
        let u = n % 5;
        let create = format!("CREATE TABLE u{u} (a, b); CREATE INDEX i{u} ON u{u} (b)");
        c.execute_batch(&format!("BEGIN; DROP TABLE IF EXISTS u{u}; {create}; COMMIT"))
    }),
    ("vacuum", |c, _| c.execute_batch("VACUUM")),
    ("savepoint", |c, n| {
        c.execute_batch(&format!(
            "BEGIN; INSERT INTO t VALUES ({n}, 'kept'); SAVEPOINT s; DELETE FROM t; ROLLBACK TO s; RELEASE s; COMMIT"
        ))
    }),
    ("rolled back", |c, _| c.execute_batch("BEGIN; UPDATE t SET v = 'lost'; ROLLBACK")),
    ("spilled pages", |c, n| {
        c.execute_batch(&format!("PRAGMA cache_size = 4; BEGIN; UPDATE t SET v = '{n}' || substr(v, 1, 900); COMMIT"))
    }),
    ("two databases", |c, n| {
        c.execute_batch(&format!("BEGIN; INSERT INTO t VALUES ({n}, 'two'); INSERT INTO b.w VALUES ({n}); COMMIT"))
    }),
];

/// All that two databases hold.
fn contents(connection: &Connection) -> String {
    let rows = "SELECT id || '=' || length(v) || substr(v, 1, 6) FROM t ORDER BY id";
    let of_second = "SELECT x FROM b.w ORDER BY x";
    let names = "SELECT name FROM main.sqlite_schema ORDER BY name";
    let all = |sql: &str| {
        let mut statement = connection.prepare(sql).unwrap();
        let found = statement.query_map([], |row| row.get::<_, Value>(0)).unwrap();
        found.map(|value| show(&value.unwrap())).collect::<Vec<_>>().join(" ")
    };
    [rows, of_second, names].map(all).join(" | ")
}

fn connect(home: &Home) -> Connection {
    let connection = home.connect("/a.db");
    connection.execute("ATTACH ?1 AS b", [home.uri("/b.db")]).unwrap();
    // Where pages lie in the volume must make no difference either.
    connection.execute_batch("PRAGMA mmap_size = 1000000000").unwrap();
    connection
}

/// An image of a volume with two small databases.
fn start(name: &str, journal: &str) -> Vec<u8> {
    let (memory, _) = Pcm::new(BYTES, &PcmOptions::default().read_ns(0).write_ns(0));
    let options = CreateOptions::default().inodes(64).geometry(GEOMETRY);
    Volume::create(Box::new(memory.region().unwrap()), &options).unwrap();
    let home = Home::named(name, Volume::open(Box::new(memory.region().unwrap()), &open_options()).unwrap());
    let connection = connect(&home);
    for schema in ["main", "b"] {
        assert_eq!(text(&connection, &format!("PRAGMA {schema}.journal_mode={journal}")), journal);
    }
    connection.execute_batch("CREATE TABLE t (id INTEGER PRIMARY KEY, v); CREATE TABLE b.w (x)").unwrap();
    let many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20)";
    connection.execute_batch(&format!("INSERT INTO t {many} SELECT i, hex(zeroblob(300)) FROM n")).unwrap();
    drop(connection);
    drop(home);
    let mut image = vec![0; BYTES as usize];
    memory.region().unwrap().read(0, &mut image);
    image
}

fn open_options() -> OpenOptions {
    OpenOptions::default().null_files(2)
}

/// Runs transactions on a recorded volume, cuts the power, and returns how many states that left.
fn explore(journal: &str, synchronous: &str, transactions: u64, states_per_fence: usize, seed: u64) -> usize {
    let name = &format!("{journal}-{synchronous}-{seed}");
    let image = start(name, journal);
    let (recorder, log) = Recorder::new(&image);
    let home = Home::named(name, Volume::open(Box::new(recorder), &open_options()).unwrap());
    let mut connection = connect(&home);
    // SQLite keeps DELETE, TRUNCATE and PERSIST in the connection alone.
    for schema in ["main", "b"] {
        text(&connection, &format!("PRAGMA {schema}.journal_mode={journal}"));
        connection.execute_batch(&format!("PRAGMA {schema}.synchronous={synchronous}")).unwrap();
    }
    // So that checkpoints are among what is cut, and the small volume does not fill up.
    connection.execute_batch("PRAGMA wal_autocheckpoint = 60").unwrap();
    let (mut random, mut expected) = (Random::new(seed), vec![contents(&connection)]);
    let mut kinds = Vec::new();
    // Several databases change together only as SQLite has it: with a super-journal.
    let together = journal != "wal" && synchronous != "off";
    let different = KINDS.len() as u64 - u64::from(!together);
    log.mark(0);
    for number in 0..transactions {
        // Each kind first, then as it comes.
        let choice = if number < different { number } else { random.below(different) };
        let (kind, transaction) = KINDS[choice as usize];
        transaction(&mut connection, 1000 + number).unwrap_or_else(|e| panic!("{journal}: {kind}: {e}"));
        expected.push(contents(&connection));
        kinds.push(kind);
        log.mark(number + 1);
    }
    let trace = log.trace();
    drop(connection);
    drop(home);
    let limits = Limits { max_lines: 1, max_states_per_fence: Some(states_per_fence), seed };
    let mut seen = HashSet::new();
    trace.crash_states(&limits, &mut |state: &CrashState| {
        let mark = state.last_mark.map_or(0, |mark| mark as usize);
        let mut hasher = DefaultHasher::new();
        (state.image, mark).hash(&mut hasher);
        if !seen.insert(hasher.finish()) {
            return ControlFlow::Continue(());
        }
        let during = kinds.get(mark).unwrap_or(&"the end");
        let cut = || state.describe();
        let at = || format!("{journal}, {synchronous}, seed {seed}: in {during} (transaction {mark}), {}", cut());
        let volume = Volume::open(Box::new(Heap::from_image(state.image)), &open_options());
        let home = Home::named(name, volume.unwrap_or_else(|e| panic!("{}: {e}", at())));
        let connection = connect(&home);
        let found = contents(&connection);
        let allowed = &expected[mark..expected.len().min(mark + 2)];
        assert!(allowed.contains(&found), "{}:\n{found}\n is none of\n{}", at(), allowed.join("\n"));
        assert_eq!(integrity(&connection), "ok", "{}", at());
        ControlFlow::Continue(())
    });
    seen.len()
}

#[test]
fn a_power_cut_leaves_a_transaction_whole_or_undone() {
    let transactions = amount(KINDS.len() as u64, 200);
    let states_per_fence = amount(2, 8) as usize;
    for (number, (journal, synchronous)) in
        [("delete", "full"), ("delete", "off"), ("truncate", "normal"), ("persist", "full"), ("wal", "full")]
            .into_iter()
            .enumerate()
    {
        let states = explore(journal, synchronous, transactions, states_per_fence, seed(number as u64 + 1));
        say(&format!("{journal}, synchronous={synchronous}: {transactions} transactions, {states} states"));
        assert!(states as u64 >= 2 * transactions, "hardly any crash states: {states}");
    }
}

#[test]
#[ignore = "long: make torture"]
fn ten_thousand_transactions_each_cut_at_one_random_store() {
    for seed in 0..50 {
        explore(["delete", "wal", "persist"][seed as usize % 3], "full", 200, 1, seed);
    }
}

#[test]
fn a_volume_with_databases_is_sound() {
    let image = start("sound", "delete");
    let report = check(Box::new(Heap::from_image(&image))).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
}
