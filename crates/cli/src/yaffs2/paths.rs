//! Paths in a volume, and how objects are shown.

use pocketstone_vfs::{Attr, FileType, Ino, Operations, ROOT, Result};
use pocketstone_yaffs2::Volume;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// What a path leads to, from the volume's root, whether it begins with `/` or not. Symbolic links are not followed.
pub fn resolve(volume: &Volume, path: &Path) -> Result<Attr> {
    let mut at = ROOT;
    let mut above: Vec<Ino> = Vec::new();
    let parts =
        path.as_os_str().as_bytes().split(|&byte| byte == b'/').filter(|part| !part.is_empty() && *part != b".");
    for part in parts {
        if part == b".." {
            at = above.pop().unwrap_or(ROOT);
            continue;
        }
        above.push(at);
        at = volume.lookup(at, part)?.ino;
    }
    volume.attributes(at)
}

/// Names and inodes of a directory, sorted by name.
pub fn list(volume: &Volume, directory: Ino) -> Result<Vec<(Vec<u8>, Ino)>> {
    let mut entries = Vec::new();
    volume.read_directory(directory, 0, &mut |entry| {
        entries.push((entry.name.clone(), entry.ino));
        true
    })?;
    entries.sort();
    Ok(entries)
}

/// A name for a terminal: what is no text cannot do anything to it.
pub fn show(name: &[u8]) -> String {
    match std::str::from_utf8(name) {
        Ok(text) if !text.chars().any(char::is_control) => text.to_owned(),
        _ => name.escape_ascii().to_string(),
    }
}

/// A kind of object in one word.
pub fn kind(kind: FileType) -> &'static str {
    match kind {
        FileType::Regular => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "symbolic link",
        FileType::Fifo => "pipe",
        FileType::CharDevice => "character device",
        FileType::BlockDevice => "block device",
        FileType::Socket => "socket",
    }
}

/// Kind and permissions as ls(1) shows them.
pub fn mode(attr: &Attr) -> String {
    let first = match attr.kind {
        FileType::Regular => '-',
        FileType::Directory => 'd',
        FileType::Symlink => 'l',
        FileType::Fifo => 'p',
        FileType::CharDevice => 'c',
        FileType::BlockDevice => 'b',
        FileType::Socket => 's',
    };
    let bit = |at: u16| attr.permissions >> at & 1 == 1;
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
pub fn time(ns: i64) -> String {
    // 64 bits of nanoseconds are three centuries before and after 1970: no such time is too far away.
    let time = jiff::Timestamp::from_nanosecond(ns.into()).unwrap_or_default();
    time.strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A device's numbers.
pub fn device(rdev: u32) -> String {
    // As in the format: the 8 bits in between are the major number.
    let major = rdev >> 8 & 0xFFF;
    let minor = rdev & 0xFF | rdev >> 12 & 0xF_FF00;
    format!("{major}, {minor}")
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn names_do_nothing_to_a_terminal() {
        assert_eq!(show("naïve".as_bytes()), "naïve");
        assert_eq!(show(b"\x1b[2J\xff"), "\\x1b[2J\\xff");
    }
}
