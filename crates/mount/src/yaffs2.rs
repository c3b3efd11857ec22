//! YAFFS2 as it is mounted: one lock for the whole volume, as it has everywhere, and a thread for its background
//! work.

use crate::mountable::Mountable;
use crate::{MountOptions, Mounted, Reporter};
use pocketstone_core::inode::{
    Attr, Entry, Error, FileType, Ino, Meta, ROOT, Rename, Result, SetAttr, SetXattr, Statfs,
};
use pocketstone_yaffs2::Volume;
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::Duration;

/// The type of a mounted YAFFS2 volume in the list of mounts.
pub const YAFFS2_KIND: &str = "fuse.yaffs2";

/// Between two steps of background work, as the kernel's own thread of YAFFS2 has it at most.
const PERIOD: Duration = Duration::from_secs(1);

/// Mounts a volume at a directory. It is in use until [`Mounted::wait`] or [`Mounted::unmount`] returns; then
/// [`Yaffs2::close`] writes what is left, and the checkpoint.
///
/// # Errors
/// As [`mount`](crate::mount).
pub fn mount_yaffs2(
    volume: Volume,
    mountpoint: &Path,
    options: &MountOptions,
) -> pocketstone_core::Result<(Mounted, Yaffs2)> {
    let locked = Arc::new(Locked { volume: Mutex::new(volume) });
    let mounted = crate::mount(locked.clone(), mountpoint, options)?;
    let background = if options.read_only { None } else { Some(Background::start(&locked, options.reporter.clone())?) };
    Ok((mounted, Yaffs2 { locked, background }))
}

/// A volume that is, or was, mounted. Dropping it leaves the chip as a loss of power would.
pub struct Yaffs2 {
    locked: Arc<Locked>,
    background: Option<Background>,
}

impl Yaffs2 {
    /// Closes the volume: everything is on the chip then.
    ///
    /// # Errors
    /// When it is still mounted, or the chip refuses.
    pub fn close(self) -> pocketstone_core::Result<()> {
        drop(self.background);
        let locked = Arc::into_inner(self.locked);
        let locked = locked.ok_or_else(|| pocketstone_core::Error::bug("the volume is closed while it is in use"))?;
        let volume = locked.volume.into_inner();
        let volume = volume.map_err(|_| pocketstone_core::Error::bug("an operation ended in its middle"))?;
        Ok(volume.unmount()?)
    }
}

/// A thread that takes a step of background work every [`PERIOD`], until this is dropped.
struct Background {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Background {
    fn start(locked: &Arc<Locked>, reporter: Option<Reporter>) -> pocketstone_core::Result<Background> {
        use pocketstone_core::error::Context;
        let (stop, told) = channel();
        let locked = locked.clone();
        let work = move || {
            while let Err(RecvTimeoutError::Timeout) = told.recv_timeout(PERIOD) {
                let outcome = locked.lock().and_then(|mut volume| volume.background());
                if let (Err(error), Some(report)) = (outcome, &reporter) {
                    report(&error.to_string());
                }
            }
        };
        let thread = std::thread::Builder::new().name("background".into()).spawn(work);
        let thread = thread.board(|| "cannot start a thread".into())?;
        Ok(Background { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Locked {
    volume: Mutex<Volume>,
}

impl Locked {
    /// The volume, unless somebody left it in the middle of an operation: nothing of it is to be trusted then.
    fn lock(&self) -> Result<MutexGuard<'_, Volume>> {
        let fault = |_| Error::Medium(Box::new(pocketstone_core::Error::bug("an operation ended in its middle")));
        self.volume.lock().map_err(fault)
    }
}

/// A use of an inode.
struct Held {
    locked: Arc<Locked>,
    ino: Ino,
}

impl Drop for Held {
    fn drop(&mut self) {
        // Deleting what has no name any more may fail; the next mount does it then.
        let _ = self.locked.lock().and_then(|mut volume| volume.release(self.ino));
    }
}

fn write_all(volume: &mut Volume, ino: Ino, mut from: &[u8], mut offset: u64) -> Result<()> {
    while !from.is_empty() {
        match volume.write(ino, offset, from)? {
            0 => return Err(Error::NoSpace),
            written => {
                from = from.get(written..).unwrap_or_default();
                offset += written as u64;
            }
        }
    }
    Ok(())
}

impl Mountable for Locked {
    type Open = Arc<Held>;

    const SUBTYPE: &'static str = "yaffs2";
    const ASKS_AT_CLOSE: bool = true;
    // A header not yet loaded is a page sense.
    const LISTS_ATTRIBUTES: bool = false;

    fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.lock()?.lookup(parent, name)
    }

    fn attributes(&self, ino: Ino) -> Result<Attr> {
        self.lock()?.attributes(ino)
    }

    fn parent(&self, directory: Ino) -> Result<Ino> {
        self.lock()?.parent(directory)
    }

    fn set_attributes(&self, ino: Ino, change: &SetAttr) -> Result<Attr> {
        self.lock()?.set_attributes(ino, change)
    }

    fn create(self: &Arc<Self>, parent: Ino, name: &[u8], meta: &Meta) -> Result<Attr> {
        self.lock()?.create(parent, name, meta)
    }

    fn symlink(&self, parent: Ino, name: &[u8], target: &[u8], uid: u32, gid: u32) -> Result<Attr> {
        self.lock()?.symlink(parent, name, target, uid, gid)
    }

    fn read_link(&self, ino: Ino) -> Result<Vec<u8>> {
        self.lock()?.read_link(ino)
    }

    fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Attr> {
        self.lock()?.link(ino, parent, name)
    }

    fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.lock()?.unlink(parent, name)
    }

    fn remove_directory(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.lock()?.remove_directory(parent, name)
    }

    fn rename(&self, from: Ino, name: &[u8], to: Ino, new_name: &[u8], how: Rename) -> Result<()> {
        self.lock()?.rename(from, name, to, new_name, how)
    }

    fn read_directory(&self, ino: Ino, cookie: u64, take: &mut dyn FnMut(&Entry) -> bool) -> Result<()> {
        self.lock()?.read_directory(ino, cookie, take)
    }

    fn open(self: &Arc<Self>, ino: Ino) -> Result<Arc<Held>> {
        self.lock()?.hold(ino)?;
        Ok(Arc::new(Held { locked: self.clone(), ino }))
    }

    fn ino(open: &Arc<Held>) -> Ino {
        open.ino
    }

    fn read(&self, open: &Arc<Held>, into: &mut [u8], offset: u64) -> Result<usize> {
        self.lock()?.read(open.ino, offset, into)
    }

    fn write(&self, open: &Arc<Held>, from: &[u8], offset: u64) -> Result<()> {
        write_all(&mut *self.lock()?, open.ino, from, offset)
    }

    fn append(&self, open: &Arc<Held>, from: &[u8]) -> Result<()> {
        let mut volume = self.lock()?;
        let end = volume.attributes(open.ino)?.size;
        write_all(&mut volume, open.ino, from, end)
    }

    fn sync(&self, open: &Arc<Held>) -> Result<()> {
        self.lock()?.sync_inode(open.ino)
    }

    /// YAFFS2 writes out what it holds of a file when it is closed.
    fn closing(&self, open: &Arc<Held>) -> Result<()> {
        let mut volume = self.lock()?;
        match volume.attributes(open.ino)?.kind {
            FileType::Regular => volume.sync_inode(open.ino),
            _ => Ok(()),
        }
    }

    /// The kernel does not pass syncfs(2) on: the root's fsync stands for it.
    fn sync_directory(&self, ino: Ino) -> Result<()> {
        let mut volume = self.lock()?;
        if ino == ROOT { volume.sync() } else { volume.sync_inode(ino) }
    }

    fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        self.lock()?.get_xattr(ino, name)
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.lock()?.list_xattrs(ino)
    }

    fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        // Lists of access rights would have to change the mode, too; without them the kernel's users fall back to it.
        if name.starts_with(b"system.") {
            return Err(Error::NotSupported);
        }
        self.lock()?.set_xattr(ino, name, value, how)
    }

    fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.lock()?.remove_xattr(ino, name)
    }

    fn statfs(&self) -> Result<Statfs> {
        Ok(self.lock()?.statfs())
    }
}
