//! Making, mounting and filling the file system under test.

use crate::{mtd, served, ubi};
use pocketstone_core::error::Context;
use pocketstone_core::plan::{Data, FileSpec, FileSystem, TARGET_FILE, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_engine::write_file;
use pocketstone_workload::{Content, filler_bytes};
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where a flash volume is mounted on a board.
const MOUNT_POINT: &str = "/mnt";
/// Longest time that background work may take after a mount: JFFS2 checks every node of the chip.
const QUIET_LIMIT: Duration = Duration::from_secs(600);

/// The folder that holds a volume's files.
///
/// # Errors
/// When the plan names no directory.
pub fn folder(volume: &Volume) -> Result<PathBuf> {
    match volume.file_system {
        FileSystem::Directory => volume.directory.clone().ok_or_else(|| Error::user("the plan names no directory")),
        FileSystem::Jffs2 | FileSystem::Ubifs | FileSystem::Yaffs2 | FileSystem::NullFuse => Ok(MOUNT_POINT.into()),
        FileSystem::SquashfsMtdblock | FileSystem::SquashfsUbiblock => Ok(MOUNT_POINT.into()),
        other => Err(not_kept(other)),
    }
}

/// A file system in memory lives within one order.
fn not_kept(file_system: FileSystem) -> Error {
    Error::bug(format!("{} in memory is kept from one order to the next", file_system.name()))
}

/// Name of the backing device, for file systems that have one by a name of their own; others have that of the mount.
pub fn bdi(volume: &Volume) -> Option<&'static str> {
    match volume.file_system {
        FileSystem::Jffs2 => Some("mtd-0"),
        FileSystem::Ubifs => Some("ubifs_0_0"),
        _ => None,
    }
}

/// Makes an empty file system and mounts it.
///
/// # Errors
/// When the medium or the kernel refuses.
pub fn format(volume: &Volume) -> Result<()> {
    match volume.file_system {
        FileSystem::Directory => {
            let folder = folder(volume)?;
            return fs::create_dir_all(&folder).user(|| format!("cannot create {}", folder.display()));
        }
        FileSystem::Jffs2 => mtd::erase_for_jffs2()?,
        FileSystem::Ubifs => {
            mtd::erase()?;
            ubi::attach_and_make_volume()?;
        }
        FileSystem::Yaffs2 => mtd::erase()?,
        // Its one file has a size from the start.
        FileSystem::NullFuse => return Ok(()),
        // There is nothing to mount before the image is there.
        FileSystem::SquashfsMtdblock => return mtd::erase(),
        FileSystem::SquashfsUbiblock => {
            mtd::erase()?;
            ubi::attach_and_make_volume()?;
            return pocketstone_probe::quiet::wait(QUIET_LIMIT);
        }
        other => return Err(not_kept(other)),
    }
    attach(volume)?;
    pocketstone_probe::quiet::wait(QUIET_LIMIT)
}

/// Writes the target file behind a filler, remounts, and waits until the board is quiet.
///
/// # Errors
/// When the file system refuses or the board does not come to rest.
pub fn fill(volume: &Volume, file: &FileSpec) -> Result<()> {
    let folder = folder(volume)?;
    if volume.file_system == FileSystem::NullFuse {
        served::attach(&["serve-null", TARGET_FILE, &file.bytes.to_string()], &folder)?;
        return pocketstone_probe::quiet::wait(QUIET_LIMIT);
    }
    let mut filler = Content::new(Data::Random, file.seed ^ 1);
    write_file(&folder.join("filler"), &mut filler, filler_bytes(file.seed))?;
    let target = folder.join(TARGET_FILE);
    write_file(&target, &mut Content::new(file.data, file.seed), file.bytes)?;
    if volume.file_system == FileSystem::Directory {
        return pocketstone_engine::evict(&target);
    }
    remount(volume)?;
    // The kernel knows the file from here on; what a measurement empties is the page cache alone.
    fs::File::open(&target).board(|| format!("cannot open {} after remounting", target.display()))?;
    pocketstone_probe::quiet::wait(QUIET_LIMIT)
}

/// Mounts a volume again, so that the kernel knows nothing of its files.
///
/// # Errors
/// When it is in use, or the kernel refuses.
fn remount(volume: &Volume) -> Result<()> {
    rustix::fs::sync();
    match volume.file_system {
        FileSystem::Yaffs2 => served::detach(Path::new(MOUNT_POINT))?,
        _ => rustix::mount::unmount(MOUNT_POINT, UnmountFlags::empty()).board(|| "cannot unmount".into())?,
    }
    attach(volume)
}

/// Writes back what was written, mounts a volume of the board again, and waits until it is quiet.
///
/// # Errors
/// When the volume is in use, or the board does not come to rest.
pub fn restart(volume: &Volume) -> Result<()> {
    if volume.file_system == FileSystem::Directory {
        return settle(volume);
    }
    remount(volume)?;
    pocketstone_probe::quiet::wait(QUIET_LIMIT)
}

/// Writes back what was written, and waits until a board of ours is quiet.
///
/// # Errors
/// When the board does not come to rest.
pub fn settle(volume: &Volume) -> Result<()> {
    let folder = folder(volume)?;
    let directory = fs::File::open(&folder).board(|| format!("cannot open {}", folder.display()))?;
    rustix::fs::syncfs(&directory).board(|| format!("cannot sync {}", folder.display()))?;
    if volume.file_system == FileSystem::Yaffs2 {
        // The kernel does not pass syncfs(2) on to who serves a mount; its root's fsync means the whole volume.
        directory.sync_all().board(|| format!("cannot sync {}", folder.display()))?;
    }
    match volume.file_system {
        FileSystem::Directory => Ok(()),
        _ => pocketstone_probe::quiet::wait(QUIET_LIMIT),
    }
}

fn attach(volume: &Volume) -> Result<()> {
    let (source, kind) = match volume.file_system {
        FileSystem::Jffs2 => ("mtd0", "jffs2"),
        FileSystem::Ubifs => (ubi::VOLUME, "ubifs"),
        FileSystem::Yaffs2 => return served::attach(&["serve-yaffs2", "/dev/mtd0"], Path::new(MOUNT_POINT)),
        _ => return Ok(()),
    };
    fs::create_dir_all(MOUNT_POINT).board(|| format!("cannot create {MOUNT_POINT}"))?;
    let options = volume.options.join(",");
    let data = CString::new(options.clone()).user(|| "a NUL in mount options".into())?;
    rustix::mount::mount(source, MOUNT_POINT, kind, MountFlags::NOATIME, Some(data.as_c_str()))
        .board(|| format!("cannot mount {source} as {kind} with options `{options}`"))
        .map_err(|e| e.hint("the kernel's reason is in the console's last lines; check the options and modules"))
}
