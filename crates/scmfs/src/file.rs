//! An open file.

use crate::namespace::live;
use crate::node::Node;
use crate::view::View;
use crate::volume::{Inner, Volume};
use crate::{Allocate, Attr, Error, FileType, Ino, Meta, Result};
use pocketstone_media::Durable;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// An open file (or any other inode that must not go away). As long as there is one, the inode outlives
/// its last name. Clones are the same open file; there is no position.
pub struct File {
    inner: Arc<Inner>,
    node: Arc<Node>,
}

impl Volume {
    /// Opens an inode.
    ///
    /// # Errors
    /// `NotFound`.
    pub fn open_file(&self, ino: Ino) -> Result<File> {
        let node = self.inner.node(ino)?;
        {
            let state = node.read();
            live(&state.record)?;
            // Under the lock: whoever frees the inode holds it too.
            node.pins.fetch_add(1, Ordering::AcqRel);
        }
        Ok(File::pinned(&self.inner, node))
    }

    /// Creates a file without a name. It is gone when the last [`File`] is dropped, unless
    /// [`Volume::link_file`] gives it a name.
    ///
    /// # Errors
    /// `NoSpace`, `ReadOnly`; `Invalid` if it is to be a directory or a symbolic link.
    pub fn temporary_file(&self, meta: &Meta) -> Result<File> {
        if matches!(meta.kind, FileType::Directory | FileType::Symlink) {
            return Err(Error::Invalid);
        }
        let node = self.inner.create_unnamed(meta)?;
        Ok(File::pinned(&self.inner, node))
    }

    /// Gives an open file a name, also one that has none.
    ///
    /// # Errors
    /// As [`Volume::link`].
    pub fn link_file(&self, file: &File, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.inner.link(file.ino(), parent, name, true)
    }

    /// Makes an inode durable: what fsync promises.
    ///
    /// # Errors
    /// `NotFound`; if the medium cannot write back.
    pub fn sync_inode(&self, ino: Ino) -> Result<()> {
        let node = self.inner.node(ino)?;
        self.inner.store_times(&node);
        Ok(self.inner.medium.sync()?)
    }
}

impl Clone for File {
    fn clone(&self) -> File {
        self.node.pins.fetch_add(1, Ordering::AcqRel);
        File { inner: self.inner.clone(), node: self.node.clone() }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        if self.node.pins.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let Ok(mut state) = self.inner.exclusive(&self.node) else { return };
        let unused = self.node.pins.load(Ordering::Acquire) == 0;
        if unused && state.record.links == 0 && !state.record.is_free() {
            self.inner.free_inode(self.node.ino, &mut state);
        } else if unused && state.stale && !state.record.is_free() {
            self.inner.store_version(self.node.ino, &mut state, Durable::nothing()).done();
        }
    }
}

impl File {
    /// Takes a pin over that was counted already.
    pub(crate) fn pinned(inner: &Arc<Inner>, node: Arc<Node>) -> File {
        File { inner: inner.clone(), node }
    }

    /// The inode number.
    pub fn ino(&self) -> Ino {
        self.node.ino
    }

    /// The attributes as they are now.
    pub fn attributes(&self) -> Attr {
        let state = self.node.read();
        self.node.attributes_of(&self.inner, &state)
    }

    fn check_regular(&self) -> Result<()> {
        match self.node.read().record.kind() {
            FileType::Regular => Ok(()),
            FileType::Directory => Err(Error::IsDirectory),
            _ => Err(Error::Invalid),
        }
    }

    /// Reads from an offset; the bytes read, fewer than asked for only at the end of the file.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid`: not a regular file.
    #[inline]
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        let state = self.node.read();
        if state.record.mode & 0o170_000 != 0o100_000 {
            drop(state);
            return self.check_regular().map(|()| 0);
        }
        let bytes = self.inner.read(&state, into, offset);
        // As with relatime: only the first read after a change is noted.
        if state.record.atime_ns <= state.record.mtime_ns && self.node.read_ns.load(Ordering::Relaxed) == 0 {
            self.node.read_ns.store(self.inner.now(), Ordering::Relaxed);
        }
        Ok(bytes)
    }

    /// Writes all of `from` at an offset; durable on return, on media with fences. The bytes written.
    ///
    /// # Errors
    /// `NoSpace`, `TooLarge`, `ReadOnly`; not a regular file.
    #[inline]
    pub fn write_at(&self, from: &[u8], offset: u64) -> Result<usize> {
        let mut state = self.inner.exclusive(&self.node)?;
        if state.record.mode & 0o170_000 != 0o100_000 {
            drop(state);
            return self.check_regular().map(|()| 0);
        }
        self.inner.write(&self.node, &mut state, from, offset)?;
        Ok(from.len())
    }

    /// Writes at the end of the file, wherever that is; the offset it was written at.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn append(&self, from: &[u8]) -> Result<u64> {
        self.check_regular()?;
        let mut state = self.inner.exclusive(&self.node)?;
        let offset = state.record.size;
        self.inner.write(&self.node, &mut state, from, offset)?;
        Ok(offset)
    }

    /// Writes all of `from` or nothing: after a crash too. At most [`File::atomic_max`] bytes.
    ///
    /// # Errors
    /// `TooLarge` if there are more; else as [`File::write_at`].
    pub fn write_atomic(&self, from: &[u8], offset: u64) -> Result<()> {
        self.check_regular()?;
        self.inner.write_atomic(self.node.ino, &mut *self.inner.exclusive(&self.node)?, from, offset)
    }

    /// Most bytes that [`File::write_atomic`] takes on this volume: 1 MiB from 64 MiB volumes on.
    pub fn atomic_max(&self) -> u64 {
        self.inner.max_atomic()
    }

    /// Changes the size: cuts, or extends with zeros.
    ///
    /// # Errors
    /// `TooLarge`, `NoSpace`, `ReadOnly`; not a regular file.
    pub fn truncate(&self, size: u64) -> Result<()> {
        self.check_regular()?;
        self.inner.resize_file(self.node.ino, &mut *self.inner.exclusive(&self.node)?, size)
    }

    /// Reserves, punches or zeroes a range.
    ///
    /// # Errors
    /// `Invalid` for an empty range; else as [`File::truncate`].
    pub fn allocate(&self, how: Allocate, offset: u64, bytes: u64) -> Result<()> {
        self.check_regular()?;
        self.inner.allocate(self.node.ino, &mut *self.inner.exclusive(&self.node)?, how, offset, bytes)
    }

    /// The first byte from an offset on that is not in a hole.
    ///
    /// # Errors
    /// `NoMore` if there is none.
    pub fn next_data(&self, offset: u64) -> Result<u64> {
        self.seek(offset, true)
    }

    /// The first byte from an offset on that is in a hole; the end of the file counts as one.
    ///
    /// # Errors
    /// `NoMore` if the offset is not inside the file.
    pub fn next_hole(&self, offset: u64) -> Result<u64> {
        self.seek(offset, false)
    }

    fn seek(&self, offset: u64, data: bool) -> Result<u64> {
        let state = self.node.read();
        let size = state.record.size;
        let mut at = offset;
        while at < size {
            let (place, bytes) = state.body.locate(at);
            if place.is_some() == data {
                return Ok(at);
            }
            at = at.saturating_add(bytes);
        }
        if data || offset >= size { Err(Error::NoMore) } else { Ok(size) }
    }

    /// Makes the file durable, its times included.
    ///
    /// # Errors
    /// If the medium cannot write back.
    pub fn sync(&self) -> Result<()> {
        self.inner.store_times(&self.node);
        Ok(self.inner.medium.sync()?)
    }

    /// The file's bytes themselves, at one address. While the view lives, the file cannot change or move.
    ///
    /// # Errors
    /// `TooLarge` if the file is larger than the address space; not a regular file.
    pub fn view(&self) -> Result<View<'_>> {
        self.check_regular()?;
        View::new(&self.inner, &self.node)
    }
}
