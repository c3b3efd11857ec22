//! Which machine this is: a number that no other one has.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Where firmware says it, the surest first: the device tree, the chip's driver, the BIOS (which tells root alone).
const FIRMWARE: [&str; 4] = [
    "proc/device-tree/serial-number",
    "sys/devices/soc0/serial_number",
    "sys/class/dmi/id/product_uuid",
    "sys/class/dmi/id/product_serial",
];
/// What some makers leave there for all of their machines.
const OF_MANY: [&str; 3] = ["0123456789", "123456789", "03000200-0400-0500-0006-000700080009"];

/// The machine's serial number, if it has one: its firmware's, else that of the eMMC soldered to it, else the address
/// of a network interface that came with it, else the number of the installation (/etc/machine-id), which copies of
/// one image may share.
pub fn serial() -> Option<String> {
    below(Path::new("/"))
}

fn below(root: &Path) -> Option<String> {
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
        .or_else(|| number(&root.join("etc/machine-id")))
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
        let expect = |number: Option<&str>| assert_eq!(below(root).as_deref(), number);
        expect(None);
        put(root, "etc/machine-id", "3d1219c7c4c5404aaa1f6d2a48adfda4\n");
        expect(Some("3d1219c7c4c5404aaa1f6d2a48adfda4"));
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
}
