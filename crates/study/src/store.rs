//! The results of one run: a folder with one SQLite file.

use crate::cell::Cell;
use crate::factor::{FACTORS, Point};
use crate::model::LeftOut;
use pocketstone_board::{Failed, Measured};
use pocketstone_core::error::Context;
use pocketstone_core::log::{FlashKind, encode_calls, encode_flash};
use pocketstone_core::outcome::Failure;
use pocketstone_core::{Error, Result};
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the results file in a run's folder.
pub const FILE: &str = "results.sqlite";
const VERSION: u32 = 2;

/// Every metric; docs/results.md says what each is.
pub const METRICS: [&str; 13] = [
    "total_ns",
    "mean_ns",
    "median_ns",
    "p99_ns",
    "max_ns",
    "traced_total_ns",
    "tracing_cost",
    "page_senses",
    "page_reads",
    "column_changes",
    "page_programs",
    "block_erases",
    "background_page_senses",
];

/// A run's results.
pub struct Store {
    pub(crate) db: Connection,
    folder: PathBuf,
}

/// What tells cells apart: experiment, point (JSON), seed, traced.
pub type CellKey = (String, String, u64, bool);

/// The key of a cell.
pub fn key(cell: &Cell) -> Result<CellKey> {
    Ok((cell.experiment.clone(), point_text(&cell.point)?, cell.plan.seed, cell.traced))
}

fn point_text(point: &Point) -> Result<String> {
    serde_json::to_string(point).map_err(|e| Error::bug("a point is no JSON").because(e))
}

/// A cell as stored.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredCell {
    /// Row.
    pub id: i64,
    /// Experiment.
    pub experiment: String,
    /// Factors.
    pub point: Point,
    /// Seed.
    pub seed: u64,
    /// Whether it is a traced twin.
    pub traced: bool,
    /// Digest of its logs; `None` where it failed.
    pub digest: Option<String>,
}

impl Store {
    /// Creates the results of a new run in `folder`, which must not have any.
    ///
    /// # Errors
    /// When it has, or cannot be written.
    pub fn create(folder: &Path) -> Result<Self> {
        fs::create_dir_all(folder).user(|| format!("cannot create {}", folder.display()))?;
        let path = folder.join(FILE);
        if path.exists() {
            return Err(Error::user(format!("{} exists already", path.display()))
                .hint(format!("go on with it: --resume {}", folder.display())));
        }
        let store = Self::connect(folder, &path, OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE)?;
        let failed = || format!("cannot write {}", path.display());
        let schema = format!("BEGIN; {} {} COMMIT;", include_str!("schema.sql"), views());
        store.db.execute_batch(&schema).user(failed)?;
        Ok(store)
    }

    /// Opens the results of a run to read them, or to add to them.
    ///
    /// # Errors
    /// When there are none, or another version of pocketstone wrote them.
    pub fn open(folder: &Path, write: bool) -> Result<Self> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Err(Error::user(format!("{} holds no results (no {FILE})", folder.display()))
                .hint("name a folder that `pocketstone run` made, such as results/readahead-quick-..."));
        }
        let flags = if write { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
        let store = Self::connect(folder, &path, flags)?;
        let version: u32 = store
            .db
            .query_row("PRAGMA user_version", [], |r| r.get(0))
            .user(|| format!("{} is not a results file", path.display()))?;
        if version != VERSION {
            return Err(Error::user(format!(
                "{} has version {version}, this pocketstone knows {VERSION}",
                path.display()
            ))
            .hint("read it with the pocketstone that wrote it: SELECT value FROM run WHERE name = 'git.revision'"));
        }
        Ok(store)
    }

    fn connect(folder: &Path, path: &Path, flags: OpenFlags) -> Result<Self> {
        let failed = || format!("cannot open {}", path.display());
        let db = Connection::open_with_flags(path, flags).user(failed)?;
        db.busy_timeout(std::time::Duration::from_secs(10)).user(failed)?;
        db.execute_batch("PRAGMA foreign_keys = ON;").user(failed)?;
        Ok(Store { db, folder: folder.to_owned() })
    }

    /// The run's folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn failed(&self) -> String {
        format!("cannot use {} (is the disk full?)", self.folder.join(FILE).display())
    }

    /// Sets facts of the run.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn set_facts<'a>(&self, facts: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<()> {
        for (name, value) in facts {
            self.db.execute("INSERT OR REPLACE INTO run VALUES (?1, ?2)", [name, value]).user(|| self.failed())?;
        }
        Ok(())
    }

    /// A fact of the run.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn fact(&self, name: &str) -> Result<Option<String>> {
        self.db
            .query_row("SELECT value FROM run WHERE name = ?1", [name], |r| r.get(0))
            .optional()
            .user(|| self.failed())
    }

    /// All facts of the run, by name.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn facts(&self) -> Result<Vec<(String, String)>> {
        self.rows("SELECT name, value FROM run ORDER BY name", [], |r| Ok((r.get(0)?, r.get(1)?)))
    }

    /// Rows of a query.
    pub(crate) fn rows<T>(
        &self,
        sql: &str,
        parameters: impl rusqlite::Params,
        read: impl FnMut(&rusqlite::Row<'_>) -> rusqlite::Result<T>,
    ) -> Result<Vec<T>> {
        let query = || -> rusqlite::Result<Vec<T>> { self.db.prepare(sql)?.query_map(parameters, read)?.collect() };
        query().user(|| format!("cannot query {}", self.folder.join(FILE).display()))
    }

    /// The keys of the cells that are done.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn done(&self) -> Result<BTreeSet<CellKey>> {
        let sql = "SELECT experiment, point, seed, traced FROM cell WHERE status = 'done'";
        Ok(self
            .rows(sql, [], |r| Ok((r.get(0)?, r.get(1)?, r.get::<_, i64>(2)? as u64, r.get(3)?)))?
            .into_iter()
            .collect())
    }

    /// Every cell, in the order of their rows.
    ///
    /// # Errors
    /// When the file cannot be read.
    pub fn cells(&self) -> Result<Vec<StoredCell>> {
        let sql = "SELECT id, experiment, point, seed, traced, digest FROM cell ORDER BY id";
        let rows = self.rows(sql, [], |r| {
            let point: String = r.get(2)?;
            let (id, experiment, seed) = (r.get(0)?, r.get(1)?, r.get::<_, i64>(3)? as u64);
            Ok((StoredCell { id, experiment, point: Point::new(), seed, traced: r.get(4)?, digest: r.get(5)? }, point))
        })?;
        let read = |(cell, point): (StoredCell, String)| {
            let point = serde_json::from_str(&point).user(|| format!("cell {} has no point", cell.id))?;
            Ok(StoredCell { point, ..cell })
        };
        rows.into_iter().map(read).collect()
    }

    /// Adds the result of a cell, at once and whole; an earlier failure of the same cell goes.
    ///
    /// # Errors
    /// When it cannot be written; then nothing of it is.
    pub fn put(&mut self, cell: &Cell, result: &Result<Measured, Failed>, host_ms: f64) -> Result<()> {
        let failed = self.failed();
        let point = point_text(&cell.point)?;
        let plan = serde_json::to_string(&cell.plan).map_err(|e| Error::bug("a plan is no JSON").because(e))?;
        let transaction = self.db.transaction().user(|| failed.clone())?;
        let key = params![cell.experiment, point, cell.plan.seed as i64, cell.traced];
        let replace = "DELETE FROM cell WHERE experiment = ?1 AND point = ?2 AND seed = ?3 AND traced = ?4";
        let write = || -> rusqlite::Result<()> {
            transaction.execute(replace, key)?;
            let insert = "INSERT INTO cell (experiment, point, repetition, seed, traced, status, plan, outcome, digest,
                          host_ms, message, hint, console) VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9,?10,?11,?12,?13)";
            let (status, outcome, digest, failure, console) = match result {
                Ok(m) => ("done", serde_json::to_string(&m.outcome).ok(), Some(log_digest(m)), None, None),
                Err(f) => ("failed", None, None, Some(Failure::from(&f.error)), f.console.clone()),
            };
            let (message, hint) = failure.map_or((None, None), |f| (Some(f.message), f.hint));
            transaction.execute(
                insert,
                params![
                    cell.experiment,
                    point,
                    cell.repetition,
                    cell.plan.seed as i64,
                    cell.traced,
                    status,
                    plan,
                    outcome,
                    digest,
                    host_ms,
                    message,
                    hint,
                    console
                ],
            )?;
            let id = transaction.last_insert_rowid();
            if let Ok(measured) = result {
                put_logs(&transaction, id, measured)?;
                put_metrics(&transaction, id, cell.traced, measured)?;
            }
            Ok(())
        };
        write().user(|| failed.clone())?;
        transaction.commit().user(|| failed)
    }

    /// Notes something that the run could not have.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn leave_out(&self, left_out: &LeftOut) -> Result<()> {
        let sql = "INSERT OR REPLACE INTO left_out VALUES (?1, ?2, ?3)";
        self.db.execute(sql, [&left_out.what, &left_out.why, &left_out.cure]).user(|| self.failed()).map(|_| ())
    }

    /// Forgets what earlier parts of the run could not have.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn clear_left_out(&self) -> Result<()> {
        self.db.execute("DELETE FROM left_out", []).user(|| self.failed()).map(|_| ())
    }
}

/// Digest of a cell's logs: what must be identical when a cell is repeated.
pub fn log_digest(measured: &Measured) -> String {
    let mut hash = Sha256::new();
    hash.update(encode_calls(&measured.calls));
    if let Some(flash) = &measured.flash {
        hash.update(encode_flash(flash));
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

fn put_logs(db: &Connection, cell: i64, measured: &Measured) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached("INSERT INTO call VALUES (?1, ?2, ?3, ?4)")?;
    for (number, call) in measured.calls.iter().enumerate() {
        insert.execute(params![cell, number as i64, call.start_ns as i64, call.latency_ns as i64])?;
    }
    let mut insert = db.prepare_cached("INSERT INTO flash_op VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8)")?;
    if let Some(log) = &measured.flash {
        for (number, op) in log.ops.iter().enumerate() {
            let kind = op.kind.name();
            let task = log.task(op);
            insert.execute(params![cell, number as i64, op.time_ns as i64, kind, op.page, op.pages, op.pid, task])?;
        }
    }
    Ok(())
}

fn put_metrics(db: &Connection, cell: i64, traced: bool, measured: &Measured) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached("INSERT INTO metric VALUES (?1, ?2, ?3)")?;
    let mut latencies: Vec<f64> = measured.calls.iter().map(|c| c.latency_ns as f64).collect();
    let total: f64 = latencies.iter().sum();
    if traced {
        insert.execute(params![cell, "traced_total_ns", total])?;
        if let Some(flash) = &measured.outcome.flash {
            let of_workload = &flash.workload;
            let counts = [
                ("page_senses", Some(of_workload.page_senses)),
                ("column_changes", Some(of_workload.column_changes)),
                ("page_reads", of_workload.page_reads),
                ("page_programs", Some(of_workload.programs)),
                ("block_erases", Some(of_workload.erases)),
                ("background_page_senses", Some(flash.background.page_senses)),
            ];
            for (name, count) in counts {
                if let Some(count) = count {
                    insert.execute(params![cell, name, count as f64])?;
                }
            }
        }
    } else if !latencies.is_empty() {
        insert.execute(params![cell, "total_ns", total])?;
        insert.execute(params![cell, "mean_ns", total / latencies.len() as f64])?;
        insert.execute(params![cell, "median_ns", crate::stats::median(&mut latencies)])?;
        insert.execute(params![cell, "p99_ns", crate::stats::percentile(&latencies, 0.99)])?;
        insert.execute(params![cell, "max_ns", latencies[latencies.len() - 1]])?;
    }
    Ok(())
}

/// The views that one line of SQL can read: every factor is a column of its own.
fn views() -> String {
    let columns: String = FACTORS.iter().map(|f| format!("point ->> '$.{0}' AS {0}, ", f.name)).collect();
    format!(
        "CREATE VIEW summary AS SELECT experiment, {columns} metric, n, median, mean, low, high FROM statistic;
         CREATE VIEW improvement AS SELECT experiment, {columns} metric, n, median, mean, low, high FROM comparison;
         CREATE VIEW cells AS
             SELECT id, experiment, {columns} repetition, seed, traced, status, digest, host_ms FROM cell;
         CREATE VIEW task_operations AS SELECT flash_op.task, flash_op.kind, count(*) AS operations FROM flash_op
             GROUP BY flash_op.task, flash_op.kind;"
    )
}

/// Selects cells by an SQL condition over their factors, experiment, seed, repetition and traced.
///
/// # Errors
/// When the condition is no SQL.
pub fn select(cells: Vec<Cell>, condition: &str) -> Result<Vec<Cell>> {
    let wrong = || format!("`{condition}` is no condition on cells");
    let names: Vec<&str> = FACTORS.iter().map(|f| f.name).collect();
    let hint = format!(
        "write SQL over experiment, seed, repetition, traced, {}: \"pattern = 'random' AND requests <= 64\"",
        names.join(", ")
    );
    let run = || -> rusqlite::Result<Vec<i64>> {
        let db = Connection::open_in_memory()?;
        let columns: String = names.iter().map(|n| format!(", {n}")).collect();
        db.execute_batch(&format!("CREATE TABLE c (id, experiment, seed, repetition, traced{columns})"))?;
        let blanks: String = names.iter().map(|_| ", ?").collect();
        let mut insert = db.prepare(&format!("INSERT INTO c VALUES (?, ?, ?, ?, ?{blanks})"))?;
        for (id, cell) in cells.iter().enumerate() {
            let mut values: Vec<rusqlite::types::Value> = vec![
                (id as i64).into(),
                cell.experiment.clone().into(),
                (cell.plan.seed as i64).into(),
                i64::from(cell.repetition).into(),
                i64::from(cell.traced).into(),
            ];
            values.extend(names.iter().map(|n| match cell.point.get(*n) {
                Some(serde_json::Value::String(s)) => s.clone().into(),
                Some(serde_json::Value::Bool(b)) => i64::from(*b).into(),
                Some(v) => v.as_i64().map_or(rusqlite::types::Value::Null, Into::into),
                None => rusqlite::types::Value::Null,
            }));
            insert.execute(rusqlite::params_from_iter(values))?;
        }
        let mut query = db.prepare(&format!("SELECT id FROM c WHERE {condition}"))?;
        let rows = query.query_map([], |r| r.get(0))?;
        rows.collect()
    };
    let ids: BTreeSet<i64> = run().user(wrong).map_err(|e| e.hint(hint))?.into_iter().collect();
    Ok(cells.into_iter().enumerate().filter(|(n, _)| ids.contains(&(*n as i64))).map(|(_, c)| c).collect())
}

/// Number of senses of each block of the chip in a traced cell.
pub(crate) fn senses_by_block(store: &Store, cell: i64, block_pages: u32, blocks: u64) -> Result<Vec<u64>> {
    let sql = "SELECT page / ?2, count(*) FROM flash_op WHERE cell = ?1 AND kind = ?3 GROUP BY 1";
    let rows: Vec<(i64, i64)> =
        store.rows(sql, params![cell, block_pages, FlashKind::Sense.name()], |r| Ok((r.get(0)?, r.get(1)?)))?;
    let mut counts = vec![0; blocks as usize];
    for (block, count) in rows {
        if let Some(c) = counts.get_mut(block as usize) {
            *c = count as u64;
        }
    }
    Ok(counts)
}
