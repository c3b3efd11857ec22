//! Mounts volumes: the only room that speaks FUSE.
//!
//! While a volume is mounted nobody else changes it, so the kernel may keep what it has read, names,
//! attributes and pages, for ever: all changes go through it.

mod atomic;
mod background;
mod caller;
mod control;
mod convert;
pub mod daemon;
mod device;
mod direct;
mod flags;
mod flushes;
pub mod guard;
mod holders;
mod hollow;
mod kept;
mod known;
mod library;
mod listed;
mod mountable;
mod null;
mod operations;
mod options;
mod scmfs;
mod sealed;
mod served;
mod server;
mod session;
mod wire;
mod yaffs2;

pub use control::{CHECKPOINT, COLLECT, CheckpointRequest, RESIZE, SCRUB, State, USAGE, state};
pub use device::{Entry, mounted_at};
pub use direct::{Unmounted, stores_directly};
pub use hollow::mount_hollow;
pub use library::{LIBRARY, library, loaded_first};
pub use mountable::Mountable;
pub use null::mount_null;
pub use options::{MountOptions, Preload, Reporter};
pub use scmfs::mount_scmfs;
pub use server::Server;
pub use session::{Before, Mounted, Target, clean_up, is_dead, remount, unmount};
pub use wire::is_request;
pub use yaffs2::{YAFFS2_KIND, Yaffs2, mount_yaffs2};

use pocketstone_core::{Error, Result};
use std::path::Path;
use std::sync::Arc;

/// The type of a mounted SCMFS volume in the list of mounts.
pub const KIND: &str = "fuse.scmfs";

/// Mounts a volume at a directory and serves it by threads of its own.
///
/// The volume is in use until [`Mounted::wait`] or [`Mounted::unmount`] returns; closing it is left to
/// the caller, who holds the last `Arc` then.
///
/// # Errors
/// `ErrorKind::User` if `mountpoint` is not a directory, such a volume is mounted there, or options exclude each other;
/// `ErrorKind::Board` if FUSE is unavailable, or the kernel refuses.
pub fn mount<V: Mountable>(volume: Arc<V>, mountpoint: &Path, options: &MountOptions) -> Result<Mounted> {
    let kind = format!("fuse.{}", V::SUBTYPE);
    if mounted_at(&mountpoint.canonicalize().unwrap_or_default())?.is_some_and(|entry| entry.kind == kind) {
        return Err(Error::user(format!("a volume is already mounted at {}", mountpoint.display()))
            .hint(format!("umount {}", mountpoint.display())));
    }
    options.check()?;
    let served = served::Served::new(volume, options);
    let connection = served.connection.clone();
    // One thread may wait for the kernel, which waits for another.
    let least = if served.direct.is_some() || options.atomic { 2 } else { 1 };
    session::serve(served, mountpoint, V::SUBTYPE, options, least, &connection)
}
