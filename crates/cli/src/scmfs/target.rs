//! What can be done to a volume whether it is mounted or not, and unmounting.

use crate::region;
use pocketstone_core::error::Context;
use pocketstone_core::units::format_bytes_rounded;
use pocketstone_core::{Error, Result};
use pocketstone_mount::{COLLECT, RESIZE, State, USAGE};
use rustix::fs::XattrFlags;
use rustix::io::Errno;
use serde::de::DeserializeOwned;
use std::path::{Path, PathBuf};

/// What a command is to work on.
pub enum Target {
    /// A directory at which a volume is mounted.
    Mounted(PathBuf),
    /// A region.
    Region(PathBuf),
}

impl Target {
    /// A directory is taken for a mount, anything else for a region.
    pub fn of(path: &Path) -> Result<Target> {
        let mounted = |path: PathBuf| -> Result<Option<PathBuf>> {
            let entry = pocketstone_mount::mounted_at(&path)?;
            Ok(entry.filter(|entry| entry.kind == pocketstone_mount::KIND).map(|_| path))
        };
        if pocketstone_mount::is_dead(path) {
            return Err(Error::user(format!("the server of {} has died", path.display()))
                .hint("mount the region there again to recover the volume"));
        }
        let facts = std::fs::metadata(path).user(|| format!("cannot find {}", path.display()))?;
        let path = region::canonical(path)?;
        if !facts.is_dir() {
            return Ok(Target::Region(path));
        }
        match mounted(path.clone())? {
            Some(path) => Ok(Target::Mounted(path)),
            None => Err(Error::user(format!("no volume is mounted at {}", path.display()))
                .hint("specify the region, or its mount point")),
        }
    }
}

/// What the server of a mounted volume says about it.
pub fn state(directory: &Path) -> Result<State> {
    ask(directory, USAGE, || format!("cannot query the server of {}", directory.display()))
}

/// What the server of a mounted volume answers to the name of one of its attributes.
pub fn ask<T: DeserializeOwned>(directory: &Path, name: &str, cannot: impl Fn() -> String) -> Result<T> {
    let mut buffer = vec![0u8; 64 << 10];
    let bytes = rustix::fs::getxattr(directory, name, &mut buffer[..]).board(&cannot)?;
    serde_json::from_slice(&buffer[..bytes]).board(cannot)
}

pub fn tell(directory: &Path, name: &str, value: &str, what: &str) -> Result<()> {
    rustix::fs::setxattr(directory, name, value.as_bytes(), XattrFlags::empty()).map_err(|e| {
        let error = Error::user(format!("cannot {what} the volume at {}", directory.display())).because(e);
        match e {
            Errno::PERM | Errno::ACCESS => error.hint("only root and the owner of its root directory may do this"),
            Errno::ROFS => error.hint("it is mounted read-only"),
            Errno::INVAL | Errno::FBIG => error.hint("see its limits: scmfs df"),
            _ => error,
        }
    })
}

/// Whether a volume may grow to so many bytes; the server could only answer with a number.
fn check_growth(bytes: u64, now: u64, most: u64) -> Result<()> {
    let error = |why| Err(Error::user(format!("cannot resize to {}: {why}", format_bytes_rounded(bytes))));
    if bytes < now {
        return error(format!("the volume has {} and can only grow", format_bytes_rounded(now)));
    }
    if bytes > most {
        return error(format!("its maximum size is {} (mkfs --max-size)", format_bytes_rounded(most)));
    }
    Ok(())
}

pub fn resize(target: &Path, bytes: u64) -> Result<u8> {
    let now = match Target::of(target)? {
        Target::Mounted(directory) => {
            let usage = state(&directory)?.usage;
            check_growth(bytes, usage.volume_bytes, usage.max_bytes)?;
            tell(&directory, RESIZE, &bytes.to_string(), "resize")?;
            state(&directory)?.usage.volume_bytes
        }
        Target::Region(path) => {
            let volume = region::volume(&path, false)?;
            let usage = volume.usage();
            check_growth(bytes, usage.volume_bytes, usage.max_bytes)?;
            volume
                .resize(bytes)
                .user(|| format!("cannot resize {} to {}", path.display(), format_bytes_rounded(bytes)))?;
            let now = volume.usage().volume_bytes;
            volume.close()?;
            now
        }
    };
    say!("{}: {}", target.display(), format_bytes_rounded(now));
    Ok(0)
}

pub fn gc(target: &Path) -> Result<u8> {
    let collected = match Target::of(target)? {
        Target::Mounted(directory) => {
            let before = state(&directory)?.usage.collected_bytes;
            tell(&directory, COLLECT, "1", "collect garbage on")?;
            state(&directory)?.usage.collected_bytes.saturating_sub(before)
        }
        Target::Region(path) => {
            let volume = region::volume(&path, false)?;
            let collected = volume.collect();
            volume.close()?;
            collected
        }
    };
    say!("{}: {} freed", target.display(), format_bytes_rounded(collected));
    Ok(0)
}
