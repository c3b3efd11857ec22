//! The public interface of an open volume.

mod attributes;
mod checkpoints;
mod file;
mod in_place;
mod operations;
mod outside;
mod view;

pub use file::{File, FileBatch};
pub use in_place::InPlace;
pub use view::View;

use crate::checkpoint::{Asked, Checkpoints, Scheduled};
use crate::collector::Collector;
use crate::operations::usage;
use crate::parts::Parts;
use crate::reclaim;
use crate::recovery;
use crate::scrub::{Scrub, ScrubProgress, ScrubReport, ScrubState, Scrubber};
use crate::store::lock;
use crate::{CreateOptions, OpenOptions, Result, Usage};
use pocketstone_media::{Durable, Medium, Region};
use pocketstone_vfs::MediumError;
use std::sync::{Arc, Mutex};

/// An open volume. It can be shared among threads; all calls take `&self`. Permissions are not checked: a process that
/// has the volume has full access. Its operations by inode number are those of the trait
/// [`Operations`](crate::Operations), which must be in scope.
///
/// ```
/// use pocketstone_scmfs::{CreateOptions, Meta, OpenOptions, Operations, ROOT, SetXattr, Volume};
///
/// # fn main() -> pocketstone_scmfs::Result<()> {
/// # let (memory, _) = pocketstone_media::Pcm::new(16 << 20, &Default::default());
/// Volume::create(Box::new(memory.region()?), &CreateOptions::default())?;
/// let volume = Volume::open(Box::new(memory.region()?), &OpenOptions::default())?;
/// let directory = volume.create_directory(ROOT, b"mail", &Meta::directory(0o700))?;
/// volume.set_xattr(directory.ino, b"user.owner", b"alice", SetXattr::Create)?;
/// assert_eq!(volume.lookup(ROOT, b"mail")?.ino, directory.ino);
/// assert_eq!(volume.get_xattr(directory.ino, b"user.owner")?, b"alice");
/// volume.close()?;
/// # Ok(())
/// # }
/// ```
pub struct Volume {
    pub(crate) parts: Arc<Parts>,
    collector: Option<Collector>,
    scrubber: Mutex<Option<Scrubber>>,
    scheduled: Mutex<Option<Scheduled>>,
    asked: Arc<Mutex<Asked>>,
    left_open: bool,
}

impl Volume {
    /// Creates an empty volume in a region, destroying its contents.
    ///
    /// # Errors
    /// `Medium` if the sizes do not fit the region or contradict each other.
    pub fn create(region: Box<dyn Region>, options: &CreateOptions) -> Result<()> {
        recovery::create(region, options)
    }

    /// Opens a volume, recovering it first if it was not closed cleanly.
    ///
    /// # Errors
    /// `Medium` if the region is not a volume, has a newer format or is truncated; also, with `read_only`, if it needs
    /// recovery. `Damaged` if it is damaged.
    pub fn open(region: Box<dyn Region>, options: &OpenOptions) -> Result<Volume> {
        Volume::open_medium(Medium::new(region), options)
    }

    pub(crate) fn open_medium(medium: Medium, options: &OpenOptions) -> Result<Volume> {
        let parts = Arc::new(recovery::open(medium, options)?);
        let collector = (options.background && !options.read_only).then(|| Collector::start(&parts));
        if !options.background && !options.read_only {
            parts.space.refill(&parts.store);
        }
        let (scrubber, scheduled, asked) = Default::default();
        Ok(Volume { parts, collector, scrubber, scheduled, asked, left_open: false })
    }

    /// Stores in-memory state and marks the volume clean. Open [`crate::File`]s can still be read; each keeps the
    /// region in use, and locked, until it is dropped.
    ///
    /// ```
    /// use pocketstone_scmfs::{CreateOptions, Meta, OpenOptions, Operations, ROOT, Volume};
    ///
    /// # fn main() -> pocketstone_scmfs::Result<()> {
    /// # let (memory, _) = pocketstone_media::Pcm::new(16 << 20, &Default::default());
    /// Volume::create(Box::new(memory.region()?), &CreateOptions::default())?;
    /// let volume = Volume::open(Box::new(memory.region()?), &OpenOptions::default())?;
    /// let file = volume.create_file(ROOT, b"kept", &Meta::file(0o644))?;
    /// volume.close()?;
    /// assert!(memory.region().is_err());
    /// drop(file);
    /// Volume::open(Box::new(memory.region()?), &OpenOptions::default())?.close()
    /// # }
    /// ```
    ///
    /// # Errors
    /// `Medium` if the medium cannot write back.
    pub fn close(mut self) -> Result<()> {
        self.left_open = true;
        self.shut()
    }

    /// Closes the volume and gives its medium back.
    pub(crate) fn into_medium(mut self) -> Result<Medium> {
        self.left_open = true;
        self.shut()?;
        let parts = self.parts.clone();
        drop(self);
        let parts = Arc::try_unwrap(parts).map_err(|_| MediumError::bug("a file of a closed volume is open"))?;
        Ok(parts.store.medium)
    }

    fn shut(&mut self) -> Result<()> {
        self.collector = None;
        *lock(&self.scrubber) = None;
        let scheduled = lock(&self.scheduled).take().filter(|scheduled| scheduled.schedule().every.is_some());
        recovery::close(&self.parts)?;
        let Some(scheduled) = scheduled else { return Ok(()) };
        let target = scheduled.schedule().target.clone();
        let Some(mut series) = scheduled.stop() else { return Ok(()) };
        Checkpoints::take(&mut series, &self.parts).map(drop).map_err(|error| {
            let message = format!("cannot take the last checkpoint to {}; the volume is whole", target.display());
            MediumError::failed(message).because(error).hint("scmfs checkpoint REGION TARGET takes it").into()
        })
    }

    /// Abandons the volume like a killed process: nothing more is stored.
    pub fn abandon(mut self) {
        self.left_open = true;
        self.collector = None;
        *lock(&self.scrubber) = None;
        *lock(&self.scheduled) = None;
        self.parts.store.close();
    }

    /// Reclaims null files and preallocated space, and defragments scattered files if space allows. Returns the bytes
    /// freed.
    pub fn collect(&self) -> u64 {
        let _operation = self.parts.store.operation();
        let freed = reclaim::collect(&self.parts, u64::MAX);
        if !self.parts.store.read_only() {
            reclaim::merge_lists(&self.parts);
            self.parts.space.return_idle_segments(&self.parts.store);
        }
        freed
    }

    /// Grows the volume while it is in use, and the region if it is shorter.
    ///
    /// # Errors
    /// `Medium` if `bytes` is less than the current size, more than the maximum size, or more than the medium has.
    pub fn resize(&self, bytes: u64) -> Result<()> {
        let _operation = self.parts.store.operation();
        let store = &self.parts.store;
        store.writable()?;
        let mut superblock = store.superblock();
        if bytes < superblock.bytes {
            let message = format!("a volume of {} bytes cannot shrink to {bytes} bytes", superblock.bytes);
            return Err(MediumError::refused(message).hint("create a smaller volume and copy the files").into());
        }
        if bytes > superblock.max_bytes {
            let message =
                format!("the volume's tables cover {} bytes; {bytes} bytes are too many", superblock.max_bytes);
            return Err(MediumError::refused(message)
                .hint("create a volume with a larger `max_bytes`, and copy the files")
                .into());
        }
        if bytes > store.medium.bytes() {
            store.medium.grow(bytes)?;
        }
        let segments = store.layout.segments(bytes);
        superblock.bytes = bytes;
        // Both copies: if one is damaged later, the other must not say less.
        store.store_superblock(&mut superblock, Durable::nothing_new()).done();
        store.store_superblock(&mut superblock, Durable::nothing_new()).done();
        self.parts.space.alloc().grow(segments);
        store.set_segments(segments);
        Ok(())
    }

    /// What it was called when it was created; often nothing.
    pub fn label(&self) -> String {
        self.parts.store.superblock().label.clone()
    }

    /// Space usage.
    pub fn usage(&self) -> Usage {
        usage::usage(&self.parts)
    }

    /// Verifies the volume while it is in use, locking one inode, or part of a large file, at a time. `go_on` is called
    /// with the progress and can stop it.
    pub fn scrub(&self, go_on: &mut dyn FnMut(&ScrubProgress) -> bool) -> ScrubReport {
        Scrub::new(&self.parts, go_on).run()
    }

    /// Starts [`Volume::scrub`] in the background, unless one is running.
    ///
    /// # Errors
    /// `Medium` if the thread cannot be started.
    pub fn start_scrub(&self) -> Result<()> {
        let mut held = lock(&self.scrubber);
        if held.as_ref().is_none_or(|scrubber| !scrubber.state().running) {
            *held = Some(Scrubber::start(&self.parts)?);
        }
        Ok(())
    }

    /// Stops the background scrub and waits for it.
    pub fn stop_scrub(&self) {
        if let Some(scrubber) = lock(&self.scrubber).as_mut() {
            scrubber.stop();
        }
    }

    /// The running scrub, or the last one since the volume was opened.
    pub fn scrub_state(&self) -> Option<ScrubState> {
        lock(&self.scrubber).as_ref().map(Scrubber::state)
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
