//! File systems on the board's block device: making them, and the device's settings.

use crate::block::queue;
use pocketstone_core::error::Context;
use pocketstone_core::volume::FileSystem;
use pocketstone_core::{Error, Result};
use pocketstone_workload::plan::IoScheduler;
use std::fs;
use std::path::Path;
use std::process::Command;

/// The program that makes a file system on managed flash, and its options: quiet, over whatever is there, and without
/// discarding a device that is new. What would be left to the kernel to finish in the background is done at once.
fn maker(file_system: FileSystem) -> Option<(&'static str, &'static [&'static str])> {
    match file_system {
        // Blocks as on larger devices: left to itself, mkfs makes them smaller below 512 MiB.
        FileSystem::Ext4 => {
            let options = &["-q", "-F", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"];
            Some(("mkfs.ext4", options))
        }
        FileSystem::F2fs => Some(("mkfs.f2fs", &["-q", "-f", "-t", "0"])),
        FileSystem::Btrfs => Some(("mkfs.btrfs", &["-q", "-f", "-K"])),
        FileSystem::Exfat => Some(("mkfs.exfat", &[])),
        _ => None,
    }
}

/// Makes an empty file system on a block device.
///
/// # Errors
/// `ErrorKind::Board` if the device, the program or room is missing; `ErrorKind::Bug` for a file system of other media.
pub fn make(file_system: FileSystem, device: &Path) -> Result<()> {
    let name = file_system.name();
    let (program, options) = maker(file_system).ok_or_else(|| Error::bug(format!("{name} is on no block device")))?;
    let output = Command::new(format!("/sbin/{program}")).args(options).arg(device).output();
    let output = output.board(|| format!("cannot run {program} on the board"))?;
    match output.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).trim().to_owned();
            Err(Error::board(format!("{program} failed ({}): {said}", output.status)))
        }
    }
}

/// The name of the backing device of a mounted btrfs, which counts its mounts.
pub fn bdi_of_btrfs() -> Option<String> {
    let names = fs::read_dir("/sys/class/bdi").ok()?.flatten();
    names.filter_map(|entry| entry.file_name().into_string().ok()).find(|name| name.starts_with("btrfs-"))
}

/// Sets the I/O scheduler of a block device.
///
/// # Errors
/// `ErrorKind::Board` if the kernel does not have it.
pub fn set_scheduler(scheduler: IoScheduler, device: &Path) -> Result<()> {
    let name = scheduler.name();
    fs::write(queue(device).join("scheduler"), name)
        .board(|| format!("cannot set the I/O scheduler {name} of {}", device.display()))
        .map_err(|e| e.hint("load its module in the board's profile: bfq, kyber-iosched"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::volume::{Medium, Volume};

    #[test]
    fn every_file_system_of_block_devices_is_made_by_a_program() {
        for volume in Volume::all().into_iter().filter(|volume| volume.medium == Medium::Block) {
            let (program, _) = maker(volume.file_system).unwrap();
            assert_eq!(program, format!("mkfs.{}", volume.file_system.name()));
        }
        assert_eq!(maker(FileSystem::Jffs2), None);
    }
}
