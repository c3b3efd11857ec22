//! A volume that is open.

use crate::alloc::Alloc;
use crate::clock::Clock;
use crate::collector::Collector;
use crate::journal::{Journal, Transaction};
use crate::layout::Layout;
use crate::node::{Nodes, lock};
use crate::space::NullFiles;
use crate::superblock::Superblock;
use crate::view::Windows;
use crate::{Error, Ino, OpenOptions, Result, Statfs, Threshold, TimeNs, Usage, recovery};
use pocketstone_core::Error as CoreError;
use pocketstone_media::{Durable, Medium, Persistence, Region};
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What all handles of an open volume share.
///
/// Locks are taken in this order: `tree`; directories; files, by inode number; a shard of `nodes`; then,
/// one at a time, `extents`, `windows`; `nulls`; `alloc`; `journal`.
pub(crate) struct Inner {
    pub medium: Medium,
    pub layout: Layout,
    pub threshold: Threshold,
    pub options: OpenOptions,
    pub superblock: Mutex<Superblock>,
    pub journal: Mutex<Journal>,
    pub alloc: Mutex<Alloc>,
    pub nodes: Nodes,
    /// Huge pages of the files that are not in memory: `(index, huge page)`, in order.
    pub extents: Mutex<HashMap<Ino, Vec<(u32, u32)>>>,
    pub nulls: Mutex<NullFiles>,
    pub windows: Windows,
    /// Whoever locks two directories holds it, so that no two of them wait for each other.
    pub tree: Mutex<()>,
    pub clock: Clock,
    pub segments: AtomicU32,
    pub closed: AtomicBool,
    pub collections: AtomicU64,
    pub collected_bytes: AtomicU64,
    /// Changes of files' space since the volume was opened, and as many as there were when the collector
    /// last found nothing: it need not look again before there is another.
    pub space_changes: AtomicU64,
    pub fruitless: AtomicU64,
}

/// A mounted volume, without a mount point. Share it among threads as it is; all calls take `&self`.
/// Nobody's permissions are checked: who has the volume may do everything.
pub struct Volume {
    pub(crate) inner: Arc<Inner>,
    collector: Option<Collector>,
    left_open: bool,
}

impl Volume {
    /// Opens a volume. One that was not closed is recovered first.
    ///
    /// # Errors
    /// If the region holds no volume, a damaged one, a newer format or one that is larger than the
    /// region; with `read_only`, also if it needs recovery.
    pub fn open(region: Box<dyn Region>, options: &OpenOptions) -> Result<Volume> {
        Volume::open_medium(Medium::new(region), options)
    }

    pub(crate) fn open_medium(medium: Medium, options: &OpenOptions) -> Result<Volume> {
        let inner = Arc::new(recovery::open(medium, options)?);
        let collector = (options.background && !options.read_only).then(|| Collector::start(&inner));
        if !options.background && !options.read_only {
            inner.refill();
        }
        Ok(Volume { inner, collector, left_open: false })
    }

    /// Stores what is only in memory and marks the volume clean. Open [`crate::File`]s can still be read.
    ///
    /// # Errors
    /// If the medium cannot write back.
    pub fn close(mut self) -> Result<()> {
        self.left_open = true;
        self.shut()
    }

    /// Closes the volume and gives its medium back.
    pub(crate) fn into_medium(mut self) -> Result<Medium> {
        self.left_open = true;
        self.shut()?;
        let inner = self.inner.clone();
        drop(self);
        let inner = Arc::try_unwrap(inner).map_err(|_| CoreError::bug("a file of a closed volume is open"))?;
        Ok(inner.medium)
    }

    fn shut(&mut self) -> Result<()> {
        self.collector = None;
        recovery::close(&self.inner)
    }

    /// Lets go of the volume as a process that is killed does: nothing more is stored.
    pub fn abandon(mut self) {
        self.left_open = true;
        self.collector = None;
        self.inner.closed.store(true, Ordering::Relaxed);
    }

    /// Space and inodes, as the kernel asks for them. Null files count as free, space that is preallocated
    /// for files as used.
    pub fn statfs(&self) -> Statfs {
        let inner = &self.inner;
        let nulls = lock(&inner.nulls);
        let alloc = lock(&inner.alloc);
        let nulls = nulls.len() as u64;
        let per_segment = u64::from(inner.layout.pages_per_segment());
        Statfs {
            block_bytes: inner.layout.page as u32,
            blocks: u64::from(alloc.segment_count()) * per_segment,
            free_blocks: alloc.free_pages() + u64::from(alloc.free_segments()) * per_segment + nulls,
            inodes: u64::from(inner.layout.inodes),
            free_inodes: u64::from(alloc.free_inodes()) + nulls,
        }
    }

    /// Where the space is.
    pub fn usage(&self) -> Usage {
        let inner = &self.inner;
        let volume_bytes = lock(&inner.superblock).bytes;
        let nulls = lock(&inner.nulls);
        let alloc = lock(&inner.alloc);
        let null_files = nulls.len() as u32;
        let (page, huge) = (inner.layout.page, inner.layout.huge);
        let files = alloc.segment_count() - alloc.free_segments() - alloc.small_segments();
        Usage {
            volume_bytes,
            max_bytes: inner.layout.max_bytes,
            metadata_bytes: inner.layout.data_at,
            small_zone_bytes: u64::from(alloc.small_segments()) * huge,
            small_free_bytes: alloc.free_pages() * page,
            huge_used_bytes: u64::from(files) * huge,
            huge_free_bytes: u64::from(alloc.free_segments()) * huge,
            null_bytes: u64::from(null_files) * page,
            null_files,
            inodes_used: inner.layout.inodes - alloc.free_inodes() - null_files,
            inodes: inner.layout.inodes,
            windows: inner.windows.count(),
            collected_bytes: inner.collected_bytes.load(Ordering::Relaxed),
            collections: inner.collections.load(Ordering::Relaxed),
            threshold: inner.threshold,
            persistence: match inner.medium.persistence() {
                Persistence::PowerSafe => "power-safe",
                Persistence::ProcessSafe => "process-safe",
                Persistence::Volatile => "volatile",
            },
        }
    }

    /// Gives back everything that can be: null files, preallocated space. The bytes given back.
    pub fn collect(&self) -> u64 {
        self.inner.collect(u64::MAX)
    }

    /// Grows the volume while it is in use; the region too, if it is shorter.
    ///
    /// # Errors
    /// If `bytes` is less than the volume has, more than it was made for, or more than the medium has.
    pub fn resize(&self, bytes: u64) -> Result<()> {
        let inner = &self.inner;
        inner.writable()?;
        let mut superblock = lock(&inner.superblock);
        if bytes < superblock.bytes {
            let message = format!("a volume of {} bytes cannot shrink to {bytes}", superblock.bytes);
            return Err(CoreError::user(message).hint("make a smaller volume and copy the files").into());
        }
        if bytes > superblock.max_bytes {
            let message = format!("the volume's tables end at {} bytes; {bytes} is too much", superblock.max_bytes);
            return Err(CoreError::user(message).hint("give mkfs a larger --max-size").into());
        }
        if bytes > inner.medium.bytes() {
            inner.medium.grow(bytes)?;
        }
        let segments = inner.layout.segments(bytes);
        superblock.bytes = bytes;
        // Both copies: if one is damaged later, the other must not say less.
        inner.store_superblock(&mut superblock, Durable::nothing()).done();
        inner.store_superblock(&mut superblock, Durable::nothing()).done();
        lock(&inner.alloc).grow(segments);
        inner.segments.store(segments, Ordering::Release);
        Ok(())
    }

    /// Makes everything that was done durable, as far as the medium goes.
    ///
    /// # Errors
    /// If the medium cannot write back.
    pub fn sync(&self) -> Result<()> {
        self.inner.sync_all()
    }

    /// The region that the volume lies on.
    pub fn region(&self) -> &dyn Region {
        self.inner.medium.region()
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        if !self.left_open {
            // Nobody is left to be told; what could not be stored is recovered at the next opening.
            let _ = self.shut();
        }
    }
}

impl Inner {
    pub fn segments(&self) -> u32 {
        self.segments.load(Ordering::Acquire)
    }

    pub fn read_only(&self) -> bool {
        self.options.read_only || self.closed.load(Ordering::Relaxed)
    }

    pub fn writable(&self) -> Result<()> {
        if self.read_only() { Err(Error::ReadOnly) } else { Ok(()) }
    }

    #[inline]
    pub fn now(&self) -> TimeNs {
        self.clock.now()
    }

    /// Carries a transaction out; it refers to what `after` made durable.
    pub fn commit(&self, transaction: Transaction, after: Durable) -> Durable {
        lock(&self.journal).commit(&self.medium, &self.layout, transaction, after)
    }

    pub fn store_superblock(&self, superblock: &mut Superblock, after: Durable) -> Durable {
        let dirty = superblock.write(&self.medium, after);
        self.medium.fence(self.medium.flush(dirty))
    }

    pub fn sync_all(&self) -> Result<()> {
        for node in self.nodes.all() {
            self.store_times(&node);
        }
        Ok(self.medium.sync()?)
    }
}
