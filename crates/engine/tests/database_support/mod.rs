//! What tests of databases share: specifications and small workloads made by hand.
#![allow(dead_code)]

use pocketstone_core::database::{DatabaseEngine, DatabaseSpec, DatabaseWorkload, Recipe};
use pocketstone_engine::database::{Measured, Session, available, load};
use pocketstone_testing::Need;
use pocketstone_workload::database::{StatementKind, Trace, Value};
use std::sync::Arc;

/// A specification with every default.
pub fn spec(engine: DatabaseEngine) -> DatabaseSpec {
    DatabaseSpec::new(Recipe::new(DatabaseWorkload::File), engine)
}

/// The engines that are libraries and that this machine has, without `null`; the others are counted as skipped.
pub fn engines() -> Vec<DatabaseEngine> {
    use DatabaseEngine::{Bdb, Lmdb, Redb, Sqlite};
    let there = |engine: &DatabaseEngine| match available(*engine) {
        Ok(_) => true,
        Err(error) => {
            let _ = Need::Engines.lacks(error.chain());
            false
        }
    };
    [Sqlite, Bdb, Lmdb, Redb].into_iter().filter(there).collect()
}

/// Loads and measures in a folder of its own.
pub fn measured(spec: &DatabaseSpec, trace: &Trace) -> pocketstone_core::Result<Measured> {
    let folder = tempfile::tempdir().expect("a folder");
    let trace = Arc::new(trace.clone());
    load(spec, folder.path(), &trace)?;
    Session::open(spec, folder.path(), trace)?.run()
}

/// Statements of a table `rows` with a key and two columns.
pub struct Rows {
    pub trace: Trace,
    pub create: u32,
    pub insert: u32,
    pub read: u32,
    pub update_a: u32,
    pub update_both: u32,
    pub scan: u32,
    pub scan_after: u32,
}

impl Rows {
    /// `key` is the key's SQL type. The table is made by the first loading step.
    pub fn new(key: &str) -> Rows {
        let mut t = Trace::default();
        let create = format!("CREATE TABLE rows (id {key} PRIMARY KEY, a TEXT, b INTEGER)");
        let mut rows = Rows {
            create: t.add_statement(create, StatementKind::Sql, 0),
            insert: t.add_statement("INSERT INTO rows VALUES (?, ?, ?)", StatementKind::Insert, 0),
            read: t.add_statement("SELECT * FROM rows WHERE id = ?", StatementKind::Read, 0),
            update_a: t.add_statement("UPDATE rows SET a = ? WHERE id = ?", StatementKind::Update, 0b10),
            update_both: t.add_statement("UPDATE rows SET a = ?, b = ? WHERE id = ?", StatementKind::Update, 0b110),
            scan: t.add_statement("SELECT * FROM rows WHERE id >= ? ORDER BY id LIMIT ?", StatementKind::Scan, 0),
            scan_after: t.add_statement(
                "SELECT * FROM rows WHERE id > ? ORDER BY id LIMIT ?",
                StatementKind::ScanAfter,
                0,
            ),
            trace: Trace::default(),
        };
        rows.trace = t;
        rows.trace.load(rows.create, &[]).expect("a step");
        rows
    }

    /// Loads rows 0, 10, 20, ... with the text `row N` and the number N.
    pub fn with(mut self, count: i64) -> Rows {
        for n in (0..count).map(|n| n * 10) {
            let text = format!("row {n}");
            let row = [Value::Integer(n), Value::Text(&text), Value::Integer(n)];
            self.trace.load(self.insert, &row).expect("a step");
        }
        self
    }

    /// Adds an operation of one step.
    pub fn then(&mut self, pause_ns: u64, statement: u32, values: &[Value<'_>]) {
        self.trace.measure(pause_ns, statement, values, false).expect("a step");
    }
}
