//! An open file.

use super::Shared;
use crate::operations::{file, names, unlink};
use pocketstone_vfs::{Attr, Ino, Result, SetAttr};
use std::fmt;
use std::sync::Arc;

/// An open file, or any other open inode. The inode outlives its last name while one exists. Clones refer to the same
/// open file; there is no position.
///
/// ```
/// use pocketstone_yaffs2::{Meta, OpenOptions, Operations, ROOT, Volume};
///
/// # fn main() -> pocketstone_yaffs2::Result<()> {
/// # use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
/// # let geometry = Geometry { page_bytes: 2048, spare_bytes: 64, pages_per_block: 64, blocks: 64 };
/// # let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
/// # let volume = Volume::open(Box::new(chip), &OpenOptions::default())?;
/// let file = volume.create_file(ROOT, b"log", &Meta::file(0o600))?;
/// assert_eq!(file.write_at(b"one", 0)?, 3);
/// assert_eq!(file.append(b" two")?, (4, 7));
/// volume.unlink(ROOT, b"log")?;
/// let mut content = [0; 7];
/// file.read_at(&mut content, 0)?;
/// assert_eq!(&content, b"one two");
/// # Ok(())
/// # }
/// ```
pub struct File {
    shared: Arc<Shared>,
    ino: Ino,
    held: bool,
}

impl File {
    /// Takes over what is held already.
    pub(super) fn held(shared: &Arc<Shared>, ino: Ino) -> File {
        File { shared: shared.clone(), ino, held: true }
    }

    /// The inode number.
    pub fn ino(&self) -> Ino {
        self.ino
    }

    /// The current attributes.
    ///
    /// # Errors
    /// `Damaged` or `Medium` if the file's header cannot be read.
    pub fn attributes(&self) -> Result<Attr> {
        self.shared.with(|mounted| mounted.files.tree.attributes(self.ino))
    }

    /// Reads at an offset; returns the bytes read, fewer than requested only at end of file. Holes read as zeros.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid` if not a regular file; `Damaged` or `Medium` if a page cannot be read.
    pub fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        self.shared.with(|mounted| file::read_at(&mut mounted.files, self.ino, into, offset))
    }

    /// Writes at an offset. Returns the bytes written, fewer than all only if space ran out.
    ///
    /// # Errors
    /// `NoSpace`, `TooLarge`, `ReadOnly`; `IsDirectory`, `Invalid` if not a regular file; `Medium` if the chip fails.
    pub fn write_at(&self, from: &[u8], offset: u64) -> Result<usize> {
        self.shared.with(|mounted| file::write_at(&mut mounted.files, self.ino, from, offset))
    }

    /// Appends to the file; returns the bytes written, as [`File::write_at`], and the resulting file size.
    ///
    /// # Errors
    /// As [`File::write_at`].
    pub fn append(&self, from: &[u8]) -> Result<(usize, u64)> {
        self.shared.with(|mounted| {
            let end = mounted.files.tree.file_size(self.ino)?;
            let bytes = file::write_at(&mut mounted.files, self.ino, from, end)?;
            Ok((bytes, end + bytes as u64))
        })
    }

    /// Changes the size: truncates, or extends with zeros.
    ///
    /// # Errors
    /// `TooLarge`, `NoSpace`, `ReadOnly`; `IsDirectory`, `Invalid` if not a regular file.
    pub fn truncate(&self, size: u64) -> Result<()> {
        let change = SetAttr::default().size(Some(size));
        self.shared.with(|mounted| names::set_attributes(&mut mounted.files, self.ino, &change)).map(drop)
    }

    /// Makes the file durable, including its timestamps.
    ///
    /// # Errors
    /// `Medium` if something cannot be written.
    pub fn sync(&self) -> Result<()> {
        self.shared.with(|mounted| mounted.sync_inode(self.ino))
    }

    /// Closes the file, as dropping it does, and says what could not be done. The volume's end has closed it already.
    ///
    /// # Errors
    /// `Medium` if it has no name and cannot be deleted.
    pub fn close(mut self) -> Result<()> {
        self.let_go()
    }

    fn let_go(&mut self) -> Result<()> {
        if !std::mem::take(&mut self.held) {
            return Ok(());
        }
        self.shared.lock()?.as_mut().map_or(Ok(()), |mounted| unlink::release(&mut mounted.files, self.ino))
    }
}

impl Clone for File {
    fn clone(&self) -> File {
        // What is held exists. Of a volume that cannot be used any more nothing is held.
        let held = self.shared.with(|mounted| unlink::hold(&mut mounted.files, self.ino)).is_ok();
        File { shared: self.shared.clone(), ino: self.ino, held }
    }
}

impl Drop for File {
    fn drop(&mut self) {
        // What could not be deleted stays where nobody sees it, until the next mount deletes it.
        let _ = self.let_go();
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("ino", &self.ino).finish_non_exhaustive()
    }
}
