//! A read-only volume: an image that the host made, written to the chip and mounted by a block device on it.

use crate::{mtd, ubi};
use pocketstone_core::error::Context;
use pocketstone_core::plan::{FileSystem, TARGET_FILE, Volume};
use pocketstone_core::{Error, Result};
use rustix::mount::MountFlags;
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Longest time that background work may take after the mount.
const QUIET_LIMIT: Duration = Duration::from_secs(60);

/// Writes the image to the chip, which is erased, mounts it, and waits until the board is quiet. The image is gone
/// then.
///
/// # Errors
/// When the image is not there or too large, or the kernel refuses.
pub fn install(volume: &Volume, image: &Path, folder: &Path) -> Result<()> {
    let bytes = fs::read(image).board(|| format!("cannot read {}", image.display()))?;
    let device = match volume.file_system {
        FileSystem::SquashfsMtdblock => {
            mtd::write_from_start(&bytes)?;
            "/dev/mtdblock0"
        }
        FileSystem::SquashfsUbiblock => {
            ubi::update_volume(&bytes)?;
            ubi::make_block_device()?;
            "/dev/ubiblock0_0"
        }
        other => return Err(Error::bug(format!("{} takes no image", other.name()))),
    };
    drop(bytes);
    fs::remove_file(image).board(|| format!("cannot remove {}", image.display()))?;
    fs::create_dir_all(folder).board(|| format!("cannot create {}", folder.display()))?;
    rustix::mount::mount(device, folder, "squashfs", MountFlags::RDONLY, None)
        .board(|| format!("cannot mount {device} as squashfs"))
        .map_err(|e| e.hint("the kernel's reason is in the console's last lines; check the module squashfs"))?;
    // The kernel knows the file from here on; what a measurement empties is the page cache alone.
    let target = folder.join(TARGET_FILE);
    if target.exists() {
        fs::File::open(&target).board(|| format!("cannot open {}", target.display()))?;
    }
    pocketstone_probe::quiet::wait(QUIET_LIMIT)
}
