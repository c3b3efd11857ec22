//! What a file system has to do so that it can be mounted.

use fuser::Errno;
use pocketstone_core::inode::{Attr, Entry, Error, Ino, Meta, Rename, Result, SetAttr, SetXattr, Statfs};
use pocketstone_scmfs::Allocate;
use std::sync::Arc;

/// A file system that [`mount`](crate::mount) can serve, from several threads at once.
///
/// Names are bytes without `/`; `.` and `..` are not asked for. Errors are those of
/// [`Error::errno`]. An operation that has a default here need not exist.
pub trait Mountable: Send + Sync + Sized + 'static {
    /// An inode in use: as long as any clone exists, its number means this inode, also when it has lost its
    /// last name.
    type Open: Clone + Send + Sync;

    /// What the list of mounts shows behind `fuse.`.
    const SUBTYPE: &'static str;
    /// Whether [`Mountable::closing`] has anything to do. The kernel asks at every close then.
    const ASKS_AT_CLOSE: bool = false;

    /// Whether attributes cost next to nothing while a directory is listed (FUSE_READDIRPLUS). If not, the kernel
    /// asks for those that somebody wants to see.
    const LISTS_ATTRIBUTES: bool = true;

    /// The attributes of what a directory has under a name.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr>;

    /// An inode's attributes.
    ///
    /// # Errors
    /// `NotFound`.
    fn attributes(&self, ino: Ino) -> Result<Attr>;

    /// The directory that a directory is in.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    fn parent(&self, directory: Ino) -> Result<Ino>;

    /// Changes attributes, and says what they are then.
    ///
    /// # Errors
    /// `NotFound`, `TooLarge`, `NoSpace`.
    fn set_attributes(&self, ino: Ino, change: &SetAttr) -> Result<Attr>;

    /// Makes an object of any kind but a symbolic link.
    ///
    /// # Errors
    /// `Exists`, `NoSpace`.
    fn create(self: &Arc<Self>, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr>;

    /// Makes a regular file, and opens it.
    ///
    /// # Errors
    /// As [`Mountable::create`].
    fn create_open(self: &Arc<Self>, parent: Ino, name: &[u8], meta: &Meta) -> Result<(Attr, Self::Open)> {
        let attr = self.create(parent, name, meta)?;
        Ok((attr, self.open(attr.ino)?))
    }

    /// Makes a symbolic link.
    ///
    /// # Errors
    /// As [`Mountable::create`].
    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Attr>;

    /// Where a symbolic link points to.
    ///
    /// # Errors
    /// `Invalid`: it is none.
    fn read_link(&self, ino: Ino) -> Result<Vec<u8>>;

    /// Gives an inode one more name.
    ///
    /// # Errors
    /// `Exists`, `TooManyLinks`, `NotPermitted` for directories.
    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr>;

    /// Takes a name away from what is no directory.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`.
    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NotEmpty`.
    fn remove_directory(&self, parent: Ino, name: &[u8]) -> Result<()>;

    /// Gives an object another name.
    ///
    /// # Errors
    /// `NotFound`, `Exists`, `NotEmpty`, `Invalid`: a directory would come to lie in itself.
    fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()>;

    /// Gives the entries after a cookie, without `.` and `..`, to `take` until that returns false. The entry it
    /// returned false for was not taken. 0 is before the first one.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    fn read_directory(&self, ino: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()>;

    /// Takes an inode into use.
    ///
    /// # Errors
    /// `NotFound`.
    fn open(self: &Arc<Self>, ino: Ino) -> Result<Self::Open>;

    /// The number of an inode in use.
    fn ino(open: &Self::Open) -> Ino;

    /// The attributes of an inode in use.
    ///
    /// # Errors
    /// When they cannot be read.
    fn attributes_of(&self, open: &Self::Open) -> Result<Attr> {
        self.attributes(Self::ino(open))
    }

    /// Reads from an offset in bytes; fewer than asked for only at the file's end.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid`: no regular file.
    fn read(&self, open: &Self::Open, into: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes all of `from` at an offset in bytes.
    ///
    /// # Errors
    /// `NoSpace`, `TooLarge`.
    fn write(&self, open: &Self::Open, from: &[u8], offset: u64) -> Result<()>;

    /// Writes all of `from` at the file's end, wherever that is by then.
    ///
    /// # Errors
    /// As [`Mountable::write`].
    fn append(&self, open: &Self::Open, from: &[u8]) -> Result<()>;

    /// Makes a file durable, content and attributes.
    ///
    /// # Errors
    /// When the medium refuses.
    fn sync(&self, open: &Self::Open) -> Result<()>;

    /// What one close(2) of a file leaves to do.
    ///
    /// # Errors
    /// close(2) returns it.
    fn closing(&self, _open: &Self::Open) -> Result<()> {
        Ok(())
    }

    /// Makes a directory durable.
    ///
    /// # Errors
    /// When the medium refuses.
    fn sync_directory(&self, ino: Ino) -> Result<()>;

    /// Reserves, frees or zeroes a range of bytes.
    ///
    /// # Errors
    /// `NotSupported`, or as [`Mountable::write`].
    fn allocate(&self, _open: &Self::Open, _how: Allocate, _offset: u64, _bytes: u64) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// Where data is next, from an offset on. Without an answer of its own a file is data up to its end.
    ///
    /// # Errors
    /// `NoMore`.
    fn next_data(&self, open: &Self::Open, offset: u64) -> Result<u64> {
        if offset < self.attributes_of(open)?.size { Ok(offset) } else { Err(Error::NoMore) }
    }

    /// Where a hole is next, from an offset on; the end of a file is one.
    ///
    /// # Errors
    /// `NoMore`.
    fn next_hole(&self, open: &Self::Open, offset: u64) -> Result<u64> {
        let size = self.attributes_of(open)?.size;
        if offset < size { Ok(size) } else { Err(Error::NoMore) }
    }

    /// An extended attribute.
    ///
    /// # Errors
    /// `NoAttribute`, `NotSupported`.
    fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>>;

    /// The names of an inode's extended attributes.
    ///
    /// # Errors
    /// `NotSupported`.
    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>>;

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// `Exists`, `NoAttribute`, `Range`, `NotSupported`.
    fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()>;

    /// Takes an extended attribute away.
    ///
    /// # Errors
    /// `NoAttribute`, `NotSupported`.
    fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()>;

    /// What `df` shows.
    ///
    /// # Errors
    /// When the volume cannot be asked.
    fn statfs(&self) -> Result<Statfs>;

    /// The value of an extended attribute of the root that is stored nowhere; `None` if it is an ordinary one.
    fn asked(&self, _source: &str, _name: &[u8]) -> Option<Result<Vec<u8>>> {
        None
    }

    /// Does what the setting of such an attribute asks for, by a user; `None` if it is an ordinary one.
    fn told(&self, _uid: u32, _name: &[u8], _value: &[u8]) -> Option<Result<()>> {
        None
    }
}

/// An error's number for the kernel.
pub(crate) fn errno(error: &Error) -> Errno {
    Errno::from_i32(error.errno())
}
