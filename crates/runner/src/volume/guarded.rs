//! Raw flash of a board that is not thrown away: which partition it is, and that nobody else uses it.
//!
//! An erased partition cannot be had back. So the profile names the partition, its number is looked up each time, and
//! one that anybody uses is refused: mounted, in any mount namespace; open in a process; attached to UBI by others;
//! a swap area; part of another block device; or a whole chip that other partitions are on.

use super::{served, ubi};
use pocketstone_core::board::{Board, Places};
use pocketstone_core::error::Context;
use pocketstone_core::volume::Volume;
use pocketstone_core::{Error, Result};
use pocketstone_workload::plan::Order;
use procfs::process::{FDTarget, all_processes};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

/// The cure of all that keeps a partition from being erased.
const FREE_IT: &str = "free it on the board, or name another one: partition = \"NAME\" in [flash] of the profile";
/// Major number of block devices on MTD devices, which mounts of JFFS2 show as well (MTD_BLOCK_MAJOR, linux/mtd/mtd.h).
const MTD_BLOCK_MAJOR: u32 = 31;
/// How long programs may take to end that were killed.
const ENDING: Duration = Duration::from_secs(3);

/// The board with the number of the partition that its profile names, for an order on raw flash. Boards that are thrown
/// away have a chip of their own, and other orders need none.
///
/// # Errors
/// `ErrorKind::User` if no partition is named; `ErrorKind::Board` if there is none of that name, or several.
pub fn resolve(board: Board, order: &Order) -> Result<Board> {
    if board.capabilities.disposable || !volume(order).is_some_and(Volume::on_flash) {
        return Ok(board);
    }
    let partition = board.places.mtd_name.clone().ok_or_else(|| {
        Error::user("no partition of the board's flash may be erased")
            .hint("name one in the profile: [flash] with partition = \"NAME\" and erase = \"allowed\"")
    })?;
    let mtd = numbered(Path::new("/sys/class/mtd"), &partition)?;
    Ok(Board { places: Places { mtd, ..board.places }, ..board })
}

fn volume(order: &Order) -> Option<&Volume> {
    match order {
        Order::Prepare { step } => Some(step.volume()),
        Order::Measure { plan } => Some(&plan.volume),
        Order::Engines | Order::Abilities | Order::Exec { .. } | Order::Shell => None,
    }
}

/// The number of the MTD device of this name, by the kernel's list of devices in `class`.
fn numbered(class: &Path, partition: &str) -> Result<u32> {
    let mut names = Vec::new();
    for entry in fs::read_dir(class).into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(|name| name.strip_prefix("mtd")?.parse::<u32>().ok());
        let (Some(number), Ok(name)) = (number, fs::read_to_string(entry.path().join("name"))) else { continue };
        names.push((number, name.trim_end().to_owned()));
    }
    names.sort();
    let found: Vec<u32> = names.iter().filter(|(_, name)| name == partition).map(|(number, _)| *number).collect();
    let others = names.iter().map(|(number, name)| format!("mtd{number} {name:?}")).collect::<Vec<_>>().join(", ");
    match found[..] {
        [number] => Ok(number),
        [] if names.is_empty() => {
            Err(Error::board(format!("the board has no MTD device, so none named {partition:?}"))
                .hint("load the chip's driver there: cat /proc/mtd lists its partitions"))
        }
        [] => Err(Error::board(format!("the board has no MTD device named {partition:?}; it has {others}"))
            .hint("name one of them: partition = \"NAME\" in [flash] of the profile")),
        _ => Err(Error::board(format!("the board has several MTD devices named {partition:?}: {others}"))
            .hint("give them names of their own: mtdparts= on the kernel's command line, or the device tree")),
    }
}

/// Frees the partition of what earlier cells left on it, and refuses one that anybody else uses.
///
/// # Errors
/// `ErrorKind::Board` if it is in use.
pub fn take(board: &Board) -> Result<()> {
    release(&board.places.mount_point)?;
    let mtd = board.places.mtd;
    match user(mtd)? {
        Some(user) => Err(Error::board(format!("mtd{mtd} is in use: {user}")).hint(FREE_IT)),
        None => Ok(()),
    }
}

/// Unmounts what a cell left mounted, and detaches UBI from its partition.
///
/// # Errors
/// `ErrorKind::Board` if a file on it is open yet.
pub fn release(mount_point: &Path) -> Result<()> {
    served::end_left();
    // There may be a read-only image on a block device on UBI, and more than one mount after a lab that was killed.
    let begin = Instant::now();
    loop {
        match rustix::mount::unmount(mount_point, UnmountFlags::empty()) {
            Ok(()) => {}
            // Programs of a cell that was killed may be about to end.
            Err(Errno::BUSY) if begin.elapsed() < ENDING => std::thread::sleep(Duration::from_millis(50)),
            Err(Errno::BUSY) => {
                return Err(Error::board(format!("{} is in use on the board", mount_point.display()))
                    .hint("end the program that has a file on it open, or restart the board"));
            }
            Err(_) => break,
        }
    }
    ubi::detach_ours()
}

/// What uses an MTD device, if anything does.
fn user(mtd: u32) -> Result<Option<String>> {
    let parts = partitions_on(&Path::new("/sys/class/mtd").join(format!("mtd{mtd}")));
    if !parts.is_empty() {
        return Ok(Some(format!("other partitions are on it ({})", parts.join(", "))));
    }
    if let Some(number) = ubi::attached(mtd) {
        return Ok(Some(format!("UBI is attached to it as ubi{number}")));
    }
    let block = format!("/sys/block/mtdblock{mtd}/holders");
    if fs::read_dir(block).is_ok_and(|mut holders| holders.next().is_some()) {
        return Ok(Some("another block device is made of it".into()));
    }
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    if swaps.lines().any(|line| line.split_whitespace().next() == Some(&format!("/dev/mtdblock{mtd}"))) {
        return Ok(Some("it is a swap area".into()));
    }
    let devices = [format!("/dev/mtd{mtd}"), format!("/dev/mtd{mtd}ro"), format!("/dev/mtdblock{mtd}")];
    for process in all_processes().board(|| "cannot list the board's processes".into())?.flatten() {
        let name = || process.stat().map_or_else(|_| "?".into(), |stat| stat.comm);
        // A process that has ended meanwhile uses nothing.
        for mount in process.mountinfo().into_iter().flatten() {
            if mount.majmin == format!("{MTD_BLOCK_MAJOR}:{mtd}") {
                return Ok(Some(format!("it is mounted at {}", mount.mount_point.display())));
            }
        }
        for open in process.fd().into_iter().flatten().flatten() {
            let FDTarget::Path(path) = &open.target else { continue };
            if devices.iter().any(|device| path.as_os_str() == device.as_str()) {
                return Ok(Some(format!("process {} ({}) has {} open", process.pid, name(), path.display())));
            }
        }
    }
    Ok(None)
}

/// The MTD devices that are parts of the one with this folder in /sys.
fn partitions_on(device: &Path) -> Vec<String> {
    let entries = fs::read_dir(device).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let number = |name: &str| name.strip_prefix("mtd").is_some_and(|number| number.parse::<u32>().is_ok());
    // One of its own name is what it is as non-volatile memory (drivers/nvmem).
    let own = device.file_name().and_then(|name| name.to_str());
    let mut parts: Vec<String> = names.filter(|name| number(name) && Some(&**name) != own).collect();
    parts.sort();
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    fn class(devices: &[(&str, &str)]) -> tempfile::TempDir {
        let class = tempfile::tempdir().unwrap();
        for (device, name) in devices {
            fs::create_dir(class.path().join(device)).unwrap();
            fs::write(class.path().join(device).join("name"), format!("{name}\n")).unwrap();
        }
        class
    }

    #[test]
    fn a_partition_is_found_by_its_whole_name_and_only_if_it_is_the_only_one() {
        let class = class(&[
            ("mtd0", "boot"),
            ("mtd0ro", "boot"),
            ("mtd1", "root"),
            ("mtd10", "data"),
            ("mtd2", "spare"),
            ("mtd3", "spare"),
        ]);
        assert_eq!(numbered(class.path(), "data").unwrap(), 10);
        assert_eq!(numbered(class.path(), "boot").unwrap(), 0, "mtd0ro is the same device");
        let error = numbered(class.path(), "dat").unwrap_err();
        assert!(error.message().contains("mtd10 \"data\""), "{}", error.chain());
        assert!(numbered(class.path(), "spare").unwrap_err().message().contains("several"));
        let none = tempfile::tempdir().unwrap();
        assert!(numbered(none.path(), "data").unwrap_err().message().contains("no MTD device"));
    }

    #[test]
    fn a_chip_with_partitions_on_it_is_told() {
        let class = tempfile::tempdir().unwrap();
        let device = class.path().join("mtd3");
        for name in ["mtd3", "mtd4", "mtd5", "mtdblock3", "power", "mtd3ro"] {
            fs::create_dir_all(device.join(name)).unwrap();
        }
        assert_eq!(partitions_on(&device), ["mtd4", "mtd5"]);
    }
}
