//! Mounts as the kernel lists them. To read that asks no file system anything.

use crate::device::unescape;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

const LIST: &str = "/proc/self/mountinfo";

/// A place at which a file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    pub place: PathBuf,
    /// Options of the mount, and behind them those of the file system, which all places have in common.
    options: String,
}

impl Listed {
    /// Whether it is mounted with an option.
    pub fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|its| its == option)
    }
}

/// Where a device is mounted in this mount namespace; what was mounted last comes last.
pub(crate) fn here(device: u64) -> io::Result<Vec<Listed>> {
    Ok(of_device(&std::fs::read(LIST)?, device))
}

/// Where a list of mounts, in the form of /proc/self/mountinfo, has a device.
pub(crate) fn of_device(list: &[u8], device: u64) -> Vec<Listed> {
    let wanted = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    parse(list, |number, _| number == wanted.as_bytes())
}

/// The mounts of a list of which the device's number and the place are wanted.
fn parse(list: &[u8], is_wanted: impl Fn(&[u8], &Path) -> bool) -> Vec<Listed> {
    let of_line = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ');
        let number = fields.nth(2)?;
        let (place, of_mount) = (fields.nth(1)?, fields.next()?);
        // Any number of other fields, their end, the type and the source.
        let of_system = fields.skip_while(|field| *field != b"-").nth(3).unwrap_or_default();
        let options = String::from_utf8_lossy(&[of_mount, b",", of_system].concat()).into_owned();
        let place = PathBuf::from(OsString::from_vec(unescape(place)));
        is_wanted(number, &place).then_some(Listed { place, options })
    };
    list.split(|&byte| byte == b'\n').filter_map(of_line).collect()
}

/// Whether what is on top at a directory, whose path has to be canonical, is mounted with an option.
pub(crate) fn has(directory: &Path, option: &str) -> io::Result<bool> {
    let list = std::fs::read(LIST)?;
    Ok(parse(&list, |_, place| place == directory).last().is_some_and(|mount| mount.has(option)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As proc_pid_mountinfo(5) has it.
    const SOME: &[u8] = b"22 27 0:20 / /proc rw shared:14 - proc proc rw\n\
        36 27 0:51 / /mnt/a\\040b rw,nosuid,nosymfollow shared:1 master:2 - fuse.scmfs /dev/pmem0 rw,sync,user_id=0\n\
        37 27 0:5 / /dev rw - devtmpfs udev rw\n\
        40 27 0:51 /sub /bind rw - fuse.scmfs /dev/pmem0 rw,sync,user_id=0\nbroken\n";

    #[test]
    fn a_device_is_found_at_every_place_where_it_is_mounted() {
        let found = of_device(SOME, rustix::fs::makedev(0, 51));
        let places: Vec<&Path> = found.iter().map(|mount| &*mount.place).collect();
        assert_eq!(places, [Path::new("/mnt/a b"), Path::new("/bind")]);
        assert!(of_device(SOME, rustix::fs::makedev(51, 0)).is_empty());
    }

    #[test]
    fn options_are_those_of_the_mount_and_of_the_file_system() {
        let found = of_device(SOME, rustix::fs::makedev(0, 51));
        let has = |option: &str| [found[0].has(option), found[1].has(option)];
        assert_eq!([has("sync"), has("nosymfollow"), has("dirsync")], [[true; 2], [true, false], [false; 2]]);
    }

    #[test]
    fn proc_is_mounted_here() {
        let device = rustix::fs::stat("/proc").unwrap().st_dev;
        assert!(here(device).unwrap().iter().any(|mount| mount.place == Path::new("/proc")));
        let has = |directory, option| has(Path::new(directory), option).unwrap();
        assert!(!has("/proc", "nosymfollow") && (has("/proc", "rw") || has("/proc", "ro")) && !has("/no/mount", "rw"));
    }
}
