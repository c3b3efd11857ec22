//! Inodes in memory: what is open or was used lately.

mod body;
mod index;
mod node;

pub(crate) use body::Body;
pub(crate) use index::Index;
pub(crate) use node::{Exclusive, Node, State, live, store_bytes_of_version, store_version};

use crate::format::inode::{self, Record};
use crate::store::{Store, lock};
use crate::{Attr, Error, Ino, Result};
use pocketstone_media::Durable;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard};

const SHARDS: usize = 16;
/// Inodes kept in memory in each shard, beyond those in use.
const SHARD_NODES: usize = 1024;

/// Huge pages of files: `(index, huge page)`, in order, by inode.
pub(crate) type Extents = HashMap<Ino, Vec<(u32, u32)>>;

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
pub(crate) struct Inodes {
    shards: [Mutex<Shard>; SHARDS],
    /// Huge pages of the files that are not in memory.
    extents: Mutex<Extents>,
}

impl Inodes {
    /// None in memory; `extents` are the huge pages of all files.
    pub fn new(extents: Extents) -> Inodes {
        Inodes { shards: std::array::from_fn(|_| Mutex::default()), extents: Mutex::new(extents) }
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, Shard> {
        lock(&self.shards[ino as usize % SHARDS])
    }

    /// Everything in memory now.
    pub fn all(&self) -> Vec<Arc<Node>> {
        self.shards.iter().flat_map(|shard| lock(shard).values().cloned().collect::<Vec<_>>()).collect()
    }

    /// An inode that is in use.
    pub fn node(&self, store: &Store, ino: Ino) -> Result<Arc<Node>> {
        let layout = &store.layout;
        if ino == 0 || ino > layout.last_inode() {
            return Err(Error::NotFound);
        }
        let mut shard = self.shard(ino);
        if let Some(node) = shard.get(&ino) {
            node.note_use();
            return Ok(node.clone());
        }
        let loaded = inode::load(&store.medium, layout, ino, store.segments());
        // What was read may have been a huge page that does not serve the inode table any more.
        let gone = |error| if ino > layout.last_inode() { Error::NotFound } else { error };
        let (sequence, record) = loaded.map_err(gone)?;
        if record.is_free() {
            return Err(Error::NotFound);
        }
        let extents = if record.huge { lock(&self.extents).remove(&ino).unwrap_or_default() } else { Vec::new() };
        if extents.len() != record.segments as usize {
            let found = format!("inode {ino} with {} of its {} huge pages", extents.len(), record.segments);
            return Err(Error::damaged(layout.version_at(ino, sequence), found));
        }
        let (mut record, mut body) = (record, Body::new(layout, &record, extents));
        if record.list_extents > 0 {
            let read = |at: u64, into: &mut [u8]| store.medium.read(at, into);
            match inode::load_list(layout, ino, &record, store.segments(), read) {
                // As it is stored, not put together anew: the record says how many extents there are.
                Ok(list) => body.set(body.run(), body.extents().to_vec(), list),
                Err(error) => {
                    if record.huge {
                        lock(&self.extents).insert(ino, body.take_extents());
                    }
                    return Err(error);
                }
            }
            record.list_total = body.list_total();
        }
        let node = Arc::new(Node::new(ino, sequence, record, body));
        self.make_room(store, &mut shard);
        shard.insert(ino, node.clone());
        Ok(node)
    }

    /// The attributes of an inode that is in use. One that is not in memory stays out of it.
    pub fn attributes(&self, store: &Store, ino: Ino) -> Result<Attr> {
        let layout = &store.layout;
        if ino == 0 || ino > layout.last_inode() {
            return Err(Error::NotFound);
        }
        let shard = self.shard(ino);
        if let Some(node) = shard.get(&ino).cloned() {
            drop(shard);
            return node.attributes(layout);
        }
        // Nobody changes it meanwhile: for that it would have to come into memory, through this shard.
        let (_, record) = inode::load(&store.medium, layout, ino, store.segments())?;
        if record.list_extents > 0 && !record.is_free() {
            // How many pages it has, its list says.
            drop(shard);
            return self.node(store, ino)?.attributes(layout);
        }
        if record.is_free() { Err(Error::NotFound) } else { Ok(record.attr(ino, layout)) }
    }

    /// What the medium says of an inode; `None` if somebody may be changing it.
    pub fn stored(&self, store: &Store, ino: Ino) -> Option<Record> {
        self.undisturbed(ino, || inode::load(&store.medium, &store.layout, ino, store.segments()).ok())?
            .map(|(_, record)| record)
    }

    /// Looks at what the medium has of an inode while nobody changes it; `None` if somebody may be doing that now.
    pub fn undisturbed<T>(&self, ino: Ino, look: impl FnOnce() -> T) -> Option<T> {
        let shard = self.shard(ino);
        let Some(node) = shard.get(&ino).cloned() else {
            // Nobody changes it: for that it would have to come into memory, through this shard.
            return Some(look());
        };
        drop(shard);
        let _unchanged = node.try_read()?;
        Some(look())
    }

    /// Makes a new inode known.
    pub fn add(&self, store: &Store, node: Arc<Node>) {
        let mut shard = self.shard(node.ino);
        self.make_room(store, &mut shard);
        shard.insert(node.ino, node);
    }

    /// Forgets an inode that was freed.
    pub fn forget(&self, ino: Ino) {
        self.shard(ino).remove(&ino);
    }

    /// Drops inodes that nobody used since the last time there was no room.
    fn make_room(&self, store: &Store, shard: &mut Shard) {
        if shard.len() < SHARD_NODES {
            return;
        }
        shard.retain(|ino, node| {
            // Only the table holds it, and the table is locked: nobody can get hold of it now.
            let idle = Arc::strong_count(node) == 1;
            if node.was_used() || !idle {
                return true;
            }
            let mut state = node.write();
            if state.stale && !store.read_only() {
                store_version(store, *ino, &mut state, Durable::nothing_new()).done();
            }
            if state.record.huge {
                lock(&self.extents).insert(*ino, state.body.take_extents());
            }
            false
        });
    }
}
