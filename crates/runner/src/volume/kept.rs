//! Volumes that outlive an order: on a board's flash, or in a directory that is there.

use super::{Home, block, guarded, mtd, served, ubi};
use pocketstone_core::board::BoardDescription;
use pocketstone_core::error::Context;
use pocketstone_core::volume::{Access, FileSystem, Medium, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_engine::{Yaffs2Tree, populate};
use pocketstone_workload::population::TARGET_FILE;
use pocketstone_workload::{Caches, Population, Sizes};
use pocketstone_yaffs2 as yaffs2;
use rustix::mount::{MountFlags, UnmountFlags};
use std::ffi::CString;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time that background work may take after a mount: JFFS2 checks every node of the chip.
const QUIET_LIMIT: Duration = Duration::from_secs(600);
/// How long a board is waited for that others may keep busy as long as they like.
const OTHERS_LIMIT: Duration = Duration::from_secs(60);

/// The folder that holds a volume's files.
///
/// # Errors
/// `ErrorKind::User` if the plan names no directory.
pub fn folder(volume: &Volume, board: &BoardDescription) -> Result<PathBuf> {
    match volume.medium {
        Medium::Directory => volume.directory.clone().ok_or_else(|| Error::user("the plan has no directory")),
        _ => Ok(board.places.mount_point.clone()),
    }
}

pub fn bdi(volume: &Volume, board: &BoardDescription) -> Option<String> {
    let mtd = board.places.mtd;
    match volume.file_system {
        FileSystem::Jffs2 => Some(format!("mtd-{mtd}")),
        FileSystem::Ubifs => ubi::attached(mtd).map(|ubi| format!("ubifs_{ubi}_0")),
        FileSystem::Btrfs => block::bdi_of_btrfs(),
        _ => None,
    }
}

/// Makes an empty file system and mounts it.
pub fn format(volume: &Volume, board: &BoardDescription) -> Result<()> {
    let mtd = board.places.mtd;
    if volume.on_raw_nand() && !board.capabilities.disposable {
        guarded::take(board)?;
    }
    match volume.medium {
        Medium::Directory => {
            let folder = folder(volume, board)?;
            return fs::create_dir_all(&folder).user(|| format!("cannot create {}", folder.display()));
        }
        // Its one file has a size from the start.
        Medium::None => return Ok(()),
        Medium::Mtd if volume.file_system == FileSystem::Jffs2 => mtd::erase_for_jffs2(mtd)?,
        Medium::Mtd => mtd::erase(mtd)?,
        Medium::Ubi => {
            mtd::erase(mtd)?;
            ubi::attach_and_make_volume(mtd)?;
        }
        Medium::Block => block::make(volume.file_system, &board.places.block)?,
        Medium::RamDisk
        | Medium::Tmpfs
        | Medium::SmallPages
        | Medium::PageCache
        | Medium::Hugetlbfs
        | Medium::Anonymous
        | Medium::Pcm => {
            return Err(Error::bug(format!("{} persists between orders", volume.name())));
        }
    }
    // There is nothing to mount before a read-only volume's image is there, and nothing to wait for before UBI is.
    match (volume.read_only(), volume.medium) {
        (true, Medium::Ubi) => quiet(board),
        (true, _) => Ok(()),
        (false, _) => {
            attach(volume, board)?;
            quiet(board)
        }
    }
}

/// Waits until the board has nothing left to do. One that others use as well is waited for some time.
pub fn quiet(board: &BoardDescription) -> Result<()> {
    match board.capabilities.disposable {
        true => pocketstone_probe::quiet::wait(QUIET_LIMIT),
        // What others do there is told from the workload by its threads.
        false => pocketstone_probe::quiet::wait(OTHERS_LIMIT).or(Ok(())),
    }
}

/// Writes the files of a population and leaves the volume as the population wants to find it.
pub fn fill(volume: &Volume, board: &BoardDescription, population: &Population) -> Result<()> {
    if volume.file_system == FileSystem::Null {
        return fill_null(board, population);
    }
    if volume.access == Access::InProcess {
        let tree = open_yaffs2(board)?;
        populate(&tree, population)?;
        tree.into_volume().close().board(|| "cannot close the volume".into())?;
        return quiet(board);
    }
    let folder = folder(volume, board)?;
    let home = Home::Kernel(folder.clone());
    if volume.medium == Medium::Directory {
        home.empty(population)?;
        refuse_what_does_not_fit(&folder, population)?;
    }
    home.populate(population)?;
    if volume.medium == Medium::Directory || population.caches == Caches::Warm {
        return settle(volume, board);
    }
    remount(volume, board)?;
    if population.caches == Caches::ColdPages {
        // The kernel knows the files from here on; what a measurement empties is the page cache alone.
        let folder = population.folder().map_or(folder.clone(), |inner| folder.join(inner));
        for file in population.list() {
            fs::File::open(folder.join(&file.name)).board(|| format!("cannot open {} after remounting", file.name))?;
        }
    }
    quiet(board)
}

/// Refuses a population with more bytes than its directory's disk has free: it is the user's, and others write there,
/// too. A file system made for the measurement may compress, and is full alone.
fn refuse_what_does_not_fit(folder: &Path, population: &Population) -> Result<()> {
    let room = rustix::fs::statvfs(folder).board(|| format!("cannot ask for the space in {}", folder.display()))?;
    let (wanted, free) = (population.bytes(), room.f_bavail.saturating_mul(room.f_frsize));
    if wanted > free {
        let place = folder.display();
        return Err(Error::user(format!("the workload's files have {wanted} bytes, and {place} has {free} free"))
            .hint("make the files smaller, or choose another `directory`"));
    }
    Ok(())
}

fn fill_null(board: &BoardDescription, population: &Population) -> Result<()> {
    if population.sizes != Sizes::Target {
        return Err(Error::user("null supports only reading its one file"));
    }
    served::attach(&["serve-null", TARGET_FILE, &population.file_bytes.to_string()], &board.places)?;
    quiet(board)
}

/// Opens the YAFFS2 volume of the board's chip in this process.
pub fn open_yaffs2(board: &BoardDescription) -> Result<Yaffs2Tree> {
    let chip = mtd::chip(board.places.mtd)?;
    let volume = yaffs2::Volume::open(Box::new(chip), &yaffs2::OpenOptions::default());
    volume.map(Yaffs2Tree::new).board(|| format!("cannot open the volume on mtd{}", board.places.mtd))
}

/// Mounts a volume again, so that the kernel knows nothing of its files.
fn remount(volume: &Volume, board: &BoardDescription) -> Result<()> {
    rustix::fs::sync();
    unmount(volume, board)?;
    attach(volume, board)
}

/// Unmounts a volume that is mounted.
///
/// # Errors
/// `ErrorKind::Board` if it is in use, or its server cannot close it.
pub fn unmount(volume: &Volume, board: &BoardDescription) -> Result<()> {
    match volume.access {
        Access::Fuse => served::detach(&board.places),
        _ => rustix::mount::unmount(&board.places.mount_point, UnmountFlags::empty()).board(|| "cannot unmount".into()),
    }
}

/// Writes back what was written to the volume of a folder. `served`: a program may be who serves it.
pub fn write_back(folder: &Path, served: bool) -> Result<()> {
    let cannot = || format!("cannot sync {}", folder.display());
    let directory = fs::File::open(folder).board(|| format!("cannot open {}", folder.display()))?;
    rustix::fs::syncfs(&directory).board(cannot)?;
    // The kernel does not pass syncfs(2) on to who serves a mount; its root's fsync means the whole volume.
    if served { directory.sync_all().board(cannot) } else { Ok(()) }
}

/// Writes back what was written, and waits until a board of ours is quiet.
pub fn settle(volume: &Volume, board: &BoardDescription) -> Result<()> {
    write_back(&folder(volume, board)?, volume.access == Access::Fuse)?;
    match (volume.medium, board.capabilities.disposable) {
        // Nothing goes on there that a mount has begun.
        (Medium::Directory, false) => Ok(()),
        _ => quiet(board),
    }
}

/// Mounts a volume that is there.
pub fn attach(volume: &Volume, board: &BoardDescription) -> Result<()> {
    let (mtd, mount_point) = (board.places.mtd, &board.places.mount_point);
    let (source, kind) = match (volume.file_system, volume.access) {
        (FileSystem::Jffs2, _) => (format!("mtd{mtd}"), "jffs2"),
        (FileSystem::Ubifs, _) => (ubi::volume(mtd)?, "ubifs"),
        (FileSystem::Yaffs2, Access::Fuse) => {
            return served::attach(&[served::SERVE_YAFFS2, &mtd::device_path(mtd)], &board.places);
        }
        (other, _) if volume.medium == Medium::Block => (board.places.block.display().to_string(), other.name()),
        _ => return Ok(()),
    };
    fs::create_dir_all(mount_point).board(|| format!("cannot create {}", mount_point.display()))?;
    let options = volume.options.join(",");
    let data = CString::new(options.clone()).user(|| "a NUL in mount options".into())?;
    rustix::mount::mount(&source, mount_point, kind, MountFlags::NOATIME, Some(data.as_c_str()))
        .board(|| format!("cannot mount {source} as {kind} with options `{options}`"))
        .map_err(|e| e.hint("see the kernel's reason in the console's last lines; check the options and modules"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_workload::Data;

    #[test]
    fn files_that_a_disk_has_no_room_for_are_refused_with_both_numbers() {
        let folder = tempfile::tempdir().unwrap();
        let of = |file_bytes| Population {
            files: 2,
            file_bytes,
            data: Data::Random,
            seed: 1,
            sizes: Sizes::Same,
            caches: Caches::Warm,
        };
        refuse_what_does_not_fit(folder.path(), &of(512)).unwrap();
        // Two files of 2^61 bytes: no disk has as many.
        let error = refuse_what_does_not_fit(folder.path(), &of(1 << 61)).unwrap_err();
        assert!(error.chain().contains("have 4611686018427387904 bytes"), "{}", error.chain());
        assert!(error.cure().is_some_and(|cure| cure.contains("directory")), "{}", error.chain());
    }
}
