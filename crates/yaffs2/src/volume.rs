//! A mounted volume.

use crate::blocks::Blocks;
use crate::cache::Cache;
use crate::chip::{Block, Chip};
use crate::collect::Collector;
use crate::details::Details;
use crate::log::Log;
use crate::map::Width;
use crate::mend::MOST_LOST;
use crate::objects::Objects;
use crate::options::Options;
use crate::summary::Shape;
use pocketstone_core::inode::{Error, Result, Statfs};
use pocketstone_media::nand::Nand;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::time::{SystemTime, UNIX_EPOCH};

/// A mounted YAFFS2 volume: one owner, one operation at a time.
pub struct Volume {
    pub(crate) chip: Chip,
    pub(crate) options: Options,
    pub(crate) width: Width,
    pub(crate) shape: Shape,
    pub(crate) blocks: Blocks,
    pub(crate) log: Log,
    pub(crate) objects: Objects,
    pub(crate) details: Details,
    pub(crate) cache: Cache,
    pub(crate) collector: Collector,
    /// Hard links by the object they name.
    pub(crate) links: BTreeMap<u32, Vec<u32>>,
    /// How often objects are in use.
    pub(crate) held: HashMap<u32, u32>,
    /// Files of which a loss of power took chunks, with the sizes of their headers.
    pub(crate) unfilled: HashMap<u32, u64>,
    /// Blocks of a checkpoint on the chip. It is not true any more as soon as anything is written.
    pub(crate) checkpoint: Vec<Block>,
    /// The directory that was listed last, and its objects in order.
    pub(crate) listing: Option<(u32, Vec<u32>)>,
    pub(crate) mounted_by: MountedBy,
}

/// How the state of a volume was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum MountedBy {
    /// From a checkpoint.
    Checkpoint,
    /// By reading the tags of all pages, or the summaries of blocks.
    Scan,
}

/// Where the space is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// How the state was found.
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
    /// Chunks that hold something of use.
    pub used_chunks: u64,
    /// Chunks that do not: erased ones and garbage.
    pub free_chunks: i64,
    /// Objects.
    pub objects: u32,
    /// Chunks that garbage collection has moved since the mount.
    pub moved_chunks: u64,
    /// Blocks that it has freed.
    pub collected_blocks: u64,
    /// Bytes of memory of blocks, objects and maps, without the chunk cache.
    pub memory_bytes: u64,
}

/// Erases every good block of a chip: an empty volume.
///
/// # Errors
/// When the chip is not there. Blocks that cannot be erased are marked bad.
pub fn format(nand: &mut dyn Nand) -> Result<()> {
    use pocketstone_media::nand::Fault;
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

impl Volume {
    /// Mounts a volume: from its checkpoint, or else by a scan. An erased chip is an empty volume.
    ///
    /// # Errors
    /// When the chip's sizes do not fit the options, it cannot be read, or it was written by a machine of the
    /// other byte order.
    pub fn mount(nand: Box<dyn Nand>, options: &Options) -> Result<Volume> {
        let mut volume = Volume::prepare(Chip::new(nand, options.inband_tags, options.tags_ecc)?, options);
        volume.find_state()?;
        if !options.lazy_loading {
            for id in volume.objects.ids() {
                match volume.load(id) {
                    // Whoever asks for it is told.
                    Err(Error::Damaged(_)) => {}
                    loaded => drop(loaded?),
                }
            }
        }
        Ok(volume)
    }

    pub(crate) fn prepare(chip: Chip, options: &Options) -> Volume {
        let (pages, blocks) = (chip.pages_per_block(), chip.blocks());
        let shape = Shape::of(pages, chip.data_bytes(), options.summary);
        Volume {
            width: Width::of((blocks + 1) * pages - 1, pages, shape.entries),
            blocks: Blocks::new(blocks, pages, shape),
            log: Log::default(),
            objects: Objects::default(),
            details: Details::default(),
            cache: Cache::new(options.cache_chunks.min(MOST_LOST as u32), chip.data_bytes()),
            collector: Collector::default(),
            links: BTreeMap::new(),
            held: HashMap::new(),
            unfilled: HashMap::new(),
            checkpoint: Vec::new(),
            listing: None,
            mounted_by: MountedBy::Scan,
            options: options.clone(),
            shape,
            chip,
        }
    }

    /// Writes what is not written, leaves a checkpoint, and gives the volume back.
    ///
    /// # Errors
    /// When something could not be written. Everything else was.
    pub fn unmount(mut self) -> Result<()> {
        if self.options.read_only {
            return Ok(());
        }
        // What was deleted while it was in use goes now.
        let held: Vec<u32> = self.held.drain().map(|(id, _)| id).collect();
        let mut outcome = Ok(());
        for id in held {
            outcome = outcome.and(self.delete_if_unlinked(id));
        }
        outcome = outcome.and(self.sync());
        if outcome.is_ok() && self.options.checkpoint_write {
            outcome = self.write_checkpoint();
        }
        outcome.and(self.chip.sync())
    }

    /// Forgets the volume as a loss of power does. Gives the chip back.
    pub fn abandon(self) -> Box<dyn Nand> {
        self.chip.into_nand()
    }

    /// Writes everything that is only in memory.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn sync(&mut self) -> Result<()> {
        // One object that cannot be written keeps no other from it.
        let mut outcome = Ok(());
        for id in self.cache.dirty_objects() {
            outcome = outcome.and(self.flush(id));
        }
        for id in self.details.dirty() {
            outcome = outcome.and(self.write_header(id));
        }
        outcome.and(self.chip.sync())
    }

    /// Writes what is only in memory of one object.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn sync_inode(&mut self, ino: u32) -> Result<()> {
        self.flush(ino)?;
        if self.details.is_dirty(ino) {
            self.write_header(ino)?;
        }
        self.chip.sync()
    }

    /// A step of what need not be done at once: headers of directories, and collecting garbage while nobody waits.
    /// To be called about every second.
    ///
    /// # Errors
    /// When something cannot be written.
    pub fn background(&mut self) -> Result<()> {
        if self.options.read_only {
            return Ok(());
        }
        let mut outcome = Ok(());
        for id in self.details.dirty() {
            let is_directory = self.objects.get(id).is_some_and(|o| o.kind == crate::tags::Kind::Directory);
            if is_directory {
                outcome = outcome.and(self.write_header(id));
            }
        }
        outcome.and(self.collect(true))
    }

    /// Space as `statfs` wants it.
    pub fn statfs(&mut self) -> Statfs {
        let good = self.blocks.all().count() as u64 - u64::from(self.blocks.dead);
        let free = self.blocks.free() - self.reserve();
        Statfs {
            block_bytes: self.chip.data_bytes() as u32,
            blocks: good * u64::from(self.shape.entries),
            free_blocks: free.max(0) as u64,
            inodes: u64::from(crate::LARGEST_OBJECT),
            free_inodes: u64::from(crate::LARGEST_OBJECT - self.objects.count()).min(free.max(0) as u64),
        }
    }

    /// What it lies on, for people.
    pub fn describe(&self) -> String {
        self.chip.describe()
    }

    /// Where the space is.
    pub fn usage(&mut self) -> Usage {
        Usage {
            mounted_by: self.mounted_by,
            chunk_bytes: self.chip.data_bytes() as u32,
            chunks_per_block: self.chip.pages_per_block(),
            blocks: self.chip.blocks(),
            bad_blocks: self.blocks.dead,
            erased_blocks: self.blocks.erased,
            used_chunks: self.blocks.used(),
            free_chunks: self.blocks.free(),
            objects: self.objects.count(),
            moved_chunks: self.collector.moved,
            collected_blocks: self.collector.collected,
            memory_bytes: (self.blocks.bytes() + self.objects.bytes() + self.details.bytes() + size_of::<Volume>())
                as u64,
        }
    }

    /// Seconds since 1970.
    pub(crate) fn now_s(&self) -> i64 {
        if let Some(ns) = self.options.fixed_clock_ns {
            return ns.div_euclid(1_000_000_000);
        }
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
    }

    pub(crate) fn writable(&self) -> Result<()> {
        if self.options.read_only { Err(Error::ReadOnly) } else { Ok(()) }
    }
}
