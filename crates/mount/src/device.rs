//! The kernel's side of a mount: /dev/fuse, mount(2) or fusermount3, and taking it away again.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rustix::fs::{Mode, OFlags};
use rustix::io::{Errno, FdFlags};
use rustix::mount::{MountFlags, UnmountFlags};
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags};
use std::ffi::CString;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};

/// How to attach a file system to a directory.
pub(crate) struct Attach {
    /// What /proc/mounts shows as the source.
    pub source: String,
    /// What /proc/mounts shows after `fuse.`.
    pub subtype: &'static str,
    pub flags: MountFlags,
    /// Users other than the one who mounts may use it.
    pub allow_other: bool,
}

/// Mounts at a directory, whose path has to be canonical, and returns the device to serve it by.
pub(crate) fn attach(mountpoint: &Path, how: &Attach) -> Result<OwnedFd> {
    let device = rustix::fs::open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).map_err(|e| {
        let hint = match e {
            Errno::ACCESS => "as root, allow all users to access it, as udev does: chmod 666 /dev/fuse",
            _ => "as root, load the module: modprobe fuse; a container requires the device /dev/fuse",
        };
        Error::board("cannot open /dev/fuse").because(e).hint(hint)
    })?;
    let cannot = || format!("cannot mount at {}", mountpoint.display());
    let data = format!(
        "fd={},rootmode=40000,user_id={},group_id={},default_permissions,subtype={}{}",
        device.as_raw_fd(),
        rustix::process::getuid().as_raw(),
        rustix::process::getgid().as_raw(),
        how.subtype,
        if how.allow_other { ",allow_other" } else { "" }
    );
    let data = CString::new(data).user(cannot)?;
    match rustix::mount::mount(how.source.as_str(), mountpoint, "fuse", how.flags, Some(data.as_c_str())) {
        Ok(()) => Ok(device),
        Err(Errno::PERM) => by_fusermount(mountpoint, how),
        Err(e) => Err(Error::board(cannot()).because(e)),
    }
}

/// What a user without privileges has to ask for: fusermount3 is setuid, and passes the device back.
fn by_fusermount(mountpoint: &Path, how: &Attach) -> Result<OwnedFd> {
    let cannot = || format!("cannot mount at {} with fusermount3", mountpoint.display());
    // It splits options at commas.
    let source = how.source.replace('\\', "\\\\").replace(',', "\\,");
    let mut options = format!("default_permissions,fsname={source},subtype={}", how.subtype);
    let flags = [
        (MountFlags::RDONLY, "ro"),
        (MountFlags::NOATIME, "noatime"),
        (MountFlags::NOEXEC, "noexec"),
        (MountFlags::SYNCHRONOUS, "sync"),
        (MountFlags::DIRSYNC, "dirsync"),
        (MountFlags::NOSYMFOLLOW, "nosymfollow"),
    ];
    for (flag, name) in flags {
        if how.flags.contains(flag) {
            options.push(',');
            options.push_str(name);
        }
    }
    if how.allow_other {
        options.push_str(",allow_other");
    }
    let (ours, theirs) = UnixStream::pair().board(cannot)?;
    rustix::io::fcntl_setfd(&theirs, FdFlags::empty()).board(cannot)?;
    let child = Command::new("fusermount3")
        .args(["-o", &options, "--"])
        .arg(mountpoint)
        .env("_FUSE_COMMFD", theirs.as_raw_fd().to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| Error::board(cannot()).because(e).hint("mount as root, or install the package fuse3"))?;
    drop(theirs);
    let device = receive_device(&ours);
    let output = child.wait_with_output().board(cannot)?;
    device.ok_or_else(|| {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        let error = Error::board(cannot()).because(said.clone());
        if said.contains("user_allow_other") { error.hint("add user_allow_other to /etc/fuse.conf") } else { error }
    })
}

fn receive_device(socket: &UnixStream) -> Option<OwnedFd> {
    let mut byte = [0];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut control = RecvAncillaryBuffer::new(&mut space);
    let parts = &mut [IoSliceMut::new(&mut byte)];
    let received =
        rustix::io::retry_on_intr(|| rustix::net::recvmsg(socket, parts, &mut control, RecvFlags::CMSG_CLOEXEC));
    received.ok().filter(|message| message.bytes > 0)?;
    control.drain().find_map(|message| match message {
        RecvAncillaryMessage::ScmRights(mut descriptors) => descriptors.next(),
        _ => None,
    })
}

/// Unmounts a directory; `lazily`: out of sight at once, even if it is in use.
pub(crate) fn detach(mountpoint: &Path, lazily: bool) -> rustix::io::Result<()> {
    let flags = if lazily { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(mountpoint, flags | UnmountFlags::NOFOLLOW) {
        Err(Errno::PERM) => {
            let mut command = Command::new("fusermount3");
            command.arg("-u").args(lazily.then_some("-z")).arg("--").arg(mountpoint);
            match command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).output() {
                Ok(output) if output.status.success() => Ok(()),
                Ok(output) if String::from_utf8_lossy(&output.stderr).contains("busy") => Err(Errno::BUSY),
                _ => Err(Errno::PERM),
            }
        }
        other => other,
    }
}

/// A mounted file system, as the kernel lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What is mounted: the region's path.
    pub source: String,
    /// The file system's type, `fuse.scmfs`.
    pub kind: String,
}

/// What is mounted exactly at a directory, if anything is. Does not ask the file system itself, which
/// may be dead.
///
/// # Errors
/// `ErrorKind::Board` if the kernel's list cannot be read.
pub fn mounted_at(directory: &Path) -> Result<Option<Entry>> {
    let list = std::fs::read("/proc/self/mounts").board(|| "cannot read /proc/self/mounts".into())?;
    let wanted = directory.as_os_str().as_bytes();
    let mut found = None;
    for line in list.split(|&b| b == b'\n') {
        let mut fields = line.split(|&b| b == b' ').map(unescape);
        if let (Some(source), Some(at), Some(kind)) = (fields.next(), fields.next(), fields.next()) {
            if at == wanted {
                let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
                // The last one is on top.
                found = Some(Entry { source: text(source), kind: text(kind) });
            }
        }
    }
    Ok(found)
}

/// Undoes the kernel's `\040` for a space and its like.
pub(crate) fn unescape(field: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, after)) = rest.split_first() {
        match after.get(..3).filter(|digits| first == b'\\' && digits.iter().all(|d| (b'0'..b'8').contains(d))) {
            Some(digits) => {
                plain.push(digits.iter().fold(0u8, |n, d| n.wrapping_mul(8).wrapping_add(d - b'0')));
                rest = &after[3..];
            }
            None => {
                plain.push(first);
                rest = after;
            }
        }
    }
    plain
}

#[cfg(test)]
mod tests {
    #[test]
    fn names_in_the_list_of_mounts_are_unescaped() {
        assert_eq!(super::unescape(b"/a\\040b\\134c"), b"/a b\\c");
        assert_eq!(super::unescape(b"/a\\04"), b"/a\\04");
    }

    #[test]
    fn the_root_is_mounted_and_a_file_is_not() {
        assert!(super::mounted_at("/proc".as_ref()).unwrap().is_some_and(|entry| entry.kind == "proc"));
        assert_eq!(super::mounted_at("/proc/self/mounts".as_ref()).unwrap(), None);
    }
}
