//! A volume shared between threads.

use crate::volume::Volume;
use pocketstone_vfs::{Attr, Entry, FileSystem, Ino, MediumError, Meta, Operations, Rename, Result, SetAttr, Statfs};
use std::sync::{Mutex, MutexGuard};

/// A volume that any number of threads may use, one operation at a time.
pub struct SharedVolume {
    volume: Mutex<Volume>,
}

/// An inode in use.
#[derive(Debug)]
pub struct Handle {
    ino: Ino,
}

impl SharedVolume {
    /// Makes a volume shareable.
    pub fn new(volume: Volume) -> SharedVolume {
        SharedVolume { volume: Mutex::new(volume) }
    }

    /// Returns the volume, to close it.
    ///
    /// # Errors
    /// `Medium` if a thread panicked during an operation.
    pub fn into_volume(self) -> Result<Volume> {
        Ok(self.volume.into_inner().map_err(|_| broken_off())?)
    }

    /// Locks the volume for operations other than those on inodes. Other threads wait meanwhile.
    ///
    /// # Errors
    /// `Medium` if a thread panicked during an operation.
    pub fn lock(&self) -> Result<MutexGuard<'_, Volume>> {
        Ok(self.volume.lock().map_err(|_| broken_off())?)
    }
}

fn broken_off() -> MediumError {
    MediumError::bug("an operation was interrupted")
}

impl Volume {
    /// Path-based access to the volume. [`FileSystem::into_volume`] and [`SharedVolume::into_volume`] return the
    /// volume.
    pub fn into_file_system(self) -> FileSystem<SharedVolume> {
        FileSystem::new(SharedVolume::new(self))
    }
}

impl Operations for SharedVolume {
    type Handle = Handle;

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.lock()?.lookup(parent, name)
    }

    fn parent(&self, directory: Ino) -> Result<Ino> {
        self.lock()?.parent(directory)
    }

    fn attributes(&self, ino: Ino) -> Result<Attr> {
        self.lock()?.attributes(ino)
    }

    fn set_attributes(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        self.lock()?.set_attributes(ino, change)
    }

    fn create_file(&self, parent: Ino, name: &[u8], meta: &Meta) -> Result<Handle> {
        let mut volume = self.lock()?;
        let ino = volume.create_file(parent, name, meta)?.ino;
        volume.hold(ino)?;
        Ok(Handle { ino })
    }

    fn create_directory(&self, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr> {
        self.lock()?.create_directory(parent, name, meta)
    }

    fn create_symlink(&self, parent: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Attr> {
        self.lock()?.create_symlink(parent, name, target, uid, gid)
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        self.lock()?.read_link(ino)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.lock()?.link(ino, parent, name)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.lock()?.unlink(parent, name)
    }

    fn remove_directory(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.lock()?.remove_directory(parent, name)
    }

    fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()> {
        self.lock()?.rename(from, name, to, new_name, how)
    }

    fn read_directory(&self, ino: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()> {
        self.lock()?.read_directory(ino, cookie, take)
    }

    fn open(&self, ino: Ino) -> Result<Handle> {
        self.lock()?.hold(ino)?;
        Ok(Handle { ino })
    }

    fn release(&self, handle: Handle) {
        if let Ok(mut volume) = self.lock() {
            // What could not be deleted stays where nobody sees it, until the next mount deletes it.
            let _ = volume.release(handle.ino);
        }
    }

    fn ino(&self, handle: &Handle) -> Ino {
        handle.ino
    }

    fn read_at(&self, handle: &Handle, into: &mut [u8], offset: u64) -> Result<usize> {
        self.lock()?.read_at(handle.ino, into, offset)
    }

    fn write_at(&self, handle: &Handle, from: &[u8], offset: u64) -> Result<usize> {
        self.lock()?.write_at(handle.ino, from, offset)
    }

    fn append(&self, handle: &Handle, from: &[u8]) -> Result<(usize, u64)> {
        let mut volume = self.lock()?;
        let end = volume.attributes(handle.ino)?.size;
        let bytes = volume.write_at(handle.ino, from, end)?;
        Ok((bytes, end + bytes as u64))
    }

    fn sync(&self, handle: &Handle) -> Result<()> {
        self.lock()?.sync_inode(handle.ino)
    }

    fn sync_all(&self) -> Result<()> {
        self.lock()?.sync()
    }

    fn statfs(&self) -> Result<Statfs> {
        Ok(self.lock()?.statfs())
    }
}
