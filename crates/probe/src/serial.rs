//! Which machine this is: a number that no other one has.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where firmware says it, the surest first: the device tree, the chip's driver, the BIOS (which tells root alone).
const FIRMWARE: [&str; 4] = [
    "proc/device-tree/serial-number",
    "sys/devices/soc0/serial_number",
    "sys/class/dmi/id/product_uuid",
    "sys/class/dmi/id/product_serial",
];
/// Types of file systems whose files are gone at the next boot: tmpfs, ramfs (linux/magic.h).
const OF_THIS_BOOT: [u32; 2] = [0x0102_1994, 0x8584_58f6];
/// What some makers leave there for all of their machines.
const OF_MANY: [&str; 3] = ["0123456789", "123456789", "03000200-0400-0500-0006-000700080009"];

/// The machine's serial number, if it has one: its firmware's, else that of the eMMC soldered to it, else the address
/// of a network interface that came with it, else the processor's as older kernels tell it, else the number of the
/// installation (/etc/machine-id), which copies of one image may share. One that is made anew at each boot is none.
pub fn serial() -> Option<String> {
    below(Path::new("/"), outlives_the_boot)
}

fn below(root: &Path, outlives_the_boot: impl Fn(&Path) -> bool) -> Option<String> {
    let number = |path: &Path| Some(text(path)?).filter(|text| is_of_one_machine(text));
    FIRMWARE
        .iter()
        .find_map(|path| number(&root.join(path)))
        .or_else(|| {
            // A card goes from one machine to the next.
            let soldered = |device: &Path| text(&device.join("device/type")).is_some_and(|kind| kind == "MMC");
            first(&root.join("sys/block"), |device| number(&device.join("device/cid")).filter(|_| soldered(device)))
        })
        .or_else(|| {
            // 0: neither random nor set by somebody.
            let own = |card: &Path| text(&card.join("addr_assign_type")).is_some_and(|kind| kind == "0");
            first(&root.join("sys/class/net"), |card| {
                number(&card.join("address")).filter(|_| own(card) && card.join("device").exists())
            })
        })
        .or_else(|| {
            let text = text(&root.join("proc/cpuinfo"))?;
            let serial = text.lines().find_map(|line| Some(line.strip_prefix("Serial")?.split_once(':')?.1.trim()))?;
            Some(serial.to_owned()).filter(|serial| is_of_one_machine(serial))
        })
        .or_else(|| number(&root.join("etc/machine-id")).filter(|_| outlives_the_boot(&root.join("etc/machine-id"))))
}

/// Whether a file is there after a reboot, too. A system without a disk of its own has the machine's number in memory,
/// or in the layer in memory over an image that is only read.
fn outlives_the_boot(file: &Path) -> bool {
    let in_memory =
        |path: &Path| rustix::fs::statfs(path).is_ok_and(|found| OF_THIS_BOOT.contains(&{ found.f_type as u32 }));
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap_or_default();
    !in_memory(file) && !upper(&mounts, file).is_some_and(|upper| in_memory(&upper))
}

/// The folder of what was changed on the overlay that a file lies on, if it does.
fn upper(mounts: &str, file: &Path) -> Option<PathBuf> {
    let mounts = mounts.lines().filter_map(|line| {
        let mut words = line.split(' ').skip(1);
        Some((words.next()?, words.next()?, words.next()?))
    });
    // Of two at one place the later one is seen.
    let over = mounts.filter(|(at, ..)| file.starts_with(at)).max_by_key(|(at, ..)| at.len());
    let (_, _, options) = over.filter(|(_, kind, _)| *kind == "overlay")?;
    options.split(',').find_map(|option| option.strip_prefix("upperdir=")).map(PathBuf::from)
}

/// The first that is found of a folder's entries, by their names.
fn first(folder: &Path, found: impl Fn(&Path) -> Option<String>) -> Option<String> {
    let entries: BTreeSet<_> = fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path()).collect();
    entries.iter().find_map(|path| found(path))
}

fn text(path: &Path) -> Option<String> {
    let bytes = fs::read(path).ok()?;
    // Texts of a device tree end with a zero byte.
    Some(String::from_utf8_lossy(&bytes).trim_matches(|c: char| c == '\0' || c.is_whitespace()).to_owned())
}

/// Not zeros, and no words such as "To be filled by O.E.M.".
fn is_of_one_machine(text: &str) -> bool {
    let plain = text.chars().all(|c| c.is_ascii_alphanumeric() || "-:._".contains(c));
    let digits: BTreeSet<char> = text.chars().filter(char::is_ascii_alphanumeric).collect();
    plain && text.contains(|c: char| c.is_ascii_digit()) && digits.len() > 2 && !OF_MANY.contains(&text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(root: &Path, path: &str, text: &str) {
        let path = root.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn the_surest_number_is_taken_and_what_all_machines_of_a_maker_have_is_none() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        let expect = |number: Option<&str>| assert_eq!(below(root, |_| true).as_deref(), number);
        expect(None);
        put(root, "etc/machine-id", "uninitialized\n");
        expect(None);
        put(root, "etc/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda4\n");
        expect(Some("3d1219c7c4c5404aaa1f6d2a48adfda4"));
        assert_eq!(below(root, |_| false), None, "it is another one after a reboot");
        put(root, "proc/cpuinfo", "processor\t: 0\n\nHardware\t: BCM2835\nSerial\t\t: 0000000000000000\n");
        expect(Some("3d1219c7c4c5404aaa1f6d2a48adfda4"));
        put(root, "proc/cpuinfo", "processor\t: 0\n\nHardware\t: BCM2835\nSerial\t\t: 00000000a1f6d2a4\n");
        expect(Some("00000000a1f6d2a4"));
        for (card, kind, device) in [("eth0", "3", true), ("wlan0", "0", false), ("wlan1", "0", true)] {
            put(root, &format!("sys/class/net/{card}/address"), &format!("00:0c:29:00:00:{}\n", card.len()));
            put(root, &format!("sys/class/net/{card}/addr_assign_type"), &format!("{kind}\n"));
            if device {
                put(root, &format!("sys/class/net/{card}/device/uevent"), "");
            }
        }
        expect(Some("00:0c:29:00:00:5"));
        for (device, kind, cid) in [("mmcblk0", "SD", "0353445355"), ("mmcblk1", "MMC", "150100424a4e42")] {
            put(root, &format!("sys/block/{device}/device/type"), &format!("{kind}\n"));
            put(root, &format!("sys/block/{device}/device/cid"), &format!("{cid}\n"));
        }
        expect(Some("150100424a4e42"));
        for words in ["To be filled by O.E.M.", "Default string", "0000000000", "None", "", "0123456789"] {
            put(root, "sys/class/dmi/id/product_serial", words);
            expect(Some("150100424a4e42"));
        }
        put(root, "sys/class/dmi/id/product_serial", "PF1ABCDE\n");
        expect(Some("PF1ABCDE"));
        put(root, "proc/device-tree/serial-number", "100000003d1d1c36\0");
        expect(Some("100000003d1d1c36"));
    }

    #[test]
    fn what_lies_in_memory_is_gone_at_the_next_boot() {
        let mounts = "/dev/root / ext4 rw 0 0\nroot / overlay rw,lowerdir=/ro,upperdir=/cow/upper,workdir=/cow/w 0 0\n\
                      tmpfs /run tmpfs rw 0 0\n/dev/sda2 /etc/inner ext4 rw 0 0\n";
        assert_eq!(upper(mounts, Path::new("/etc/machine-id")), Some("/cow/upper".into()));
        assert_eq!(upper(mounts, Path::new("/etc/inner/machine-id")), None);
        assert_eq!(upper("/dev/root / ext4 rw 0 0\n", Path::new("/etc/machine-id")), None);
        let in_memory = fs::read_to_string("/proc/mounts").unwrap().contains("tmpfs /dev/shm tmpfs");
        assert!(!in_memory || !outlives_the_boot(Path::new("/dev/shm")));
        assert!(outlives_the_boot(Path::new("/proc/version")));
    }
}
