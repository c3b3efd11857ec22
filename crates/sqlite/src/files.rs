//! Open files: a database, its rollback journal, and any other, such as a WAL.

use crate::locks::Busy;
use crate::place::Place;
use crate::shm::User;
use crate::transaction::{self, Journal, Level, Shared, Transaction};
use crate::volumes::{Database, Use};
use pocketstone_scmfs::{Error, File, Result};
use std::ops::Range;
use std::sync::{Arc, Mutex};

/// An open file of a volume.
pub(crate) enum Object {
    Database(Connection),
    /// A journal, in memory or in a file, of a connection's transaction.
    Journal(JournalFile),
    /// The volume stays open as long as the file.
    Other(File, #[expect(dead_code, reason = "kept open")] Use),
}

/// The rollback journal of a connection's transaction, as SQLite has it open.
pub(crate) struct JournalFile {
    transaction: Shared,
    opened: Use,
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
    database: Arc<Database>,
    user: User,
    /// Whether the WAL stays when the last connection closes.
    pub keeps_wal: bool,
    opened: Use,
}

impl Connection {
    pub fn new(opened: Use, place: &Place, file: File) -> Connection {
        let database = opened.database(file.ino());
        let transaction = Transaction::new(file, place.journal(), opened.page);
        let transaction = Arc::new(Mutex::new(transaction));
        Connection { transaction, database, user: User::default(), keeps_wal: false, opened }
    }

    pub fn raise(&mut self, wanted: Level) -> Result<(), Busy> {
        let held = transaction::lock(&self.transaction).level;
        if held >= wanted {
            return Ok(());
        }
        let (reached, outcome) = self.database.locks.raise(&self.transaction, held, wanted);
        transaction::lock(&self.transaction).level = reached;
        outcome
    }

    /// What was staged and not committed is forgotten.
    pub fn lower(&mut self, wanted: Level) {
        let mut transaction = transaction::lock(&self.transaction);
        let held = transaction.level;
        if held <= wanted {
            return;
        }
        transaction.discard();
        transaction.level = wanted;
        drop(transaction);
        self.database.locks.lower(&self.transaction, held, wanted);
    }

    pub fn level(&self) -> Level {
        transaction::lock(&self.transaction).level
    }

    pub fn is_reserved(&self) -> bool {
        self.database.locks.is_reserved()
    }

    /// See [`Transaction::prepare`].
    pub fn prepare(&self, several: bool) -> Result<()> {
        transaction::lock(&self.transaction).prepare(&self.opened.volume, several)
    }

    /// See [`Transaction::commit`].
    pub fn commit(&self) -> Result<()> {
        transaction::lock(&self.transaction).commit(&self.opened.volume)
    }

    /// What is written from here on is not part of a transaction with a rollback journal.
    pub fn leave_rollback_mode(&self) {
        transaction::lock(&self.transaction).discard();
    }

    pub fn map_shm(&mut self, number: usize, bytes: usize, extend: bool) -> Option<*mut u8> {
        self.leave_rollback_mode();
        self.database.shm.map(&mut self.user, number, bytes, extend)
    }

    pub fn lock_shm(&mut self, slots: Range<usize>, exclusive: bool) -> Result<(), Busy> {
        self.database.shm.lock(&mut self.user, slots, exclusive)
    }

    pub fn unlock_shm(&mut self, slots: Range<usize>) {
        self.database.shm.unlock(&mut self.user, slots);
    }

    pub fn unmap_shm(&mut self) {
        self.database.shm.unmap(&mut self.user);
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.unmap_shm();
        self.lower(Level::None);
    }
}

/// Opens a database's rollback journal. One that a connection begins while it may write is kept in memory; one that is
/// there otherwise is a file.
///
/// # Errors
/// As [`Place::open`] and [`Place::create`].
pub(crate) fn open_journal(opened: Use, place: &Place, create: bool) -> Result<Object> {
    let database = place.database().and_then(|database| database.find(&opened.volume).ok());
    let writer = database.filter(|_| create).and_then(|ino| opened.database(ino).locks.writer());
    let Some(writer) = writer else {
        let file = if create { place.create(&opened.volume)? } else { place.open(&opened.volume)? };
        return Ok(Object::Other(file, opened));
    };
    // One that is left of another transaction is over: nobody may write before it is rolled back.
    match place.remove(&opened.volume) {
        Ok(()) | Err(Error::NotFound) => {}
        Err(error) => return Err(error),
    }
    {
        let mut transaction = transaction::lock(&writer);
        transaction.journal = transaction.memory();
    }
    Ok(Object::Journal(JournalFile { transaction: writer, opened }))
}

impl Object {
    pub fn read(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let read = match self {
            Object::Database(connection) => return transaction::lock(&connection.transaction).read(into, offset),
            Object::Other(file, _) => file.read_at(into, offset)?,
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
            Object::Database(connection) => {
                transaction::lock(&connection.transaction).write(&connection.opened.volume, from, offset)
            }
            Object::Other(file, _) => file.write_at(from, offset).map(drop),
            Object::Journal(journal) => {
                let mut transaction = transaction::lock(&journal.transaction);
                if let Journal::Absent = transaction.journal {
                    // PERSIST and TRUNCATE keep the journal open over transactions.
                    transaction.begin_journal(&journal.opened.volume)?;
                }
                match &mut transaction.journal {
                    Journal::File(file) => {
                        file.write_at(from, offset)?;
                        // That ends it, where it is kept open.
                        let ends = offset == 0 && from.iter().all(|byte| *byte == 0);
                        if ends { transaction.end_journal_file(&journal.opened.volume) } else { Ok(()) }
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
            Object::Other(file, _) => file.truncate(size),
            Object::Journal(journal) => {
                let mut transaction = transaction::lock(&journal.transaction);
                match &mut transaction.journal {
                    Journal::File(file) => {
                        file.truncate(size)?;
                        if size == 0 { transaction.end_journal_file(&journal.opened.volume) } else { Ok(()) }
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
            Object::Other(file, _) => file.sync(),
            Object::Journal(journal) => match &transaction::lock(&journal.transaction).journal {
                Journal::File(file) => file.sync(),
                _ => Ok(()),
            },
        }
    }

    pub fn size(&self) -> u64 {
        match self {
            Object::Database(connection) => transaction::lock(&connection.transaction).size(),
            Object::Other(file, _) => file.attributes().size,
            Object::Journal(journal) => match &transaction::lock(&journal.transaction).journal {
                Journal::File(file) => file.attributes().size,
                Journal::Memory(content) => content.len() as u64,
                Journal::Absent => 0,
            },
        }
    }

    /// Whether the file has lost its name; a journal of a transaction counts as one that has not.
    pub fn has_moved(&self) -> bool {
        match self {
            Object::Database(connection) => transaction::lock(&connection.transaction).has_moved(),
            Object::Other(file, _) => file.attributes().links == 0,
            Object::Journal(_) => false,
        }
    }
}
