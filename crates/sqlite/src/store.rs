//! What databases are stored in: files of a volume of this process, or of a mount.

use libsqlite3_sys as ffi;
use pocketstone_scmfs::{Error, File};
use pocketstone_vfs::Original;
use std::ffi::{c_int, c_void};

/// Why something was not done.
#[derive(Debug)]
pub(crate) enum Failure {
    /// What the volume says.
    Volume(Error),
    /// What the VFS below says: a result code of SQLite.
    Below(c_int),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Volume(error)
    }
}

pub(crate) type Result<T, E = Failure> = std::result::Result<T, E>;

/// What a result code of the VFS below means.
pub(crate) fn below(code: c_int) -> Result<()> {
    if code == ffi::SQLITE_OK { Ok(()) } else { Err(Failure::Below(code)) }
}

/// An open file.
pub(crate) trait Stored: Send {
    /// In bytes.
    fn size(&self) -> Result<u64>;

    /// Reads what lies before the end; the number of bytes.
    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize>;

    fn write_at(&self, from: &[u8], offset: u64) -> Result<()>;

    fn truncate(&self, size: u64) -> Result<()>;

    fn sync(&self) -> Result<()>;

    /// Whether it has lost its name.
    fn has_moved(&self) -> bool;
}

/// A region of the memory of WAL mode.
pub(crate) struct Region {
    /// Null: it is not there.
    pub at: *mut c_void,
    /// SQLite must not write to it.
    pub is_read_only: bool,
}

/// A database's file.
pub(crate) trait Base: Stored {
    /// How much changes at once, in bytes, with 32 for each piece of a write.
    fn record_bytes(&self) -> u64;

    /// Where the least piece of a write ends, in bytes.
    fn page_bytes(&self) -> u64;

    /// Whether the file may get that long by a change that the kernel does not see.
    fn may_grow_to(&self, size: u64) -> bool;

    /// Whether several ranges may be changed at once, as they could be when the file was opened.
    fn may_batch(&self) -> bool {
        true
    }

    /// The address of bytes where they lie, which stay as they are until [`Base::give_back`]; `None`: they have to be
    /// copied.
    fn in_place(&self, _offset: u64, _bytes: u64) -> Option<*const u8> {
        None
    }

    /// Bytes of [`Base::in_place`] are not used any more.
    fn give_back(&self) {}

    /// Whether there ever are such bytes.
    fn has_in_place(&self) -> bool {
        false
    }

    /// The lock is given up, or what others may not change meanwhile is changed by the connection itself: nothing that
    /// is known about the file is sure any more.
    fn unlocked(&self) {}

    /// The connection is closed: nothing is done to the file any more.
    fn close(&self) {}

    /// What space the file has, if that is not for all of the first so many bytes.
    fn lacks(&self, bytes: u64) -> Result<Option<Space>>;

    /// Provides space for ranges, offsets and lengths in bytes. `whole`: the file has no holes then.
    fn provide(&self, ranges: Vec<(u64, u64)>, whole: bool) -> Result<()>;

    /// Writes at offsets in bytes, and sets the size: all of it or nothing.
    fn write_batch(&self, writes: &[(u64, &[u8])], size: u64, durable: bool) -> Result<()>;

    /// Makes the file of its rollback journal, or opens it.
    fn create_journal(&self) -> Result<Box<dyn Stored>>;

    /// Removes that, if it is there.
    fn remove_journal(&self) -> Result<()>;
}

/// Holes of so many bytes together are filled, so that nothing has to be asked before later commits.
const FILLED: u64 = 1 << 20;

/// What space a file has.
#[derive(Clone, Copy)]
pub(crate) struct Space {
    /// Bytes in space of their own.
    pub allocated: u64,
    /// The file's size in bytes.
    pub size: u64,
}

/// The ranges that need space before a file gets writes and another size; and whether it has no holes then. Larger
/// holes may be more than the volume has space for: there only what is written needs any.
pub(crate) fn lacking(space: Space, writes: &[(u64, &[u8])], size: u64) -> (Vec<(u64, u64)>, bool) {
    let from = if space.allocated < space.size { 0 } else { space.size };
    if space.size.saturating_sub(space.allocated) <= FILLED {
        return (Vec::from_iter((size > from).then(|| (from, size - from))), true);
    }
    let mut ranges: Vec<(u64, u64)> = Vec::new();
    for (offset, data) in writes {
        match ranges.last_mut().filter(|(at, bytes)| at + bytes == *offset) {
            Some((_, bytes)) => *bytes += data.len() as u64,
            None => ranges.push((*offset, data.len() as u64)),
        }
    }
    (ranges, false)
}

impl Original for dyn Base {
    type Error = Failure;

    fn size(&self) -> Result<u64> {
        Stored::size(self)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        Stored::read_at(self, into, offset)
    }
}

impl Stored for File {
    fn size(&self) -> Result<u64> {
        Ok(self.attributes().size)
    }

    fn read_at(&self, into: &mut [u8], offset: u64) -> Result<usize> {
        Ok(File::read_at(self, into, offset)?)
    }

    fn write_at(&self, from: &[u8], offset: u64) -> Result<()> {
        Ok(File::write_at(self, from, offset).map(drop)?)
    }

    fn truncate(&self, size: u64) -> Result<()> {
        Ok(File::truncate(self, size)?)
    }

    fn sync(&self) -> Result<()> {
        Ok(File::sync(self)?)
    }

    fn has_moved(&self) -> bool {
        self.attributes().links == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite as _;

    #[test]
    fn small_holes_are_filled_and_large_ones_are_left() {
        let page = &[0; 4096][..];
        let writes = [(0, page), (4096, page), (1 << 30, page)];
        let gets = |allocated, before, size| lacking(Space { allocated, size: before }, &writes, size);
        // Without holes: what is new.
        assert_eq!(gets(8192, 8192, (1 << 30) + 4096), (vec![(8192, (1 << 30) - 4096)], true));
        assert_eq!(gets(8192, 8000, 8192), (vec![(8000, 192)], true));
        assert_eq!(gets(0, 0, 4096), (vec![(0, 4096)], true));
        // Two pages lack.
        assert_eq!(gets(4096, 12_288, 12_288), (vec![(0, 12_288)], true));
        assert_eq!(gets(0, 1 << 20, 4096), (vec![(0, 4096)], true));
        // Too many lack.
        assert_eq!(gets(8192, 1 << 30, (1 << 30) + 4096), (vec![(0, 8192), (1 << 30, 4096)], false));
    }
}
