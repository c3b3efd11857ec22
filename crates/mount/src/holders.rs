//! Who sees a mount: the places where it is mounted, in this mount namespace and in others, which have copies.

use crate::device::unescape;
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// A mount namespace besides this one in which a file system is mounted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Holder {
    /// The first of the processes in it.
    pid: u32,
    /// What that runs.
    command: String,
    /// Where it sees the file system.
    place: PathBuf,
}

impl Holder {
    /// The same directory as this process can reach it.
    pub fn path(&self) -> PathBuf {
        let root = format!("/proc/{}/root", self.pid);
        Path::new(&root).join(self.place.strip_prefix("/").unwrap_or(&self.place))
    }
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Holder { pid, command, place } = self;
        write!(f, "the mount namespace of process {pid} ({command}), at {}", place.display())
    }
}

/// Where a list of mounts, in the form of /proc/self/mountinfo, has a device.
fn places(list: &[u8], device: u64) -> Vec<PathBuf> {
    let wanted = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    let of_line = |line: &[u8]| {
        let mut fields = line.split(|&byte| byte == b' ');
        let number = fields.nth(2)?;
        let place = fields.nth(1)?;
        (number == wanted.as_bytes()).then(|| PathBuf::from(OsString::from_vec(unescape(place))))
    };
    list.split(|&byte| byte == b'\n').filter_map(of_line).collect()
}

/// Where a device is mounted in this mount namespace; what was mounted last comes first.
pub(crate) fn here(device: u64) -> Vec<PathBuf> {
    let mut found = places(&std::fs::read("/proc/self/mountinfo").unwrap_or_default(), device);
    found.reverse();
    found
}

/// The other mount namespaces in which a device is mounted, as far as this process may look.
pub(crate) fn elsewhere(device: u64) -> Vec<Holder> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let mut pids: Vec<u32> = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/mnt"));
    let mut seen: HashSet<PathBuf> = namespace("self").into_iter().collect();
    let mut holders = Vec::new();
    for pid in pids {
        let Ok(true) = namespace(&pid.to_string()).map(|namespace| seen.insert(namespace)) else { continue };
        let list = std::fs::read(format!("/proc/{pid}/mountinfo")).unwrap_or_default();
        let Some(place) = places(&list, device).pop() else { continue };
        let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        holders.push(Holder { pid, command: command.trim_end().to_owned(), place });
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_found_at_every_place_where_it_is_mounted() {
        // As proc_pid_mountinfo(5) has it.
        let list = b"22 27 0:20 / /proc rw shared:14 - proc proc rw\n\
            36 27 0:51 / /mnt/a\\040b rw,nosuid - fuse.scmfs /dev/pmem0 rw,user_id=0\n\
            37 27 0:5 / /dev rw - devtmpfs udev rw\n40 27 0:51 /sub /bind rw - fuse.scmfs /dev/pmem0 rw\nbroken\n";
        let device = rustix::fs::makedev(0, 51);
        assert_eq!(places(list, device), [PathBuf::from("/mnt/a b"), PathBuf::from("/bind")]);
        assert!(places(list, rustix::fs::makedev(51, 0)).is_empty());
    }

    #[test]
    fn proc_is_mounted_here() {
        let device = rustix::fs::stat("/proc").unwrap().st_dev;
        assert!(here(device).contains(&PathBuf::from("/proc")));
    }

    #[test]
    fn a_holder_says_who_it_is() {
        let holder = Holder { pid: 7, command: "sleep".into(), place: "/mnt".into() };
        assert_eq!(holder.to_string(), "the mount namespace of process 7 (sleep), at /mnt");
        assert_eq!(holder.path(), Path::new("/proc/7/root/mnt"));
    }
}
