//! Loading a database, and the open database that a run works on.

use super::hints::Informs;
use super::key_value::KeyValue;
use super::lmdb::Lmdb;
use super::null::Null;
use super::redb::Redb;
use super::region::InRegion;
use super::run::{Measured, Operations, run};
use super::sqlite::{Connection, Sql, texts};
use super::{Database, available, pragma, sqlite_api};
use pocketstone_core::database::{Configuration, DatabaseEngine, DatabaseSpec, SqlForm};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_workload::database::{ResultDigest, Step, Trace};
use std::ffi::CString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Statements that cannot be within a transaction, or make one themselves.
const OUTSIDE: [&str; 8] = ["begin", "commit", "end", "rollback", "savepoint", "pragma", "vacuum", "attach"];

/// A file of the engine in the database's folder.
pub(super) fn file(engine: DatabaseEngine, directory: &Path) -> PathBuf {
    directory.join(format!("data.{}", engine.name()))
}

/// Creates the database in an empty folder, or in the SCMFS volume in a file, with the workload's initial state,
/// durable on return. Loading is one transaction if the statements allow it.
///
/// # Errors
/// `ErrorKind::Board` if the engine is unavailable, a statement fails, or the volume is full; `ErrorKind::User` if the
/// engine does not support a setting.
pub fn load(spec: &DatabaseSpec, directory: &Path, trace: &Arc<Trace>) -> Result<()> {
    if directory.is_file() {
        let _volume = InRegion::open(spec.engine, directory, &trace.image)?;
        return execute_loading(connect(spec, &InRegion::uri())?, trace).map(drop);
    }
    let path = file(spec.engine, directory);
    if path.exists() {
        return Err(Error::user(format!("{} already exists", path.display())).hint("load into an empty folder"));
    }
    match spec.engine {
        DatabaseEngine::Sqlite | DatabaseEngine::Bdb => {
            if !trace.image.is_empty() {
                if spec.engine != DatabaseEngine::Sqlite {
                    return Err(Error::user("bdb cannot start from a SQLite database file")
                        .hint("use engine = \"sqlite\", or a workload without an image"));
                }
                std::fs::write(&path, &trace.image).board(|| format!("cannot write {}", path.display()))?;
            }
            // The connection is closed at the end of this line: what its journal holds goes into the file.
            execute_loading(connect(spec, &path)?, trace)?;
        }
        DatabaseEngine::Lmdb => {
            let store = Lmdb::open(directory, &spec.configuration, spec.threads)?;
            KeyValue::new(store, spec.engine, trace.clone(), &[])?.load()?;
        }
        DatabaseEngine::Redb => {
            let store = Redb::open(&path, &spec.configuration)?;
            KeyValue::new(store, spec.engine, trace.clone(), &[])?.load()?;
        }
        DatabaseEngine::Null => {}
        DatabaseEngine::H2 => return Err(own_process()),
    }
    sync_folder(directory).board(|| format!("cannot make {} durable", directory.display()))
}

fn own_process() -> Error {
    Error::bug("H2 was opened in this process; it runs in its own")
}

fn connect(spec: &DatabaseSpec, path: &Path) -> Result<Connection> {
    let api = match spec.engine {
        DatabaseEngine::Bdb => super::bdb_api()?,
        _ => &sqlite_api::BUNDLED,
    };
    pragma::open(api, spec.engine.name(), path, &spec.configuration)
}

/// Executes the loading steps, whatever form the measured ones have.
pub(super) fn execute_loading(connection: Connection, trace: &Arc<Trace>) -> Result<Sql> {
    let steps = trace.loading();
    let outside = |step: &Step| {
        let text = trace.statement(step).text.trim_start().to_ascii_lowercase();
        OUTSIDE.iter().any(|word| text.starts_with(word))
    };
    let one_transaction = !steps.is_empty() && !steps.iter().any(outside);
    let texts = texts(trace, steps, SqlForm::Prepared)?;
    let mut sql = Sql::new(connection, trace.clone(), steps, SqlForm::Prepared, texts)?;
    let mut digest = ResultDigest::default();
    if one_transaction {
        sql.command(c"BEGIN")?;
    }
    for (n, step) in steps.iter().enumerate() {
        sql.execute(n, step, &mut digest).map_err(|e| {
            let text = super::cut(&trace.statement(step).text);
            Error::new(e.kind(), format!("loading step {n} failed: {text}")).because(e)
        })?;
    }
    if one_transaction {
        sql.command(c"COMMIT")?;
    }
    Ok(sql)
}

/// Makes every file below a folder durable, and the folders.
///
/// # Errors
/// What the kernel says of the first that cannot be.
pub fn sync_folder(directory: &Path) -> std::io::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        match entry.file_type()?.is_dir() {
            true => sync_folder(&entry.path())?,
            false => File::open(entry.path())?.sync_all()?,
        }
    }
    File::open(directory)?.sync_all()
}

enum Opened {
    Sql(Sql),
    Lmdb(KeyValue<Lmdb>),
    Redb(KeyValue<Redb>),
    Null(Null),
}

impl Database for Opened {
    #[inline]
    fn execute(&mut self, number: usize, step: &Step, digest: &mut ResultDigest) -> Result<()> {
        match self {
            Opened::Sql(sql) => sql.execute(number, step, digest),
            Opened::Lmdb(lmdb) => lmdb.execute(number, step, digest),
            Opened::Redb(redb) => redb.execute(number, step, digest),
            Opened::Null(null) => null.execute(number, step, digest),
        }
    }
}

/// The result digest of a workload from in-memory SQLite, on a copy of its initial database if it has one.
///
/// # Errors
/// `ErrorKind::Board` if SQLite cannot execute a step, or has no memory for the database; `ErrorKind::User` if a step
/// does not suit its statement. The message has the number of the step that fails.
pub fn reference(trace: &Arc<Trace>) -> Result<String> {
    let mut connection =
        pragma::open(&sqlite_api::BUNDLED, "sqlite", Path::new(":memory:"), &Configuration::default())?;
    connection.fill(&trace.image)?;
    let loaded = execute_loading(connection, trace)?;
    let steps = trace.measured();
    let mut sql = loaded.go_on(steps, SqlForm::Prepared)?;
    let mut digest = ResultDigest::default();
    for (n, step) in steps.iter().enumerate() {
        sql.execute(n, step, &mut digest).map_err(|e| {
            let text = super::cut(&trace.statement(step).text);
            Error::new(e.kind(), format!("statement {} failed: {text}", n + 1)).because(e)
        })?;
    }
    Ok(digest.text())
}

/// The measured steps that SQLite cannot execute, in memory or on a copy of the database that they start from, and why.
///
/// # Errors
/// As [`reference()`], of the loading step that fails; `ErrorKind::User` also for a measured one that has a zero byte
/// in its text.
pub fn failing(trace: &Arc<Trace>) -> Result<Vec<(usize, Error)>> {
    let mut connection =
        pragma::open(&sqlite_api::BUNDLED, "sqlite", Path::new(":memory:"), &Configuration::default())?;
    connection.fill(&trace.image)?;
    let steps = trace.measured();
    let mut sql = execute_loading(connection, trace)?.go_on(steps, SqlForm::Text)?;
    let mut digest = ResultDigest::default();
    let run = |(n, step)| sql.execute(n, step, &mut digest).err().map(|e| (n, e));
    Ok(steps.iter().enumerate().filter_map(run).collect())
}

/// What the lab makes of a workload before the database is opened: none of it is the engine's work.
pub(super) struct Ready {
    trace: Arc<Trace>,
    operations: Operations,
    /// For engines that execute SQL.
    texts: Arc<[CString]>,
}

impl Ready {
    /// # Errors
    /// `ErrorKind::User` if a step has no place in an operation, or its text has a zero byte.
    pub(super) fn new(spec: &DatabaseSpec, trace: Arc<Trace>) -> Result<Ready> {
        let texts = match spec.engine.speaks_sql() {
            true => texts(&trace, trace.measured(), spec.sql)?,
            false => Arc::default(),
        };
        Ok(Ready { operations: Operations::new(&trace, spec.arrival)?, texts, trace })
    }
}

/// An open database with the measured part of a workload, ready to run.
pub struct Session {
    /// One per thread.
    connections: Vec<Opened>,
    operations: Operations,
    trace: Arc<Trace>,
    spec: DatabaseSpec,
    engine: String,
    /// Declared last: closed after the connections.
    #[expect(dead_code, reason = "kept open")]
    volume: Option<InRegion>,
}

impl Session {
    /// Opens a loaded database, in a folder or in the SCMFS volume in a file, and prepares everything that can be
    /// before the clock starts.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the database is missing; `ErrorKind::User` if the engine does not support a setting or the
    /// workload.
    pub fn open(spec: &DatabaseSpec, directory: &Path, trace: Arc<Trace>) -> Result<Session> {
        Session::open_ready(spec, directory, Ready::new(spec, trace)?)
    }

    /// As [`Session::open`], of a workload that is ready.
    ///
    /// # Errors
    /// As [`Session::open`].
    pub(super) fn open_ready(spec: &DatabaseSpec, directory: &Path, ready: Ready) -> Result<Session> {
        let Ready { trace, operations, texts } = ready;
        let in_region = directory.is_file();
        let volume = in_region.then(|| InRegion::open(spec.engine, directory, &[])).transpose()?;
        let path = if in_region { InRegion::uri() } else { file(spec.engine, directory) };
        let one_file = !in_region && !matches!(spec.engine, DatabaseEngine::Lmdb | DatabaseEngine::Null);
        // Where nothing is loaded, Berkeley DB makes no file.
        let loaded = !trace.loading().is_empty() || !trace.image.is_empty();
        if one_file && loaded && !path.exists() {
            return Err(Error::board(format!("no database {}", path.display())).hint("load it first"));
        }
        let steps = trace.measured();
        let engine = available(spec.engine)?;
        let opened: Vec<Opened> = match spec.engine {
            DatabaseEngine::Sqlite | DatabaseEngine::Bdb => {
                let sql = |connection| Sql::new(connection, trace.clone(), steps, spec.sql, texts.clone());
                each(spec, || connect(spec, &path).and_then(sql).map(Opened::Sql))?
            }
            DatabaseEngine::Lmdb => {
                no_text(spec)?;
                let store = Lmdb::open(directory, &spec.configuration, spec.threads)?;
                each(spec, || KeyValue::new(store.clone(), spec.engine, trace.clone(), steps).map(Opened::Lmdb))?
            }
            DatabaseEngine::Redb => {
                no_text(spec)?;
                let store = Redb::open(&path, &spec.configuration)?;
                each(spec, || KeyValue::new(store.clone(), spec.engine, trace.clone(), steps).map(Opened::Redb))?
            }
            DatabaseEngine::Null => each(spec, || Ok(Opened::Null(Null)))?,
            DatabaseEngine::H2 => return Err(own_process()),
        };
        Ok(Session { connections: opened, operations, trace, spec: spec.clone(), engine, volume })
    }

    /// A database of SQLite in memory, loaded here: it ends with the session, and has one thread.
    ///
    /// # Errors
    /// As [`load`] and [`Session::open`]; `ErrorKind::User` for any other engine.
    pub fn in_memory(spec: &DatabaseSpec, trace: Arc<Trace>) -> Result<Session> {
        if spec.engine != DatabaseEngine::Sqlite || spec.threads != 1 || !trace.image.is_empty() {
            return Err(Error::user("only SQLite with one thread, loaded by statements, is supported in memory")
                .hint("load the database into a folder"));
        }
        let loaded = execute_loading(connect(spec, Path::new(":memory:"))?, &trace)?;
        let sql = loaded.go_on(trace.measured(), spec.sql)?;
        let engine = available(spec.engine)?;
        let operations = Operations::new(&trace, spec.arrival)?;
        let connections = vec![Opened::Sql(sql)];
        Ok(Session { connections, operations, trace, spec: spec.clone(), engine, volume: None })
    }

    /// The engine's name and version.
    pub fn engine(&self) -> &str {
        &self.engine
    }

    /// Executes all operations and times each.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the engine cannot execute an operation; `ErrorKind::User` if a step does not suit its
    /// statement; `ErrorKind::Bug` if a thread panics. It is that of the first thread that has one, with the
    /// operation's number and its statement.
    pub fn run(&mut self) -> Result<Measured> {
        self.run_informing(None)
    }

    /// As [`Session::run`]; every thread tells of its work, to whom `informs` makes for it there.
    ///
    /// # Errors
    /// As [`Session::run`].
    pub fn run_informing(&mut self, informs: Option<&Informs>) -> Result<Measured> {
        run(&mut self.connections, &self.operations, &self.trace, self.spec.waiting, informs)
    }
}

fn each(spec: &DatabaseSpec, open: impl FnMut() -> Result<Opened>) -> Result<Vec<Opened>> {
    match spec.threads {
        0 => Err(Error::user("0 threads cannot execute anything").hint("threads must be 1 or more")),
        threads => std::iter::repeat_with(open).take(threads as usize).collect(),
    }
}

fn no_text(spec: &DatabaseSpec) -> Result<()> {
    match spec.sql {
        SqlForm::Prepared => Ok(()),
        SqlForm::Text => Err(Error::user(format!("{} has no SQL text", spec.engine.name()))
            .hint("set sql = \"prepared\" for it, or use engine = \"sqlite\"")),
    }
}
