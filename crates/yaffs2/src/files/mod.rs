//! Files' contents: what of them is in memory, how it comes to the chip, and how space is made for it.
//!
//! Writing and collecting garbage need each other: a file's chunks must be on the chip before a header that tells of
//! them, also when collecting moves that header.

pub mod cache;
mod chunks;
mod collect;
mod mend;

use crate::checkpoint;
use crate::log::Log;
use crate::log::tags::Kind;
use crate::options::OpenOptions;
use crate::tree::Tree;
use crate::tree::objects::{DELETED_ID, UNLINKED_ID};
use cache::Cache;
use collect::Collector;
use mend::MOST_LOST;
use pocketstone_vfs::{Error, Result};
use std::collections::HashMap;

/// Whether a write may use the space kept for tidying up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Space {
    /// An ordinary write.
    Ordinary,
    /// Headers of existing objects, what is in the cache already, garbage collection.
    Reserve,
}

/// All objects with their contents.
pub struct Files {
    pub tree: Tree,
    pub cache: Cache,
    pub collector: Collector,
    /// Files of which a loss of power took chunks, with the sizes of their headers.
    pub unfilled: HashMap<u32, u64>,
    pub options: OpenOptions,
}

impl Files {
    /// Nothing is known yet of what is on the chip.
    pub fn new(log: Log, options: &OpenOptions) -> Files {
        Files {
            cache: Cache::new(options.cache_chunks.min(MOST_LOST as u32), log.chip.data_bytes()),
            collector: Collector::default(),
            unfilled: HashMap::new(),
            options: options.clone(),
            tree: Tree::new(log, options),
        }
    }

    /// Blocks that a checkpoint of the present state takes, about.
    fn checkpoint_blocks(&self) -> u32 {
        if self.options.checkpoint_write { checkpoint::blocks(&self.tree) } else { 0 }
    }

    /// Chunks that ordinary writes leave alone.
    pub(crate) fn reserve(&self) -> i64 {
        let blocks = i64::from(self.options.reserved_blocks) + i64::from(self.checkpoint_blocks());
        blocks * i64::from(self.tree.log.chip.pages_per_block()) + 1
    }

    /// Whether there is space for ordinary writes.
    pub(crate) fn check_space(&self, chunks: u32) -> Result<()> {
        if self.tree.log.blocks.free() > self.reserve() + i64::from(chunks) { Ok(()) } else { Err(Error::NoSpace) }
    }

    /// Writes an object's header as it is in memory.
    pub(crate) fn write_header(&mut self, id: u32) -> Result<()> {
        self.write_header_with(id, None, 0)
    }

    /// Writes an object's header: with other extended attributes, or one that replaces object `shadows`.
    pub(crate) fn write_header_with(&mut self, id: u32, xattrs: Option<Vec<u8>>, shadows: u32) -> Result<()> {
        if matches!(id, UNLINKED_ID | DELETED_ID) {
            return Ok(());
        }
        // A header must not be newer than what it says of the file's size.
        self.flush(id)?;
        self.collect(false)?;
        self.tree.put_header(id, xattrs, shadows, false)
    }

    /// Writes a header that says: chunks older than this one and behind its size are of no use.
    pub(crate) fn write_shrink_header(&mut self, id: u32) -> Result<()> {
        self.flush(id)?;
        self.collect(false)?;
        self.tree.put_header(id, None, 0, true)
    }

    /// Deletes an object: a last header says so, and then its chunks are of no use.
    pub(crate) fn delete_object(&mut self, id: u32) -> Result<()> {
        self.collect(false)?;
        let object = self.tree.objects.get(id).ok_or(Error::NotFound)?;
        let kind = object.kind;
        // Garbage from the start, but what is older must not outlive it.
        self.tree.put_deletion(id, kind)?;
        self.cache.forget(id, 0);
        self.tree.details.remove(id);
        self.tree.chunk_counts.remove(&id);
        self.unfilled.remove(&id);
        let Some(object) = self.tree.objects.remove(id) else { return Ok(()) };
        if kind == Kind::HardLink {
            self.tree.forget_link(object.value as u32, id);
        }
        for (_, chunk) in object.map.chunks(self.tree.width) {
            self.tree.log.discard(chunk)?;
        }
        self.tree.log.discard(object.header)
    }
}
