//! The calls that move what files contain, as programs make them: by the C library where a library can be loaded before
//! it, which may then answer them itself. On boards, whose runner is static, by the kernel at once.

#[cfg(target_env = "gnu")]
pub(crate) use by_libc::{pread, pwrite, write};
#[cfg(not(target_env = "gnu"))]
pub(crate) use rustix::io::{pread, pwrite, write};

#[cfg(target_env = "gnu")]
mod by_libc {
    use rustix::fd::{AsRawFd, OwnedFd};
    use rustix::io::Errno;

    fn moved(bytes: isize) -> rustix::io::Result<usize> {
        usize::try_from(bytes).map_err(|_| Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO))
    }

    #[inline]
    pub(crate) fn pread(file: &OwnedFd, into: &mut [u8], offset: u64) -> rustix::io::Result<usize> {
        // SAFETY: the buffer is live and as long as is said.
        moved(unsafe { libc::pread64(file.as_raw_fd(), into.as_mut_ptr().cast(), into.len(), offset as i64) })
    }

    #[inline]
    pub(crate) fn pwrite(file: &OwnedFd, from: &[u8], offset: u64) -> rustix::io::Result<usize> {
        // SAFETY: the buffer is live and as long as is said.
        moved(unsafe { libc::pwrite64(file.as_raw_fd(), from.as_ptr().cast(), from.len(), offset as i64) })
    }

    #[inline]
    pub(crate) fn write(file: &OwnedFd, from: &[u8]) -> rustix::io::Result<usize> {
        // SAFETY: the buffer is live and as long as is said.
        moved(unsafe { libc::write(file.as_raw_fd(), from.as_ptr().cast(), from.len()) })
    }
}
