//! What the kernel holds: inodes it knows by number, and files it has open.

use pocketstone_vfs::Ino;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

const SHARDS: usize = 16;

/// The inodes whose numbers the kernel may still use.
///
/// The kernel counts every number it is told and gives the counts back when it forgets. Until then
/// the number must not come to mean another file, so an inode that loses its last name is pinned.
pub(crate) struct Known<Open> {
    shards: [Mutex<HashMap<Ino, Inode<Open>>>; SHARDS],
}

struct Inode<Open> {
    lookups: u64,
    pin: Option<Open>,
    /// It has no name yet, and may get one.
    nameless: bool,
}

impl<Open> Known<Open> {
    pub fn new() -> Known<Open> {
        Known { shards: std::array::from_fn(|_| Mutex::default()) }
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, HashMap<Ino, Inode<Open>>> {
        // Nothing in here panics half way.
        self.shards[ino as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel is about to be told this number.
    pub fn learn(&self, ino: Ino) {
        self.shard(ino).entry(ino).or_insert(Inode { lookups: 0, pin: None, nameless: false }).lookups += 1;
    }

    /// The kernel gives so many lookups back.
    pub fn forget(&self, ino: Ino, lookups: u64) {
        let mut shard = self.shard(ino);
        if let Some(inode) = shard.get_mut(&ino) {
            inode.lookups = inode.lookups.saturating_sub(lookups);
            if inode.lookups == 0 {
                let inode = shard.remove(&ino);
                drop(shard);
                // Dropping a pin may delete a whole file: not with the lock held.
                let Some(Inode { pin: Some(_pin), .. }) = inode else { return };
            }
        }
    }

    pub fn knows(&self, ino: Ino) -> bool {
        self.shard(ino).contains_key(&ino)
    }

    /// Keeps an inode that has lost a name until the kernel has forgotten it.
    pub fn pin(&self, ino: Ino, open: Open) {
        let mut open = Some(open);
        if let Some(inode) = self.shard(ino).get_mut(&ino) {
            if inode.pin.is_none() {
                inode.pin = open.take();
            }
        }
        // One that is left is dropped here, without the lock: that may delete a whole file.
    }

    /// An inode that is pinned has no name, and may get one.
    pub fn may_be_named(&self, ino: Ino) {
        if let Some(inode) = self.shard(ino).get_mut(&ino) {
            inode.nameless = true;
        }
    }

    /// The pin of an inode that has no name and may get one.
    pub fn nameless(&self, ino: Ino) -> Option<Open>
    where
        Open: Clone,
    {
        self.shard(ino).get(&ino).filter(|inode| inode.nameless)?.pin.clone()
    }

    /// An inode has a name now.
    pub fn named(&self, ino: Ino) {
        if let Some(inode) = self.shard(ino).get_mut(&ino) {
            inode.nameless = false;
        }
    }
}

/// Open files and directories by the number that the kernel has for them.
pub(crate) struct Handles<Open> {
    slots: RwLock<Slots<Open>>,
}

struct Slots<Open> {
    files: Vec<Option<Open>>,
    free: Vec<usize>,
}

impl<Open: Clone> Handles<Open> {
    pub fn new() -> Handles<Open> {
        Handles { slots: RwLock::new(Slots { files: Vec::new(), free: Vec::new() }) }
    }

    pub fn insert(&self, file: Open) -> u64 {
        let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
        let place = match slots.free.pop() {
            Some(place) => {
                slots.files[place] = Some(file);
                place
            }
            None => {
                slots.files.push(Some(file));
                slots.files.len() - 1
            }
        };
        place as u64
    }

    pub fn get(&self, handle: u64) -> Option<Open> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.files.get(handle as usize).cloned().flatten()
    }

    /// Closes a file.
    pub fn remove(&self, handle: u64) {
        // Returned out of the lock: dropping it may delete a whole file.
        let _file = {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            let place = handle as usize;
            let file = slots.files.get_mut(place).and_then(Option::take);
            if file.is_some() {
                slots.free.push(place);
            }
            file
        };
    }
}
