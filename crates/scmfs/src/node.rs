//! Inodes in memory: what is open or was used lately.

use crate::body::Body;
use crate::directory::Index;
use crate::inode::{self, Record};
use crate::volume::Inner;
use crate::{Attr, Error, FileType, Ino, Result, TimeNs, defects, persist};
use pocketstone_media::Durable;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Times reach the medium with the next other change of an inode, or when they are this much behind. A
/// directory that is always in use has the most worn inode: it is stored no oftener than this.
const STALE_NS: TimeNs = 5_000_000_000;
const SHARDS: usize = 16;
/// Inodes kept in memory in each shard, beyond those in use.
const SHARD_NODES: usize = 1024;

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
}

impl State {
    /// Notes a change of the content, to be stored later.
    pub fn touch(&mut self, now: TimeNs) {
        self.record.mtime_ns = now;
        self.record.ctime_ns = now;
        self.stale = true;
    }

    /// Whether the times on the medium are too far behind.
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
            state: RwLock::new(State { record, sequence, body, index: None, stale: false, stored_ns: record.ctime_ns }),
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

    fn take_read_time(&self, state: &mut State) {
        if self.read_ns.load(Ordering::Relaxed) != 0 {
            state.record.atime_ns = self.read_ns.swap(0, Ordering::Relaxed);
            state.stale = true;
        }
    }
}

/// Locks a mutex; a panic elsewhere does not lock everybody out.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Spreads inode numbers, which are no secret and need no more.
#[derive(Default)]
struct InoHasher(u64);

impl Hasher for InoHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u32(u32::from(*byte));
        }
    }

    fn write_u32(&mut self, ino: u32) {
        self.0 = (self.0 ^ u64::from(ino)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

type Shard = HashMap<Ino, Arc<Node>, BuildHasherDefault<InoHasher>>;

/// The inodes in memory.
pub(crate) struct Nodes {
    shards: [Mutex<Shard>; SHARDS],
}

impl Nodes {
    pub fn new() -> Nodes {
        Nodes { shards: std::array::from_fn(|_| Mutex::default()) }
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, Shard> {
        lock(&self.shards[ino as usize % SHARDS])
    }

    /// Everything in memory now.
    pub fn all(&self) -> Vec<Arc<Node>> {
        self.shards.iter().flat_map(|shard| lock(shard).values().cloned().collect::<Vec<_>>()).collect()
    }
}

impl Inner {
    /// An inode that is in use.
    pub fn node(&self, ino: Ino) -> Result<Arc<Node>> {
        if ino == 0 || ino > self.layout.inodes {
            return Err(Error::NotFound);
        }
        let mut shard = self.nodes.shard(ino);
        if let Some(node) = shard.get(&ino) {
            node.used.store(true, Ordering::Relaxed);
            return Ok(node.clone());
        }
        let (sequence, record) = inode::load(&self.medium, &self.layout, ino, self.segments())?;
        if record.is_free() {
            return Err(Error::NotFound);
        }
        let extents = if record.huge { lock(&self.extents).remove(&ino).unwrap_or_default() } else { Vec::new() };
        if extents.len() != record.segments as usize {
            let found = format!("inode {ino} with {} of its {} huge pages", extents.len(), record.segments);
            return Err(Error::damaged(self.layout.version_at(ino, sequence), found));
        }
        let node = Arc::new(Node::new(ino, sequence, record, Body::new(&self.layout, &record, extents)));
        self.make_room(&mut shard);
        shard.insert(ino, node.clone());
        Ok(node)
    }

    /// Locks an inode for a change. Closing a volume waits for these locks after it has set its mark: so
    /// whoever gets one and does not see the mark is done before the volume counts as closed.
    pub fn exclusive<'a>(&self, node: &'a Node) -> Result<RwLockWriteGuard<'a, State>> {
        let state = node.write();
        self.writable()?;
        Ok(state)
    }

    /// The attributes of an inode that is in use. One that is not in memory stays out of it.
    pub fn attributes(&self, ino: Ino) -> Result<Attr> {
        if ino == 0 || ino > self.layout.inodes {
            return Err(Error::NotFound);
        }
        let shard = self.nodes.shard(ino);
        if let Some(node) = shard.get(&ino).cloned() {
            drop(shard);
            return node.attributes(self);
        }
        // Nobody changes it meanwhile: for that it would have to come into memory, through this shard.
        let (_, record) = inode::load(&self.medium, &self.layout, ino, self.segments())?;
        if record.is_free() { Err(Error::NotFound) } else { Ok(record.attr(ino, &self.layout)) }
    }

    /// Makes a new inode known.
    pub fn add_node(&self, node: Arc<Node>) {
        let mut shard = self.nodes.shard(node.ino);
        self.make_room(&mut shard);
        shard.insert(node.ino, node);
    }

    /// Forgets an inode that was freed.
    pub fn drop_node(&self, ino: Ino) {
        self.nodes.shard(ino).remove(&ino);
    }

    /// Drops inodes that nobody used since the last time there was no room.
    fn make_room(&self, shard: &mut Shard) {
        if shard.len() < SHARD_NODES {
            return;
        }
        shard.retain(|ino, node| {
            // Only the table holds it, and the table is locked: nobody can get hold of it now.
            let idle = Arc::strong_count(node) == 1;
            if node.used.swap(false, Ordering::Relaxed) || !idle {
                return true;
            }
            let mut state = node.write();
            if state.stale && !self.read_only() {
                self.store_version(*ino, &mut state, Durable::nothing()).done();
            }
            if state.record.huge {
                lock(&self.extents).insert(*ino, state.body.take_extents());
            }
            false
        });
    }

    /// Stores an inode as it is in memory, atomically. `after` is what the new version refers to.
    pub fn store_version(&self, ino: Ino, state: &mut State, after: Durable) -> Durable {
        let (at, version) = self.next_version(ino, state);
        let dirty = self.medium.write(at, &version, after);
        let flushed = persist::flush(&self.medium, dirty, defects::SIZE_FLUSH);
        persist::fence(&self.medium, flushed, defects::SIZE_FENCE)
    }

    /// The next version of an inode as it is in memory, and where it goes. The caller stores it, or lets
    /// a transaction do that.
    pub fn next_version(&self, ino: Ino, state: &mut State) -> (u64, [u8; crate::layout::VERSION_BYTES]) {
        let step = if defects::on(defects::SAME_HALF) { 2 } else { 1 };
        state.sequence = state.sequence.wrapping_add(step);
        state.stale = false;
        state.stored_ns = state.record.ctime_ns;
        (self.layout.version_at(ino, state.sequence), state.record.encode(ino, state.sequence))
    }

    /// Stores an inode's times if they are only in memory.
    pub fn store_times(&self, node: &Node) {
        let Ok(mut state) = self.exclusive(node) else { return };
        if state.stale && !state.record.is_free() {
            self.store_version(node.ino, &mut state, Durable::nothing()).done();
        }
    }
}
