//! An open volume, as its parts: what each layer keeps. Everything above works on these.

use crate::format::layout::VERSION_BYTES;
use crate::inodes::{Inodes, Node, State, store_bytes_of_version, store_version};
use crate::space::Space;
use crate::store::{Store, lock};
use crate::{Ino, Result};
use pocketstone_media::{Durable, Medium, Piece, Window};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

/// What all handles of an open volume share.
///
/// Locks are taken in this order: `tree`; directories; files, by inode number; a shard of inodes; then, one at a time,
/// the huge pages of inodes that are not in memory, `windows`; null files; free space; the journal.
///
/// They say also who may store to the medium, and that nobody else looks meanwhile: to an inode's versions, content,
/// attributes and list, who has locked it exclusively; to pages that were taken and belong to no inode yet, who took
/// them; to the mapping tables and the journal, who has the journal; to the superblocks, who has the one in memory.
pub(crate) struct Parts {
    pub store: Store,
    pub space: Space,
    pub inodes: Inodes,
    pub windows: Windows,
    /// Whoever locks two directories holds it, so that no two of them wait for each other.
    pub tree: Mutex<()>,
}

impl Parts {
    /// An inode that is in use.
    pub fn node(&self, ino: Ino) -> Result<Arc<Node>> {
        self.inodes.node(&self.store, ino)
    }

    /// Stores an inode as it is in memory, atomically. `after` is what the new version refers to.
    pub fn store_version(&self, ino: Ino, state: &mut State, after: Durable) -> Durable {
        store_version(&self.store, ino, state, after)
    }

    /// Stores what [`Parts::next_version`] gave, atomically. The inode is still locked exclusively.
    pub fn store_bytes_of_version(&self, at: u64, version: &[u8], after: Durable) -> Durable {
        store_bytes_of_version(&self.store, at, version, after)
    }

    /// The next version of an inode as it is in memory, and where it goes. The caller lets a transaction store it.
    pub fn next_version(&self, ino: Ino, state: &mut State) -> (u64, [u8; VERSION_BYTES]) {
        state.next_version(&self.store.layout, ino)
    }

    /// Whether contents can lie still for who maps them: nobody has to know of their stores.
    pub fn may_be_mapped(&self) -> bool {
        self.store.layout.checks_at.is_none() && self.store.medium.tracker().is_none()
    }

    /// Stores the sizes of files that have grown outside.
    pub fn store_sizes(&self) {
        self.space.held.each_grown(|ino| {
            // One that is gone has no size.
            if let Ok(node) = self.node(ino) {
                node.store_times(&self.store);
            }
        });
    }

    /// Makes all completed operations durable, as far as the medium supports it.
    pub fn sync(&self) -> Result<()> {
        for node in self.inodes.all() {
            node.store_times(&self.store);
        }
        Ok(self.store.medium.sync()?)
    }
}

/// Mappings that all windows together may take: the kernel allows a process 65,530, and most of those
/// belong to the program that uses the volume.
const MAPPINGS_MAX: usize = 900;

/// One file's window, and what it showed when it was made.
struct Held {
    pieces: Vec<Piece>,
    window: Arc<dyn Window>,
}

/// The windows in use and those used last.
#[derive(Default)]
pub(crate) struct Windows(Mutex<VecDeque<Held>>);

impl Windows {
    pub fn count(&self) -> u32 {
        lock(&self.0).len() as u32
    }

    /// A window of these pieces, if the medium has such.
    pub fn get(&self, medium: &Medium, pieces: Vec<Piece>) -> Option<Arc<dyn Window>> {
        let mut held = lock(&self.0);
        if let Some(known) = held.iter().position(|held| held.pieces == pieces) {
            let found = held.remove(known)?;
            let window = found.window.clone();
            held.push_back(found);
            return Some(window);
        }
        if pieces.len() > MAPPINGS_MAX {
            return None;
        }
        while held.iter().map(|held| held.pieces.len()).sum::<usize>() + pieces.len() > MAPPINGS_MAX {
            // The least recently used that nobody looks through.
            let idle = held.iter().position(|held| Arc::strong_count(&held.window) == 1)?;
            held.remove(idle);
        }
        let window: Arc<dyn Window> = Arc::from(medium.window(&pieces)?);
        held.push_back(Held { pieces, window: window.clone() });
        Some(window)
    }
}
