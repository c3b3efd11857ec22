//! A place for regions on huge pages.

use std::path::{Path, PathBuf};

/// A tmpfs with huge pages in a mount namespace of this process; `None` if it may not mount.
pub fn huge_tmpfs(at: &Path) -> Option<PathBuf> {
    use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
    // SAFETY: there is one thread, and nothing relies on the old namespace.
    unsafe { rustix::thread::unshare_unsafe(rustix::thread::UnshareFlags::NEWNS) }.ok()?;
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).ok()?;
    mount("tmpfs", at, "tmpfs", MountFlags::empty(), Some(c"size=80%,huge=always")).ok()?;
    Some(at.to_path_buf())
}
