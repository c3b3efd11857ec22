//! Raw flash of a board that is not thrown away: which partition it is, and that nobody else uses it.
//!
//! An erased partition cannot be had back. So the profile names the partition, its number is looked up each time, and
//! one that anybody uses is refused: mounted, in any mount namespace; open in a process; attached to UBI by others;
//! a swap area; part of another block device; or a place on the chip that another partition has as well.

use super::mtd::device_path;
use super::{served, ubi};
use pocketstone_core::board::{BoardDescription, Places};
use pocketstone_core::error::Context;
use pocketstone_core::volume::Volume;
use pocketstone_core::{Error, Result};
use pocketstone_workload::plan::Order;
use procfs::process::{FDTarget, all_processes};
use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::time::{Duration, Instant};

/// The cure of all that keeps a partition from being erased.
const FREE_IT: &str = "free it on the board, or name another one: partition = \"NAME\" in [flash] of the profile";
/// Major number of block devices on MTD devices, which mounts of JFFS2 show as well (MTD_BLOCK_MAJOR, linux/mtd/mtd.h).
const MTD_BLOCK_MAJOR: u32 = 31;
/// And of character devices, of which each MTD device has two (MTD_CHAR_MAJOR).
const MTD_CHAR_MAJOR: u32 = 90;
/// How long programs may take to end that were killed.
const ENDING: Duration = Duration::from_secs(3);

/// The board with the number of the partition that its profile names, for an order on raw flash. Boards that are thrown
/// away have a chip of their own, and other orders need none.
///
/// # Errors
/// `ErrorKind::User` if no partition is named; `ErrorKind::Board` if there is none of that name, or several.
pub fn resolve(board: BoardDescription, order: &Order) -> Result<BoardDescription> {
    if board.capabilities.disposable || !volume(order).is_some_and(Volume::on_raw_nand) {
        return Ok(board);
    }
    let partition = board.places.mtd_name.clone().ok_or_else(|| {
        Error::user("no partition of the board's flash may be erased")
            .hint("name one in the profile: [flash] with partition = \"NAME\" and erase = \"allowed\"")
    })?;
    let mtd = numbered(Path::new("/sys/class/mtd"), &partition)?;
    Ok(BoardDescription { places: Places { mtd, ..board.places }, ..board })
}

fn volume(order: &Order) -> Option<&Volume> {
    match order {
        Order::Prepare { step } => Some(step.volume()),
        Order::Measure { plan } => Some(&plan.volume),
        Order::Recover { volume, .. } => Some(volume),
        Order::ReadChip | Order::ReadBlock | Order::Engines | Order::Abilities | Order::Exec { .. } | Order::Shell => {
            None
        }
    }
}

/// The number in an MTD device's name: `mtd3`, but not `mtd3ro`, which is the same device.
fn number_of(name: &str) -> Option<u32> {
    name.strip_prefix("mtd")?.parse().ok()
}

/// The number of the MTD device of this name, by the kernel's list of devices in `class`.
fn numbered(class: &Path, partition: &str) -> Result<u32> {
    let mut names = Vec::new();
    for entry in fs::read_dir(class).into_iter().flatten().flatten() {
        let number = entry.file_name().to_str().and_then(number_of);
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

/// The number of an MTD device's file: the odd ones are the read-only files of the same devices.
fn device_number(mtd: u32) -> u64 {
    rustix::fs::makedev(MTD_CHAR_MAJOR, 2 * mtd)
}

/// Frees the partition of what earlier cells left on it, and refuses one that anybody else uses.
///
/// # Errors
/// `ErrorKind::Board` if it is in use.
pub fn take(board: &BoardDescription) -> Result<()> {
    release(&board.places.mount_point, &board.places.notes)?;
    let mtd = board.places.mtd;
    let path = device_path(mtd);
    // What is checked is a number, and what is erased a path: with a static /dev they may be two things.
    if !fs::metadata(&path).is_ok_and(|file| file.file_type().is_char_device() && file.rdev() == device_number(mtd)) {
        return Err(Error::board(format!("{path} is not the kernel's mtd{mtd}"))
            .hint(format!("make it anew: mknod {path} c {MTD_CHAR_MAJOR} {}", 2 * mtd)));
    }
    served::end_left_on(&path);
    match user(mtd)? {
        Some(user) => Err(Error::board(format!("mtd{mtd} is in use: {user}")).hint(FREE_IT)),
        None => Ok(()),
    }
}

/// Unmounts what a cell left mounted, whose server has its notes there, and detaches UBI from its partition.
///
/// # Errors
/// `ErrorKind::Board` if a file on it is open yet.
pub fn release(mount_point: &Path, notes: &Path) -> Result<()> {
    served::end_left(notes);
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
    let class = Path::new("/sys/class/mtd");
    let mut parts = partitions_on(&class.join(format!("mtd{mtd}")));
    parts.extend(overlapping(class, mtd));
    if !parts.is_empty() {
        parts.sort();
        parts.dedup();
        return Ok(Some(format!("other partitions are on it ({})", parts.join(", "))));
    }
    if let Some(number) = ubi::attached(mtd) {
        return Ok(Some(format!("UBI is attached to it as ubi{number}")));
    }
    let block = format!("/sys/block/mtdblock{mtd}/holders");
    if fs::read_dir(block).is_ok_and(|mut holders| holders.next().is_some()) {
        return Ok(Some("another block device is made of it".into()));
    }
    if let Some(device) = loop_on(Path::new("/sys/block"), mtd) {
        return Ok(Some(format!("/dev/{device} is on it")));
    }
    // By number: a device may have many names.
    let is_it = |path: &Path| fs::metadata(path).is_ok_and(|facts| is_device(&facts, mtd));
    let swaps = fs::read_to_string("/proc/swaps").unwrap_or_default();
    let mut areas = swaps.lines().skip(1).filter_map(|line| line.split_whitespace().next());
    if areas.any(|area| is_it(Path::new(area))) {
        return Ok(Some("it is a swap area".into()));
    }
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
            if is_it(Path::new(&format!("/proc/{}/fd/{}", process.pid, open.fd))) {
                return Ok(Some(format!("process {} ({}) has {} open", process.pid, name(), path.display())));
            }
        }
    }
    Ok(None)
}

/// Whether a file is this MTD device, for reading and writing or for reading, or the block device on it
/// (Documentation/admin-guide/devices.txt of Linux: 90 and 31).
fn is_device(facts: &fs::Metadata, mtd: u32) -> bool {
    let (major, minor) = (rustix::fs::major(facts.rdev()), rustix::fs::minor(facts.rdev()));
    let character = facts.file_type().is_char_device() && major == MTD_CHAR_MAJOR && minor / 2 == mtd;
    character || facts.file_type().is_block_device() && major == MTD_BLOCK_MAJOR && minor == mtd
}

/// A loop device on the block device of an MTD device, by `block`, the kernel's list of block devices.
fn loop_on(block: &Path, mtd: u32) -> Option<String> {
    let name = format!("mtdblock{mtd}");
    let devices = fs::read_dir(block).into_iter().flatten().flatten();
    let on_it = |folder: &Path| {
        let file = fs::read_to_string(folder.join("loop/backing_file")).unwrap_or_default();
        Path::new(file.trim_end()).file_name().is_some_and(|file| file == name.as_str())
    };
    devices.filter(|device| on_it(&device.path())).find_map(|device| device.file_name().into_string().ok())
}

/// The other MTD devices of the same chip that have a part of this one's place on it. Where the kernel has no device
/// for the whole chip, partitions do not show what they are on, and one may lie over others.
fn overlapping(class: &Path, mtd: u32) -> Vec<String> {
    let place = |name: &str| {
        let folder = class.join(name);
        let number = |file| fs::read_to_string(folder.join(file)).ok()?.trim().parse::<u64>().ok();
        // Only partitions have an offset (drivers/mtd/mtdpart.c); a chip that is a device has its own inside.
        let (offset, size) = (number("offset")?, number("size")?);
        // The devices of a chip lie in one folder, unless they lie in that of another partition.
        Some((fs::canonicalize(folder).ok()?.parent()?.to_owned(), offset, offset.saturating_add(size)))
    };
    let own = format!("mtd{mtd}");
    let Some((chip, begin, end)) = place(&own) else { return Vec::new() };
    let entries = fs::read_dir(class).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let over = |name: &String| place(name).is_some_and(|(of, from, to)| of == chip && from < end && begin < to);
    names.filter(|name| number_of(name).is_some_and(|number| number != mtd)).filter(over).collect()
}

/// The MTD devices that are parts of the one with this folder in /sys.
fn partitions_on(device: &Path) -> Vec<String> {
    let entries = fs::read_dir(device).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    // One of its own name is what it is as non-volatile memory (drivers/nvmem).
    let own = device.file_name().and_then(|name| name.to_str());
    let mut parts: Vec<String> = names.filter(|name| number_of(name).is_some() && Some(&**name) != own).collect();
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
    fn a_partition_that_lies_over_others_of_its_chip_is_told() {
        let home = tempfile::tempdir().unwrap();
        let class = home.path().join("class");
        fs::create_dir(&class).unwrap();
        let device = |chip: &str, name: &str, offset: &str, size: &str| {
            let folder = home.path().join(chip).join("mtd").join(name);
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("size"), format!("{size}\n")).unwrap();
            fs::write(folder.join("offset"), format!("{offset}\n")).unwrap();
            std::os::unix::fs::symlink(&folder, class.join(name)).unwrap();
        };
        device("nand", "mtd0", "0", "4096");
        device("nand", "mtd1", "4096", "8192");
        device("nand", "mtd2", "0", "65536");
        device("nand", "mtd12", "12288", "4096");
        device("nor", "mtd3", "0", "4096");
        let sorted = |mtd| {
            let mut names = overlapping(&class, mtd);
            names.sort();
            names
        };
        assert_eq!(sorted(2), ["mtd0", "mtd1", "mtd12"]);
        assert_eq!(sorted(1), ["mtd2"]);
        assert!(sorted(3).is_empty(), "another chip");
        assert!(sorted(7).is_empty(), "there is none");
    }

    #[test]
    fn a_loop_device_is_told() {
        let block = tempfile::tempdir().unwrap();
        for (device, file) in [("loop0", "/dev/mtdblock11"), ("loop3", "/dev/block/mtdblock1"), ("sda", "")] {
            let folder = block.path().join(device).join("loop");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("backing_file"), format!("{file}\n")).unwrap();
        }
        assert_eq!(loop_on(block.path(), 1).as_deref(), Some("loop3"));
        assert_eq!(loop_on(block.path(), 11).as_deref(), Some("loop0"));
        assert_eq!(loop_on(block.path(), 0), None);
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
