//! Mounts volumes: the only room that speaks FUSE.
//!
//! While a volume is mounted nobody else changes it, so the kernel may keep what it has read, names,
//! attributes and pages, for ever: all changes go through it.

mod control;
mod convert;
mod device;
mod known;
mod null;
mod operations;
mod options;
mod served;
mod session;

pub use control::{COLLECT, RESIZE, State, USAGE, state};
pub use device::{Entry, mounted_at};
pub use null::{NULL_BYTES, NULL_FILE, mount_null};
pub use options::{MountOptions, Reporter};
pub use session::{Before, Mounted, Target, clean_up, is_dead, remount, unmount};

use pocketstone_core::{Error, Result};
use pocketstone_scmfs::Volume;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// The file system's type in the list of mounts.
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
pub fn mount(volume: Arc<Volume>, mountpoint: &Path, options: &MountOptions) -> Result<Mounted> {
    if mounted_at(&mountpoint.canonicalize().unwrap_or_default())?.is_some_and(|entry| entry.kind == KIND) {
        return Err(Error::user(format!("a volume is mounted at {} already", mountpoint.display()))
            .hint(format!("scmfs umount {}", mountpoint.display())));
    }
    let how = device::Attach {
        source: options.source.clone(),
        subtype: "scmfs",
        flags: options.flags(),
        allow_other: options.allow_other,
    };
    let served = served::Served::new(volume, options);
    let notifier = served.notifier.clone();
    session::serve(served, mountpoint, &how, options.threads, &notifier)
}
