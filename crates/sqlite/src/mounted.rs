//! Databases on a mount that changes several ranges of a file at once (`scmfs mount -o atomic`).
//!
//! The VFS below opens, reads and locks them, so all processes of the machine can have them, also those without this
//! VFS. What a transaction changes goes to the mount's server by `pocketstone_lease::batch`.

use crate::below::{self, File};
use crate::files::{Connection, JournalFile, Object, Sharing};
use crate::host::log;
use crate::place::{JOURNAL, WAL};
use crate::store::{Base, Failure, Region, Result, Space, Stored};
use crate::transaction::{self, Level, Shared, Transaction};
use libsqlite3_sys as ffi;
use pocketstone_lease::batch::{BYTES_MAX, Change, NAME, Offer, What};
use pocketstone_scmfs::Error;
use rustix::fs::{Access, AtFlags, CWD, Mode, OFlags, StatxFlags, XattrFlags, makedev};
use rustix::io::Errno;
use rustix::path::Arg;
use rustix::process::Resource;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::ops::Range;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// The transactions of databases that are open, by their names.
type Transactions = Vec<(CString, Weak<Mutex<Transaction>>)>;

static OPEN: Mutex<Transactions> = Mutex::new(Vec::new());

fn open_ones() -> MutexGuard<'static, Transactions> {
    // Every change leaves it whole.
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What the mount takes that a path lies on; `None`: it lies on another one.
fn offer(path: impl Arg) -> Option<Offer> {
    let mut value = [0; 64];
    let bytes = rustix::fs::getxattr(path, NAME, &mut value).ok()?;
    Offer::decode(value.get(..bytes)?)
}

/// Whether a database of that name is, or would be, on such a mount.
pub(crate) fn is_offered(name: &CStr) -> bool {
    let directory = || {
        let bytes = name.to_bytes();
        let end = bytes.iter().rposition(|byte| *byte == b'/')?;
        CString::new(&bytes[..end.max(1)]).ok()
    };
    let exists = |path: &CStr| rustix::fs::access(path, Access::EXISTS).is_ok();
    let offered = if exists(name) { offer(name) } else { directory().and_then(offer) };
    // Without /proc a file cannot be told changes by a descriptor.
    offered.is_some() && exists(c"/proc/self/fd")
}

/// A file that changes are sent to, whatever its path comes to mean. Opened by O_PATH: closing it drops no fcntl(2)
/// locks of this process.
struct Target(OwnedFd);

impl Target {
    /// The file that `opened` is; `None`: the path means another one by now.
    fn new(path: &CStr, opened: &File) -> Option<Target> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let target = rustix::fs::open(path, flags, Mode::empty());
        let missed = |error: &Errno| log(ffi::SQLITE_CANTOPEN, &format!("{}: {error}", path.to_string_lossy()));
        let target = target.inspect_err(missed).ok()?;
        let (by_path, by_target) = (rustix::fs::stat(path).ok()?, rustix::fs::fstat(&target).ok()?);
        let same = (by_path.st_dev, by_path.st_ino) == (by_target.st_dev, by_target.st_ino);
        (same && !opened.has_moved()).then_some(Target(target))
    }

    /// A path that leads to it. setxattr(2) does not take a descriptor of this kind.
    fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.0.as_raw_fd())
    }
}

/// A database's file.
struct OnMount {
    file: Arc<Mutex<File>>,
    target: Target,
    /// Where that is.
    path: String,
    /// The database's own name.
    name: CString,
    /// With four zeros behind it, as the VFS below wants the names of files that it opens.
    journal: Arc<[u8]>,
    /// The device that it is on.
    device: u64,
    offer: Offer,
    /// The last commit of this connection.
    last: Cell<Option<Committed>>,
    /// The file is as that left it, and the connection's lock keeps it so.
    is_last: Cell<bool>,
    /// The file has no holes after the commit that is being prepared.
    will_be_whole: Cell<bool>,
    /// Memory of messages.
    message: RefCell<Vec<u8>>,
}

/// What a commit leaves. While the first page begins as it did then the file is the same: SQLite keeps its own cache by
/// that. So nobody need ask the server how long the file is.
#[derive(Clone, Copy)]
struct Committed {
    version: [u8; VERSION.1],
    size: u64,
    /// The file has no holes.
    is_whole: bool,
}

/// Offset and length of what SQLite looks at in a database's first page, to find out whether it has changed: the file
/// change counter, and what is behind it (`dbFileVers` of its pager).
const VERSION: (u64, usize) = (24, 16);

fn held(file: &Mutex<File>) -> MutexGuard<'_, File> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}

impl OnMount {
    fn send(&self, what: What<'_>) -> Result<()> {
        let mut message = self.message.borrow_mut();
        Change { ino: self.offer.ino, what }.encode(&mut message);
        rustix::fs::setxattr(&*self.path, NAME, &message, XattrFlags::empty()).map_err(|error| match error {
            Errno::NOSPC | Errno::DQUOT => Failure::Volume(Error::NoSpace),
            Errno::FBIG => Failure::Volume(Error::TooLarge),
            Errno::ROFS => Failure::Volume(Error::ReadOnly),
            Errno::PERM => Failure::Volume(Error::NotPermitted),
            _ => Failure::Below(ffi::SQLITE_IOERR),
        })
    }

    fn journal_name(&self) -> &CStr {
        CStr::from_bytes_until_nul(&self.journal).unwrap_or_default()
    }
}

/// Forwards a file's operations to the VFS below.
impl Stored for OnMount {
    fn size(&self) -> Result<u64> {
        match self.last.get().filter(|_| self.is_last.get()) {
            Some(last) => Ok(last.size),
            None => held(&self.file).size(),
        }
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let read = held(&self.file).read_at(into, offset)?;
        if (offset, read) == VERSION {
            self.is_last.set(self.last.get().is_some_and(|last| last.version == *into));
        }
        Ok(read)
    }

    fn write_at(&self, from: &[u8], offset: u64) -> Result<()> {
        self.last.set(None);
        held(&self.file).write_at(from, offset)
    }

    fn truncate(&self, size: u64) -> Result<()> {
        self.last.set(None);
        held(&self.file).truncate(size)
    }

    fn sync(&self) -> Result<()> {
        held(&self.file).sync()
    }

    fn has_moved(&self) -> bool {
        // The kernel knows what a name means, without asking.
        let flags = AtFlags::STATX_DONT_SYNC;
        let Ok(named) = rustix::fs::statx(CWD, &self.name, flags, StatxFlags::INO) else { return true };
        (makedev(named.stx_dev_major, named.stx_dev_minor), named.stx_ino) != (self.device, self.offer.ino)
    }
}

/// A journal file, and the name that it was opened by.
struct JournalBelow {
    file: File,
    _name: Arc<[u8]>,
}

impl Stored for JournalBelow {
    fn size(&self) -> Result<u64> {
        self.file.size()
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        self.file.read_at(into, offset)
    }

    fn write_at(&self, from: &[u8], offset: u64) -> Result<()> {
        self.file.write_at(from, offset)
    }

    fn truncate(&self, size: u64) -> Result<()> {
        self.file.truncate(size)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }

    fn has_moved(&self) -> bool {
        self.file.has_moved()
    }
}

impl Base for OnMount {
    /// What one message takes, if a record of the volume's journal takes it.
    fn record_bytes(&self) -> u64 {
        self.offer.record_bytes.min(BYTES_MAX as u64)
    }

    fn page_bytes(&self) -> u64 {
        self.offer.page_bytes
    }

    /// The kernel knows the process's limit, and what it gets for going beyond.
    fn may_grow_to(&self, size: u64) -> bool {
        rustix::process::getrlimit(Resource::Fsize).current.is_none_or(|most| size <= most)
    }

    /// write(2) asks for the right that the process had when it opened the file, setxattr(2) for the one that it has
    /// now: it may have given that up, or somebody else taken it.
    fn may_batch(&self) -> bool {
        rustix::fs::accessat(CWD, &*self.path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    }

    fn close(&self) {
        held(&self.file).close();
    }

    fn unlocked(&self) {
        self.is_last.set(false);
    }

    fn lacks(&self, bytes: u64) -> Result<Option<Space>> {
        if self.last.get().is_some_and(|last| self.is_last.get() && last.is_whole && bytes <= last.size) {
            self.will_be_whole.set(true);
            return Ok(None);
        }
        let known = rustix::fs::fstat(&self.target.0).map_err(|_| Failure::Below(ffi::SQLITE_IOERR_FSTAT))?;
        let space = Space { allocated: known.st_blocks as u64 * 512, size: known.st_size as u64 };
        let lacking = (space.allocated < bytes).then_some(space);
        self.will_be_whole.set(lacking.is_none());
        Ok(lacking)
    }

    fn provide(&self, ranges: Vec<(u64, u64)>, whole: bool) -> Result<()> {
        self.will_be_whole.set(whole);
        self.send(What::Space { ranges })
    }

    fn write_batch(&self, writes: &[(u64, &[u8])], size: u64, durable: bool) -> Result<()> {
        self.last.set(None);
        self.send(What::Writes { writes: writes.to_vec(), size, durable })?;
        let begin = VERSION.0 as usize;
        let version = writes.iter().find(|(at, _)| *at == 0).and_then(|(_, page)| page.get(begin..begin + VERSION.1));
        let is_whole = self.will_be_whole.get();
        self.last
            .set(version.and_then(|version| Some(Committed { version: version.try_into().ok()?, size, is_whole })));
        Ok(())
    }

    fn create_journal(&self) -> Result<Box<dyn Stored>> {
        let name = self.journal.clone();
        let flags = ffi::SQLITE_OPEN_MAIN_JOURNAL | ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
        // SAFETY: a name with four zeros behind it, which is kept with the file.
        let (file, _) = unsafe { File::open(name.as_ptr().cast(), flags) }?;
        Ok(Box::new(JournalBelow { file, _name: name }))
    }

    fn remove_journal(&self) -> Result<()> {
        // Mostly there is none, which costs less to find out.
        let name = self.journal_name();
        if below::exists(name)? { below::remove(name) } else { Ok(()) }
    }
}

/// The locks and the memory that the VFS below has.
struct OfAll {
    file: Arc<Mutex<File>>,
}

impl OfAll {
    /// Raises the lock from `held_level`; the level that is reached, and whether it is the wanted one.
    fn lock(&self, held_level: Level, wanted: Level) -> (Level, Result<()>) {
        let file = held(&self.file);
        let Err(failure) = file.lock(wanted as c_int) else { return (wanted, Ok(())) };
        if held_level >= Level::Reserved {
            // It may have got as far as Pending: nobody new gets in, so that those who are in can leave.
            return (file.level().max(held_level), Err(failure));
        }
        // SQLite before 3.41 takes Pending here, too, and leaves it to its pager to give it back. Who rolls a journal
        // back, or closes a WAL, must neither be taken for a writer nor keep others out.
        let _ = file.unlock(held_level as c_int);
        (held_level, Err(failure))
    }
}

impl Sharing for OfAll {
    fn raise(&mut self, _own: &Shared, held: Level, wanted: Level) -> (Level, Result<()>) {
        self.lock(held, wanted)
    }

    fn lower(&mut self, _own: &Shared, _held: Level, wanted: Level) -> Result<()> {
        held(&self.file).unlock(wanted as c_int)
    }

    fn is_reserved(&self) -> Result<bool> {
        held(&self.file).is_reserved()
    }

    fn map_shm(&mut self, number: c_int, bytes: c_int, extend: bool) -> Result<Region> {
        held(&self.file).map_shm(number, bytes, extend)
    }

    fn lock_shm(&mut self, slots: Range<usize>, flags: c_int) -> Result<()> {
        held(&self.file).lock_shm(slots.start as c_int, slots.len() as c_int, flags)
    }

    fn barrier(&self) {
        held(&self.file).barrier();
    }

    fn unmap_shm(&mut self, delete: bool) -> Result<()> {
        held(&self.file).unmap_shm(delete)
    }

    unsafe fn control(&mut self, what: c_int, argument: *mut c_void) -> c_int {
        // SAFETY: the caller's promise.
        unsafe { held(&self.file).control(what, argument) }
    }
}

/// Opens a database that [`is_offered`]; also the flags that it was opened by.
///
/// # Safety
/// `name` is one that SQLite gives to xOpen with `flags`.
pub(crate) unsafe fn connect(name: *const c_char, flags: c_int) -> Result<(Object, c_int)> {
    // SAFETY: the caller's promise.
    let ((file, opened), path) = unsafe { (File::open(name, flags)?, CStr::from_ptr(name).to_owned()) };
    let target = Target::new(&path, &file).ok_or(Failure::Below(ffi::SQLITE_CANTOPEN))?;
    let at = target.path();
    let offer = offer(&*at).ok_or(Failure::Below(ffi::SQLITE_CANTOPEN))?;
    let file = Arc::new(Mutex::new(file));
    let journal = [path.to_bytes(), JOURNAL.as_bytes(), &[0; 4]].concat().into();
    let device = rustix::fs::fstat(&target.0).map_err(|_| Failure::Below(ffi::SQLITE_CANTOPEN))?.st_dev;
    let base = OnMount {
        file: file.clone(),
        target,
        path: at,
        name: path.clone(),
        journal,
        device,
        offer,
        last: Cell::default(),
        is_last: Cell::default(),
        will_be_whole: Cell::default(),
        message: RefCell::default(),
    };
    let connection = Connection::new(Box::new(base), Box::new(OfAll { file }));
    let mut open = open_ones();
    open.retain(|(_, transaction)| transaction.strong_count() > 0);
    open.push((path, Arc::downgrade(connection.transaction())));
    Ok((Object::Database(connection), opened))
}

/// The transactions of this process on the database whose rollback journal, or other file with that suffix, has that
/// name.
fn transactions(name: &CStr, suffix: &str) -> Vec<Shared> {
    let Some(database) = name.to_bytes().strip_suffix(suffix.as_bytes()) else { return Vec::new() };
    let open = open_ones();
    open.iter().filter(|(path, _)| path.to_bytes() == database).filter_map(|(_, weak)| weak.upgrade()).collect()
}

/// Whether that is the rollback journal, in memory, of a transaction of this process.
pub(crate) fn is_journal_in_memory(name: &CStr) -> bool {
    transactions(name, JOURNAL).iter().any(|one| transaction::lock(one).has_journal_in_memory())
}

/// Whether that is a database that is open here, or a file that SQLite keeps beside one.
pub(crate) fn is_known(name: &CStr) -> bool {
    let name = name.to_bytes();
    let belongs =
        |path: &CString| name.strip_prefix(path.to_bytes()).is_some_and(|rest| matches!(rest, [] | [b'-', ..]));
    open_ones().iter().any(|(path, transaction)| belongs(path) && transaction.strong_count() > 0)
}

/// Whether a transaction is of a connection that may write to the file that has its name.
fn is_writer(transaction: &Transaction) -> bool {
    transaction.level >= Level::Reserved && !transaction.has_moved()
}

/// A database's WAL is about to be opened: see [`Transaction::begin_wal`].
pub(crate) fn begin_wal(name: &CStr) {
    let mine = transactions(name, WAL).into_iter().find(|one| is_writer(&transaction::lock(one)));
    mine.iter().for_each(|one| transaction::lock(one).begin_wal());
}

/// Begins the rollback journal of a connection that may write: in memory. `None`: there is no such.
pub(crate) fn begin_journal(name: &CStr) -> Option<Result<Object>> {
    let writer = transactions(name, JOURNAL).into_iter().find(|one| is_writer(&transaction::lock(one)))?;
    Some(JournalFile::begin(writer).map(Object::Journal))
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite as _;

    /// A file as SQLite's default VFS has it; the name stays, with four zeros behind it.
    fn open(path: &std::path::Path) -> OfAll {
        let name: &'static [u8] = [path.as_os_str().as_encoded_bytes(), &[0; 4]].concat().leak();
        // SAFETY: a null name asks for the default.
        below::remember(|| unsafe {
            ffi::sqlite3_initialize();
            ffi::sqlite3_vfs_find(std::ptr::null())
        });
        let flags = ffi::SQLITE_OPEN_MAIN_DB | ffi::SQLITE_OPEN_READWRITE | ffi::SQLITE_OPEN_CREATE;
        // SAFETY: a name with four zeros behind it, which stays.
        let (file, _) = unsafe { File::open(name.as_ptr().cast(), flags) }.expect("a file");
        OfAll { file: Arc::new(Mutex::new(file)) }
    }

    #[test]
    fn a_lock_that_is_not_reached_is_told_as_far_as_it_is() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("a.db");
        let (writer, reader, other) = (open(&path), open(&path), open(&path));
        let reached = |(level, outcome): (Level, Result<()>)| (level, outcome.is_ok());
        for file in [&writer, &reader] {
            assert_eq!(reached(file.lock(Level::None, Level::Shared)), (Level::Shared, true));
        }
        // As at the end of a WAL: others can come meanwhile.
        assert_eq!(reached(writer.lock(Level::Shared, Level::Exclusive)), (Level::Shared, false));
        assert_eq!(reached(other.lock(Level::None, Level::Shared)), (Level::Shared, true));
        held(&other.file).unlock(0).expect("the lock is given back");
        // As at a commit: they cannot.
        assert_eq!(reached(writer.lock(Level::Shared, Level::Reserved)), (Level::Reserved, true));
        assert_eq!(reached(writer.lock(Level::Reserved, Level::Exclusive)), (Level::Pending, false));
        assert_eq!(reached(other.lock(Level::None, Level::Shared)), (Level::None, false));
        held(&reader.file).unlock(0).expect("the lock is given back");
        assert_eq!(reached(writer.lock(Level::Pending, Level::Exclusive)), (Level::Exclusive, true));
    }
}
