//! Databases in volumes of this process.

use crate::files::{Connection, JournalFile, Object, Sharing};
use crate::locks::Busy;
use crate::place::Place;
use crate::shm::User;
use crate::store::{Base, Failure, Region, Result, Space, Stored};
use crate::transaction::{self, Level, Shared};
use crate::volumes::{Database, Use};
use libsqlite3_sys as ffi;
use pocketstone_scmfs::{Allocate, Error, File, FileBatch, InPlace};
use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

/// A file of a volume, which stays open as long.
struct InVolume {
    file: File,
    /// Of a database.
    in_place: Option<InPlace>,
    opened: Use,
    journal_at: Place,
}

impl Stored for InVolume {
    fn size(&self) -> Result<u64> {
        Stored::size(&self.file)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        Stored::read_at(&self.file, into, offset)
    }

    fn write_at(&self, from: &[u8], offset: u64) -> Result<()> {
        Stored::write_at(&self.file, from, offset)
    }

    fn truncate(&self, size: u64) -> Result<()> {
        Stored::truncate(&self.file, size)
    }

    fn sync(&self) -> Result<()> {
        Stored::sync(&self.file)
    }

    fn has_moved(&self) -> bool {
        Stored::has_moved(&self.file)
    }
}

impl Base for InVolume {
    fn record_bytes(&self) -> u64 {
        self.opened.volume.batch_max()
    }

    fn page_bytes(&self) -> u64 {
        self.opened.page
    }

    fn may_grow_to(&self, _size: u64) -> bool {
        true
    }

    fn lacks(&self, bytes: u64) -> Result<Option<Space>> {
        let known = self.file.attributes();
        Ok((known.allocated < bytes).then_some(Space { allocated: known.allocated, size: known.size }))
    }

    fn provide(&self, ranges: Vec<(u64, u64)>, _whole: bool) -> Result<()> {
        Ok(ranges.into_iter().try_for_each(|(at, bytes)| self.file.allocate(Allocate::KeepSize, at, bytes))?)
    }

    fn write_batch(&self, writes: &[(u64, &[u8])], size: u64, durable: bool) -> Result<()> {
        self.opened.volume.write_batch(&[FileBatch { file: &self.file, writes, size: Some(size) }])?;
        // Nothing is left to do where a fence makes stores durable.
        if durable { Stored::sync(&self.file) } else { Ok(()) }
    }

    fn in_place(&self, offset: u64, bytes: u64) -> Option<*const u8> {
        self.in_place.as_ref()?.take(offset, bytes)
    }

    fn give_back(&self) {
        if let Some(in_place) = &self.in_place {
            in_place.give_back();
        }
    }

    fn has_in_place(&self) -> bool {
        self.in_place.is_some()
    }

    fn create_journal(&self) -> Result<Box<dyn Stored>> {
        Ok(Box::new(self.journal_at.create(&self.opened.volume)?))
    }

    fn remove_journal(&self) -> Result<()> {
        match self.journal_at.remove(&self.opened.volume) {
            Ok(()) | Err(Error::NotFound) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

/// Locks and memory of a database that no other process can have.
struct Own {
    database: Arc<Database>,
    user: User,
    /// Whether the WAL stays when the last connection closes.
    keeps_wal: bool,
}

fn outcome(result: Result<(), Busy>) -> Result<()> {
    result.map_err(|Busy| Failure::Below(ffi::SQLITE_BUSY))
}

impl Sharing for Own {
    fn raise(&mut self, own: &Shared, held: Level, wanted: Level) -> (Level, Result<()>) {
        let (reached, raised) = self.database.locks.raise(own, held, wanted);
        (reached, outcome(raised))
    }

    fn lower(&mut self, own: &Shared, held: Level, wanted: Level) -> Result<()> {
        self.database.locks.lower(own, held, wanted);
        Ok(())
    }

    fn is_reserved(&self) -> Result<bool> {
        Ok(self.database.locks.is_reserved())
    }

    fn map_shm(&mut self, number: c_int, bytes: c_int, extend: bool) -> Result<Region> {
        let region = self.database.shm.map(&mut self.user, number as usize, bytes as usize, extend);
        Ok(Region { at: region.map_or(std::ptr::null_mut(), <*mut u8>::cast), is_read_only: false })
    }

    fn lock_shm(&mut self, slots: Range<usize>, flags: c_int) -> Result<()> {
        if flags & ffi::SQLITE_SHM_UNLOCK != 0 {
            self.database.shm.unlock(&mut self.user, slots);
            return Ok(());
        }
        let exclusive = flags & ffi::SQLITE_SHM_EXCLUSIVE != 0;
        outcome(self.database.shm.lock(&mut self.user, slots, exclusive))
    }

    fn barrier(&self) {
        fence(Ordering::SeqCst);
    }

    fn unmap_shm(&mut self, _delete: bool) -> Result<()> {
        self.database.shm.unmap(&mut self.user);
        Ok(())
    }

    unsafe fn control(&mut self, what: c_int, argument: *mut c_void) -> c_int {
        if what != ffi::SQLITE_FCNTL_PERSIST_WAL {
            return ffi::SQLITE_NOTFOUND;
        }
        // SAFETY: a pointer to an int: below 0 it asks, else it says.
        let value = unsafe { &mut *argument.cast::<c_int>() };
        match *value {
            ..0 => *value = self.keeps_wal.into(),
            said => self.keeps_wal = said != 0,
        }
        ffi::SQLITE_OK
    }
}

/// A connection to a database.
pub(crate) fn connect(opened: Use, place: &Place, file: File) -> Connection {
    let sharing = Own { database: opened.database(file.ino()), user: User::default(), keeps_wal: false };
    let in_place = file.in_place().ok();
    Connection::new(Box::new(InVolume { file, in_place, journal_at: place.journal(), opened }), Box::new(sharing))
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
        return Ok(other(opened, place, file));
    };
    JournalFile::begin(writer).map(Object::Journal)
}

/// A database's WAL is about to be opened: see [`Transaction::begin_wal`](transaction::Transaction::begin_wal).
pub(crate) fn begin_wal(opened: &Use, place: &Place) {
    let database = place.database_of_wal().and_then(|database| database.find(&opened.volume).ok());
    if let Some(writer) = database.and_then(|ino| opened.database(ino).locks.writer()) {
        transaction::lock(&writer).begin_wal();
    }
}

/// A file that is not a database. The volume stays open as long.
pub(crate) fn other(opened: Use, place: &Place, file: File) -> Object {
    Object::Other(Box::new(InVolume { file, in_place: None, journal_at: place.journal(), opened }))
}
