//! One inode in memory, and its lock.

use super::{Body, Index};
use crate::format::bytes::get_u32;
use crate::format::inode::Record;
use crate::format::layout::{Layout, VERSION_BYTES};
use crate::store::{self, Store, Transaction};
use crate::{Appended, Attr, Error, FileType, Ino, Result, Running, Shown, TimeNs, Watch, Written, defects};
use pocketstone_media::Durable;
use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Times reach the medium with the next other change of an inode, or when they are this much behind. A
/// directory that is always in use has the most worn inode: it is stored no oftener than this.
const STALE_NS: TimeNs = 5_000_000_000;

/// An inode is stored so often, at most, beside a record of an earlier version that would be replayed. Sequence numbers
/// that are twice as far apart cannot be told from each other: the older one would seem to be the newer.
const RECORD_VERSIONS: u32 = 1 << 30;

/// A file with more extents beside its run or huge pages is shown without its content.
const PIECES_MOST: usize = 256;

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
    /// Who shows the inode to processes that reach its content by themselves.
    // A box of its own, as few inodes have one: of what it points to, the pointer alone is in each inode.
    watch: OnceLock<Box<Box<dyn Watch>>>,
    state: RwLock<State>,
}

/// An inode's lock for a change. Whoever watches the inode is told before and after it.
pub(crate) struct Exclusive<'a> {
    node: &'a Node,
    state: RwLockWriteGuard<'a, State>,
}

impl<'a> Exclusive<'a> {
    /// `take`: a lease on the file's end ends, as the change may be one of size or place.
    #[inline]
    fn new(node: &'a Node, mut state: RwLockWriteGuard<'a, State>, take: bool) -> Exclusive<'a> {
        if let Some(watch) = node.watch.get() {
            state.begin(&***watch, take);
        }
        Exclusive { node, state }
    }
}

impl Deref for Exclusive<'_> {
    type Target = State;

    fn deref(&self) -> &State {
        &self.state
    }
}

impl DerefMut for Exclusive<'_> {
    fn deref_mut(&mut self) -> &mut State {
        &mut self.state
    }
}

impl Drop for Exclusive<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some(watch) = self.node.watch.get() {
            self.state.show(&***watch);
        }
    }
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
    /// It has grown by who appends without the volume, which the medium does not know.
    pub grown: bool,
    /// The time that the medium has.
    pub stored_ns: TimeNs,
    /// Known to have no capabilities in its extended attributes.
    pub incapable: bool,
    /// A process may be storing beyond the end, in pages of the file, as long as this is true: the file must not grow
    /// there.
    pub tail: Option<Box<Running>>,
    /// Programs may have pages of the content mapped as long as this is true: those stay the file's, where they are.
    pub mapped: Option<Box<Running>>,
}

impl State {
    /// Whether programs have pages of the content mapped.
    #[inline]
    pub fn is_mapped(&self) -> bool {
        self.mapped.as_ref().is_some_and(|mapped| mapped())
    }

    /// Refuses what would take pages of the content from the file, or move them, while programs have them mapped.
    pub fn must_not_be_mapped(&self) -> Result<()> {
        if self.is_mapped() { Err(Error::Busy) } else { Ok(()) }
    }

    /// Notes a change of the content, to be stored later.
    #[inline]
    pub fn touch(&mut self, now: TimeNs) {
        self.record.mtime_ns = now;
        self.record.ctime_ns = now;
        self.stale = true;
    }

    /// Notes a change of the content by somebody else, if it is later than the last one that is known.
    pub fn note_written(&mut self, Written { at_ns, now_ns }: Written) {
        let record = &mut self.record;
        // As a write does, also to a file whose time was set to one that is still to come.
        if at_ns > record.mtime_ns || record.mtime_ns > now_ns {
            record.mtime_ns = at_ns;
            record.ctime_ns = record.ctime_ns.max(at_ns);
            self.stale = true;
        }
    }

    /// Tells who watches the inode that a change begins, and takes over when others stored and what they appended: by
    /// this lock, so that a time which is set afterwards stays, and nobody sees the old one meanwhile.
    #[cold]
    fn begin(&mut self, watch: &dyn Watch, take: bool) {
        watch.begin();
        if let Some(written) = watch.written() {
            self.note_written(written);
        }
        if let Some(Appended { size, running }) = watch.appended(take) {
            if size > self.record.size {
                self.record.size = size;
                self.stale = true;
                self.grown = true;
            }
            self.tail = running.map(Box::new);
        }
    }

    /// Tells who watches the inode what its content is now.
    #[cold]
    fn show(&self, watch: &dyn Watch) {
        const SET_USER_ID: u16 = 0o4000;
        const SET_GROUP_ID: u16 = 0o2000;
        let record = &self.record;
        let readable = !record.is_free() && record.kind() == FileType::Regular;
        // A write changes nothing but content and times.
        let privileged = record.mode & (SET_USER_ID | SET_GROUP_ID) != 0 || record.xattr_bytes > 0 && !self.incapable;
        let writable = readable && !privileged && !record.is_protected();
        let mut pieces = Vec::new();
        // What lies in very many pieces is not worth the time that it takes to say so at every change.
        if readable && self.body.list().len() <= PIECES_MOST {
            self.body.each_run(|offset, at, bytes| pieces.push((offset, at, bytes)));
        }
        let (size, settled, sequence) = (record.size, !self.grown, self.sequence);
        watch.end(&Shown { size, readable, writable, settled, sequence, pieces: &pieces });
    }

    /// The next version of the inode as it is in memory, and where it goes. The caller stores it, or lets a transaction
    /// do that.
    pub fn next_version(&mut self, layout: &Layout, ino: Ino) -> (u64, [u8; VERSION_BYTES]) {
        let step = if defects::on(defects::SAME_HALF) { 2 } else { 1 };
        self.sequence = self.sequence.wrapping_add(step);
        self.stale = false;
        self.grown = false;
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
            watch: OnceLock::new(),
            state: RwLock::new(State {
                record,
                sequence,
                body,
                index: None,
                stale: false,
                grown: false,
                stored_ns: record.ctime_ns,
                incapable: record.xattr_bytes == 0,
                tail: None,
                mapped: None,
            }),
        }
    }

    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, State> {
        let state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        match self.watch.get() {
            Some(watch) => self.read_watched(&***watch, state),
            None => state,
        }
    }

    #[cold]
    fn read_watched<'a>(&'a self, watch: &dyn Watch, state: RwLockReadGuard<'a, State>) -> RwLockReadGuard<'a, State> {
        let mut state = state;
        while watch.is_leased() {
            // What was appended meanwhile is the file's.
            drop(state);
            drop(self.write());
            state = self.state.read().unwrap_or_else(PoisonError::into_inner);
        }
        state
    }

    #[inline]
    pub fn write(&self) -> Exclusive<'_> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        self.take_read_time(&mut state);
        Exclusive::new(self, state, true)
    }

    /// The lock for a change of neither size nor place: who appends goes on. What was appended before is the file's.
    pub fn beside_appends(&self, store: &Store) -> Result<Exclusive<'_>> {
        let mut state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        self.take_read_time(&mut state);
        let state = Exclusive::new(self, state, false);
        store.writable()?;
        Ok(state)
    }

    /// The lock for reading, for somebody who looks at the times, too.
    pub fn read_times(&self) -> RwLockReadGuard<'_, State> {
        if self.watch.get().is_some_and(|watch| watch.is_written()) {
            let state = self.state.write().unwrap_or_else(PoisonError::into_inner);
            drop(Exclusive::new(self, state, false));
        }
        self.read()
    }

    /// The lock, if nobody holds it: the collector takes what it can get.
    pub fn try_write(&self) -> Option<Exclusive<'_>> {
        let mut state = self.state.try_write().ok()?;
        self.take_read_time(&mut state);
        Some(Exclusive::new(self, state, true))
    }

    /// Lets somebody watch the inode from now on, whom `make` makes for its generation: once, however many ask at once,
    /// for what is made anew would stand for what others were told of. False: somebody does already, or nobody was
    /// made.
    ///
    /// # Errors
    /// `NotFound` if the inode is free.
    pub fn watch(&self, make: impl FnOnce(u32) -> Option<Box<dyn Watch>>) -> Result<bool> {
        let state = self.state.write().unwrap_or_else(PoisonError::into_inner);
        live(&state.record)?;
        if self.watch.get().is_some() {
            return Ok(false);
        }
        let Some(watch) = make(state.record.generation) else { return Ok(false) };
        let watch = self.watch.get_or_init(|| Box::new(watch));
        watch.begin();
        state.show(&***watch);
        Ok(true)
    }

    /// The lock for reading, if nobody changes the inode.
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, State>> {
        self.state.try_read().ok()
    }

    /// Locks the inode for a change. Closing a volume waits for these locks after it has set its mark: so whoever gets
    /// one and does not see the mark is done before the volume counts as closed.
    #[inline]
    pub fn exclusive(&self, store: &Store) -> Result<Exclusive<'_>> {
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
        let state = self.read_times();
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
        let _operation = store.operation();
        let Ok(mut state) = self.beside_appends(store) else { return };
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
    store_bytes_of_version(store, at, &version, after)
}

/// Stores what [`State::next_version`] gave. The inode is still locked exclusively.
pub(crate) fn store_bytes_of_version(store: &Store, at: u64, version: &[u8], after: Durable) -> Durable {
    if get_u32(version, 0) % RECORD_VERSIONS == 0 {
        // Recovery replays the newest record alone: with an empty one, none of an old version is left.
        store.commit(Transaction::new(), Durable::nothing_new()).done();
    }
    // SAFETY: the inode is locked exclusively; an inode in memory is loaded from the medium by nobody who has not
    // locked it.
    let dirty = unsafe { store.medium.write(at, version, after) };
    let flushed = store::flush(&store.medium, dirty, defects::SIZE_FLUSH);
    store::fence(&store.medium, flushed, defects::SIZE_FENCE)
}
