//! Volume operations by inode number.

use crate::{Attr, Entry, Ino, Meta, Rename, Result, SetAttr, Statfs};

/// The operations of a volume, on inodes and on names in directories. [`FileSystem`](crate::FileSystem) adds paths on
/// top of any implementation.
///
/// Names are bytes without `/`. Permissions are not checked: a process that has the volume has full access.
pub trait Operations {
    /// An inode in use: its number refers to this inode until [`Operations::release`], even after its last name is
    /// removed. [`Held`](crate::Held) releases it automatically.
    type Handle;

    /// Looks up a name in a directory and returns its attributes. `.` and `..` need not be supported.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NameTooLong`.
    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr>;

    /// The parent of a directory; the root's is the root.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    fn parent(&self, directory: Ino) -> Result<Ino>;

    /// An inode's attributes.
    ///
    /// # Errors
    /// `NotFound`.
    fn attributes(&self, ino: Ino) -> Result<Attr>;

    /// Changes attributes, and returns the new ones.
    ///
    /// # Errors
    /// `NotFound`, `IsDirectory`, `TooLarge`, `NoSpace`, `ReadOnly`.
    fn set_attributes(&self, ino: Ino, change: &SetAttr) -> Result<Attr>;

    /// Creates a file and opens it.
    ///
    /// # Errors
    /// `Exists`, `NotFound`, `NotDirectory`, `NameTooLong`, `NoSpace`, `ReadOnly`.
    fn create_file(&self, parent: Ino, name: &[u8], meta: &Meta) -> Result<Self::Handle>;

    /// Creates a directory.
    ///
    /// # Errors
    /// As [`Operations::create_file`].
    fn create_directory(&self, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr>;

    /// Creates a symbolic link.
    ///
    /// # Errors
    /// As [`Operations::create_file`]; `NameTooLong` also for the target.
    fn create_symlink(&self, parent: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Attr>;

    /// The target of a symbolic link.
    ///
    /// # Errors
    /// `Invalid` if it is not a symbolic link.
    fn read_link(&self, ino: Ino) -> Result<Vec<u8>>;

    /// Creates a hard link.
    ///
    /// # Errors
    /// As [`Operations::create_file`]; `TooManyLinks`; `NotPermitted` for directories.
    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr>;

    /// Removes a name that is not a directory's.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `IsDirectory`, `ReadOnly`.
    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()>;

    /// Removes an empty directory.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `NotEmpty`, `ReadOnly`.
    fn remove_directory(&self, parent: Ino, name: &[u8]) -> Result<()>;

    /// Renames an object.
    ///
    /// # Errors
    /// As rename(2): `NotFound`, `Exists`, `NotEmpty`, `IsDirectory`, `NotDirectory`, `Invalid`, `NoSpace`, `ReadOnly`.
    fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()>;

    /// Calls `take` with each entry after a cookie (0: all), without `.` and `..`, until it returns false. The entry it
    /// returned false for is not consumed.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`.
    fn read_directory(&self, ino: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()>;

    /// Opens an inode.
    ///
    /// # Errors
    /// `NotFound`.
    fn open(&self, ino: Ino) -> Result<Self::Handle>;

    /// Releases an inode. A nameless one is deleted with its last handle.
    fn release(&self, handle: Self::Handle);

    /// The number of an open inode.
    fn ino(&self, handle: &Self::Handle) -> Ino;

    /// Reads at a byte offset; returns the number of bytes read, fewer than requested only at end of file.
    ///
    /// # Errors
    /// `IsDirectory`, `Invalid` if not a regular file.
    fn read_at(&self, handle: &Self::Handle, into: &mut [u8], offset: u64) -> Result<usize>;

    /// Writes at a byte offset; returns the number of bytes written, fewer than all only if space ran out.
    ///
    /// # Errors
    /// `NoSpace`, `TooLarge`, `ReadOnly`, `NotPermitted`; `IsDirectory`, `Invalid` if not a regular file.
    fn write_at(&self, handle: &Self::Handle, from: &[u8], offset: u64) -> Result<usize>;

    /// Appends to the file atomically; returns the bytes written and the resulting file size.
    ///
    /// # Errors
    /// As [`Operations::write_at`].
    fn append(&self, handle: &Self::Handle, from: &[u8]) -> Result<(usize, u64)>;

    /// Changes a file's size: truncates it, or extends it with zeros.
    ///
    /// # Errors
    /// `TooLarge`, `NoSpace`, `ReadOnly`, `NotPermitted`; `IsDirectory`, `Invalid` if not a regular file.
    fn truncate(&self, handle: &Self::Handle, size: u64) -> Result<()> {
        let change = SetAttr::default().size(Some(size));
        self.set_attributes(self.ino(handle), &change).map(drop)
    }

    /// Makes a file's contents and attributes durable.
    ///
    /// # Errors
    /// `Medium` if the medium fails.
    fn sync(&self, handle: &Self::Handle) -> Result<()>;

    /// Makes everything durable.
    ///
    /// # Errors
    /// `Medium` if the medium fails.
    fn sync_all(&self) -> Result<()>;

    /// Space and inode counts, as in statvfs(3).
    ///
    /// # Errors
    /// `Medium` if the volume is unavailable.
    fn statfs(&self) -> Result<Statfs>;
}

impl<V: Operations> Operations for &V {
    type Handle = V::Handle;

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        V::lookup(self, parent, name)
    }

    fn parent(&self, directory: Ino) -> Result<Ino> {
        V::parent(self, directory)
    }

    fn attributes(&self, ino: Ino) -> Result<Attr> {
        V::attributes(self, ino)
    }

    fn set_attributes(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        V::set_attributes(self, ino, change)
    }

    fn create_file(&self, parent: Ino, name: &[u8], meta: &Meta) -> Result<Self::Handle> {
        V::create_file(self, parent, name, meta)
    }

    fn create_directory(&self, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr> {
        V::create_directory(self, parent, name, meta)
    }

    fn create_symlink(&self, parent: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Attr> {
        V::create_symlink(self, parent, name, target, uid, gid)
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        V::read_link(self, ino)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        V::link(self, ino, parent, name)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        V::unlink(self, parent, name)
    }

    fn remove_directory(&self, parent: Ino, name: &[u8]) -> Result<()> {
        V::remove_directory(self, parent, name)
    }

    fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()> {
        V::rename(self, from, name, to, new_name, how)
    }

    fn read_directory(&self, ino: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()> {
        V::read_directory(self, ino, cookie, take)
    }

    fn open(&self, ino: Ino) -> Result<Self::Handle> {
        V::open(self, ino)
    }

    fn release(&self, handle: Self::Handle) {
        V::release(self, handle)
    }

    fn ino(&self, handle: &Self::Handle) -> Ino {
        V::ino(self, handle)
    }

    fn read_at(&self, handle: &Self::Handle, into: &mut [u8], offset: u64) -> Result<usize> {
        V::read_at(self, handle, into, offset)
    }

    fn write_at(&self, handle: &Self::Handle, from: &[u8], offset: u64) -> Result<usize> {
        V::write_at(self, handle, from, offset)
    }

    fn append(&self, handle: &Self::Handle, from: &[u8]) -> Result<(usize, u64)> {
        V::append(self, handle, from)
    }

    fn truncate(&self, handle: &Self::Handle, size: u64) -> Result<()> {
        V::truncate(self, handle, size)
    }

    fn sync(&self, handle: &Self::Handle) -> Result<()> {
        V::sync(self, handle)
    }

    fn sync_all(&self) -> Result<()> {
        V::sync_all(self)
    }

    fn statfs(&self) -> Result<Statfs> {
        V::statfs(self)
    }
}
