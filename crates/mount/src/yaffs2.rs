//! YAFFS2 as it is mounted: one lock for the whole volume, as it has everywhere, and a thread for its background
//! work.

use crate::background::Background;
use crate::mountable::Mountable;
use crate::{MountOptions, Mounted, Reporter};
use pocketstone_core::error::Context;
use pocketstone_vfs::{Error, FileType, Ino, Operations, ROOT, Result, SetXattr};
use pocketstone_yaffs2::{File, Volume};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The type of a mounted YAFFS2 volume in the list of mounts.
pub const YAFFS2_KIND: &str = "fuse.yaffs2";

/// Between two steps of background work, as the kernel's own thread of YAFFS2 has it at most.
const PERIOD: Duration = Duration::from_secs(1);

/// Mounts a volume at a directory. It is in use until [`Mounted::wait`] or [`Mounted::unmount`] returns; then
/// [`Yaffs2::close`] writes what is left, and the checkpoint.
///
/// # Errors
/// As [`mount`](crate::mount); `ErrorKind::Board` also if no thread can be started for background work.
pub fn mount_yaffs2(
    volume: Volume,
    mountpoint: &Path,
    options: &MountOptions,
) -> pocketstone_core::Result<(Mounted, Yaffs2)> {
    let volume = Arc::new(volume);
    let mounted = crate::mount(volume.clone(), mountpoint, options)?;
    let background = if options.read_only { None } else { Some(background(&volume, options.reporter.clone())?) };
    Ok((mounted, Yaffs2 { volume, background }))
}

/// A volume that is, or was, mounted. Dropping it leaves the chip as a loss of power would.
pub struct Yaffs2 {
    volume: Arc<Volume>,
    background: Option<Background>,
}

impl Yaffs2 {
    /// Closes the volume: everything is on the chip then.
    ///
    /// # Errors
    /// `ErrorKind::Bug` if it is still mounted, or a thread panicked during an operation; `ErrorKind::Board` if the
    /// chip fails.
    pub fn close(self) -> pocketstone_core::Result<()> {
        drop(self.background);
        let volume = Arc::into_inner(self.volume);
        let volume = volume.ok_or_else(|| pocketstone_core::Error::bug("the volume is being closed while in use"))?;
        Ok(volume.close()?)
    }
}

/// Takes a step of background work every [`PERIOD`].
fn background(volume: &Arc<Volume>, reporter: Option<Reporter>) -> pocketstone_core::Result<Background> {
    let volume = volume.clone();
    let step = move || {
        let outcome = volume.background();
        if let (Err(error), Some(report)) = (outcome, &reporter) {
            report(&error.to_string());
        }
    };
    Background::start(PERIOD, step).board(|| "cannot start a thread".into())
}

impl Mountable for Volume {
    const SUBTYPE: &'static str = "yaffs2";
    const ASKS_AT_CLOSE: bool = true;
    // A header not yet loaded is a page sense.
    const LISTS_ATTRIBUTES: bool = false;

    /// YAFFS2 writes out what it holds of a file when it is closed.
    fn closing(&self, open: &File) -> Result<()> {
        match open.attributes()?.kind {
            FileType::Regular => open.sync(),
            _ => Ok(()),
        }
    }

    /// The kernel does not pass syncfs(2) on: the root's fsync stands for it.
    fn sync_inode(&self, ino: Ino) -> Result<()> {
        if ino == ROOT { self.sync_all() } else { Volume::sync_inode(self, ino) }
    }

    fn get_xattr(&self, ino: Ino, name: &[u8]) -> Result<Vec<u8>> {
        Volume::get_xattr(self, ino, name)
    }

    fn list_xattrs(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        Volume::list_xattrs(self, ino)
    }

    fn set_xattr(&self, ino: Ino, name: &[u8], value: &[u8], how: SetXattr) -> Result<()> {
        // Lists of access rights would have to change the mode, too; without them the kernel's users fall back to it.
        let rest = [&b"user."[..], b"trusted.", b"security."].iter().find_map(|space| name.strip_prefix(*space));
        // Other namespaces are unknown, and a name in one of them has something behind the point.
        if rest.ok_or(Error::NotSupported)?.is_empty() {
            return Err(Error::Invalid);
        }
        Volume::set_xattr(self, ino, name, value, how)
    }

    fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Result<()> {
        Volume::remove_xattr(self, ino, name)
    }
}
