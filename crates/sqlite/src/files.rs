//! Open files: a database, its rollback journal, and any other, such as a WAL.

use crate::store::{Base, Region, Result, Stored};
use crate::transaction::{self, Journal, Level, Shared, Transaction};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// An open file.
pub(crate) enum Object {
    Database(Connection),
    /// A journal, in memory or in a file, of a connection's transaction.
    Journal(JournalFile),
    Other(Box<dyn Stored>),
}

/// What a connection shares with others: locks, and the memory of WAL mode.
pub(crate) trait Sharing: Send {
    /// Raises the lock from `held`; the level that is reached, and whether it is the wanted one. Errors are for SQLite.
    fn raise(&mut self, own: &Shared, held: Level, wanted: Level) -> (Level, Result<()>);

    /// Lowers the lock from `held`.
    fn lower(&mut self, own: &Shared, held: Level, wanted: Level) -> Result<()>;

    /// Whether anybody may write, or is about to.
    fn is_reserved(&self) -> Result<bool>;

    /// The region `number` of the memory.
    fn map_shm(&mut self, number: c_int, bytes: c_int, extend: bool) -> Result<Region>;

    fn lock_shm(&mut self, slots: Range<usize>, flags: c_int) -> Result<()>;

    fn barrier(&self);

    /// Leaves the memory; `delete`: nobody needs it any more.
    fn unmap_shm(&mut self, delete: bool) -> Result<()>;

    /// Answers what the connection itself does not: a result code of SQLite.
    ///
    /// # Safety
    /// `argument` is what SQLite's documentation says for `what`.
    unsafe fn control(&mut self, what: c_int, argument: *mut c_void) -> c_int;
}

/// The rollback journal of a connection's transaction, as SQLite has it open.
pub(crate) struct JournalFile {
    transaction: Shared,
}

impl JournalFile {
    /// One in memory, for a connection that may write.
    ///
    /// # Errors
    /// As [`transaction::Transaction::begin_journal`].
    pub fn begin(transaction: Shared) -> Result<JournalFile> {
        transaction::lock(&transaction).begin_journal()?;
        Ok(JournalFile { transaction })
    }
}

impl Drop for JournalFile {
    fn drop(&mut self) {
        let mut transaction = transaction::lock(&self.transaction);
        // One in memory is needed until the commit, which comes later.
        if matches!(transaction.journal, Journal::File(_)) {
            transaction.journal = Journal::Absent;
        }
    }
}

/// A connection's database file.
pub(crate) struct Connection {
    transaction: Shared,
    sharing: Box<dyn Sharing>,
}

impl Connection {
    pub fn new(base: Box<dyn Base>, sharing: Box<dyn Sharing>) -> Connection {
        Connection { transaction: Arc::new(Mutex::new(Transaction::new(base))), sharing }
    }

    /// For those who ask which connection may write.
    pub fn transaction(&self) -> &Shared {
        &self.transaction
    }

    pub fn sharing(&mut self) -> &mut dyn Sharing {
        &mut *self.sharing
    }

    pub fn raise(&mut self, wanted: Level) -> Result<()> {
        let held = transaction::lock(&self.transaction).level;
        if held >= wanted {
            return Ok(());
        }
        let (reached, outcome) = self.sharing.raise(&self.transaction, held, wanted);
        transaction::lock(&self.transaction).level = reached;
        outcome
    }

    /// What was staged and not committed is forgotten.
    pub fn lower(&mut self, wanted: Level) -> Result<()> {
        let mut transaction = transaction::lock(&self.transaction);
        let held = transaction.level;
        if held <= wanted {
            return Ok(());
        }
        transaction.discard();
        transaction.level = wanted;
        drop(transaction);
        self.sharing.lower(&self.transaction, held, wanted)
    }

    pub fn level(&self) -> Level {
        transaction::lock(&self.transaction).level
    }

    /// See [`Transaction::prepare`].
    pub fn prepare(&self, several: bool) -> Result<()> {
        transaction::lock(&self.transaction).prepare(several)
    }

    /// See [`Transaction::limit_in_place`].
    pub fn limit_in_place(&self, bytes: Option<u64>) -> u64 {
        transaction::lock(&self.transaction).limit_in_place(bytes)
    }

    /// See [`Transaction::in_place`].
    pub fn in_place(&self, offset: u64, bytes: u64) -> Option<*const u8> {
        transaction::lock(&self.transaction).in_place(offset, bytes)
    }

    /// See [`Transaction::give_back`].
    pub fn give_back(&self) {
        transaction::lock(&self.transaction).give_back();
    }

    /// See [`Transaction::commit`].
    pub fn commit(&self) -> Result<()> {
        transaction::lock(&self.transaction).commit()
    }

    /// What is written from here on is not part of a transaction with a rollback journal.
    pub fn leave_rollback_mode(&self) {
        transaction::lock(&self.transaction).discard();
    }

    pub fn map_shm(&mut self, number: c_int, bytes: c_int, extend: bool) -> Result<Region> {
        self.leave_rollback_mode();
        self.sharing.map_shm(number, bytes, extend)
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        // SQLite hears of no error at the end.
        let _ = self.sharing.unmap_shm(false);
        let _ = self.lower(Level::None);
        transaction::lock(&self.transaction).close();
    }
}

impl Object {
    pub fn read(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let read = match self {
            Object::Database(connection) => return transaction::lock(&connection.transaction).read(into, offset),
            Object::Other(file) => file.read_at(into, offset)?,
            Object::Journal(journal) => match &transaction::lock(&journal.transaction).journal {
                Journal::Memory(content) => {
                    let from = content.get(offset as usize..).unwrap_or_default();
                    let bytes = from.len().min(into.len());
                    into[..bytes].copy_from_slice(&from[..bytes]);
                    bytes
                }
                Journal::File(file) => file.read_at(into, offset)?,
                Journal::Absent => 0,
            },
        };
        into[read..].fill(0);
        Ok(read)
    }

    pub fn write(&self, from: &[u8], offset: u64) -> Result<()> {
        match self {
            Object::Database(connection) => transaction::lock(&connection.transaction).write(from, offset),
            Object::Other(file) => file.write_at(from, offset),
            Object::Journal(journal) => {
                let mut transaction = transaction::lock(&journal.transaction);
                if let Journal::Absent = transaction.journal {
                    // PERSIST and TRUNCATE keep the journal open over transactions.
                    transaction.begin_journal()?;
                }
                match &mut transaction.journal {
                    Journal::File(file) => {
                        file.write_at(from, offset)?;
                        // That ends it, where it is kept open.
                        let ends = offset == 0 && from.iter().all(|byte| *byte == 0);
                        if ends { transaction.end_journal_file() } else { Ok(()) }
                    }
                    Journal::Memory(content) => {
                        let (start, end) = (offset as usize, offset as usize + from.len());
                        if start == content.len() {
                            content.extend_from_slice(from);
                            return Ok(());
                        }
                        if content.len() < end {
                            content.resize(end, 0);
                        }
                        content[start..end].copy_from_slice(from);
                        Ok(())
                    }
                    Journal::Absent => Ok(()),
                }
            }
        }
    }

    pub fn truncate(&self, size: u64) -> Result<()> {
        match self {
            Object::Database(connection) => transaction::lock(&connection.transaction).truncate(size),
            Object::Other(file) => file.truncate(size),
            Object::Journal(journal) => {
                let mut transaction = transaction::lock(&journal.transaction);
                match &mut transaction.journal {
                    Journal::File(file) => {
                        file.truncate(size)?;
                        if size == 0 { transaction.end_journal_file() } else { Ok(()) }
                    }
                    Journal::Memory(content) => {
                        content.resize(size as usize, 0);
                        Ok(())
                    }
                    Journal::Absent => Ok(()),
                }
            }
        }
    }

    pub fn sync(&self) -> Result<()> {
        match self {
            Object::Database(connection) => transaction::lock(&connection.transaction).sync(),
            Object::Other(file) => file.sync(),
            Object::Journal(journal) => match &transaction::lock(&journal.transaction).journal {
                Journal::File(file) => file.sync(),
                _ => Ok(()),
            },
        }
    }

    pub fn size(&self) -> Result<u64> {
        match self {
            Object::Database(connection) => transaction::lock(&connection.transaction).size(),
            Object::Other(file) => file.size(),
            Object::Journal(journal) => match &transaction::lock(&journal.transaction).journal {
                Journal::File(file) => file.size(),
                Journal::Memory(content) => Ok(content.len() as u64),
                Journal::Absent => Ok(0),
            },
        }
    }

    /// Whether the file has lost its name; a journal of a transaction counts as one that has not.
    pub fn has_moved(&self) -> bool {
        match self {
            Object::Database(connection) => transaction::lock(&connection.transaction).has_moved(),
            Object::Other(file) => file.has_moved(),
            Object::Journal(_) => false,
        }
    }
}
