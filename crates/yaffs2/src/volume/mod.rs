//! The public interface of an open volume.

mod file;
mod operations;

pub use file::File;

use crate::mount;
use crate::mounted::{Missing, Mounted, Usage};
use crate::operations::{file as content, xattr};
use crate::options::OpenOptions;
use pocketstone_media::nand::{Fault, Nand};
use pocketstone_vfs::{FileSystem, Ino, MediumError, Result, SetXattr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// An open volume. It can be shared among threads, and performs one operation at a time. Permissions are not checked: a
/// process that has the volume has full access. Its operations by inode number are those of the trait
/// [`Operations`](crate::Operations), which must be in scope.
///
/// Dropping it leaves the chip as a loss of power would: [`Volume::close`] writes what is cached.
///
/// ```
/// use pocketstone_yaffs2::{Meta, OpenOptions, Operations, ROOT, SetXattr, Volume};
///
/// # fn main() -> pocketstone_yaffs2::Result<()> {
/// # use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
/// # let geometry = Geometry { page_bytes: 2048, spare_bytes: 64, pages_per_block: 64, blocks: 64 };
/// # let mut chip = SimulatedNand::new(geometry, SimulatedOptions::default());
/// Volume::create(&mut chip)?;
/// let volume = Volume::open(Box::new(chip), &OpenOptions::default())?;
/// let directory = volume.create_directory(ROOT, b"mail", &Meta::directory(0o700))?;
/// volume.set_xattr(directory.ino, b"user.owner", b"alice", SetXattr::Create)?;
/// assert_eq!(volume.lookup(ROOT, b"mail")?.ino, directory.ino);
/// assert_eq!(volume.get_xattr(directory.ino, b"user.owner")?, b"alice");
/// volume.close()?;
/// # Ok(())
/// # }
/// ```
pub struct Volume {
    shared: Arc<Shared>,
}

/// What a volume shares with its open files; `None`: it is closed.
struct Shared(Mutex<Option<Mounted>>);

impl Shared {
    /// The volume, which nobody else has meanwhile.
    fn lock(&self) -> Result<MutexGuard<'_, Option<Mounted>>> {
        Ok(self.0.lock().map_err(|_| MediumError::bug("an operation was interrupted"))?)
    }

    /// Does something with the volume while nobody else does.
    fn with<T>(&self, act: impl FnOnce(&mut Mounted) -> Result<T>) -> Result<T> {
        let mut held = self.lock()?;
        act(held.as_mut().ok_or_else(|| MediumError::refused("the volume is closed"))?)
    }

    /// Also after an operation that was interrupted.
    fn even_broken_off(&self) -> MutexGuard<'_, Option<Mounted>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
    pub fn open(nand: Box<dyn Nand>, options: &OpenOptions) -> Result<Volume> {
        let (files, mounted_by) = mount::mount(nand, options)?;
        Ok(Volume { shared: Arc::new(Shared(Mutex::new(Some(Mounted { files, mounted_by })))) })
    }

    /// Writes all cached state and a checkpoint, and releases the chip. Open [`File`]s cannot be used any more.
    ///
    /// # Errors
    /// `Medium` if something could not be written; everything else was. Also if a thread panicked during an operation:
    /// then nothing is.
    pub fn close(self) -> Result<()> {
        // Taken by who closes it, so that nobody can write in between what would then be lost.
        let mut held = self.shared.lock()?;
        held.take().map_or(Ok(()), |mut mounted| mounted.close())
    }

    /// Abandons the volume like a killed process: nothing more is stored.
    pub fn abandon(self) {}

    /// Path-based access to the volume. [`FileSystem::into_volume`] returns the volume.
    pub fn into_file_system(self) -> FileSystem<Volume> {
        FileSystem::new(self)
    }

    /// Makes an inode durable, as fsync does.
    ///
    /// # Errors
    /// `Medium` if it cannot be written.
    pub fn sync_inode(&self, ino: Ino) -> Result<()> {
        self.shared.with(|mounted| mounted.sync_inode(ino))
    }

    /// Performs deferred work: directory headers, and garbage collection while idle. Call it about every second.
    ///
    /// # Errors
    /// `Medium` if something cannot be written.
    pub fn background(&self) -> Result<()> {
        self.shared.with(Mounted::background)
    }

    /// A human-readable description of the medium.
    pub fn describe(&self) -> String {
        self.look(|mounted| mounted.files.tree.log.chip.describe())
    }

    /// Space usage.
    pub fn usage(&self) -> Usage {
        self.look(Mounted::usage)
    }

    /// What should be on the chip and is not.
    pub fn missing(&self) -> Missing {
        self.look(Mounted::missing)
    }

    /// Bytes of a file of a built image whose pages should be on the chip and are not; they read as zeros.
    pub fn missing_bytes(&self, ino: Ino) -> u64 {
        self.look(|mounted| mounted.missing_bytes(ino))
    }

    /// The parts of a file that are not holes: start and end in bytes, in order, clipped to its size.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `Invalid` if it is not a file.
    pub fn data_ranges(&self, ino: Ino) -> Result<Vec<(u64, u64)>> {
        self.shared.with(|mounted| content::data_ranges(&mut mounted.files, ino))
    }

    /// An extended attribute's value.
    ///
    /// # Errors
    /// `NoAttribute` if there is none of this name.
    pub fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.shared.with(|mounted| xattr::get_xattr(&mut mounted.files, ino, name))
    }

    /// The names of an inode's extended attributes.
    ///
    /// # Errors
    /// `NotFound`; `Damaged` or `Medium` if its header cannot be read.
    pub fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.shared.with(|mounted| xattr::list_xattrs(&mut mounted.files, ino))
    }

    /// Sets an extended attribute. All of an object's attributes share the page of its header.
    ///
    /// # Errors
    /// `NoSpace` if they do not fit; `Exists` or `NoAttribute` if `how` says so.
    pub fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        self.shared.with(|mounted| xattr::set_xattr(&mut mounted.files, ino, name, value, how))
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// `NoAttribute` if there is none of this name.
    pub fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.shared.with(|mounted| xattr::remove_xattr(&mut mounted.files, ino, name))
    }

    fn look<T>(&self, see: impl FnOnce(&Mounted) -> T) -> T {
        see(self.shared.even_broken_off().as_ref().expect("it is there until the volume is closed"))
    }
}

impl Drop for Volume {
    fn drop(&mut self) {
        // Files that are open still do not have it any more, either.
        drop(self.shared.even_broken_off().take());
    }
}
