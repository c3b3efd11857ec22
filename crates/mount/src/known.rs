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
    shards: [Mutex<Shard<Open>>; SHARDS],
}

struct Shard<Open> {
    inodes: HashMap<Ino, Inode<Open>>,
    /// Those that have a `file`.
    open: Vec<Ino>,
}

struct Inode<Open> {
    lookups: u64,
    pin: Option<Open>,
    /// It has no name yet, and may get one.
    nameless: bool,
    /// Open because something was asked about its content, by number.
    file: Option<Open>,
    /// Something was since the last [`Known::close_idle`].
    used: bool,
}

impl<Open> Known<Open> {
    pub fn new() -> Known<Open> {
        Known { shards: std::array::from_fn(|_| Mutex::new(Shard { inodes: HashMap::new(), open: Vec::new() })) }
    }

    fn shard(&self, ino: Ino) -> MutexGuard<'_, Shard<Open>> {
        // Nothing in here panics half way.
        self.shards[ino as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kernel is about to be told this number.
    pub fn learn(&self, ino: Ino) {
        let new = Inode { lookups: 0, pin: None, nameless: false, file: None, used: false };
        self.shard(ino).inodes.entry(ino).or_insert(new).lookups += 1;
    }

    /// The kernel gives so many lookups back.
    pub fn forget(&self, ino: Ino, lookups: u64) {
        let mut shard = self.shard(ino);
        if let Some(inode) = shard.inodes.get_mut(&ino) {
            inode.lookups = inode.lookups.saturating_sub(lookups);
            if inode.lookups == 0 {
                let _inode = shard.inodes.remove(&ino);
                // Dropping a pin may delete a whole file: not with the lock held.
                drop(shard);
            }
        }
    }

    pub fn knows(&self, ino: Ino) -> bool {
        self.shard(ino).inodes.contains_key(&ino)
    }

    /// The open file of an inode; `open` opens it if it is not. One that the kernel knows stays open for a while.
    pub fn file<E>(&self, ino: Ino, open: impl FnOnce() -> Result<Open, E>) -> Result<Open, E>
    where
        Open: Clone,
    {
        let mut shard = self.shard(ino);
        let shard = &mut *shard;
        let Some(inode) = shard.inodes.get_mut(&ino) else { return open() };
        inode.used = true;
        if let Some(file) = &inode.file {
            return Ok(file.clone());
        }
        let file = open()?;
        inode.file = Some(file.clone());
        shard.open.push(ino);
        Ok(file)
    }

    /// Closes the files that nothing was asked about since it was last called.
    pub fn close_idle(&self) {
        for number in 0..SHARDS {
            let mut closed = Vec::new();
            let mut shard = self.shard(number as Ino);
            let Shard { inodes, open } = &mut *shard;
            open.retain(|ino| {
                let Some(inode) = inodes.get_mut(ino) else { return false };
                let used = std::mem::take(&mut inode.used);
                if !used {
                    closed.extend(inode.file.take());
                }
                used && inode.file.is_some()
            });
            // Closing may delete or store: not with the lock held.
            drop(shard);
        }
    }

    /// Keeps an inode that has lost a name until the kernel has forgotten it.
    pub fn pin(&self, ino: Ino, open: Open) {
        let mut open = Some(open);
        if let Some(inode) = self.shard(ino).inodes.get_mut(&ino) {
            if inode.pin.is_none() {
                inode.pin = open.take();
            }
        }
        // One that is left is dropped here, without the lock: that may delete a whole file.
    }

    /// An inode that is pinned has no name, and may get one.
    pub fn may_be_named(&self, ino: Ino) {
        if let Some(inode) = self.shard(ino).inodes.get_mut(&ino) {
            inode.nameless = true;
        }
    }

    /// The pin of an inode that has no name and may get one.
    pub fn nameless(&self, ino: Ino) -> Option<Open>
    where
        Open: Clone,
    {
        self.shard(ino).inodes.get(&ino).filter(|inode| inode.nameless)?.pin.clone()
    }

    /// An inode has a name now.
    pub fn named(&self, ino: Ino) {
        if let Some(inode) = self.shard(ino).inodes.get_mut(&ino) {
            inode.nameless = false;
        }
    }
}

/// The number of no open file: what is asked is about an inode.
pub(crate) const NO_HANDLE: u64 = 0;

/// Open files and directories by the number that the kernel has for them, which is never [`NO_HANDLE`].
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
        place as u64 + 1
    }

    pub fn get(&self, handle: u64) -> Option<Open> {
        let slots = self.slots.read().unwrap_or_else(PoisonError::into_inner);
        slots.files.get((handle as usize).wrapping_sub(1)).cloned().flatten()
    }

    /// Closes a file.
    pub fn remove(&self, handle: u64) {
        // Returned out of the lock: dropping it may delete a whole file.
        let _file = {
            let mut slots = self.slots.write().unwrap_or_else(PoisonError::into_inner);
            let place = (handle as usize).wrapping_sub(1);
            let file = slots.files.get_mut(place).and_then(Option::take);
            if file.is_some() {
                slots.free.push(place);
            }
            file
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    type Opened = Result<Arc<Ino>, ()>;

    #[test]
    fn a_file_that_is_asked_about_stays_open_and_an_idle_one_is_closed() {
        let known = Known::new();
        let count = Arc::new(7);
        let open = || -> Opened { Ok(count.clone()) };
        let held = || Arc::strong_count(&count) - 1;
        drop(known.file(7, open));
        assert_eq!(held(), 0, "the kernel does not know it, and will not say that it forgot it");
        known.learn(7);
        assert_eq!(known.file(7, open), Ok(count.clone()));
        assert_eq!(known.file(7, || -> Opened { panic!("it is open") }), Ok(count.clone()));
        known.close_idle();
        assert_eq!(held(), 1, "it was used");
        known.close_idle();
        assert_eq!(held(), 0);
        assert_eq!(known.file(7, || Err(())), Err(()));
        drop(known.file(7, open));
        known.forget(7, 1);
        assert_eq!(held(), 0);
        known.close_idle();
        assert!(!known.knows(7));
    }

    #[test]
    fn no_handle_is_that_of_an_inode() {
        let handles = Handles::new();
        assert_eq!(handles.get(NO_HANDLE), None);
        let handle = handles.insert(5);
        assert_ne!(handle, NO_HANDLE);
        handles.remove(NO_HANDLE);
        assert_eq!(handles.get(handle), Some(5));
        handles.remove(handle);
        assert_eq!((handles.get(handle), handles.insert(6)), (None, handle));
    }
}
