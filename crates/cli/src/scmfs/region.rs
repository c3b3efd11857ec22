//! Opening regions.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_media::{MapOptions, Mapped, Persistence, Region};
use pocketstone_scmfs::{OpenOptions, Volume};
use std::path::{Path, PathBuf};

/// A region that exists.
pub fn open(path: &Path, writable: bool, persistent: bool) -> Result<Box<dyn Region>> {
    Ok(Box::new(Mapped::open(path, &MapOptions { writable, persistent, ..MapOptions::default() })?))
}

/// Whether to flush and fence what a command stores before it ends. Always, where the processor can: the
/// region may lie in memory that outlives a loss of power, and where it does not, little is lost.
pub fn flushed() -> bool {
    pocketstone_media::persist::available()
}

/// A volume that is not mounted. If it was not closed, it is recovered, unless it is only read.
pub fn volume(path: &Path, read_only: bool) -> Result<Volume> {
    let region = open(path, !read_only, !read_only && flushed())?;
    Ok(Volume::open(region, &OpenOptions { read_only, ..OpenOptions::default() })?)
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
