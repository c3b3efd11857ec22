//! One inode in memory, and its lock.

use super::{Body, Index};
use crate::format::inode::Record;
use crate::format::layout::{Layout, VERSION_BYTES};
use crate::store::{self, Store};
use crate::{Attr, Error, FileType, Ino, Result, TimeNs, defects};
use pocketstone_media::Durable;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Times reach the medium with the next other change of an inode, or when they are this much behind. A
/// directory that is always in use has the most worn inode: it is stored no oftener than this.
const STALE_NS: TimeNs = 5_000_000_000;

/// An inode in memory.
pub(crate) struct Node {
    pub ino: Ino,
    /// Stays the same until the inode is freed, so it is known without the lock.
    pub kind: FileType,
    /// Open files: while there are any, the inode outlives its last name.
    pub pins: AtomicU32,
    /// Last read, newer than the record's; 0 when there is none.
    pub read_ns: AtomicI64,
    used: AtomicBool,
    state: RwLock<State>,
}

/// What an inode's lock protects.
pub(crate) struct State {
    pub record: Record,
    pub sequence: u32,
    pub body: Body,
    /// Of a directory whose names were asked for.
    pub index: Option<Box<Index>>,
    /// The record's times are newer than those on the medium.
    pub stale: bool,
    /// The time that the medium has.
    pub stored_ns: TimeNs,
    /// Known to have no capabilities in its extended attributes.
    pub incapable: bool,
}

impl State {
    /// Notes a change of the content, to be stored later.
    #[inline]
    pub fn touch(&mut self, now: TimeNs) {
        self.record.mtime_ns = now;
        self.record.ctime_ns = now;
        self.stale = true;
    }

    /// The next version of the inode as it is in memory, and where it goes. The caller stores it, or lets a transaction
    /// do that.
    pub fn next_version(&mut self, layout: &Layout, ino: Ino) -> (u64, [u8; VERSION_BYTES]) {
        let step = if defects::on(defects::SAME_HALF) { 2 } else { 1 };
        self.sequence = self.sequence.wrapping_add(step);
        self.stale = false;
        self.stored_ns = self.record.ctime_ns;
        (layout.version_at(ino, self.sequence), self.record.encode(ino, self.sequence))
    }

    /// Whether the times on the medium are too far behind.
    #[inline]
    pub fn is_overdue(&self) -> bool {
        self.stale && self.record.ctime_ns.saturating_sub(self.stored_ns) >= STALE_NS
    }
}

impl Node {
    pub fn new(ino: Ino, sequence: u32, record: Record, body: Body) -> Node {
        Node {
            ino,
            kind: record.kind(),
            pins: AtomicU32::new(0),
            read_ns: AtomicI64::new(0),
            used: AtomicBool::new(true),
            state: RwLock::new(State {
                record,
                sequence,
                body,
                index: None,
                stale: false,
                stored_ns: record.ctime_ns,
                incapable: record.xattr_bytes == 0,
            }),
        }
    }

    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn write(&self) -> RwLockWriteGuard<'_, State> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        self.take_read_time(&mut state);
        state
    }

    /// The lock, if nobody holds it: the collector takes what it can get.
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, State>> {
        let mut state = self.state.try_write().ok()?;
        self.take_read_time(&mut state);
        Some(state)
    }

    /// The lock for reading, if nobody changes the inode.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, State>> {
        self.state.try_read().ok()
    }

    /// Locks the inode for a change. Closing a volume waits for these locks after it has set its mark: so whoever gets
    /// one and does not see the mark is done before the volume counts as closed.
    pub fn exclusive(&self, store: &Store) -> Result<RwLockWriteGuard<'_, State>> {
        let state = self.write();
        store.writable()?;
        Ok(state)
    }

    /// Notes that somebody reads. As with relatime: only the first time after a change.
    #[inline]
    pub fn note_read(&self, state: &State, store: &Store) {
        if state.record.atime_ns <= state.record.mtime_ns && self.read_ns.load(Ordering::Relaxed) == 0 {
            self.read_ns.store(store.now(), Ordering::Relaxed);
        }
    }

    /// Notes that somebody uses the inode.
    pub fn note_use(&self) {
        self.used.store(true, Ordering::Relaxed);
    }

    /// Whether somebody used it since this was asked last.
    pub fn was_used(&self) -> bool {
        self.used.swap(false, Ordering::Relaxed)
    }

    /// The attributes as they are now, if the inode is in use.
    pub fn attributes(&self, layout: &Layout) -> Result<Attr> {
        let state = self.read();
        live(&state.record)?;
        Ok(self.attributes_of(layout, &state))
    }

    /// The attributes as they are now, the last read included.
    pub fn attributes_of(&self, layout: &Layout, state: &State) -> Attr {
        let mut attr = state.record.attr(self.ino, layout);
        let read_ns = self.read_ns.load(Ordering::Relaxed);
        if read_ns != 0 {
            attr.atime_ns = read_ns;
        }
        attr
    }

    /// Stores the inode's times if they are only in memory.
    pub fn store_times(&self, store: &Store) {
        let Ok(mut state) = self.exclusive(store) else { return };
        if state.stale && !state.record.is_free() {
            store_version(store, self.ino, &mut state, Durable::nothing_new()).done();
        }
    }

    #[inline]
    fn take_read_time(&self, state: &mut State) {
        if self.read_ns.load(Ordering::Relaxed) != 0 {
            state.record.atime_ns = self.read_ns.swap(0, Ordering::Relaxed);
            state.stale = true;
        }
    }
}

/// Whether an inode is in use: it may have been freed while its lock was waited for.
#[inline]
pub(crate) fn live(record: &Record) -> Result<()> {
    if record.is_free() { Err(Error::NotFound) } else { Ok(()) }
}

/// Stores an inode as it is in memory, atomically. `after` is what the new version refers to.
pub(crate) fn store_version(store: &Store, ino: Ino, state: &mut State, after: Durable) -> Durable {
    let (at, version) = state.next_version(&store.layout, ino);
    // SAFETY: the inode is locked exclusively; an inode in memory is loaded from the medium by nobody who has not
    // locked it.
    let dirty = unsafe { store.medium.write(at, &version, after) };
    let flushed = store::flush(&store.medium, dirty, defects::SIZE_FLUSH);
    store::fence(&store.medium, flushed, defects::SIZE_FENCE)
}
