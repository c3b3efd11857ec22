//! A transaction of one connection. It is staged while the connection may write and its journal is in memory; once it
//! has a journal file, it is SQLite's own protocol.

use crate::store::{Base, Failure, Result, Stored, lacking};
use libsqlite3_sys as ffi;
use pocketstone_vfs::Staging;
use std::sync::{Arc, Mutex, MutexGuard};

/// What a connection may do; the numbers are SQLite's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    None,
    Shared,
    Reserved,
    Pending,
    Exclusive,
}

impl Level {
    pub fn of(number: i32) -> Level {
        match number {
            0 => Level::None,
            1 => Level::Shared,
            2 => Level::Reserved,
            3 => Level::Pending,
            _ => Level::Exclusive,
        }
    }
}

/// How much memory a connection keeps for its next journal.
const SPARE_BYTES: usize = 256 << 10;

/// Where the rollback journal is.
#[derive(Default)]
pub(crate) enum Journal {
    /// There is none.
    #[default]
    Absent,
    Memory(Vec<u8>),
    File(Box<dyn Stored>),
}

/// The state of a connection's transaction.
pub(crate) struct Transaction {
    pub level: Level,
    pub journal: Journal,
    staging: Staging,
    /// The database.
    base: Box<dyn Base>,
    /// A journal file could not be made. What SQLite does to roll back is staged.
    has_no_journal: bool,
    /// SQLite asked for the changes to be made durable.
    wants_sync: bool,
    /// Memory of a journal that is not needed any more.
    spare: Vec<u8>,
    /// Up to where pages are given where they lie, in bytes: SQLite's `mmap_size`.
    in_place_bytes: u64,
}

/// A transaction is a connection's own, whose database and journal SQLite calls one at a time.
pub(crate) type Shared = Arc<Mutex<Transaction>>;

pub(crate) fn lock(transaction: &Shared) -> MutexGuard<'_, Transaction> {
    // Every change leaves it whole.
    transaction.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

/// SQLite goes on with a transaction of which it was told that a file could not be opened, or is read-only: then what
/// is staged from there on could be neither written nor committed. After an error of input and output, and one of
/// space, it commits no more of it.
fn ends_the_transaction(failure: Failure) -> Failure {
    match failure {
        Failure::Below(code) if matches!(code & 0xFF, ffi::SQLITE_FULL | ffi::SQLITE_IOERR) => failure,
        Failure::Below(_) => Failure::Below(ffi::SQLITE_IOERR_WRITE),
        failure => failure,
    }
}

impl Transaction {
    /// Of a connection that has no lock yet.
    pub fn new(base: Box<dyn Base>) -> Transaction {
        Transaction {
            level: Level::None,
            journal: Journal::Absent,
            staging: Staging::default(),
            base,
            has_no_journal: false,
            wants_sync: false,
            spare: Vec::new(),
            in_place_bytes: 0,
        }
    }

    /// Whether changes are kept here until the commit. A journal in memory stays in charge after SQLite has deleted it:
    /// the commit itself comes after that.
    fn stages(&self) -> bool {
        self.level >= Level::Reserved && matches!(self.journal, Journal::Memory(_))
    }

    pub fn has_journal_in_memory(&self) -> bool {
        matches!(self.journal, Journal::Memory(_))
    }

    pub fn size(&self) -> Result<u64> {
        self.staging.size(&*self.base)
    }

    pub fn read(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        self.staging.read(&*self.base, into, offset)
    }

    /// Limits what is given where it lies, to so many bytes from the start of the file; `None` asks only. The limit
    /// that there was.
    pub fn limit_in_place(&mut self, bytes: Option<u64>) -> u64 {
        let bytes = bytes.filter(|_| self.base.has_in_place()).unwrap_or(self.in_place_bytes);
        std::mem::replace(&mut self.in_place_bytes, bytes)
    }

    /// The address of bytes of the file; `None`: they have to be copied.
    pub fn in_place(&self, offset: u64, bytes: u64) -> Option<*const u8> {
        let inside = offset.checked_add(bytes).is_some_and(|end| end <= self.in_place_bytes);
        // What is staged lies elsewhere.
        if inside && self.staging.is_empty() { self.base.in_place(offset, bytes) } else { None }
    }

    /// See [`Base::give_back`].
    pub fn give_back(&self) {
        self.base.give_back();
    }

    pub fn write(&mut self, from: &[u8], offset: u64) -> Result<()> {
        if self.stages() {
            self.staging.write(&*self.base, from, offset)?;
            if self.fits() || self.has_no_journal {
                return Ok(());
            }
            let spilled = self.spill();
            // With a journal file it is SQLite's own protocol.
            self.has_no_journal = spilled.is_err() && self.has_journal_in_memory();
            return spilled.map_err(ends_the_transaction);
        }
        self.base.write_at(from, offset)
    }

    pub fn truncate(&mut self, size: u64) -> Result<()> {
        if self.stages() { self.staging.truncate(&*self.base, size) } else { self.base.truncate(size) }
    }

    /// What is staged is made durable by the commit.
    pub fn sync(&mut self) -> Result<()> {
        self.wants_sync = !self.staging.is_empty();
        if self.wants_sync { Ok(()) } else { self.base.sync() }
    }

    /// Whether the database's file has lost its name.
    pub fn has_moved(&self) -> bool {
        self.base.has_moved()
    }

    fn fits(&self) -> bool {
        self.staging.record_bytes(self.base.page_bytes()) <= self.base.record_bytes()
    }

    /// A journal that stayed open since an earlier transaction begins anew: in memory if this connection may write.
    pub fn begin_journal(&mut self) -> Result<()> {
        self.has_no_journal = false;
        self.journal = match self.level >= Level::Reserved {
            true => {
                // One that is left of another transaction is over: nobody may write before it is rolled back.
                self.base.remove_journal()?;
                self.memory()
            }
            false => Journal::File(self.base.create_journal()?),
        };
        Ok(())
    }

    /// Removes a journal file that is over, so that the next transaction has its journal in memory again.
    pub fn end_journal_file(&mut self) -> Result<()> {
        self.journal = Journal::Absent;
        self.base.remove_journal()
    }

    /// Before SQLite ends its journal: from then on nothing may fail any more. `several`: the transaction is one over
    /// several databases, and needs a journal file.
    pub fn prepare(&mut self, several: bool) -> Result<()> {
        if !self.stages() || self.staging.is_empty() {
            return if several && matches!(self.journal, Journal::Memory(_)) { self.spill() } else { Ok(()) };
        }
        if std::mem::take(&mut self.has_no_journal) {
            // SQLite was told of it, and rolls back: the file is as it was.
            self.staging.clear();
            return Ok(());
        }
        let after = self.size()?;
        if several || !self.fits() || !self.base.may_grow_to(after) || !self.base.may_batch() {
            return self.spill();
        }
        let Some(space) = self.base.lacks(after)? else { return Ok(()) };
        let (writes, size) = self.staging.changes();
        let (ranges, whole) = lacking(space, &writes, size);
        self.base.provide(ranges, whole)
    }

    /// The database's WAL is opened: from here on what is written to the database is a checkpoint, which has no
    /// journal. SQLite before 3.33 does not say when one begins.
    pub fn begin_wal(&mut self) {
        if self.staging.is_empty() {
            self.discard();
        }
    }

    /// Commits what is staged, all or nothing.
    pub fn commit(&mut self) -> Result<()> {
        if self.staging.is_empty() {
            return Ok(());
        }
        let (writes, size) = self.staging.changes();
        let done = self.base.write_batch(&writes, size, std::mem::take(&mut self.wants_sync));
        // If it failed, nothing of it may be seen.
        self.staging.clear();
        done
    }

    /// Forgets what is staged: the transaction was rolled back.
    pub fn discard(&mut self) {
        self.base.unlocked();
        self.staging.clear();
        self.has_no_journal = false;
        self.wants_sync = false;
        if let Journal::Memory(content) = &mut self.journal {
            // That of a large transaction is given back.
            self.spare = if content.len() <= SPARE_BYTES { std::mem::take(content) } else { Vec::new() };
            self.journal = Journal::Absent;
        }
    }

    /// The connection is closed. Somebody may still look at the transaction.
    pub fn close(&mut self) {
        self.discard();
        self.journal = Journal::Absent;
        self.base.close();
    }

    /// An empty journal in memory.
    pub fn memory(&mut self) -> Journal {
        let mut content = std::mem::take(&mut self.spare);
        content.clear();
        Journal::Memory(content)
    }

    /// From a journal in memory to a journal file, and from staged changes to changes of the file: each is a state that
    /// any SQLite can roll back.
    pub fn spill(&mut self) -> Result<()> {
        let Journal::Memory(content) = &self.journal else { return Ok(()) };
        let journal = self.base.create_journal()?;
        let written = journal.truncate(0).and_then(|()| journal.write_at(content, 0)).and_then(|()| journal.sync());
        if let Err(error) = written {
            drop(journal);
            // A part of a journal is no journal.
            let _ = self.base.remove_journal();
            return Err(error);
        }
        self.journal = Journal::File(journal);
        // From here on the journal file undoes whatever the database gets, all of it or a part.
        let mut staging = std::mem::take(&mut self.staging);
        if staging.is_empty() {
            return Ok(());
        }
        let (writes, size) = staging.changes();
        for (offset, data) in writes {
            self.base.write_at(data, offset)?;
        }
        if self.base.size()? != size {
            self.base.truncate(size)?;
        }
        Ok(())
    }
}
