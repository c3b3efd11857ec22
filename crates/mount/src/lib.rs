//! Mounts volumes: the only room that speaks FUSE.
//!
//! While a volume is mounted nobody else changes it, so the kernel may keep what it has read, names,
//! attributes and pages, for ever: all changes go through it.

mod control;
mod convert;
pub mod daemon;
mod device;
mod handshake;
mod known;
mod mountable;
mod null;
mod operations;
mod options;
mod scmfs;
mod served;
mod session;
mod yaffs2;

pub use control::{COLLECT, RESIZE, State, USAGE, state};
pub use device::{Entry, mounted_at};
pub use mountable::Mountable;
pub use null::mount_null;
pub use options::{MountOptions, Reporter};
pub use session::{Before, Mounted, Target, clean_up, is_dead, remount, unmount};
pub use yaffs2::{YAFFS2_KIND, Yaffs2, mount_yaffs2};

use pocketstone_core::{Error, Result};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The type of a mounted SCMFS volume in the list of mounts.
pub const KIND: &str = "fuse.scmfs";

/// How long the kernel may keep what it is told. More than a century.
pub(crate) const FOREVER: Duration = Duration::from_secs(u32::MAX as u64);

/// Mounts a volume at a directory and serves it by threads of its own.
///
/// The volume is in use until [`Mounted::wait`] or [`Mounted::unmount`] returns; closing it is left to
/// the caller, who holds the last `Arc` then.
///
/// # Errors
/// When the directory is none or cannot be mounted at, or FUSE is not there.
pub fn mount<V: Mountable>(volume: Arc<V>, mountpoint: &Path, options: &MountOptions) -> Result<Mounted> {
    let kind = format!("fuse.{}", V::SUBTYPE);
    if mounted_at(&mountpoint.canonicalize().unwrap_or_default())?.is_some_and(|entry| entry.kind == kind) {
        return Err(Error::user(format!("a volume is mounted at {} already", mountpoint.display()))
            .hint(format!("umount {}", mountpoint.display())));
    }
    let served = served::Served::new(volume, options);
    let notifier = served.notifier.clone();
    session::serve(served, mountpoint, V::SUBTYPE, options, &notifier)
}
