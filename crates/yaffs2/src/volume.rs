//! The public interface of a mounted volume.

use crate::checkpoint;
use crate::files::Files;
use crate::log::tags::Kind;
use crate::mount::{self, MountedBy};
use crate::operations::{file, names, unlink, xattr};
use crate::options::Options;
use crate::tree::objects::{DELETED_ID, LARGEST_OBJECT, LOST_ID, Object, UNLINKED_ID};
use pocketstone_media::nand::{Fault, Nand};
use pocketstone_vfs::{Attr, Entry, Ino, Meta, Rename, Result, SetAttr, SetXattr, Statfs};
use serde::Serialize;

/// A mounted YAFFS2 volume with a single owner.
pub struct Volume {
    files: Files,
    mounted_by: MountedBy,
}

/// Space usage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Usage {
    /// How the state was loaded.
    pub mounted_by: MountedBy,
    /// Bytes of data in a page.
    pub chunk_bytes: u32,
    /// Pages in a block.
    pub chunks_per_block: u32,
    /// Blocks of the chip.
    pub blocks: u32,
    /// Blocks marked bad.
    pub bad_blocks: u32,
    /// Erased blocks.
    pub erased_blocks: u32,
    /// Valid chunks.
    pub used_chunks: u64,
    /// Other chunks: erased ones and garbage.
    pub free_chunks: i64,
    /// Objects.
    pub objects: u32,
    /// Chunks moved by garbage collection since the mount.
    pub moved_chunks: u64,
    /// Blocks freed by garbage collection.
    pub collected_blocks: u64,
    /// Bytes of memory of blocks, objects and maps, without the chunk cache.
    pub memory_bytes: u64,
}

/// What should be on the chip, by what else is there: if any of it, an image was cut off, or pages are damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Missing {
    /// Files of a built image of which pages are not there. They read as zeros.
    pub files: u64,
    /// Hard links whose file is not there.
    pub links: u64,
    /// Objects in lost+found: their header is not there, or that of their directory.
    pub lost: u64,
}

impl Missing {
    /// Whether anything is.
    pub fn any(&self) -> bool {
        *self != Missing::default()
    }
}

impl Volume {
    /// Creates an empty volume by erasing every good block of a chip.
    ///
    /// # Errors
    /// `Medium` if the chip is unavailable. Blocks that cannot be erased are marked bad.
    pub fn create(nand: &mut dyn Nand) -> Result<()> {
        for block in 0..nand.geometry().blocks {
            if nand.is_bad(block)? {
                continue;
            }
            match nand.erase(block) {
                Ok(()) => {}
                Err(Fault::Failed) => nand.mark_bad(block)?,
                Err(Fault::Medium(error)) => return Err(error.into()),
            }
        }
        Ok(nand.sync()?)
    }

    /// Opens a volume from its checkpoint, or else by a scan. An erased chip is an empty volume.
    ///
    /// # Errors
    /// `Medium` if the chip's geometry does not fit the options, it cannot be read, or it is to be written and is that
    /// of a big-endian machine or of YAFFS1.
    pub fn open(nand: Box<dyn Nand>, options: &Options) -> Result<Volume> {
        let (files, mounted_by) = mount::mount(nand, options)?;
        Ok(Volume { files, mounted_by })
    }

    /// Writes all cached state and a checkpoint, and releases the chip.
    ///
    /// # Errors
    /// `Medium` if something could not be written. Everything else was.
    pub fn close(mut self) -> Result<()> {
        if self.files.options.read_only {
            return Ok(());
        }
        // What was deleted while it was in use goes now.
        let held: Vec<u32> = self.files.tree.held.drain().map(|(id, _)| id).collect();
        let mut outcome = Ok(());
        for id in held {
            outcome = outcome.and(unlink::delete_if_unlinked(&mut self.files, id));
        }
        outcome = outcome.and(self.sync());
        if outcome.is_ok() && self.files.options.checkpoint_write {
            outcome = checkpoint::write(&mut self.files.tree);
        }
        outcome.and(self.files.tree.log.chip.sync())
    }

    /// Abandons the volume as on a power loss, and returns the chip.
    pub fn abandon(self) -> Box<dyn Nand> {
        self.files.tree.log.chip.into_nand()
    }

    /// Writes all cached state.
    ///
    /// # Errors
    /// `Medium` if it cannot be written.
    pub fn sync(&mut self) -> Result<()> {
        // One object that cannot be written keeps no other from it.
        let mut outcome = Ok(());
        for id in self.files.cache.dirty_objects() {
            outcome = outcome.and(self.files.flush(id));
        }
        for id in self.files.tree.details.dirty() {
            outcome = outcome.and(self.files.write_header(id));
        }
        outcome.and(self.files.tree.log.chip.sync())
    }

    /// Writes one object's cached state.
    ///
    /// # Errors
    /// `Medium` if it cannot be written.
    pub fn sync_inode(&mut self, ino: u32) -> Result<()> {
        self.files.flush(ino)?;
        if self.files.tree.details.is_dirty(ino) {
            self.files.write_header(ino)?;
        }
        self.files.tree.log.chip.sync()
    }

    /// Performs deferred work: directory headers, and garbage collection while idle. Call it about every second.
    ///
    /// # Errors
    /// `Medium` if something cannot be written.
    pub fn background(&mut self) -> Result<()> {
        if self.files.options.read_only {
            return Ok(());
        }
        let mut outcome = Ok(());
        for id in self.files.tree.details.dirty() {
            if self.files.tree.must_be_directory(id).is_ok() {
                outcome = outcome.and(self.files.write_header(id));
            }
        }
        outcome.and(self.files.collect(true))
    }

    /// Space counts for statfs.
    pub fn statfs(&mut self) -> Statfs {
        let log = &self.files.tree.log;
        let good = log.blocks.all().count() as u64 - u64::from(log.blocks.dead);
        let free = log.blocks.free() - self.files.reserve();
        Statfs {
            block_bytes: log.chip.data_bytes() as u32,
            blocks: good * u64::from(log.shape.entries),
            free_blocks: free.max(0) as u64,
            available_blocks: free.max(0) as u64,
            inodes: u64::from(LARGEST_OBJECT),
            free_inodes: u64::from(LARGEST_OBJECT - self.files.tree.objects.count()).min(free.max(0) as u64),
        }
    }

    /// A human-readable description of the medium.
    pub fn describe(&self) -> String {
        self.files.tree.log.chip.describe()
    }

    /// Space usage.
    pub fn usage(&mut self) -> Usage {
        let Files { tree, collector, .. } = &self.files;
        let log = &tree.log;
        Usage {
            mounted_by: self.mounted_by,
            chunk_bytes: log.chip.data_bytes() as u32,
            chunks_per_block: log.chip.pages_per_block(),
            blocks: log.chip.blocks(),
            bad_blocks: log.blocks.dead,
            erased_blocks: log.blocks.erased,
            used_chunks: log.blocks.used(),
            free_chunks: log.blocks.free(),
            objects: tree.objects.count(),
            moved_chunks: collector.moved,
            collected_blocks: collector.collected,
            memory_bytes: (log.blocks.bytes() + tree.objects.bytes() + tree.details.bytes() + size_of::<Volume>())
                as u64,
        }
    }

    /// What should be on the chip and is not.
    pub fn missing(&self) -> Missing {
        let tree = &self.files.tree;
        let mut missing = Missing::default();
        let mut lost = Vec::new();
        tree.list_tree(LOST_ID, &mut lost);
        missing.lost = lost.len() as u64;
        for id in tree.objects.ids() {
            missing.files += u64::from(tree.missing_chunks(id) > 0);
            let dangling = |object: &Object| {
                let target = u32::try_from(object.value).ok();
                object.kind == Kind::HardLink
                    && !matches!(object.parent, UNLINKED_ID | DELETED_ID)
                    && target.and_then(|target| tree.objects.get(target)).is_none()
            };
            missing.links += u64::from(tree.objects.get(id).is_some_and(dangling));
        }
        missing
    }

    /// Bytes of a file of a built image whose pages should be on the chip and are not; they read as zeros.
    pub fn missing_bytes(&self, ino: Ino) -> u64 {
        self.files.tree.missing_chunks(ino) * self.files.tree.log.chip.data_bytes() as u64
    }

    /// Looks up a name in a directory.
    ///
    /// # Errors
    /// `NotFound` if the name does not exist.
    pub fn lookup(&mut self, parent: Ino, name: &[u8]) -> Result<Attr> {
        names::lookup(&mut self.files, parent, name)
    }

    /// The parent of a directory; the root's is the root.
    ///
    /// # Errors
    /// `NotDirectory` if it is not a directory.
    pub fn parent(&mut self, directory: Ino) -> Result<Ino> {
        names::parent(&mut self.files, directory)
    }

    /// Changes attributes; times have whole seconds.
    ///
    /// # Errors
    /// `NotFound`, `NoSpace`; `IsDirectory` or `Invalid` if the inode cannot have a size.
    pub fn set_attributes(&mut self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        names::set_attributes(&mut self.files, ino, change)
    }

    /// Creates a file: a regular one, a pipe, a socket or a device.
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NotDirectory`, `NameTooLong`, `NoSpace`, `ReadOnly`; `Invalid` for other kinds.
    pub fn create_file(&mut self, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr> {
        names::create_file(&mut self.files, parent, name, meta)
    }

    /// Creates a directory.
    ///
    /// # Errors
    /// As [`Volume::create_file`].
    pub fn create_directory(&mut self, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr> {
        names::create_directory(&mut self.files, parent, name, meta)
    }

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// As [`Volume::create_file`]; `NameTooLong` for targets longer than 159 bytes, the format's limit.
    pub fn create_symlink(&mut self, parent: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Attr> {
        names::create_symlink(&mut self.files, parent, name, target, uid, gid)
    }

    /// Creates a hard link.
    ///
    /// # Errors
    /// As [`Volume::create_file`]; `NotPermitted` for directories.
    pub fn link(&mut self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        names::link(&mut self.files, ino, parent, name)
    }

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `Invalid` if it is not a symbolic link.
    pub fn read_link(&mut self, ino: Ino) -> Result<Vec<u8>> {
        names::read_link(&mut self.files, ino)
    }

    /// Calls `take` with each directory entry after a cookie, without "." and "..", until it returns false; that entry
    /// is not consumed.
    ///
    /// # Errors
    /// `NotDirectory` if it is not a directory.
    pub fn read_directory(&mut self, ino: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()> {
        names::read_directory(&mut self.files, ino, cookie, take)
    }

    /// An inode's attributes.
    ///
    /// # Errors
    /// `NotFound` if the inode does not exist; `Damaged` or `Medium` if its header cannot be read.
    pub fn attributes(&mut self, ino: Ino) -> Result<Attr> {
        self.files.tree.attributes(ino)
    }

    /// Marks an inode as in use: it outlives its last name until it is released.
    ///
    /// # Errors
    /// `NotFound` if the inode does not exist.
    pub fn hold(&mut self, ino: Ino) -> Result<()> {
        unlink::hold(&mut self.files, ino)
    }

    /// Releases an inode. A nameless one is deleted on its last release.
    ///
    /// # Errors
    /// `Medium` if deleting fails.
    pub fn release(&mut self, ino: Ino) -> Result<()> {
        unlink::release(&mut self.files, ino)
    }

    /// Removes a name; the object is deleted with its last name.
    ///
    /// # Errors
    /// `NotFound` if the name does not exist; `IsDirectory` if it is a directory's.
    pub fn unlink(&mut self, parent: Ino, name: &[u8]) -> Result<()> {
        unlink::unlink(&mut self.files, parent, name)
    }

    /// Deletes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NotEmpty`; `NotPermitted` for directories that always exist.
    pub fn remove_directory(&mut self, parent: Ino, name: &[u8]) -> Result<()> {
        unlink::remove_directory(&mut self.files, parent, name)
    }

    /// Renames, over an existing name if `how` allows it.
    ///
    /// # Errors
    /// As rename(2); `Invalid` for [`Rename::Exchange`] and [`Rename::Whiteout`], which are not supported.
    pub fn rename(&mut self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()> {
        unlink::rename(&mut self.files, from, name, to, new_name, how)
    }

    /// Reads bytes of a file and returns their number. Holes read as zeros.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Invalid` if it is not a file; `Damaged` or `Medium` if a page cannot be read.
    pub fn read_at(&mut self, ino: Ino, into: &mut [u8], offset: u64) -> Result<usize> {
        file::read_at(&mut self.files, ino, into, offset)
    }

    /// Writes bytes to a file, which grows as needed. Returns their number, less than all if space ran out.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Invalid` if it is not a file; `NoSpace`, `TooLarge`, `ReadOnly`; `Medium` if the
    /// chip fails.
    pub fn write_at(&mut self, ino: Ino, from: &[u8], offset: u64) -> Result<usize> {
        file::write_at(&mut self.files, ino, from, offset)
    }

    /// The parts of a file that are not holes: start and end in bytes, in order, clipped to its size.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Invalid` if it is not a file.
    pub fn extents(&mut self, ino: Ino) -> Result<Vec<(u64, u64)>> {
        file::extents(&mut self.files, ino)
    }

    /// An attribute's value.
    ///
    /// # Errors
    /// `NoAttribute` if there is none of this name.
    pub fn get_xattr(&mut self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        xattr::get_xattr(&mut self.files, ino, name)
    }

    /// Names of an object's attributes.
    ///
    /// # Errors
    /// `NotFound`; `Damaged` or `Medium` if its header cannot be read.
    pub fn list_xattrs(&mut self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        xattr::list_xattrs(&mut self.files, ino)
    }

    /// Sets an attribute. All of an object's attributes share the page of its header.
    ///
    /// # Errors
    /// `NoSpace` if they do not fit; `Exists` or `NoAttribute` if `how` does not allow it.
    pub fn set_xattr(&mut self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        xattr::set_xattr(&mut self.files, ino, name, value, how)
    }

    /// Removes an attribute.
    ///
    /// # Errors
    /// `NoAttribute` if there is none of this name.
    pub fn remove_xattr(&mut self, ino: Ino, name: &[u8]) -> Result<()> {
        xattr::remove_xattr(&mut self.files, ino, name)
    }
}
