//! What the kernel holds: inodes it knows by number, and files it has open.

use fuser::FileHandle;
use pocketstone_scmfs::{File, Ino};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError, RwLock};

const SHARDS: usize = 16;

/// The inodes whose numbers the kernel may still use.
///
/// The kernel counts every number it is told and gives the counts back when it forgets. Until then
/// the number must not come to mean another file, so an inode that loses its last name is pinned.
pub(crate) struct Known {
    shards: [Mutex<HashMap<Ino, Inode>>; SHARDS],
}

#[derive(Default)]
struct Inode {
    lookups: u64,
    pin: Option<File>,
}

impl Known {
    pub fn new() -> Known {
        Known { shards: std::array::from_fn(|_| Mutex::default()) }
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, HashMap<Ino, Inode>> {
        // Nothing in here panics half way.
        self.shards[ino as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel is about to be told this number.
    pub fn learn(&self, ino: Ino) {
        self.shard(ino).entry(ino).or_default().lookups += 1;
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
    pub fn pin(&self, file: File) {
        if let Some(inode) = self.shard(file.ino()).get_mut(&file.ino()) {
            inode.pin.get_or_insert(file);
        }
    }
}

/// Open files and directories by the number that the kernel has for them.
#[derive(Default)]
pub(crate) struct Handles {
    slots: RwLock<Slots>,
}

#[derive(Default)]
struct Slots {
    files: Vec<Option<File>>,
    free: Vec<usize>,
}

impl Handles {
    pub fn insert(&self, file: File) -> FileHandle {
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
        FileHandle(place as u64)
    }

    pub fn get(&self, handle: FileHandle) -> Option<File> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.files.get(handle.0 as usize).cloned().flatten()
    }

    /// Closes a file.
    pub fn remove(&self, handle: FileHandle) {
        // Returned out of the lock: dropping it may delete a whole file.
        let _file = {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            let place = handle.0 as usize;
            let file = slots.files.get_mut(place).and_then(Option::take);
            if file.is_some() {
                slots.free.push(place);
            }
            file
        };
    }
}
