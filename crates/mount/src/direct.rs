//! Processes that reach the content of files without the kernel: who may, which files are shown to them, and when the
//! kernel has to forget what it holds.

mod files;
mod freeing;
mod lease;
mod mapped;
mod records;
mod server;
mod turns;
mod unmounted;

use crate::caller;
use crate::known::Known;
use crate::mountable::{self, Mountable, Open};
use crate::options::{MountOptions, Preload};
use crate::wire::Connection;
use files::{Files, TheirStores};
pub(crate) use freeing::{FORGOTTEN, is_forget};
use lease::Appends;
use mapped::Mappings;
use pocketstone_lease::message::{self, Answer, Name, Question};
use pocketstone_lease::{LEASE_BYTES_MOST, Slots, now_ms};
use pocketstone_media::marked;
use pocketstone_vfs::{Ino, Statfs};
use rustix::io::Errno;
use server::Server;
use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use turns::Turns;
pub use unmounted::Unmounted;

/// What the door and the thread behind it share.
struct Shared<V: Mountable> {
    volume: Arc<V>,
    known: Arc<Known<Open<V>>>,
    connection: Arc<OnceLock<Connection>>,
    files: Arc<Files>,
    /// Files that processes which may store know: in memory, so that no time of a store is lost.
    kept: Mutex<HashMap<Ino, Open<V>>>,
    /// Processes that attached, by their tokens, with the slots of those that may store.
    attached: Mutex<HashMap<u64, Option<Arc<Slots>>>>,
    /// Processes may store.
    stores: bool,
    /// Ends of files are leased to them.
    appends: bool,
    /// What is stored, and flushed where that is so, is durable.
    settles: bool,
    /// When a process that stores directly asked last, in ms of [`now_ms`]; 0: never.
    asked_ms: AtomicU64,
    /// What they have mapped; `None`: they map nothing.
    mappings: Option<Mappings<Open<V>>>,
}

/// The door for such processes, open until it is dropped. Threads of its own answer them, because they wait for the
/// kernel, which waits for those that serve.
pub(crate) struct Direct<V: Mountable> {
    shared: Arc<Shared<V>>,
    name: Name,
    turns: Turns<V>,
}

/// How long a mount that ends waits for stores of other processes: each takes as long as a copy.
const STORES_MOST: Duration = Duration::from_secs(1);
/// The mark on the region of those that take longer; those of mapped files are inode numbers.
const STORES_MARK: u32 = u32::MAX;
/// What the kernel writes back on its way out brings it back: so it has to go twice.
const ATTEMPTS: usize = 3;
/// What a process does directly between two requests takes so many times as long as what others do, or longer.
const PATIENCE: u32 = 10;
/// As long as a process that stores directly has asked within this time.
const ASKED_MS: u64 = 1000;

/// Whether this kernel lets processes store to files of a mount without it ([`Preload::Write`]). What was stored
/// through mappings it writes, before Linux 6.16, from copies that it does not wait for when it forgets the pages: such
/// a write could undo a direct one.
pub fn stores_directly() -> bool {
    let release = rustix::system::uname();
    let mut numbers = release.release().to_str().unwrap_or_default().split('.').map(|number| number.parse::<u32>());
    matches!((numbers.next(), numbers.next()), (Some(Ok(major)), Some(Ok(minor))) if (major, minor) >= (6, 16))
}

/// A number that nobody guesses.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

impl<V: Mountable> Direct<V> {
    /// Opens it. `None`: the volume has nothing to map, the options rule it out, or the kernel refuses.
    pub fn open(
        volume: &Arc<V>,
        known: &Arc<Known<Open<V>>>,
        connection: &Arc<OnceLock<Connection>>,
        options: &MountOptions,
    ) -> Option<Direct<V>> {
        // A kernel that collects writes has pages that nobody here knows of, and one that keeps none has no need to.
        if options.preload == Preload::Off || options.writeback || options.direct_io {
            return None;
        }
        let region = volume.shared()?;
        let writable = region.writable && !options.read_only;
        let files = Arc::new(Files::new(volume.size_records().1).ok()?);
        let may_store = stores_directly();
        let stores = options.preload.stores()
            && writable
            && may_store
            // What they store nobody flushes before they go on.
            && !options.sync
            && volume.let_others_store(Arc::new(TheirStores(files.clone()))).is_ok();
        let appends = stores && options.preload == Preload::Append;
        // What is mapped is whole pages, which must not be of other files, too.
        let whole = |stat: Statfs| u64::from(stat.block_bytes) % rustix::param::page_size() as u64 == 0;
        let maps = stores && options.preload == Preload::Map && volume.may_be_mapped();
        let maps = maps && volume.statfs().is_ok_and(whole);
        let mappings = if maps { Mappings::of(&region) } else { None };
        let name = Name::new(&format!("scmfs-{}-{:016x}", std::process::id(), random()))?;
        let listener = message::listen(&name).ok()?;
        // Stores through mappings are flushed by msync(2), and what is kept back for ioctls of F2FS by a commit. An
        // older Linux forgets pages while it still writes copies of them back.
        let settles = region.settled && !(maps && region.flushed) && !options.atomic && may_store;
        let (volume, known, connection) = (volume.clone(), known.clone(), connection.clone());
        let (kept, attached, asked_ms) = (Mutex::default(), Mutex::default(), AtomicU64::new(0));
        let shared = Arc::new(Shared {
            volume,
            known,
            connection,
            files,
            kept,
            attached,
            stores,
            appends,
            settles,
            mappings,
            asked_ms,
        });
        let turns = Turns::start(Server::new(shared.clone(), listener).ok()?, &shared.files).ok()?;
        Some(Direct { shared, name, turns })
    }

    /// Where to attach.
    pub fn name(&self) -> &Name {
        &self.name
    }

    /// The kernel asks for a file's content (`reads`) or brings some; said before the content is looked at.
    pub fn kernel_came(&self, ino: Ino, reads: bool) {
        // What it keeps where files are mapped is for mappings that one process has alone: those need not change.
        if !self.maps() {
            self.shared.files.kernel_came(ino, reads && self.shared.appends);
        }
    }

    /// Whether processes may map files, so that the kernel may keep no pages.
    pub fn maps(&self) -> bool {
        self.shared.mappings.is_some()
    }

    /// Whether a thread's call is made to have the kernel forget a file's pages: it waits until the kernel has.
    pub fn frees(&self, ino: Ino, thread: u32) -> bool {
        self.shared.files.is_wanted(ino, thread)
    }

    /// Has the kernel forget a file's pages, if this call is the one that is made for that: whether it is.
    ///
    /// The kernel keeps write(2) off the file until it has the answer. It waits here for pages that it reads just now:
    /// other threads must serve that. There is one such call at a time for a file.
    pub fn free(&self, ino: Ino, thread: u32) -> bool {
        let files = &self.shared.files;
        let Some(index) = files.take_wanted(ino, thread) else { return false };
        // In memory from here on: as long as it is, the entry is not another file's.
        let open = self.shared.open(ino);
        let is_its = open.is_ok() && files.entry(ino).is_some_and(|(entry, _)| entry == index);
        let attempts = if is_its { ATTEMPTS } else { 0 };
        for _ in 0..attempts {
            let noted = files.table.kernel(index);
            if !self.forget(ino) || files.table.kernel_went(index, noted) {
                break;
            }
        }
        true
    }

    /// Has the kernel forget a file's pages. Whether it has. That it has forgotten the inode is fine.
    fn forget(&self, ino: Ino) -> bool {
        let Some(connection) = self.shared.connection.get() else { return false };
        matches!(connection.forget_contents(ino.into()), Ok(()) | Err(Errno::NOENT))
    }

    /// Answers what a process asks by a file itself.
    ///
    /// # Errors
    /// `Errno::INVAL` if it is not understood, or cannot be asked so; `Errno::ACCESS` if it is about another file, or
    /// the user or the process may not ask; `Errno::NOENT` if the kernel does not know the file, `Errno::OPNOTSUPP` if
    /// it cannot be watched, `Errno::NOSPC` if the table is full.
    pub fn asked(&self, ino: Ino, uid: u32, question: &[u8]) -> Result<Vec<u8>, Errno> {
        match Question::decode(question).ok_or(Errno::INVAL)? {
            Question::File { token, ino: its } if its == u64::from(ino) && caller::is_trusted(uid) => {
                self.shared.file(token, its).map(|answer| answer.encode().to_vec())
            }
            Question::File { .. } => Err(Errno::ACCESS),
            // These need to know the process, or have files with their answers.
            _ => Err(Errno::INVAL),
        }
    }

    /// Leases the end of a file to a process that asks for it, if there is space and nobody else uses the file: the
    /// process sees whether it has it. The kernel does as for [`Direct::free`].
    ///
    /// # Errors
    /// `Errno::ACCESS` if the process may not append directly; `Errno::INVAL` for no bytes, or too many; `Errno::BADF`
    /// if the entry is that of another file.
    pub fn lease(&self, ino: Ino, uid: u32, asked: &message::Lease) -> Result<(), Errno> {
        let message::Lease { token, index, bytes, expected } = *asked;
        let (shared, files) = (&self.shared, &self.shared.files);
        let slots = shared.slots(token)?.filter(|_| shared.appends && caller::is_trusted(uid)).ok_or(Errno::ACCESS)?;
        if bytes == 0 || bytes > LEASE_BYTES_MOST {
            return Err(Errno::INVAL);
        }
        // In memory until the end, so that the entry stays its own. One that is gone the kernel finds out.
        let Ok(_open) = shared.open(ino) else { return Ok(()) };
        // Another file may have got the number of the descriptor that the process asks by.
        if files.entry(ino).is_none_or(|(entry, _)| entry != index) {
            return Err(Errno::BADF);
        }
        let was_read = || files.lease(ino).is_some_and(|lease| lease.was_read());
        if was_read() {
            return Ok(());
        }
        // No space, or nothing to append to: the kernel finds out.
        let room = shared.room(ino, &Appends { bytes, expected });
        let (Some(limit), Some(connection)) = (room, shared.connection.get()) else { return Ok(()) };
        for _ in 0..ATTEMPTS {
            let noted = files.table.kernel(index);
            if !self.forget(ino) || was_read() {
                break;
            }
            // From here on the kernel takes the file to be that long, and asks for what it might miss. The page of
            // that byte counts as not read.
            let Some(last) = limit.checked_sub(1) else { break };
            if connection.store(ino.into(), last, &[0]).is_err() || !shared.lease(ino, index, limit, &slots) {
                break;
            }
            if files.table.kernel_went(index, noted) {
                break;
            }
            // It came, or was told a size: what was appended meanwhile is the file's.
            shared.take_back(ino);
        }
        Ok(())
    }

    /// What the kernel wrote back could not be stored: it says so at the next fsync(2) or fdatasync(2).
    pub fn failed(&self) {
        self.shared.files.table.failed();
    }

    /// The kernel is told a file's size: said before that is looked at, or again if this is true.
    pub fn kernel_told(&self, ino: Ino) -> bool {
        self.shared.appends && self.shared.files.kernel_told(ino)
    }

    /// A file is about to be synchronised. One that is again and again, while it grows, gets a record of its size: then
    /// this need not be asked any more.
    pub fn synced(&self, ino: Ino) {
        let shared = &self.shared;
        let lease = if shared.appends && shared.settles { shared.files.lease(ino) } else { None };
        let Some(lease) = lease.filter(|lease| lease.is_given() && lease.record().synced()) else { return };
        let Some(record) = shared.files.records.take() else { return };
        let is_used = shared.volume.use_size_records().is_ok();
        let unused = if is_used { lease.record().give(record) } else { Some(record) };
        unused.into_iter().for_each(|record| shared.files.records.give_back(record, None));
    }

    /// How many times as long as usual it is worth looking for the next request: longer while there are processes that
    /// store without the server, for they do most of what they do between two of them.
    pub fn patience(&self) -> u32 {
        let asked_ms = self.shared.asked_ms.load(Ordering::Relaxed);
        if now_ms().saturating_sub(asked_ms) < ASKED_MS { PATIENCE } else { 1 }
    }

    /// Whether processes store without the server.
    pub fn stores(&self) -> bool {
        self.shared.stores
    }

    /// Whether ends of files are leased.
    pub fn appends(&self) -> bool {
        self.shared.appends
    }

    /// The kernel wrote at the end of a file, which it took to be elsewhere: it forgets the whole pages that it holds
    /// there, and what it holds of the place where the bytes are now. The page in which such a write ends may be kept
    /// locked until it is answered.
    pub fn misplaced(&self, ino: Ino, thought: u64, actual: u64, bytes: u64) {
        const PAGE: u64 = 4096;
        let Some(connection) = self.shared.connection.get() else { return };
        let pages = |from: u64| from / PAGE * PAGE..(from + bytes).next_multiple_of(PAGE);
        let (written, there) = (pages(thought), pages(actual));
        let whole = thought.next_multiple_of(PAGE)..(thought + bytes) / PAGE * PAGE;
        let before = there.start..there.end.min(written.start);
        let behind = there.start.max(written.end)..there.end;
        for range in [whole, before, behind].into_iter().filter(|range| range.start < range.end) {
            let _ = connection.forget_range(ino.into(), range.start as i64, (range.end - range.start) as i64);
        }
    }

    /// The kernel does not know an inode any more.
    pub fn forgotten(&self, ino: Ino) {
        let kept = self.shared.kept().remove(&ino);
        // Dropping it may delete a whole file: not with the lock held.
        drop(kept);
    }

    /// Whether a file's times change without the kernel's knowledge.
    pub fn is_stored_to(&self, ino: Ino) -> bool {
        self.shared.files.is_stored_to(ino)
    }
}

impl<V: Mountable> Drop for Direct<V> {
    fn drop(&mut self) {
        self.shared.files.withdraw();
        self.shared.wait_for_stores();
        self.turns.end();
        self.shared.note_all_times();
        self.shared.take_all_back(None);
        self.shared.kept().clear();
        if let Some(mappings) = &self.shared.mappings {
            mappings.forget();
        }
    }
}

impl<V: Mountable> Shared<V> {
    /// Nobody begins a store any more. Who is still storing, as one that was stopped, does so to what is given to
    /// others when the volume is used again: it keeps the region's next owner away as long as it has it mapped.
    fn wait_for_stores(&self) {
        let Some(running) = self.files.stores.running() else { return };
        let begin = Instant::now();
        while running() && begin.elapsed() < STORES_MOST {
            std::thread::sleep(Duration::from_millis(1));
        }
        if let Some(region) = self.volume.shared().filter(|_| running()) {
            // SAFETY: nothing is stored by it, and the lock of this owner stays.
            let _ = marked::mark(unsafe { region.file() }, STORES_MARK);
        }
    }

    fn kept(&self) -> MutexGuard<'_, HashMap<Ino, Open<V>>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn attached(&self) -> MutexGuard<'_, HashMap<u64, Option<Arc<Slots>>>> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The slots of a process that attached; `None`: it may not store.
    fn slots(&self, token: u64) -> Result<Option<Arc<Slots>>, Errno> {
        let slots = self.attached().get(&token).cloned().ok_or(Errno::ACCESS)?;
        if slots.is_some() {
            self.asked_ms.store(now_ms(), Ordering::Relaxed);
        }
        Ok(slots)
    }

    /// The entry of a file that the kernel knows, because it is open.
    fn file(&self, token: u64, ino: u64) -> Result<Answer, Errno> {
        self.slots(token)?;
        let ino = Ino::try_from(ino).map_err(|_| Errno::NOENT)?;
        // Not only this process: another one may remember the file from before the volume forgot it.
        let stores = !self.files.stores.all().is_empty();
        if !self.known.knows(ino) {
            return Err(Errno::NOENT);
        }
        let open = self.open(ino).map_err(|_| Errno::NOENT)?;
        let watched = self.volume.watch(&open, &|generation| self.files.show(ino, generation));
        let new = watched.map_err(|_| Errno::OPNOTSUPP)?;
        let (index, key) = self.files.entry(ino).ok_or(Errno::NOSPC)?;
        if new && self.mappings.is_some() {
            // Where files are mapped the kernel keeps none from the start.
            self.files.table.kernel_went(index, self.files.table.kernel(index));
        }
        if stores && self.files.store_to(ino) {
            let before = self.kept().insert(ino, open);
            drop(before);
            if !self.known.knows(ino) {
                // It was forgotten just now, which nobody will say again.
                let kept = self.kept().remove(&ino);
                drop(kept);
                return Err(Errno::NOENT);
            }
            // From now on the kernel asks every time.
            self.forget_attributes(ino);
            self.files.asked_for(ino, index);
        }
        Ok(Answer { index: index.into(), key, ..Answer::default() })
    }

    /// Has the kernel forget a file's attributes. That it has forgotten the inode is fine.
    fn forget_attributes(&self, ino: Ino) {
        if let Some(connection) = self.connection.get() {
            let _ = connection.forget_attributes(ino.into());
        }
    }

    fn open(&self, ino: Ino) -> pocketstone_vfs::Result<Open<V>> {
        self.known.file(ino, || mountable::take(&self.volume, ino))
    }

    /// Space behind the end of a file. Where it ends.
    fn room(&self, ino: Ino, appends: &Appends) -> Option<u64> {
        let open = self.open(ino).ok()?;
        appends.room().into_iter().find_map(|bytes| self.volume.room_to_append(&open, bytes).ok())
    }

    /// Leases the end of a file to a process. Whether it did.
    fn lease(&self, ino: Ino, index: u32, limit: u64, slots: &Arc<Slots>) -> bool {
        let (Ok(open), Some(lease)) = (self.open(ino), self.files.lease(ino)) else { return false };
        let give = |size| lease.give(slots, index, size, limit);
        let given = self.volume.lease_end(&open, limit, &give).unwrap_or(false);
        if given && slots.has_ended() {
            // Nobody else would take it back.
            self.take_back(ino);
        }
        given
    }

    /// What was appended without the kernel is the file's.
    fn take_back(&self, ino: Ino) {
        // Looking at a file does that.
        if let Ok(open) = self.open(ino) {
            let _ = self.volume.attributes_of(&open);
        }
    }

    /// The same of all files whose ends are leased, to this process or to any.
    fn take_all_back(&self, from: Option<&Arc<Slots>>) {
        self.files.leased(from).into_iter().for_each(|ino| self.take_back(ino));
    }

    /// Records of sizes of files that grow no more are for others.
    fn settle_records(&self) {
        for ino in self.files.idle_records() {
            if let Some(lease) = self.files.lease(ino) {
                lease.record().retire();
            }
            // Of which the record is given back.
            if let Ok(open) = self.open(ino) {
                let _ = self.volume.sync(&open);
            }
        }
        // SAFETY: no file has it any more, the stores of those who knew it have ended, and no file gets it before it is
        // cleared.
        self.files.records.settle(|record| unsafe { self.volume.clear_size_record(record) });
    }

    fn note_all_times(&self) {
        for ino in self.files.stored_to() {
            // What is stored to stays in memory, with its times; what is not may be closed, so that they are stored.
            let open = if self.files.is_written(ino) { self.open(ino).ok() } else { None };
            // A file that is gone has no times.
            let open = open.filter(|open| self.volume.note_written(open, None).is_ok());
            let before = match open {
                Some(open) => self.kept().insert(ino, open),
                None => self.kept().remove(&ino),
            };
            drop(before);
        }
    }
}
