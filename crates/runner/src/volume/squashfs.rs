//! A read-only volume: an image that the host made, written to the chip and mounted by a block device on it.

use super::{kept, mtd, ubi};
use pocketstone_core::Result;
use pocketstone_core::board::BoardDescription;
use pocketstone_core::error::Context;
use pocketstone_core::volume::{Medium, Volume};
use pocketstone_workload::population::TARGET_FILE;
use rustix::mount::MountFlags;
use std::fs;
use std::path::Path;

/// Writes the image to the chip, which is erased, mounts it, and waits until the board is quiet. The image is gone
/// then.
pub fn install(volume: &Volume, board: &BoardDescription, image: &Path, folder: &Path) -> Result<()> {
    let bytes = fs::read(image).board(|| format!("cannot read {}", image.display()))?;
    let mtd = board.places.mtd;
    let device = match volume.medium {
        Medium::Ubi => {
            ubi::update_volume(mtd, &bytes)?;
            ubi::make_block_device(mtd)?;
            ubi::block_device(mtd)?
        }
        _ => {
            mtd::write_from_start(mtd, &bytes)?;
            format!("/dev/mtdblock{mtd}")
        }
    };
    drop(bytes);
    fs::remove_file(image).board(|| format!("cannot remove {}", image.display()))?;
    fs::create_dir_all(folder).board(|| format!("cannot create {}", folder.display()))?;
    rustix::mount::mount(&device, folder, "squashfs", MountFlags::RDONLY, None)
        .board(|| format!("cannot mount {device} as squashfs"))
        .map_err(|e| e.hint("see the kernel's reason in the console's last lines; check the module squashfs"))?;
    // The kernel knows the file from here on; what a measurement empties is the page cache alone.
    let target = folder.join(TARGET_FILE);
    if target.exists() {
        fs::File::open(&target).board(|| format!("cannot open {}", target.display()))?;
    }
    kept::quiet(board)
}
