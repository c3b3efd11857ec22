//! Opening regions.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_media::{MapOptions, Mapped, Persistence, Region, Tracked};
use pocketstone_scmfs::{OpenOptions, Volume};
use std::path::{Path, PathBuf};

/// A region that exists, for a command that works on it and ends. What it stores is flushed and fenced where the
/// processor can: the region may lie in memory that outlives a loss of power, and where it does not, little is lost.
pub fn open(path: &Path, writable: bool) -> Result<Box<dyn Region>> {
    not_mounted(path)?;
    Ok(Box::new(Mapped::open(path, &MapOptions::default().writable(writable).flushed(writable))?))
}

/// Refuses a directory at which a volume is mounted, in the place of its region.
fn not_mounted(path: &Path) -> Result<()> {
    if !path.is_dir() {
        return Ok(());
    }
    match pocketstone_mount::mounted_at(&canonical(path)?)?.filter(|entry| entry.kind == pocketstone_mount::KIND) {
        Some(entry) => Err(Error::user(format!("{} is a mount point of {}", path.display(), entry.source))
            .hint("specify the region, and unmount it first; `scmfs scrub` checks it in use")),
        None => Err(Error::user(format!("{} is a directory", path.display())).hint("specify the region")),
    }
}

/// A region to be mounted; `persistent`: it was declared to outlive a loss of power. `tracked`: stores to it are known,
/// for checkpoints.
pub fn open_to_serve(path: &Path, writable: bool, persistent: bool, tracked: bool) -> Result<Box<dyn Region>> {
    let region = Mapped::open(path, &MapOptions::default().writable(writable).persistent(persistent))?;
    if !writable || !tracked {
        return Ok(Box::new(region));
    }
    let most_bytes = region.reserved_bytes();
    Ok(Box::new(Tracked::new(region, most_bytes)))
}

/// A region whose volume is to be repaired: with addresses for all of the volume, though it may have been cut short.
pub fn open_to_repair(path: &Path) -> Result<Box<dyn Region>> {
    let region = open(path, false)?;
    let length = region.bytes();
    let cut = pocketstone_scmfs::volume_bytes(region).ok().filter(|bytes| *bytes > length);
    let options = MapOptions::default().flushed(true).reserve_bytes(cut);
    Ok(Box::new(Mapped::open(path, &options)?))
}

/// A volume that is not mounted. If it was not closed, it is recovered, unless it is only read.
pub fn volume(path: &Path, read_only: bool) -> Result<Volume> {
    let region = open(path, !read_only)?;
    Ok(Volume::open(region, &OpenOptions::default().read_only(read_only))?)
}

/// What is not as safe as one might think, in one line.
pub fn warning(region: &dyn Region) -> Option<String> {
    (region.persistence() != Persistence::PowerSafe).then(|| region.describe())
}

/// The one name that a file has everywhere.
pub fn canonical(path: &Path) -> Result<PathBuf> {
    path.canonicalize().user(|| format!("cannot find {}", path.display()))
}

/// The text of a path, as volumes and mount tables want it.
pub fn text(path: &Path) -> Result<&str> {
    path.to_str().ok_or_else(|| Error::user(format!("{} is not UTF-8", path.display())))
}
