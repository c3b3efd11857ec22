//! What inodes are opened by without a name, by the kernel's own calls.

use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::ffi::CString;
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;

/// What an inode can be opened by without a name.
#[repr(C, align(8))]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handle {
    bytes: u32,
    kind: i32,
    data: [u8; 128],
}

/// The handle of a file.
pub fn handle_of(path: &Path) -> io::Result<Handle> {
    let (path, mut mount) = (CString::new(path.as_os_str().as_bytes())?, 0i32);
    let mut handle = Handle { bytes: 128, kind: 0, data: [0; 128] };
    let (at, to) = (libc::AT_FDCWD, ptr::from_mut(&mut handle));
    // SAFETY: the structure is laid out as the kernel's, with room for the bytes that it says.
    let done = unsafe { libc::syscall(libc::SYS_name_to_handle_at, at, path.as_ptr(), to, &mut mount, 0) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(handle) }
}

/// Opens by a handle.
pub fn open_handle(mount: impl AsFd, handle: &Handle, flags: i32) -> io::Result<File> {
    let (mount, handle) = (mount.as_fd().as_raw_fd(), ptr::from_ref(handle));
    // SAFETY: as above; the kernel only reads it.
    let fd = unsafe { libc::syscall(libc::SYS_open_by_handle_at, mount, handle, flags) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the number is that of a file just opened, which nobody else has.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) }.into())
}
