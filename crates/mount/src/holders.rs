//! Who sees a mount: the places where it is mounted, in this mount namespace and in others, which have copies.

use crate::listed::{self, Listed};
use std::collections::HashSet;
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

/// Where a device is mounted in this mount namespace; what was mounted last comes first.
pub(crate) fn here(device: u64) -> Vec<PathBuf> {
    listed::here(device).unwrap_or_default().into_iter().rev().map(|mount| mount.place).collect()
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
        let Some(Listed { place, .. }) = listed::of_device(&list, device).pop() else { continue };
        let command = std::fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        holders.push(Holder { pid, command: command.trim_end().to_owned(), place });
    }
    holders
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_says_who_it_is() {
        let holder = Holder { pid: 7, command: "sleep".into(), place: "/mnt".into() };
        assert_eq!(holder.to_string(), "the mount namespace of process 7 (sleep), at /mnt");
        assert_eq!(holder.path(), Path::new("/proc/7/root/mnt"));
    }
}
