//! Calls of the kernel that no crate of ours wraps, behind safe functions.

use rustix::fd::{AsFd, AsRawFd};
use rustix::mm::{MapFlags, MsyncFlags, ProtFlags};
use std::fs::File;
use std::io;
use std::ptr;

/// What a call of libc returned, as a result.
fn result(returned: i64) -> io::Result<i64> {
    if returned < 0 { Err(io::Error::last_os_error()) } else { Ok(returned) }
}

/// Memory that the kernel shows a file in, or anonymous memory. Every access is a volatile one, for the
/// kernel and other mappings change it meanwhile, or a copy, and no reference to it is ever made.
pub struct Map {
    start: *mut u8,
    len: usize,
}

// SAFETY: it is only memory, to which there are no references.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    /// A file's bytes, to read and write.
    pub fn shared(file: impl AsFd, offset: u64, len: usize) -> io::Result<Map> {
        Map::of(file, offset, len, MapFlags::SHARED, ProtFlags::READ | ProtFlags::WRITE)
    }

    /// A file's bytes in a way of one's own.
    pub fn of(file: impl AsFd, offset: u64, len: usize, flags: MapFlags, prot: ProtFlags) -> io::Result<Map> {
        // SAFETY: the kernel chooses a free place.
        let start = unsafe { rustix::mm::mmap(ptr::null_mut(), len, prot, flags, file, offset)? };
        Ok(Map { start: start.cast(), len })
    }

    /// Memory of no file, aligned to pages: a buffer for direct access.
    pub fn anonymous(len: usize) -> io::Result<Map> {
        let prot = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: as above.
        let start = unsafe { rustix::mm::mmap_anonymous(ptr::null_mut(), len, prot, MapFlags::PRIVATE)? };
        Ok(Map { start: start.cast(), len })
    }

    /// Such memory with these bytes in it.
    pub fn holding(bytes: &[u8]) -> io::Result<Map> {
        let map = Map::anonymous(bytes.len())?;
        map.write(0, bytes);
        Ok(map)
    }

    fn at(&self, index: usize) -> *mut u8 {
        assert!(index < self.len, "{index} is beyond a mapping of {}", self.len);
        // SAFETY: it is inside the mapping.
        unsafe { self.start.add(index) }
    }

    /// One byte. Beyond the file's last page this ends the process: see [`Map::probe`].
    pub fn get(&self, index: usize) -> u8 {
        // SAFETY: `at` checks the bounds, and the mapping lives as long as `self`.
        unsafe { self.at(index).read_volatile() }
    }

    /// Sets one byte.
    pub fn put(&self, index: usize, byte: u8) {
        // SAFETY: as above; who maps without the right to write does not call this.
        unsafe { self.at(index).write_volatile(byte) }
    }

    /// Many bytes.
    pub fn read(&self, index: usize, len: usize) -> Vec<u8> {
        assert!(index + len <= self.len);
        let mut bytes = vec![0; len];
        // SAFETY: the range is inside the mapping, and the bytes are no one's else.
        unsafe { ptr::copy_nonoverlapping(self.start.add(index), bytes.as_mut_ptr(), len) };
        bytes
    }

    /// Sets many bytes.
    pub fn write(&self, index: usize, bytes: &[u8]) {
        assert!(index + bytes.len() <= self.len);
        // SAFETY: as above.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), self.start.add(index), bytes.len()) };
    }

    /// Has the kernel write a range of whole pages.
    pub fn sync(&self, index: usize, len: usize) -> io::Result<()> {
        assert!(index + len <= self.len);
        // SAFETY: the range is inside the mapping.
        Ok(unsafe { rustix::mm::msync(self.at(index).cast(), len, MsyncFlags::SYNC)? })
    }

    /// Changes what may be done with it.
    pub fn protect(&self, flags: rustix::mm::MprotectFlags) -> io::Result<()> {
        // SAFETY: nothing of Rust's lies in it.
        Ok(unsafe { rustix::mm::mprotect(self.start.cast(), self.len, flags)? })
    }

    /// The same pages over a larger or smaller range, perhaps elsewhere.
    pub fn resized(self, len: usize) -> io::Result<Map> {
        // SAFETY: nobody else has an address in it, for only `self` hands bytes out.
        let start = unsafe { rustix::mm::mremap(self.start.cast(), self.len, len, rustix::mm::MremapFlags::MAYMOVE)? };
        std::mem::forget(self);
        Ok(Map { start: start.cast(), len })
    }

    /// Reads a byte as a system call does: what would end the process is an error (EFAULT) here.
    pub fn probe(&self, index: usize) -> io::Result<u8> {
        let (from, to) = rustix::pipe::pipe()?;
        // SAFETY: the address is inside the mapping; the kernel copes with pages that are not there.
        result(unsafe { libc::write(to.as_raw_fd(), self.at(index).cast(), 1) } as i64)?;
        let mut byte = [0];
        rustix::io::read(from, &mut byte)?;
        Ok(byte[0])
    }

    /// Writes a part of it to a file, as pwrite(2) does.
    pub fn write_to(&self, index: usize, len: usize, file: impl AsFd, offset: u64) -> io::Result<usize> {
        assert!(index + len <= self.len);
        let fd = file.as_fd().as_raw_fd();
        // SAFETY: the range is inside the mapping.
        let done = unsafe { libc::pwrite(fd, self.at(index).cast(), len, offset as libc::off_t) };
        result(done as i64).map(|done| done as usize)
    }

    /// Reads from a file into a part of it, as pread(2) does.
    pub fn read_from(&self, index: usize, len: usize, file: impl AsFd, offset: u64) -> io::Result<usize> {
        assert!(index + len <= self.len);
        let fd = file.as_fd().as_raw_fd();
        // SAFETY: the range is inside the mapping, and nothing of Rust's lies in it.
        let done = unsafe { libc::pread(fd, self.at(index).cast(), len, offset as libc::off_t) };
        result(done as i64).map(|done| done as usize)
    }

    /// Moves a part of it into a pipe without copying, as vmsplice(2) does.
    pub fn to_pipe(&self, index: usize, len: usize, pipe: impl AsFd) -> io::Result<usize> {
        assert!(index + len <= self.len);
        let part = libc::iovec { iov_base: self.at(index).cast(), iov_len: len };
        // SAFETY: the range is inside the mapping, and the list has one part.
        result(unsafe { libc::vmsplice(pipe.as_fd().as_raw_fd(), &part, 1, 0) } as i64).map(|done| done as usize)
    }

    pub(crate) fn address(&self) -> u64 {
        self.start as u64
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: the mapping is ours, and ends with us.
        let _ = unsafe { rustix::mm::munmap(self.start.cast(), self.len) };
    }
}

/// A lock of a range: by the process (`own` false), or by the open file.
pub fn lock(file: impl AsFd, own: bool, kind: i32, start: i64, len: i64) -> io::Result<()> {
    let command = if own { libc::F_OFD_SETLK } else { libc::F_SETLK };
    range(file, command, kind, start, len).map(drop)
}

/// Who stands in the way of a lock: its kind and process, or `F_UNLCK`.
pub fn who_locks(file: impl AsFd, own: bool, kind: i32, start: i64, len: i64) -> io::Result<(i32, i32)> {
    let command = if own { libc::F_OFD_GETLK } else { libc::F_GETLK };
    range(file, command, kind, start, len)
}

fn range(file: impl AsFd, command: i32, kind: i32, start: i64, len: i64) -> io::Result<(i32, i32)> {
    let mut range = libc::flock {
        l_type: kind as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: start as libc::off_t,
        l_len: len as libc::off_t,
        l_pid: 0,
    };
    // SAFETY: the structure is whole, and outlives the call.
    result(unsafe { libc::fcntl(file.as_fd().as_raw_fd(), command, &mut range) }.into())?;
    Ok((range.l_type.into(), range.l_pid))
}

/// Takes or gives back a lease; `F_GETLEASE` when `kind` is `None`.
pub fn lease(file: impl AsFd, kind: Option<i32>) -> io::Result<i32> {
    let fd = file.as_fd().as_raw_fd();
    // Who breaks a lease has its holder told so by a signal, which would end this process.
    // SAFETY: nobody here handles that signal.
    unsafe { libc::signal(libc::SIGIO, libc::SIG_IGN) };
    let done = match kind {
        // SAFETY: these calls take numbers alone.
        Some(kind) => unsafe { libc::fcntl(fd, libc::F_SETLEASE, kind) },
        // SAFETY: as above.
        None => unsafe { libc::fcntl(fd, libc::F_GETLEASE) },
    };
    result(done.into()).map(|kind| kind as i32)
}

/// An entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// Its name.
    pub name: String,
    /// Where to go on after it.
    pub next: i64,
    /// What kind it is, as `DT_REG` and the others say.
    pub kind: u8,
    /// The inode.
    pub ino: u64,
}

/// One call of getdents64 with room for `room` bytes.
pub fn list_once(directory: &File, room: usize) -> io::Result<Vec<Listed>> {
    let mut buffer = vec![0u8; room];
    // SAFETY: the kernel writes no more than `room` bytes.
    let got = unsafe { libc::syscall(libc::SYS_getdents64, directory.as_raw_fd(), buffer.as_mut_ptr(), room) };
    let mut rest = &buffer[..result(got)? as usize];
    let mut entries = Vec::new();
    while !rest.is_empty() {
        let number = |at: usize| u64::from_ne_bytes(rest[at..at + 8].try_into().expect("eight bytes"));
        let len = usize::from(u16::from_ne_bytes([rest[16], rest[17]]));
        let name = rest[19..len].split(|byte| *byte == 0).next().unwrap_or_default();
        let name = String::from_utf8_lossy(name).into_owned();
        entries.push(Listed { name, next: number(8) as i64, kind: rest[18], ino: number(0) });
        rest = &rest[len..];
    }
    Ok(entries)
}
