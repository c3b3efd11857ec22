//! Marks on a region's file for what somebody else has mapped of it: locks beyond all of its bytes (`F_OFD_SETLK` of
//! fcntl_locking(2)). Such a lock belongs to an open file description, and a mapping keeps that open: so the kernel
//! takes a mark away when nobody has it mapped any more, neither who mapped it nor who inherited that, however they
//! ended. A descriptor that is on its way to who is to map it keeps it, too.

use rustix::io::{Errno, Result};
use std::os::fd::{AsRawFd, BorrowedFd};

/// Where the marks are: no region is as long.
const MARKS_AT: i64 = 1 << 62;
/// There are so many.
const MARKS: i64 = 1 << 32;

#[cfg(target_pointer_width = "64")]
fn lock(file: BorrowedFd<'_>, command: libc::c_int, kind: libc::c_int, at: i64, bytes: i64) -> Result<libc::flock> {
    // SAFETY: a structure of numbers, for which zeros are numbers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = kind as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    (lock.l_start, lock.l_len) = (at, bytes);
    // SAFETY: these commands read the structure, and may change it.
    let done = unsafe { libc::fcntl(file.as_raw_fd(), command, &raw mut lock) };
    if done == 0 {
        return Ok(lock);
    }
    let error = std::io::Error::last_os_error();
    Err(error.raw_os_error().map_or(Errno::IO, Errno::from_raw_os_error))
}

/// Makes a mark with a number for who maps this open file, which is nobody else's. It has to be open for reading.
///
/// # Errors
/// What fcntl(2) returns, such as `Errno::BADF` if it is not open for reading; `Errno::NOSYS` where programs have
/// 32-bit addresses.
#[cfg(target_pointer_width = "64")]
pub fn mark(file: BorrowedFd<'_>, number: u32) -> Result<()> {
    lock(file, libc::F_OFD_SETLK, libc::F_RDLCK, MARKS_AT + i64::from(number), 1).map(drop)
}

/// Whether somebody else has a mark with this number, or with any.
///
/// # Errors
/// The `Errno` that fcntl(2) returns where such locks cannot be had; none where programs have 32-bit addresses.
#[cfg(target_pointer_width = "64")]
pub fn is_marked(file: BorrowedFd<'_>, number: Option<u32>) -> Result<bool> {
    let (at, marks) = number.map_or((MARKS_AT, MARKS), |number| (MARKS_AT + i64::from(number), 1));
    // What would be in the way of a lock against all others.
    let found = lock(file, libc::F_OFD_GETLK, libc::F_WRLCK, at, marks)?;
    Ok(found.l_type != libc::F_UNLCK as libc::c_short)
}

/// As where programs have 64-bit addresses: here it cannot be done.
///
/// # Errors
/// `Errno::NOSYS`.
#[cfg(not(target_pointer_width = "64"))]
pub fn mark(_: BorrowedFd<'_>, _: u32) -> Result<()> {
    Err(Errno::NOSYS)
}

/// Nobody has.
///
/// # Errors
/// No `Errno` at all.
#[cfg(not(target_pointer_width = "64"))]
pub fn is_marked(_: BorrowedFd<'_>, _: Option<u32>) -> Result<bool> {
    Ok(false)
}

#[cfg(all(test, target_pointer_width = "64"))]
mod tests {
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
    use std::fs::File;
    use std::os::fd::AsFd;
    use std::ptr::null_mut;

    #[test]
    fn a_mark_lasts_as_long_as_the_last_mapping() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("region");
        std::fs::write(&path, vec![0; 8192]).unwrap();
        let own = File::open(&path).unwrap();
        let marked = |number| is_marked(own.as_fd(), number).unwrap();
        let map = |file: &File, bytes| {
            // SAFETY: new mappings, which nobody uses.
            unsafe { mmap(null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, file, 0) }.unwrap()
        };
        let file = File::open(&path).unwrap();
        assert!(!marked(None));
        mark(file.as_fd(), u32::MAX).unwrap();
        let second = File::open(&path).unwrap();
        mark(second.as_fd(), u32::MAX).unwrap();
        drop(second);
        assert!(marked(Some(u32::MAX)) && marked(None) && !marked(Some(7)));
        assert!(!is_marked(file.as_fd(), None).unwrap(), "its own is not in its way");
        let at = map(&file, 8192);
        drop(file);
        assert!(marked(Some(u32::MAX)), "it is mapped");
        // Closing another descriptor of the file drops the locks that belong to processes, not these.
        drop(File::open(&path).unwrap());
        // SAFETY: parts of the mapping, which nobody uses.
        unsafe { munmap(at, 4096) }.unwrap();
        assert!(marked(None), "half of it is");
        // SAFETY: as above.
        unsafe { munmap(at.byte_add(4096), 4096) }.unwrap();
        assert!(!marked(None));
    }
}
