//! The files that direct processes see.

use super::lease::{Found, Lease};
use super::records::Records;
use crate::convert::now_ns;
use pocketstone_lease::{Content, Slots, Stores, Table};
use pocketstone_scmfs::{Appended, OutsideStores, Running, Shown, Watch, Written};
use pocketstone_vfs::{Ino, TimeNs};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Whether processes may store to a file, so that its times change without the kernel's knowledge.
#[derive(Clone, Copy, PartialEq, Eq)]
enum StoredTo {
    No,
    /// They may from now on: the kernel is to keep no attributes of it, and may have some yet.
    Soon,
    Yes,
}

/// A file in the table.
struct Known {
    index: u32,
    key: u64,
    stored_to: StoredTo,
    /// Calls by these threads are to have the kernel forget the file's pages. It makes them one after the other.
    wanted: Vec<u32>,
    lease: Arc<Lease>,
}

/// Files by their inode numbers, and by their entries.
#[derive(Default)]
struct Maps {
    known: HashMap<Ino, Known>,
    inos: HashMap<u32, Ino>,
    /// Entries of files that are gone, but that a store may still name: given back later.
    later: Vec<u32>,
}

/// The table, what it has of which file, and who stores.
pub(crate) struct Files {
    pub table: Table,
    pub stores: Stores,
    maps: RwLock<Maps>,
    /// There are files: looked at before every read and write of the kernel.
    any: AtomicBool,
    /// Files that have grown by leases, and whose sizes may not be stored yet.
    grown: Mutex<HashSet<Ino>>,
    /// So many want direct stores turned away.
    pauses: Mutex<u32>,
    pub records: Records,
}

impl Files {
    /// `records`: of sizes, that the volume has room for.
    pub fn new(records: u32) -> rustix::io::Result<Files> {
        let (table, stores, records) = (Table::new()?, Stores::default(), Records::new(records));
        let (maps, any) = (RwLock::default(), AtomicBool::new(false));
        let (grown, pauses) = (Mutex::default(), Mutex::default());
        Ok(Files { table, stores, maps, any, grown, pauses, records })
    }

    fn maps(&self) -> RwLockReadGuard<'_, Maps> {
        self.maps.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn maps_mut(&self) -> RwLockWriteGuard<'_, Maps> {
        self.maps.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// The inode of an entry.
    pub fn ino(&self, index: u32) -> Option<Ino> {
        self.maps().inos.get(&index).copied()
    }

    /// The entry of a file and its key.
    pub fn entry(&self, ino: Ino) -> Option<(u32, u64)> {
        self.maps().known.get(&ino).map(|known| (known.index, known.key))
    }

    /// Takes an entry for a file, and makes what keeps it up to date; `None`: there is no room. It has to be watched
    /// before anybody is told of it.
    pub fn show(self: &Arc<Files>, ino: Ino, generation: u32) -> Option<Box<dyn Watch>> {
        let mut maps = self.maps_mut();
        // Once for all: there can be many of both.
        let reached = if maps.later.is_empty() { HashSet::new() } else { self.stores.reached() };
        maps.later.retain(|index| {
            let stays = reached.contains(index);
            if !stays {
                self.table.give_back(*index);
            }
            stays
        });
        let (index, key) = self.table.take(ino, generation)?;
        // The time of a store is that of the file that had the entry then.
        self.stores.all().iter().for_each(|slots| slots.forget_time(index));
        let lease = Arc::<Lease>::default();
        maps.known.insert(ino, Known { index, key, stored_to: StoredTo::No, wanted: Vec::new(), lease: lease.clone() });
        maps.inos.insert(index, ino);
        // Seen by the kernel's next request, before the entry can be used.
        self.any.store(true, Ordering::SeqCst);
        Some(Box::new(Entry { files: self.clone(), ino, index, lease }))
    }

    /// This thread's call on a file is to have the kernel forget its pages.
    pub fn want(&self, ino: Ino, thread: u32) {
        if let Some(known) = self.maps_mut().known.get_mut(&ino) {
            known.wanted.push(thread);
        }
    }

    /// This thread's call has been made.
    pub fn want_no_more(&self, ino: Ino, thread: u32) {
        if let Some(known) = self.maps_mut().known.get_mut(&ino) {
            known.wanted.retain(|wanted| *wanted != thread);
        }
    }

    /// Whether this thread's call is made to have the kernel forget a file's pages.
    pub fn is_wanted(&self, ino: Ino, thread: u32) -> bool {
        let is_wanted = |known: &Known| known.wanted.contains(&thread);
        self.any.load(Ordering::Relaxed) && self.maps().known.get(&ino).is_some_and(is_wanted)
    }

    /// The entry of a file whose pages the kernel is to forget by this thread's call.
    pub fn take_wanted(&self, ino: Ino, thread: u32) -> Option<u32> {
        if !self.is_wanted(ino, thread) {
            return None;
        }
        let mut maps = self.maps_mut();
        let known = maps.known.get_mut(&ino)?;
        let place = known.wanted.iter().position(|wanted| *wanted == thread)?;
        known.wanted.swap_remove(place);
        Some(known.index)
    }

    /// Whose the end of a file is.
    pub fn lease(&self, ino: Ino) -> Option<Arc<Lease>> {
        self.maps().known.get(&ino).map(|known| known.lease.clone())
    }

    /// Files whose ends are leased, to this process or to any.
    pub fn leased(&self, to: Option<&Arc<Slots>>) -> Vec<Ino> {
        let is_leased =
            |known: &Known| to.map_or_else(|| known.lease.is_given(), |slots| known.lease.is_given_to(slots));
        self.maps().known.iter().filter(|(_, known)| is_leased(known)).map(|(ino, _)| *ino).collect()
    }

    /// Files that have a record of their size, and have not grown since this was asked last.
    pub fn idle_records(&self) -> Vec<Ino> {
        let is_idle = |known: &Known| known.lease.has_idle_record(known.index);
        self.maps().known.iter().filter(|(_, known)| is_idle(known)).map(|(ino, _)| *ino).collect()
    }

    fn grown(&self) -> MutexGuard<'_, HashSet<Ino>> {
        self.grown.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pauses(&self) -> MutexGuard<'_, u32> {
        self.pauses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel is told a file's size. Whether its end is leased, so that the size may be another one.
    pub fn kernel_told(&self, ino: Ino) -> bool {
        if !self.any.load(Ordering::SeqCst) {
            return false;
        }
        self.maps().known.get(&ino).is_some_and(|known| {
            self.table.kernel_told(known.index);
            known.lease.is_given()
        })
    }

    /// A process that may store is about to know the file. Whether the kernel may keep attributes of it:
    /// [`Files::asked_for`] says that it does no more. So does whoever comes at the same time, and waits for nobody.
    pub fn store_to(&self, ino: Ino) -> bool {
        let mut maps = self.maps_mut();
        let Some(known) = maps.known.get_mut(&ino).filter(|known| known.stored_to != StoredTo::Yes) else {
            return false;
        };
        known.stored_to = StoredTo::Soon;
        true
    }

    /// The kernel asks for a file's attributes each time.
    pub fn asked_for(&self, ino: Ino, index: u32) {
        let mut maps = self.maps_mut();
        // It may be another process's file by now, or nobody's who stores.
        let is_that = |known: &&mut Known| known.index == index && known.stored_to == StoredTo::Soon;
        if let Some(known) = maps.known.get_mut(&ino).filter(is_that) {
            known.stored_to = StoredTo::Yes;
        }
    }

    pub fn is_stored_to(&self, ino: Ino) -> bool {
        let is = |known: &Known| known.stored_to != StoredTo::No;
        self.any.load(Ordering::Relaxed) && self.maps().known.get(&ino).is_some_and(is)
    }

    /// Files that processes which may store know.
    pub fn stored_to(&self) -> Vec<Ino> {
        self.maps().known.iter().filter(|(_, known)| known.stored_to != StoredTo::No).map(|(ino, _)| *ino).collect()
    }

    /// Whether a file was stored to since its times were noted last.
    pub fn is_written(&self, ino: Ino) -> bool {
        self.entry(ino).is_some_and(|(index, _)| self.is_noted(index))
    }

    fn is_noted(&self, index: u32) -> bool {
        self.stores.all().iter().any(|slots| slots.is_noted(index))
    }

    /// `reads`: what may be beyond an end that is leased.
    pub fn kernel_came(&self, ino: Ino, reads: bool) {
        if !self.any.load(Ordering::SeqCst) {
            return;
        }
        if let Some(known) = self.maps().known.get(&ino) {
            self.table.kernel_came(known.index);
            if reads {
                known.lease.note_read();
            }
        }
    }

    /// Shows nothing any more.
    pub fn withdraw(&self) {
        let maps = self.maps();
        maps.known.values().for_each(|known| self.table.withdraw(known.index));
    }

    fn forget(&self, ino: Ino, index: u32) {
        let mut maps = self.maps_mut();
        // The number may be another file's by now.
        if maps.known.get(&ino).is_some_and(|known| known.index == index) {
            maps.known.remove(&ino);
        }
        maps.inos.remove(&index);
        if self.stores.reach(index) {
            self.table.withdraw(index);
            maps.later.push(index);
        } else {
            self.table.give_back(index);
        }
    }

    /// No process is left that may store: the kernel need not ask for times any more. The files that it had to ask for.
    pub fn nobody_stores(&self) -> Vec<Ino> {
        let mut maps = self.maps_mut();
        let was = |known: &mut Known| std::mem::replace(&mut known.stored_to, StoredTo::No) != StoredTo::No;
        maps.known.iter_mut().filter_map(|(ino, known)| was(known).then_some(*ino)).collect()
    }
}

/// Keeps an entry up to date as long as the inode is in memory.
struct Entry {
    files: Arc<Files>,
    ino: Ino,
    index: u32,
    lease: Arc<Lease>,
}

impl Watch for Entry {
    fn begin(&self) {
        self.files.table.begin(self.index);
    }

    fn is_leased(&self) -> bool {
        self.lease.is_given()
    }

    fn appended(&self, take: bool) -> Option<Appended> {
        if take && self.lease.is_given() {
            // Before the lease ends: whoever looks for files that have grown finds it there, or the lease.
            self.files.grown().insert(self.ino);
        }
        let Found { size, is_news, is_busy } = self.lease.appended(self.index, take)?;
        if is_news {
            self.files.grown().insert(self.ino);
        }
        let running = if is_busy { self.files.stores.running() } else { None };
        Some(Appended { size, running })
    }

    fn is_written(&self) -> bool {
        self.files.is_noted(self.index)
    }

    fn written(&self) -> Option<Written> {
        let times = self.files.stores.all().iter().filter_map(|slots| slots.noted(self.index)).max()?;
        let now_ns = now_ns();
        // A clock that is wrong, or a process that lies, reaches no further than now.
        Some(Written { at_ns: TimeNs::try_from(times).map_or(now_ns, |at_ns| at_ns.min(now_ns)), now_ns })
    }

    fn end(&self, now: &Shown<'_>) {
        let Shown { size, readable, writable, settled, sequence, pieces, .. } = *now;
        let mut record = self.lease.record();
        let shown = record.shown().filter(|_| self.lease.is_given());
        let unused = if settled { record.take_retired() } else { None };
        drop(record);
        // Who stores there now has begun before this change.
        unused.into_iter().for_each(|record| self.files.records.give_back(record, self.files.stores.running()));
        let (leased, record) = (self.lease.limit(), shown);
        let content = Content { size, readable, writable, settled, sequence, record, pieces, leased };
        self.files.table.end(self.index, &content);
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let unused = self.lease.record().take();
        unused.into_iter().for_each(|record| self.files.records.give_back(record, self.files.stores.running()));
        self.files.forget(self.ino, self.index);
    }
}

/// The stores of all processes, for the volume.
pub(crate) struct TheirStores(pub Arc<Files>);

impl OutsideStores for TheirStores {
    fn running(&self) -> Option<Running> {
        self.0.stores.running()
    }

    fn pause(&self) {
        let mut pauses = self.0.pauses();
        *pauses += 1;
        self.0.table.pause(true);
    }

    fn resume(&self) {
        // Of several that take checkpoints of a volume at once all but one are refused, and end while that one copies.
        let mut pauses = self.0.pauses();
        *pauses -= 1;
        self.0.table.pause(*pauses > 0);
    }

    fn stored(&self, note: &mut dyn FnMut(u64, u64)) {
        self.0.stores.take_marks(note);
    }

    fn take_grown(&self) -> Vec<Ino> {
        // First the leases: one that ends meanwhile is among the others by then.
        let leased = self.0.leased(None);
        let mut grown = std::mem::take(&mut *self.0.grown());
        grown.extend(leased);
        grown.into_iter().collect()
    }
}
