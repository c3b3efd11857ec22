//! A volume's files, by whatever way they are reached.

use pocketstone_core::{Error, Result};
use pocketstone_workload::{Prefetch, Purpose};
use std::ffi::CStr;

/// The files below one folder of a volume. Each method is one file system call, if the file system has such a call.
/// Paths are relative to the folder.
///
/// All methods fail with `ErrorKind::Board` if the file system refuses, or lacks the call.
#[expect(clippy::missing_errors_doc, reason = "all of them alike: the trait says so once")]
pub trait Tree: Send + Sync {
    /// An open file. Closing it is dropping it.
    type File<'t>: Send
    where
        Self: 't;
    /// A file mapped into memory.
    type Map<'t>: Touch
    where
        Self: 't;

    /// Whether calls go past the page cache where their buffer, size and offset allow it.
    fn direct(&self) -> bool {
        false
    }

    /// Free space of the file system in bytes.
    fn free_bytes(&self) -> Result<u64>;

    /// Files whose content is in several pieces, where the file system says how many those are.
    fn fragmented_files(&self) -> Option<u64> {
        None
    }

    /// Creates an empty file, which must not exist, for reading and appending.
    fn create(&self, path: &CStr) -> Result<Self::File<'_>>;

    /// Opens a file.
    fn open(&self, path: &CStr, purpose: Purpose) -> Result<Self::File<'_>>;

    /// Opens a file, cut to nothing, for writing.
    fn open_anew(&self, path: &CStr) -> Result<Self::File<'_>>;

    /// Reads at an offset; the number of bytes got.
    fn read(&self, file: &Self::File<'_>, into: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes at an offset; the number of bytes taken.
    fn write(&self, file: &Self::File<'_>, from: &[u8], offset: u64) -> Result<usize>;

    /// Writes at the end; the number of bytes taken.
    fn append(&self, file: &Self::File<'_>, from: &[u8]) -> Result<usize>;

    /// Writes at the end; the number of bytes taken, 0 where the file system is full.
    fn append_what_fits(&self, file: &Self::File<'_>, from: &[u8]) -> Result<usize>;

    /// Gives an open file another size.
    fn truncate(&self, file: &Self::File<'_>, bytes: u64) -> Result<()>;

    /// Reserves space for an open file, from its start on, and gives it at least that size, as fallocate() does. Where
    /// that is unsupported, nothing is done.
    fn allocate(&self, file: &Self::File<'_>, bytes: u64) -> Result<()>;

    /// Makes a file durable, as fsync() does.
    fn sync(&self, file: &Self::File<'_>) -> Result<()>;

    /// Makes what a file holds durable, as fdatasync() does.
    fn sync_data(&self, file: &Self::File<'_>) -> Result<()> {
        self.sync(file)
    }

    /// Gives an open file the owner of this process, who made it: its attributes are written.
    fn set_owner(&self, file: &Self::File<'_>) -> Result<()>;

    /// Makes the folder's names durable, as opening it and fsync() do.
    fn sync_folder(&self) -> Result<()>;

    /// Deletes a file.
    fn unlink(&self, path: &CStr) -> Result<()>;

    /// Renames a file; what had the new name is gone.
    fn rename(&self, from: &CStr, to: &CStr) -> Result<()>;

    /// Asks for a file's attributes by its name; its size.
    fn stat(&self, path: &CStr) -> Result<u64>;

    /// Asks for an open file's attributes; its size.
    fn attributes(&self, file: &Self::File<'_>) -> Result<u64>;

    /// Goes to an open file's end; where that is.
    fn seek_end(&self, file: &Self::File<'_>) -> Result<u64> {
        self.attributes(file)
    }

    /// Makes a directory, which must not exist.
    fn mkdir(&self, path: &CStr) -> Result<()>;

    /// Reads all names of the folder; how many there are.
    fn list(&self) -> Result<u64>;

    /// Maps a file.
    fn map(&self, path: &CStr) -> Result<Self::Map<'_>>;

    /// Asks for a part of a file before it is read; the number of the file's pages that are then in the page cache,
    /// and how long the call took, in nanoseconds.
    fn prefetch(&self, file: &Self::File<'_>, by: Prefetch, offset: u64, bytes: u64) -> Result<(Option<u64>, u64)> {
        let _ = (file, offset, bytes);
        Err(Error::user(format!("{} is unsupported in process: the kernel's page cache is not involved", by.name()))
            .hint("set prefetch = \"none\""))
    }

    /// Says that a file is read at random, or in no special order, by its mapping where it has one.
    fn advise(&self, file: &Self::File<'_>, map: Option<&Self::Map<'_>>, random: bool) -> Result<()> {
        let _ = (file, map, random);
        Err(Error::user("read-ahead by file is unsupported in process: the kernel's page cache is not involved")
            .hint("omit read_ahead_bytes"))
    }

    /// Evicts a file from the page cache, if one is involved.
    fn evict(&self, path: &CStr) -> Result<()> {
        let _ = path;
        Ok(())
    }

    /// Drops what the page cache has of an open file and is on its medium, if one is involved.
    fn invalidate(&self, file: &Self::File<'_>) -> Result<()> {
        let _ = file;
        Ok(())
    }
}

/// A call that moves bytes has moved all that were wanted.
#[inline]
pub(crate) fn whole(moved: usize, wanted: usize, what: &str) -> Result<()> {
    match moved == wanted {
        true => Ok(()),
        false => Err(Error::board(format!("{what} of {wanted} bytes moved {moved}"))),
    }
}

/// A mapping that is read by touching its pages.
pub trait Touch: Send {
    /// Reads a byte of each page that the range has bytes of.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the range is outside the file.
    fn touch(&self, offset: u64, bytes: u64) -> Result<()>;
}

/// The mapping of a way to files that has none.
#[derive(Debug, Clone, Copy)]
pub enum NoMap {}

impl Touch for NoMap {
    fn touch(&self, _offset: u64, _bytes: u64) -> Result<()> {
        match *self {}
    }
}
