//! How attributes of files are shown.

use pocketstone_vfs::{Attr, FileType, TimeNs};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

/// The attributes of a file, of a volume or as the kernel tells them.
pub struct Shown {
    ino: u64,
    kind: FileType,
    permissions: u16,
    links: u64,
    owner: (u32, u32),
    device: (u32, u32),
    size: u64,
    allocated: u64,
    times_ns: [TimeNs; 3],
}

impl From<&Attr> for Shown {
    fn from(attr: &Attr) -> Shown {
        Shown {
            ino: attr.ino.into(),
            kind: attr.kind,
            permissions: attr.permissions,
            links: attr.links.into(),
            owner: (attr.uid, attr.gid),
            device: numbers(attr.rdev),
            size: attr.size,
            allocated: attr.allocated,
            times_ns: [attr.atime_ns, attr.mtime_ns, attr.ctime_ns],
        }
    }
}

impl From<&Metadata> for Shown {
    fn from(facts: &Metadata) -> Shown {
        let ns = |seconds: i64, ns: i64| seconds.saturating_mul(1_000_000_000).saturating_add(ns);
        Shown {
            ino: facts.ino(),
            // No other kind is in a file system of this project.
            kind: FileType::of_mode(facts.mode()).unwrap_or(FileType::Regular),
            permissions: (facts.mode() & 0o7777) as u16,
            links: facts.nlink(),
            owner: (facts.uid(), facts.gid()),
            device: (rustix::fs::major(facts.rdev()), rustix::fs::minor(facts.rdev())),
            size: facts.size(),
            allocated: facts.blocks() * 512,
            times_ns: [
                ns(facts.atime(), facts.atime_nsec()),
                ns(facts.mtime(), facts.mtime_nsec()),
                ns(facts.ctime(), facts.ctime_nsec()),
            ],
        }
    }
}

impl Shown {
    /// Names and values. `space`: what the space is called that it takes.
    pub fn rows(&self, space: &'static str) -> Vec<(&'static str, String)> {
        let mode = mode(self.kind, self.permissions);
        let mut rows = vec![
            ("inode", self.ino.to_string()),
            ("kind", self.kind.name().to_owned()),
            ("mode", format!("{:04o} ({mode})", self.permissions)),
            ("links", self.links.to_string()),
            ("user, group", format!("{}, {}", self.owner.0, self.owner.1)),
            ("size", self.size.to_string()),
            (space, self.allocated.to_string()),
        ];
        if matches!(self.kind, FileType::CharDevice | FileType::BlockDevice) {
            rows.push(("device", format!("{}, {}", self.device.0, self.device.1)));
        }
        let names = ["read (UTC)", "written", "changed"];
        rows.extend(names.into_iter().zip(self.times_ns.map(time)));
        rows
    }
}

/// Kind and permissions as ls(1) shows them.
pub fn mode(kind: FileType, permissions: u16) -> String {
    let first = match kind {
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::Fifo => 'p',
        FileType::CharDevice => 'c',
        FileType::BlockDevice => 'b',
        FileType::Socket => 's',
    };
    let bit = |at: u16| permissions >> at & 1 == 1;
    let mut text = String::from(first);
    for (shift, special, letter) in [(6, 11, 's'), (3, 10, 's'), (0, 9, 't')] {
        text.push(if bit(shift + 2) { 'r' } else { '-' });
        text.push(if bit(shift + 1) { 'w' } else { '-' });
        text.push(match (bit(shift), bit(special)) {
            (true, false) => 'x',
            (false, false) => '-',
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
        });
    }
    text
}

/// A moment in UTC: `2026-11-21 19:55:27`.
pub fn time(ns: TimeNs) -> String {
    // 64 bits of nanoseconds are three centuries before and after 1970: no such time is too far away.
    let time = jiff::Timestamp::from_nanosecond(ns.into()).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A device's numbers.
pub fn device(rdev: u32) -> String {
    let (major, minor) = numbers(rdev);
    format!("{major}, {minor}")
}

fn numbers(rdev: u32) -> (u32, u32) {
    // As in the format: the 8 bits in between are the major number.
    (rdev >> 8 & 0xFFF, rdev & 0xFF | rdev >> 12 & 0xF_FF00)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn moments_are_those_of_date_1() {
        // date -u -d @SECONDS
        for (seconds, text) in [
            (0, "1970-01-01 00:00:00"),
            (951_827_696, "2000-02-29 12:34:56"),
            (1_732_218_927, "2024-11-21 19:55:27"),
            (4_107_542_399, "2100-02-28 23:59:59"),
            (-1, "1969-12-31 23:59:59"),
        ] {
            assert_eq!(time(seconds * 1_000_000_000), text);
        }
        assert_eq!(time(-1), "1969-12-31 23:59:59");
        assert_eq!(time(i64::MIN), "1677-09-21 00:12:43");
        assert_eq!(time(i64::MAX), "2262-04-11 23:47:16");
    }

    #[test]
    fn a_file_is_shown_in_rows() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::set_permissions(folder.path(), Permissions::from_mode(0o1770)).unwrap();
        let facts = folder.path().metadata().unwrap();
        let rows = Shown::from(&facts).rows("allocated");
        let value = |name: &str| rows.iter().find(|row| row.0 == name).unwrap().1.clone();
        assert_eq!((value("kind"), value("mode")), ("directory".into(), "1770 (drwxrwx--T)".into()));
        assert_eq!(value("written"), time(facts.mtime() * 1_000_000_000));
        assert!(rows.iter().all(|row| row.0 != "device"));
        let null = Shown::from(&std::fs::metadata("/dev/null").unwrap()).rows("allocated");
        assert!(null.contains(&("device", "1, 3".into())) && null.contains(&("kind", "character device".into())));
    }
}
