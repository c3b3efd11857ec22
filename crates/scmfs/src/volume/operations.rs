//! What a volume does by inode numbers, as any other file system.

use super::{File, Volume};
use crate::format::inode::TARGET_MAX;
use crate::inodes::{Node, live};
use crate::operations::{create, names, rename, usage};
use crate::parts::Parts;
use crate::{Attr, Entry, Error, FileType, Ino, Meta, Operations, Rename, Result, SetAttr, Statfs};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Any of these may find what is `Damaged`; what would change a protected inode is `NotPermitted`.
impl Operations for Volume {
    type Handle = File;

    /// Finds `.` and `..`, too.
    #[inline]
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        names::lookup(&self.parts, parent, name)
    }

    fn attributes(&self, ino: Ino) -> Result<Attr> {
        self.parts.inodes.attributes(&self.parts.store, ino)
    }

    fn parent(&self, directory: Ino) -> Result<Ino> {
        names::parent(&self.parts, directory)
    }

    /// The size first, then all the others at once.
    fn set_attributes(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        let _operation = self.parts.store.operation();
        names::set_attributes(&self.parts, ino, change)
    }

    /// Anything but a directory or a symbolic link: `Invalid` for these.
    fn create_file(&self, parent: Ino, name: &[u8], meta: &Meta) -> Result<File> {
        let _operation = self.parts.store.operation();
        if matches!(meta.kind, FileType::Directory | FileType::Symlink) {
            return Err(Error::Invalid);
        }
        let node = create::create(&self.parts, parent, name, meta, &[])?;
        Ok(File::pinned(&self.parts, node))
    }

    /// `TooManyLinks` if the directory above has as many as an inode can count.
    fn create_directory(&self, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr> {
        let _operation = self.parts.store.operation();
        let meta = meta.kind(FileType::Directory);
        let node = create::create(&self.parts, parent, name, &meta, &[])?;
        Ok(let_go(&self.parts, node))
    }

    /// `NotFound` if the target is empty.
    fn create_symlink(&self, parent: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Attr> {
        let _operation = self.parts.store.operation();
        if target.is_empty() {
            return Err(Error::NotFound);
        }
        if target.len() > TARGET_MAX {
            return Err(Error::NameTooLong);
        }
        let meta = Meta::file(0o777).kind(FileType::Symlink).uid(uid).gid(gid);
        let node = create::create(&self.parts, parent, name, &meta, target)?;
        Ok(let_go(&self.parts, node))
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        names::read_link(&self.parts, ino)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        let _operation = self.parts.store.operation();
        create::link(&self.parts, ino, parent, name, false)
    }

    /// The inode goes, too, if it was the last name and nobody has it open.
    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let _operation = self.parts.store.operation();
        names::unlink(&self.parts, parent, name)
    }

    /// `Invalid` for `.`.
    fn remove_directory(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let _operation = self.parts.store.operation();
        names::remove_directory(&self.parts, parent, name)
    }

    fn read_directory(&self, ino: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()> {
        names::read_directory(&self.parts, ino, cookie, take)
    }

    fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()> {
        let _operation = self.parts.store.operation();
        let left = rename::rename(&self.parts, from, name, to, new_name, how)?;
        // It came pinned.
        drop(left.map(|node| File::pinned(&self.parts, node)));
        Ok(())
    }

    fn open(&self, ino: Ino) -> Result<File> {
        let node = self.parts.node(ino)?;
        {
            let state = node.read();
            live(&state.record)?;
            // Under the lock: whoever frees the inode holds it too.
            node.pins.fetch_add(1, Ordering::AcqRel);
        }
        Ok(File::pinned(&self.parts, node))
    }

    #[inline]
    fn release(&self, file: File) {
        drop(file);
    }

    #[inline]
    fn ino(&self, file: &File) -> Ino {
        file.ino()
    }

    #[inline]
    fn read_at(&self, file: &File, into: &mut [u8], offset: u64) -> Result<usize> {
        file.read_at(into, offset)
    }

    #[inline]
    fn write_at(&self, file: &File, from: &[u8], offset: u64) -> Result<usize> {
        file.write_at(from, offset)
    }

    #[inline]
    fn append(&self, file: &File, from: &[u8]) -> Result<(usize, u64)> {
        file.append(from)
    }

    fn truncate(&self, file: &File, size: u64) -> Result<()> {
        file.truncate(size)
    }

    fn sync(&self, file: &File) -> Result<()> {
        file.sync()
    }

    fn sync_all(&self) -> Result<()> {
        self.parts.sync()
    }

    /// Null files count as free, space that is preallocated for files as used. Inodes count what free huge pages could
    /// be made into.
    fn statfs(&self) -> Result<Statfs> {
        Ok(usage::statfs(&self.parts))
    }
}

/// Gives up the pin that a new inode came with, and says what it is. Somebody may have removed its name since it got
/// that: then this was what kept the inode, and it goes.
fn let_go(parts: &Arc<Parts>, new: Arc<Node>) -> Attr {
    File::pinned(parts, new).attributes()
}

#[cfg(test)]
mod tests;
