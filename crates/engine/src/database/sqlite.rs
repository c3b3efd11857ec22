//! SQLite, and whatever has SQLite's C interface: statements prepared before the clock starts, or as text.

use super::sqlite_api::{self as api, DONE, OK, ROW, SqliteApi, sqlite3, sqlite3_stmt};
use super::{Database, atomic};
use libsqlite3_sys as ffi;
use pocketstone_core::database::{Configuration, SqlForm};
use pocketstone_core::{Error, Result};
use pocketstone_workload::database::{ResultDigest, Step, Trace, Value};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;
use std::ptr;
use std::sync::Arc;

/// How long a connection waits for a lock that another one holds, in ms, unless it is configured.
const BUSY_TIMEOUT_MS: c_int = if cfg!(test) { 300 } else { 10_000 };

/// One connection to a database file.
pub(super) struct Connection {
    pub(super) api: &'static SqliteApi,
    db: *mut sqlite3,
    /// The engine's name in messages, and the file's.
    pub(super) engine: &'static str,
    pub(super) file: String,
    /// How long it waits for a lock, in ms.
    busy_timeout_ms: c_int,
}

// SAFETY: a connection and its statements may be used by any one thread at a time (it is opened with
// NOMUTEX, and both libraries are compiled for threads); whoever owns it has it alone.
unsafe impl Send for Connection {}

impl Connection {
    /// Opens a file, made if it is not there; `:memory:` is a database in memory. Of its configuration it has what must
    /// be known for that: how long to wait for locks, and whether transactions are atomic on the volume.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it cannot be opened.
    pub(super) fn open(
        api: &'static SqliteApi,
        engine: &'static str,
        path: &Path,
        configuration: &Configuration,
    ) -> Result<Connection> {
        let file = path.display().to_string();
        let name = CString::new(file.clone())
            .map_err(|e| Error::user(format!("{file:?} is not a valid database name")).because(e))?;
        let mut db = ptr::null_mut();
        // A relative path could begin like that; those of databases are absolute.
        let flags = if file.starts_with("file:") { api::OPEN | api::OPEN_URI } else { api::OPEN };
        let asked = configuration.journal_mode.as_deref() == Some(atomic::WORD);
        let code = atomic::opening(asked, || {
            // SAFETY: the name ends with a zero byte, and `db` is written.
            unsafe { (api.open_v2)(name.as_ptr(), &mut db, flags, ptr::null()) }
        });
        // From here on, dropping the connection closes it, also after a failure, as SQLite wants it.
        let configured = configuration.busy_timeout_ms.map(|ms| c_int::try_from(ms).unwrap_or(c_int::MAX));
        let busy_timeout_ms = configured.unwrap_or(BUSY_TIMEOUT_MS);
        let connection = Connection { api, db, engine, file, busy_timeout_ms };
        if db.is_null() {
            return Err(Error::board(format!("{engine} has no memory to open {}", connection.file)));
        }
        connection.check(code).map_err(|e| Error::board("the database cannot be opened").because(e))?;
        // SAFETY: the connection is open.
        connection.check(unsafe { (api.busy_timeout)(db, busy_timeout_ms) })?;
        Ok(connection)
    }

    /// Makes a database in memory of the SQLite that is compiled in a copy of a database file.
    ///
    /// # Errors
    /// `ErrorKind::Board` if memory is short, or the bytes are not a database.
    pub(super) fn fill(&mut self, image: &[u8]) -> Result<()> {
        if image.is_empty() {
            return Ok(());
        }
        let bytes = image.len() as i64;
        // SAFETY: plain allocation.
        let copy = unsafe { ffi::sqlite3_malloc64(image.len() as u64) }.cast::<u8>();
        if copy.is_null() {
            return Err(Error::board(format!("there is no memory for a database of {bytes} bytes")));
        }
        // SAFETY: the copy has as many bytes as the image, and nothing else refers to it yet.
        let owned = unsafe {
            ptr::copy_nonoverlapping(image.as_ptr(), copy, image.len());
            std::slice::from_raw_parts_mut(copy, image.len())
        };
        // A database in memory has no write-ahead log: bytes 18 and 19 of the header say which journal it has.
        if let Some(versions) = owned.get_mut(18..20) {
            versions.fill(1);
        }
        let flags = ffi::SQLITE_DESERIALIZE_FREEONCLOSE | ffi::SQLITE_DESERIALIZE_RESIZEABLE;
        // SAFETY: the connection is open; the memory is SQLite's own from here on, also if this fails.
        let code = unsafe { ffi::sqlite3_deserialize(self.db, c"main".as_ptr(), copy, bytes, bytes, flags) };
        self.check(code)
    }

    fn check(&self, code: c_int) -> Result<()> {
        if code == OK { Ok(()) } else { Err(self.error(code)) }
    }

    /// What the library says about its last failure, with the cure where one is known.
    #[cold]
    fn error(&self, code: c_int) -> Error {
        // SAFETY: the connection is open, and the message is copied before the next call.
        let (message, extended) = unsafe {
            let message = CStr::from_ptr((self.api.errmsg)(self.db)).to_string_lossy().into_owned();
            (message, (self.api.extended_errcode)(self.db))
        };
        // A database in memory has no name that says anything.
        let file = if self.file == ":memory:" { String::new() } else { format!("{}: ", self.file) };
        let error = Error::board(format!("{file}{message} ({}, result code {extended})", self.engine));
        match code & 0xff {
            api::BUSY | api::LOCKED => error.hint(format!(
                "another process or connection holds the database for more than {} ms: stop it, use one thread, or \
                 set a longer busy_timeout_ms",
                self.busy_timeout_ms
            )),
            api::FULL => error.hint("the volume is full: free space on it, or prepare fewer records"),
            api::IO_ERROR => error.hint("I/O error on the volume: see the kernel's messages (dmesg)"),
            api::NOT_AUTHORIZED => Error::board(format!(
                "{}: a statement cannot attach another file or write a copy to it ({}, result code {extended})",
                self.file, self.engine
            ))
            .hint("a workload has one database: leave out ATTACH and VACUUM INTO, or attach ':memory:'"),
            api::NOT_A_DATABASE => error.hint("the file is not a database: empty the folder and reload it"),
            _ => error,
        }
    }

    /// The first statement of a text and the text behind it; `None` where there is none left.
    fn prepare<'t>(&self, text: &'t CStr) -> Result<Option<(Statement, &'t CStr)>> {
        let (mut statement, mut tail) = (ptr::null_mut(), ptr::null::<c_char>());
        // SAFETY: the text ends with a zero byte; both pointers are written.
        let code = unsafe { (self.api.prepare_v2)(self.db, text.as_ptr(), -1, &mut statement, &mut tail) };
        self.check(code)?;
        // SAFETY: the tail points into the text, up to its zero byte.
        let rest = unsafe { CStr::from_ptr(tail) };
        if statement.is_null() {
            // A comment, or nothing; there may be a statement behind it.
            return if rest.is_empty() { Ok(None) } else { self.prepare(rest) };
        }
        // SAFETY: the statement was just made.
        let parameters = unsafe { (self.api.parameters)(statement) } as usize;
        Ok(Some((Statement { handle: statement, api: self.api, parameters }, rest)))
    }

    /// All statements of a text.
    fn prepare_all(&self, text: &CStr) -> Result<Vec<Statement>> {
        let (mut statements, mut rest) = (Vec::new(), text);
        while let Some((statement, behind)) = self.prepare(rest)? {
            statements.push(statement);
            rest = behind;
        }
        Ok(statements)
    }

    /// Binds the first values that there are to a statement.
    ///
    /// # Safety
    /// Nothing executes the statement when the values are gone, unless it is bound anew.
    #[inline]
    unsafe fn bind<'v>(&self, statement: &Statement, values: &mut impl Iterator<Item = Value<'v>>) -> Result<()> {
        for n in 1..=statement.parameters as c_int {
            let value = values.next().ok_or_else(too_few)?;
            let (api, at) = (self.api, statement.handle);
            // SAFETY: the statement is this connection's. SQLite looks at texts when it is executed, and until then the
            // caller vouches for them; those that are bound already it leaves as they are.
            let code = unsafe {
                match value {
                    Value::Null => (api.bind_null)(at, n),
                    Value::Integer(i) => (api.bind_int64)(at, n, i),
                    Value::Real(x) => (api.bind_double)(at, n, x),
                    Value::Text(t) => (api.bind_text)(at, n, t.as_ptr().cast(), t.len() as c_int, None),
                    Value::Blob(b) => (api.bind_blob)(at, n, b.as_ptr().cast(), b.len() as c_int, None),
                }
            };
            if code != OK {
                return Err(self.error(code));
            }
        }
        Ok(())
    }

    /// Executes a statement with the first values that there are to its end, and gives every value of every row to the
    /// digest. Returns whether it is one that has rows.
    #[inline]
    fn run<'v>(
        &self,
        statement: &Statement,
        values: &mut impl Iterator<Item = Value<'v>>,
        digest: &mut ResultDigest,
    ) -> Result<bool> {
        // SAFETY: the values live longer than this call, and nothing else executes a statement that has any.
        unsafe { self.bind(statement, values)? };
        let (api, at) = (self.api, statement.handle);
        // SAFETY: the statement belongs to this connection; columns are below their number.
        let columns = unsafe { (api.column_count)(at) };
        loop {
            // SAFETY: as above.
            match unsafe { (api.step)(at) } {
                ROW => {
                    digest.row(columns as usize);
                    // SAFETY: there is a row.
                    (0..columns).for_each(|n| unsafe { column(api, at, n, digest) });
                }
                DONE => break,
                code => return Err(self.error(code)),
            }
        }
        // SAFETY: as above. It gives the statement's locks back; after success it does not fail.
        unsafe { (api.reset)(at) };
        Ok(columns > 0)
    }

    /// Executes statements that are one of the workload's, each with its part of the values.
    #[inline]
    fn run_all<'v>(
        &self,
        statements: &[Statement],
        mut values: impl Iterator<Item = Value<'v>>,
        digest: &mut ResultDigest,
    ) -> Result<bool> {
        let mut rows = false;
        for statement in statements {
            rows |= self.run(statement, &mut values, digest)?;
        }
        Ok(rows)
    }

    #[inline]
    fn total_changes(&self) -> c_int {
        // SAFETY: the connection is open.
        unsafe { (self.api.total_changes)(self.db) }
    }

    /// Executes every statement of a text, parsing each when the one before it is done.
    ///
    /// # Errors
    /// `ErrorKind::Board` if one is invalid or fails.
    pub(super) fn execute<'v>(
        &self,
        text: &CStr,
        mut values: impl Iterator<Item = Value<'v>>,
        digest: &mut ResultDigest,
    ) -> Result<bool> {
        let (mut rows, mut rest) = (false, text);
        while let Some((statement, behind)) = self.prepare(rest)? {
            rows |= self.run(&statement, &mut values, digest)?;
            rest = behind;
        }
        Ok(rows)
    }

    /// Checks that changes are atomic without a journal.
    ///
    /// # Errors
    /// `ErrorKind::Board` if they are not.
    pub(super) fn has_atomic_writes(&self) -> Result<()> {
        atomic::check(self.api, self.engine, &self.file, self.db)
    }

    /// Whether no transaction is open on a connection of the SQLite that is compiled in.
    pub(super) fn is_committed(&self) -> bool {
        // SAFETY: the connection is open.
        unsafe { ffi::sqlite3_get_autocommit(self.db) != 0 }
    }

    /// The first column of a text's first row, as text; `None` where it has no row.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it is invalid or fails.
    pub(super) fn word(&self, text: &str) -> Result<Option<String>> {
        let text = c_text(text)?;
        let Some((statement, _)) = self.prepare(&text)? else { return Ok(None) };
        // SAFETY: the statement belongs to this connection; its text is copied before the next call.
        unsafe {
            match (self.api.step)(statement.handle) {
                ROW => {
                    let word = (self.api.value_text)((self.api.column_value)(statement.handle, 0));
                    Ok((!word.is_null()).then(|| CStr::from_ptr(word.cast()).to_string_lossy().into_owned()))
                }
                DONE => Ok(None),
                code => Err(self.error(code)),
            }
        }
    }
}

/// Lets a statement attach no file: workloads come from anybody, and their databases are not all that the user has.
/// VACUUM attaches a temporary database, which has no name, and VACUUM INTO one that has.
///
/// # Safety
/// `name` is null or ends with a zero byte.
unsafe extern "C" fn no_other_file(
    _: *mut c_void,
    action: c_int,
    name: *const c_char,
    _: *const c_char,
    _: *const c_char,
    _: *const c_char,
) -> c_int {
    // A name that is computed is null.
    // SAFETY: SQLite passes the name, which the caller vouches for.
    let in_memory = || !name.is_null() && [c"", c":memory:"].contains(&unsafe { CStr::from_ptr(name) });
    if action != ffi::SQLITE_ATTACH || in_memory() { OK } else { ffi::SQLITE_DENY }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SAFETY: statements are finalized before: each is dropped before its connection. Null is allowed.
        unsafe { (self.api.close)(self.db) };
    }
}

/// Gives one value of the row to the digest.
///
/// # Safety
/// The statement has a row with that column.
#[inline]
unsafe fn column(api: &SqliteApi, at: *mut sqlite3_stmt, n: c_int, digest: &mut ResultDigest) {
    /// The bytes, which may be none.
    unsafe fn bytes<'a>(start: *const u8, length: c_int) -> &'a [u8] {
        match start.is_null() {
            true => &[],
            // SAFETY: the library says how long the value is, and it stays until the next step.
            false => unsafe { std::slice::from_raw_parts(start, length as usize) },
        }
    }
    // SAFETY: the caller vouches for the column; the length is asked for after the value, as SQLite wants it. What
    // `column_value` gives is "unprotected": it may be read by one thread alone, which is all that the connection has.
    // The functions for a column would look it up, and lock, three times for each value.
    unsafe {
        let value = (api.column_value)(at, n);
        match (api.value_type)(value) {
            libsqlite3_sys::SQLITE_INTEGER => digest.integer((api.value_int64)(value)),
            libsqlite3_sys::SQLITE_FLOAT => digest.real((api.value_double)(value)),
            libsqlite3_sys::SQLITE_TEXT => {
                let start = (api.value_text)(value);
                digest.bytes(bytes(start, (api.value_bytes)(value)));
            }
            libsqlite3_sys::SQLITE_BLOB => {
                let start = (api.value_blob)(value);
                digest.bytes(bytes(start.cast(), (api.value_bytes)(value)));
            }
            _ => digest.value(Value::Null),
        }
    }
}

fn c_text(text: &str) -> Result<CString> {
    CString::new(text)
        .map_err(|e| Error::user("a statement has a zero byte in it").because(e).hint("write it as a literal: x'00'"))
}

#[cold]
fn too_few() -> Error {
    Error::user("the statement has more question marks than values").hint("prepare the workload again")
}

/// A statement; dropped before its connection.
struct Statement {
    handle: *mut sqlite3_stmt,
    api: &'static SqliteApi,
    parameters: usize,
}

impl Statement {
    /// Whether it is one that has rows.
    fn has_rows(&self) -> bool {
        // SAFETY: the statement is prepared, and not finalized before it is dropped.
        unsafe { (self.api.column_count)(self.handle) > 0 }
    }
}

// SAFETY: as of its connection, which is moved with it.
unsafe impl Send for Statement {}

impl Drop for Statement {
    fn drop(&mut self) {
        // SAFETY: it is finalized once, before its connection is closed.
        unsafe { (self.api.finalize)(self.handle) };
    }
}

/// What is kept of a statement of the workload.
enum Kept {
    /// It can be prepared when it comes first: what it needs may not be there before.
    Not,
    /// Prepared.
    Prepared(Vec<Statement>),
    /// Prepared, and known to have rows.
    Query(Vec<Statement>),
    /// Its parts need what parts before them make, so it is parsed each time.
    Parsed,
}

impl Kept {
    fn new(statements: Vec<Statement>) -> Kept {
        match statements.iter().any(Statement::has_rows) {
            true => Kept::Query(statements),
            false => Kept::Prepared(statements),
        }
    }
}

/// What an SQL engine executes, made before the database is opened: the text of each statement, or in text form of each
/// step with its values in it.
///
/// # Errors
/// `ErrorKind::User` if one has a zero byte in it.
pub(super) fn texts(trace: &Trace, steps: &[Step], form: SqlForm) -> Result<Arc<[CString]>> {
    match form {
        SqlForm::Prepared => trace.statements.iter().map(|s| c_text(&s.text)).collect(),
        SqlForm::Text => steps.iter().map(|s| c_text(&trace.sql(s))).collect(),
    }
}

/// A workload's statements on a connection. Fields are dropped in this order.
pub(super) struct Sql {
    kept: Vec<Kept>,
    /// As [`texts()`] makes them.
    texts: Arc<[CString]>,
    form: SqlForm,
    trace: Arc<Trace>,
    connection: Connection,
}

impl Sql {
    /// Prepares what a step of `steps` needs, in prepared form, before any clock starts. `texts` are those of the steps
    /// ([`texts()`]).
    ///
    /// # Errors
    /// `ErrorKind::User` if a step has fewer values than its statement has question marks.
    pub(super) fn new(
        connection: Connection,
        trace: Arc<Trace>,
        steps: &[Step],
        form: SqlForm,
        texts: Arc<[CString]>,
    ) -> Result<Sql> {
        // It is asked about every column that a text names, which a measured parse would pay for.
        let words = |text: &str| ["attach", "vacuum"].iter().any(|word| text.contains(word));
        if trace.statements.iter().any(|s| words(&s.text.to_ascii_lowercase())) {
            let set = connection.api.set_authorizer;
            // SAFETY: the connection is open, and the function needs no state.
            connection.check(unsafe { set(connection.db, Some(no_other_file), ptr::null_mut()) })?;
        }
        let mut sql = Sql { kept: Vec::new(), texts, form, trace, connection };
        if form == SqlForm::Prepared {
            sql.prepare(steps)?;
        }
        Ok(sql)
    }

    fn prepare(&mut self, steps: &[Step]) -> Result<()> {
        let trace = self.trace.clone();
        self.kept = self.texts.iter().map(|_| Kept::Not).collect();
        for (n, step) in steps.iter().enumerate() {
            let at = step.statement as usize;
            if matches!(self.kept[at], Kept::Not) {
                // One that fails here may need a table that another one makes; it says why when it runs.
                if let Ok(statements) = self.connection.prepare_all(&self.texts[at]) {
                    self.kept[at] = Kept::new(statements);
                }
            }
            if let Kept::Prepared(statements) | Kept::Query(statements) = &self.kept[at] {
                let asked: usize = statements.iter().map(|s| s.parameters).sum();
                let given = trace.value_count(step);
                if given != asked {
                    let text = super::cut(&trace.statement(step).text);
                    return Err(Error::user(format!("step {n} has {given} values for {asked} question marks: {text}"))
                        .hint("prepare the workload again"));
                }
            }
        }
        Ok(())
    }

    /// Prepares other steps on the same connection: for a database in memory, which ends with it.
    ///
    /// # Errors
    /// As [`Sql::new`] and [`texts()`].
    pub(super) fn go_on(self, steps: &[Step], form: SqlForm) -> Result<Sql> {
        let Sql { kept, connection, trace, .. } = self;
        drop(kept);
        let texts = texts(&trace, steps, form)?;
        Sql::new(connection, trace, steps, form, texts)
    }

    /// The connection.
    pub(super) fn connection(&self) -> &Connection {
        &self.connection
    }

    /// Executes a text that is not the workload's.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it fails.
    pub(super) fn command(&self, text: &CStr) -> Result<()> {
        self.connection.execute(text, std::iter::empty(), &mut ResultDigest::default()).map(drop)
    }

    #[cold]
    fn first_time(&mut self, step: &Step, digest: &mut ResultDigest) -> Result<bool> {
        let at = step.statement as usize;
        match self.connection.prepare_all(&self.texts[at]) {
            Ok(statements) => self.kept[at] = Kept::new(statements),
            Err(_) => self.kept[at] = Kept::Parsed,
        }
        self.run_kept(step, digest)
    }

    #[inline]
    fn run_kept(&mut self, step: &Step, digest: &mut ResultDigest) -> Result<bool> {
        let at = step.statement as usize;
        match &self.kept[at] {
            Kept::Prepared(statements) | Kept::Query(statements) => {
                self.connection.run_all(statements, self.trace.values(step), digest)
            }
            Kept::Parsed => self.connection.execute(&self.texts[at], self.trace.values(step), digest),
            Kept::Not => self.first_time(step, digest),
        }
    }

    /// Executes a step of which only its end tells whether it changes rows or returns some.
    #[inline(never)]
    fn execute_and_count(&mut self, number: usize, step: &Step, digest: &mut ResultDigest) -> Result<()> {
        let before = self.connection.total_changes();
        let rows = match self.form {
            SqlForm::Prepared => self.run_kept(step, digest)?,
            SqlForm::Text => self.connection.execute(&self.texts[number], std::iter::empty(), digest)?,
        };
        if !rows {
            // The library counts in 32 bits, and goes round.
            digest.changed(u64::from(self.connection.total_changes().wrapping_sub(before) as u32));
        }
        Ok(())
    }
}

impl Database for Sql {
    #[inline]
    fn execute(&mut self, number: usize, step: &Step, digest: &mut ResultDigest) -> Result<()> {
        // A query in memory takes a microsecond: to ask for changed rows would be a hundredth of that.
        if let Some(Kept::Query(statements)) = self.kept.get(step.statement as usize) {
            self.connection.run_all(statements, self.trace.values(step), digest)?;
        } else {
            self.execute_and_count(number, step, digest)?;
        }
        digest.end();
        Ok(())
    }
}
