//! What a file system has to do so that it can be mounted.

use pocketstone_media::Shared;
use pocketstone_scmfs::{Allocate, OutsideStores, Running, Watch};
use pocketstone_vfs::{Attr, Error, Held, Ino, Meta, Operations, Protection, Result, SetXattr, TimeNs};
use rustix::io::Errno;
use std::sync::Arc;

/// A file system that [`mount`](crate::mount) can serve, from several threads at once: its [`Operations`], and what a
/// kernel asks for beside them.
///
/// `.` and `..` are not asked for. Errors are those of [`Error::errno`]. An operation that has a default here need not
/// exist.
pub trait Mountable: Operations<Handle: Send + Sync> + Send + Sync + Sized + 'static {
    /// What the list of mounts shows behind `fuse.`.
    const SUBTYPE: &'static str;
    /// Whether [`Mountable::closing`] has anything to do. The kernel asks at every close then.
    const ASKS_AT_CLOSE: bool = false;

    /// Whether what is asked about an open file can be answered by the inode's number: the kernel asks nothing then at
    /// open(2) and close(2).
    const OPENS_BY_NUMBER: bool = false;

    /// Whether an inode can be found by its number alone, also after the kernel has forgotten it: open_by_handle_at(2)
    /// and NFS need that.
    const FINDS_BY_NUMBER: bool = false;

    /// Whether it knows when its inodes were made.
    const KNOWS_BIRTH: bool = false;

    /// Whether attributes cost next to nothing while a directory is listed (FUSE_READDIRPLUS). If not, the kernel
    /// asks for those that somebody wants to see.
    const LISTS_ATTRIBUTES: bool = true;

    /// Whether lists of access rights (acl(5)) are kept in step with the mode, and inherited: the kernel goes by them
    /// then, and leaves umask(2) to [`Operations::create_file`] and its like. If not, programs are told that there are
    /// none.
    const KEEPS_ACLS: bool = false;

    /// Makes a file without a name, and takes it into use. It is gone with its last handle, unless
    /// [`Mountable::link_open`] gives it a name. It gets the access rights that a file made in `directory` gets.
    ///
    /// # Errors
    /// `NotSupported`, or as [`Operations::create_file`].
    fn create_unnamed(&self, _directory: Ino, _meta: &Meta) -> Result<Self::Handle> {
        Err(Error::NotSupported)
    }

    /// Gives an inode in use a name, also one that has none.
    ///
    /// # Errors
    /// As [`Operations::link`].
    fn link_open(&self, open: &Self::Handle, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.link(self.ino(open), parent, name)
    }

    /// The attributes of an inode in use.
    ///
    /// # Errors
    /// As [`Operations::attributes`].
    fn attributes_of(&self, open: &Self::Handle) -> Result<Attr> {
        self.attributes(self.ino(open))
    }

    /// Writes what the kernel had in its cache: it let somebody write it before.
    ///
    /// # Errors
    /// As [`Operations::write_at`].
    fn write_back(&self, open: &Self::Handle, from: &[u8], offset: u64) -> Result<()> {
        match self.write_at(open, from, offset)? {
            written if written == from.len() => Ok(()),
            _ => Err(Error::NoSpace),
        }
    }

    /// Refuses to let a file be opened for writing; `at_end`: nowhere else than there.
    ///
    /// # Errors
    /// `NotPermitted`.
    fn may_write(&self, _open: &Self::Handle, _at_end: bool) -> Result<()> {
        Ok(())
    }

    /// What one close(2) of a file leaves to do.
    ///
    /// # Errors
    /// `Medium` if something cannot be written: close(2) returns it.
    fn closing(&self, _open: &Self::Handle) -> Result<()> {
        Ok(())
    }

    /// Makes an inode durable, as fsync(2) does; of a directory, the names in it.
    ///
    /// # Errors
    /// `NotFound`; `Medium` if the medium fails.
    fn sync_inode(&self, ino: Ino) -> Result<()>;

    /// Reserves, frees or zeroes a range of bytes.
    ///
    /// # Errors
    /// `NotSupported`, or as [`Operations::write_at`].
    fn allocate(&self, _open: &Self::Handle, _how: Allocate, _offset: u64, _bytes: u64) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// Where data is next, from an offset on. Without an answer of its own a file is data up to its end.
    ///
    /// # Errors
    /// `NoMore`.
    fn next_data(&self, open: &Self::Handle, offset: u64) -> Result<u64> {
        if offset < self.attributes_of(open)?.size { Ok(offset) } else { Err(Error::NoMore) }
    }

    /// Where a hole is next, from an offset on; the end of a file is one.
    ///
    /// # Errors
    /// `NoMore`.
    fn next_hole(&self, open: &Self::Handle, offset: u64) -> Result<u64> {
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

    /// Sets a list of access rights, the attribute `name`. `drop_group_id`: the set-group-id bit goes.
    ///
    /// # Errors
    /// `NotSupported`, `Invalid`, `Denied`, `NoSpace`.
    fn set_acl(&self, _ino: Ino, _name: &[u8], _value: &[u8], _drop_group_id: bool) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// Takes the attribute `security.capability` away before a file's content or owner changes. Whether it was there.
    ///
    /// # Errors
    /// `NoSpace`.
    fn drop_capability(&self, _ino: Ino) -> Result<bool> {
        Ok(false)
    }

    /// What protects an inode from everybody.
    ///
    /// # Errors
    /// `NotSupported`.
    fn protection(&self, _ino: Ino) -> Result<Protection> {
        Err(Error::NotSupported)
    }

    /// Protects an inode.
    ///
    /// # Errors
    /// `NotSupported`.
    fn protect(&self, _ino: Ino, _how: Protection) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// What [`Mountable::write_batch`] takes, in bytes, and how long a small page is; `None`: nothing.
    fn batch_max(&self) -> Option<(u64, u64)> {
        None
    }

    /// Writes to an open file at several offsets, and sets its size: all of it or nothing.
    ///
    /// # Errors
    /// `TooLarge`, `NotSupported`, or as [`Operations::write_at`]; nothing has changed then.
    fn write_batch(&self, _open: &Self::Handle, _writes: &[(u64, &[u8])], _size: u64) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// The region as other processes can map it, so that they reach the content of files without the kernel; `None`:
    /// they cannot.
    fn shared(&self) -> Option<Shared<'_>> {
        None
    }

    /// From now on such processes may store where [`Mountable::watch`] says that it is allowed.
    ///
    /// # Errors
    /// `NotSupported`; `Invalid` if somebody else said so.
    fn let_others_store(&self, _stores: Arc<dyn OutsideStores>) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// Such a process, which has ended, stored to these bytes of the region.
    fn note_stored(&self, _at: u64, _bytes: u64) {}

    /// Has the content of an open file watched, by what `watch` makes for its generation. Whether it was made.
    ///
    /// # Errors
    /// `NotSupported`.
    fn watch(&self, _open: &Self::Handle, _watch: &dyn Fn(u32) -> Option<Box<dyn Watch>>) -> Result<bool> {
        Err(Error::NotSupported)
    }

    /// Finds space for so many bytes behind the end of an open file. Where that space ends, in bytes of the file.
    ///
    /// # Errors
    /// As [`Operations::append`].
    fn room_to_append(&self, _open: &Self::Handle, _bytes: u64) -> Result<u64> {
        Err(Error::NotSupported)
    }

    /// Lets somebody who watches an open file lease its end up to a limit, by `give`, which is told the size. Whether
    /// it was.
    ///
    /// # Errors
    /// As [`Operations::append`].
    fn lease_end(&self, _open: &Self::Handle, _limit: u64, _give: &dyn Fn(u64)) -> Result<bool> {
        Err(Error::NotSupported)
    }

    /// Whether [`Mountable::lie_still`] can be had.
    fn may_be_mapped(&self) -> bool {
        false
    }

    /// Has a range of an open file lie still, for somebody who maps it, as long as what `hold` gives says so. Whether
    /// it does.
    ///
    /// # Errors
    /// `NotSupported`; `Invalid` for a range that the file does not have; as [`Mountable::allocate`].
    fn lie_still(
        &self,
        _open: &Self::Handle,
        _offset: u64,
        _bytes: u64,
        _hold: &dyn Fn() -> Option<Running>,
    ) -> Result<bool> {
        Err(Error::NotSupported)
    }

    /// Stores the sizes of files that have grown by such leases.
    fn store_sizes(&self) {}

    /// Where records of such sizes lie in the region, one behind the other, and how many
    /// ([`size_record`](pocketstone_media::size_record)).
    fn size_records(&self) -> (u64, u32) {
        (0, 0)
    }

    /// From now on they count.
    ///
    /// # Errors
    /// `NotSupported`; `ReadOnly`.
    fn use_size_records(&self) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// One says nothing any more: what it said is stored.
    ///
    /// # Safety
    /// Nobody else loads or stores it meanwhile.
    unsafe fn clear_size_record(&self, _record: u32) {}

    /// Takes over when others stored to an open file, as [`Watch::written`] says; `at_ns`: also that somebody did then,
    /// in ns since 1970.
    ///
    /// # Errors
    /// As [`Operations::write_at`].
    fn note_written(&self, _open: &Self::Handle, _at_ns: Option<TimeNs>) -> Result<()> {
        Err(Error::NotSupported)
    }

    /// The value, for a user, of an extended attribute of the root that is stored nowhere; `None` if it is an ordinary
    /// one.
    fn asked(&self, _source: &str, _uid: u32, _name: &[u8]) -> Option<Result<Vec<u8>>> {
        None
    }

    /// Does what the setting of such an attribute asks for, by a user; `None` if it is an ordinary one. `arrived` waits
    /// until what the kernel is writing back has arrived here.
    fn told(&self, _uid: u32, _name: &[u8], _value: &[u8], _arrived: Waits) -> Option<Result<()>> {
        None
    }
}

/// Waits for something, on any thread. What of it may be missing, if anything.
pub type Waits = Arc<dyn Fn() -> Option<String> + Send + Sync>;

/// An inode in use by the kernel, once or more.
pub(crate) type Open<V> = Arc<Held<Arc<V>>>;

/// Takes an inode into use.
pub(crate) fn take<V: Operations>(volume: &Arc<V>, ino: Ino) -> Result<Arc<Held<Arc<V>>>> {
    Held::open(volume.clone(), ino).map(Arc::new)
}

/// Writes at an offset in bytes, as much as there is space for. How much that was.
pub(crate) fn write_some<V: Operations>(volume: &V, open: &V::Handle, from: &[u8], offset: u64) -> Result<usize> {
    some(volume.write_at(open, from, offset)?, from)
}

/// Writes at a file's end, as much as there is space for, in one operation: nobody else's bytes come between. How much
/// that was, and where the file ends then.
pub(crate) fn append_some<V: Operations>(volume: &V, open: &V::Handle, from: &[u8]) -> Result<(usize, u64)> {
    let (written, end) = volume.append(open, from)?;
    some(written, from).map(|written| (written, end))
}

/// As write(2) has it: fewer bytes than all are a success, and none are an error. Fewer are written only if space ran
/// out ([`Operations::write_at`]).
fn some(written: usize, from: &[u8]) -> Result<usize> {
    if written > 0 || from.is_empty() { Ok(written) } else { Err(Error::NoSpace) }
}

/// An error's number for the kernel.
pub(crate) fn errno(error: &Error) -> Errno {
    Errno::from_raw_os_error(error.errno())
}
