//! A mounted volume, and what is done with all of it. Whoever has it has it alone.

use crate::checkpoint;
use crate::files::Files;
use crate::log::tags::Kind;
use crate::mount::MountedBy;
use crate::operations::unlink;
use crate::tree::objects::{DELETED_ID, LARGEST_OBJECT, LOST_ID, Object, UNLINKED_ID};
use pocketstone_vfs::{Ino, Result, Statfs};
use serde::Serialize;

/// What is known of a volume that is mounted.
pub struct Mounted {
    pub files: Files,
    pub mounted_by: MountedBy,
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

impl Mounted {
    /// Writes all cached state and a checkpoint, and releases the chip.
    ///
    /// # Errors
    /// `Medium` if something could not be written. Everything else was.
    pub fn close(&mut self) -> Result<()> {
        if self.files.options.read_only {
            return Ok(());
        }
        // What was deleted while it was in use goes now.
        let held: Vec<u32> = self.files.tree.held.drain().map(|(id, _)| id).collect();
        let mut outcome = Ok(());
        for id in held {
            outcome = outcome.and(unlink::delete_if_unlinked(&mut self.files, id));
        }
        outcome = outcome.and(self.sync_all());
        if outcome.is_ok() && self.files.options.checkpoint_write {
            outcome = checkpoint::write(&mut self.files.tree);
        }
        outcome.and(self.files.tree.log.chip.sync())
    }

    /// Writes all cached state.
    ///
    /// # Errors
    /// `Medium` if it cannot be written.
    pub fn sync_all(&mut self) -> Result<()> {
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
    pub fn sync_inode(&mut self, ino: Ino) -> Result<()> {
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
    pub fn statfs(&self) -> Statfs {
        let log = &self.files.tree.log;
        let good = log.blocks.all().count() as u64 - u64::from(log.blocks.dead);
        let free = log.blocks.free() - self.files.reserve();
        Statfs::new(log.chip.data_bytes() as u32)
            .blocks(good * u64::from(log.shape.entries))
            .free_blocks(free.max(0) as u64)
            .available_blocks(free.max(0) as u64)
            .inodes(u64::from(LARGEST_OBJECT))
            .free_inodes(u64::from(LARGEST_OBJECT - self.files.tree.objects.count()).min(free.max(0) as u64))
    }

    /// Space usage.
    pub fn usage(&self) -> Usage {
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
            memory_bytes: (log.blocks.bytes() + tree.objects.bytes() + tree.details.bytes() + size_of::<Mounted>())
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
}
