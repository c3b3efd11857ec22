//! The results of one run: a folder with one SQLite file.

mod schema;

use crate::cell::Cell;
use crate::factor::{FACTORS, Point};
use crate::metrics::{analysis, put_metrics};
use crate::model::LeftOut;
use pocketstone_board::{Failed, Measured};
use pocketstone_core::error::Context;
use pocketstone_core::events::EventLog;
use pocketstone_core::events_log::{decode_events, encode_events};
use pocketstone_core::log::{Call, FlashKind, FlashLog, FlashOp, encode_calls, encode_flash};
use pocketstone_core::outcome::Failure;
use pocketstone_core::{Error, Result};
use pocketstone_probe::analysis::Analysis;
use rusqlite::{Connection, OpenFlags, OptionalExtension, params};
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Name of the results file in a run's folder.
pub const FILE: &str = "results.sqlite";

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
        store.db.execute_batch(&schema::whole()).user(failed)?;
        Ok(store)
    }

    /// Opens the results of a run to read them, or to add to them.
    ///
    /// # Errors
    /// When there are none, or a version of pocketstone wrote them that this one does not know.
    pub fn open(folder: &Path, write: bool) -> Result<Self> {
        let path = folder.join(FILE);
        if !path.exists() {
            return Err(Error::user(format!("{} holds no results (no {FILE})", folder.display()))
                .hint("name a folder that `pocketstone run` made, such as results/readahead-quick-..."));
        }
        let flags = if write { OpenFlags::SQLITE_OPEN_READ_WRITE } else { OpenFlags::SQLITE_OPEN_READ_ONLY };
        let store = Self::connect(folder, &path, flags)?;
        schema::bring_up_to_date(&store.db, &path, write)?;
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

    /// Names of a query's columns.
    pub(crate) fn columns(&self, sql: &str) -> Result<Vec<String>> {
        let names = |s: rusqlite::Statement<'_>| s.column_names().into_iter().map(str::to_owned).collect();
        self.db.prepare(sql).map(names).user(|| format!("cannot query {}", self.folder.join(FILE).display()))
    }

    /// Heads and rows of any query, as text; NULL is `unavailable`.
    pub(crate) fn table(&self, sql: &str) -> Result<(Vec<String>, Vec<Vec<String>>)> {
        use rusqlite::types::ValueRef;
        let text = |value: ValueRef<'_>| match value {
            ValueRef::Null => "unavailable".to_owned(),
            ValueRef::Integer(n) => n.to_string(),
            ValueRef::Real(x) if x == x.trunc() && x.abs() < 1e15 => format!("{x:.0}"),
            ValueRef::Real(x) => x.to_string(),
            ValueRef::Text(text) => String::from_utf8_lossy(text).into_owned(),
            ValueRef::Blob(bytes) => format!("{} bytes", bytes.len()),
        };
        let query = || -> rusqlite::Result<(Vec<String>, Vec<Vec<String>>)> {
            let mut statement = self.db.prepare(sql)?;
            let columns: Vec<String> = statement.column_names().into_iter().map(str::to_owned).collect();
            let row = |r: &rusqlite::Row<'_>| (0..columns.len()).map(|n| Ok(text(r.get_ref(n)?))).collect();
            let rows = statement.query_map([], row)?.collect::<rusqlite::Result<_>>()?;
            Ok((columns, rows))
        };
        query().user(|| format!("cannot query {}", self.folder.join(FILE).display()))
    }

    /// A JSON column of a cell.
    pub(crate) fn json<T: serde::de::DeserializeOwned>(&self, cell: i64, column: &str) -> Result<T> {
        let text: Vec<String> = self.rows(&format!("SELECT {column} FROM cell WHERE id = ?1"), [cell], |r| r.get(0))?;
        let text = text.first().ok_or_else(|| Error::user(format!("there is no cell {cell}")))?;
        serde_json::from_str(text).user(|| format!("the {column} of cell {cell} is damaged"))
    }

    /// A cell's calls.
    pub(crate) fn calls(&self, cell: i64) -> Result<Vec<Call>> {
        let sql = "SELECT start_ns, latency_ns, intended_ns FROM call WHERE cell = ?1 ORDER BY number";
        let ns = |r: &rusqlite::Row<'_>, n: usize| r.get::<_, i64>(n).map(|v| v as u64);
        self.rows(sql, [cell], |r| Ok(Call { start_ns: ns(r, 0)?, latency_ns: ns(r, 1)?, intended_ns: ns(r, 2)? }))
    }

    /// The first traced cell with a database that an SQL condition on the view `cells` selects.
    ///
    /// # Errors
    /// When there is none, or the condition is no SQL.
    pub fn traced_cell(&self, only: &str) -> Result<StoredCell> {
        let sql = format!(
            "SELECT id FROM cells WHERE traced AND status = 'done' AND engine IS NOT NULL AND ({only})
             ORDER BY id LIMIT 1"
        );
        let found: Vec<i64> = self.rows(&sql, [], |r| r.get(0))?;
        let missing = || {
            Error::user(format!("no traced cell with a database fulfils `{only}`"))
                .hint("traced cells have system calls; see `traced` in docs/studies.md, and what the run left out")
        };
        let id = found.first().ok_or_else(missing)?;
        self.cells()?.into_iter().find(|c| c.id == *id).ok_or_else(missing)
    }

    /// The cell that a traced one is the twin of.
    pub(crate) fn plain_twin(&self, cell: i64) -> Result<Option<i64>> {
        let sql = "SELECT p.id FROM cell t JOIN cell p USING (experiment, point, seed)
                   WHERE t.id = ?1 AND NOT p.traced AND p.status = 'done'";
        Ok(self.rows(sql, [cell], |r| r.get(0))?.first().copied())
    }

    /// A cell's kernel events; none where it was not traced.
    pub(crate) fn events(&self, cell: i64) -> Result<EventLog> {
        let bytes: Vec<Vec<u8>> = self.rows("SELECT bytes FROM event_log WHERE cell = ?1", [cell], |r| r.get(0))?;
        bytes.first().map_or(Ok(EventLog::default()), |b| decode_events(b))
    }

    /// A cell's flash operations; none where it was not traced.
    pub(crate) fn flash(&self, cell: i64) -> Result<FlashLog> {
        let sql = "SELECT time_ns, kind, page, pages, pid, task FROM flash_op WHERE cell = ?1 ORDER BY number";
        let rows = self.rows(sql, [cell], |r| {
            let (kind, task): (String, String) = (r.get(1)?, r.get(5)?);
            Ok((r.get::<_, i64>(0)? as u64, kind, r.get(2)?, r.get(3)?, r.get(4)?, task))
        })?;
        let mut log = FlashLog::default();
        for (time_ns, name, page, pages, pid, task) in rows {
            let kind = FlashKind::ALL.into_iter().find(|k| k.name() == name);
            let kind = kind.ok_or_else(|| Error::user(format!("there is no flash operation `{name}`")))?;
            let task = log.task_index(&task);
            log.ops.push(FlashOp { time_ns, kind, page, pages, pid, task });
        }
        Ok(log)
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
        let events = result.as_ref().ok().and_then(|m| m.events.as_ref()).map(encode_events).transpose()?;
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
                if let Some(events) = &events {
                    transaction.execute("INSERT INTO event_log VALUES (?1, ?2)", params![id, events])?;
                }
                let analysis = analysis(measured);
                if let Some(analysis) = &analysis {
                    put_costs(&transaction, id, measured, analysis)?;
                }
                put_metrics(&transaction, id, cell.traced, &cell.plan, measured, analysis.as_ref())?;
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
    // A log that cannot be encoded cannot be stored either, and fails there.
    if let Some(events) = measured.events.as_ref().and_then(|e| encode_events(e).ok()) {
        hash.update(events);
    }
    hash.finalize().iter().map(|b| format!("{b:02x}")).collect()
}

/// What each operation and each file cost in a traced cell. A kind of event that could not be had is NULL.
fn put_costs(db: &Connection, cell: i64, measured: &Measured, analysis: &Analysis) -> rusqlite::Result<()> {
    let had = |what: &str| measured.outcome.unavailable.iter().all(|u| u.what != what);
    let kinds = ["context switches", "frequency changes", "idle states", "system calls", "page-cache misses"];
    let [switches, frequencies, idle, calls, misses] = kinds.map(had);
    let frequencies = frequencies && had("frequencies");
    let blocks = had("block requests");
    let mut insert =
        db.prepare_cached("INSERT INTO operation_cost VALUES (?,?, ?,?,?,?,?,?,?, ?,?, ?,?,?,?,?,?,?,?, ?, ?,?,?)")?;
    for (number, c) in analysis.operations.iter().enumerate() {
        let when = |there: bool, n: u64| there.then_some(n as i64);
        let of_switches =
            [c.on_core_ns, c.off_core_ns, c.waiting_ns, c.sleeping_ns, c.blocked_ns, c.switches, c.wakeups];
        let of_calls = [c.reads, c.read_bytes, c.read_ns, c.writes, c.written_bytes, c.write_ns, c.syncs, c.sync_ns];
        let mut row: Vec<Option<i64>> = vec![Some(cell), Some(number as i64)];
        row.extend(of_switches.map(|n| when(switches, n)));
        row.extend([when(frequencies, c.frequency_changes), when(idle, c.idle_entries)]);
        row.extend(of_calls.map(|n| when(calls, n)));
        row.push(when(misses, c.cache_misses));
        row.extend([c.block_reads, c.block_writes, c.block_ns].map(|n| when(blocks, n)));
        insert.execute(rusqlite::params_from_iter(row))?;
    }
    let mut insert = db.prepare_cached("INSERT INTO file_cost VALUES (?,?,?, ?,?,?,?,?,?,?,?,?)")?;
    for f in analysis.files.iter().filter(|_| calls) {
        let role = f.role.and_then(|r| serde_json::to_value(r).ok()).and_then(|v| v.as_str().map(str::to_owned));
        let counts = [
            f.reads,
            f.read_bytes,
            f.read_ns,
            f.writes,
            f.written_bytes,
            f.write_ns,
            f.syncs,
            f.sync_ns,
            f.cache_misses,
        ]
        .map(|n| n as i64);
        let [a, b, c, d, e, g, h, i, j] = counts;
        insert.execute(params![cell, f.file, role, a, b, c, d, e, g, h, i, j])?;
    }
    Ok(())
}

fn put_logs(db: &Connection, cell: i64, measured: &Measured) -> rusqlite::Result<()> {
    let mut insert = db.prepare_cached("INSERT INTO call VALUES (?1, ?2, ?3, ?4, ?5)")?;
    for (number, call) in measured.calls.iter().enumerate() {
        let times = [call.start_ns, call.latency_ns, call.intended_ns].map(|ns| ns as i64);
        insert.execute(params![cell, number as i64, times[0], times[1], times[2]])?;
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

/// The views that one line of SQL can read: every factor is a column of its own.
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
