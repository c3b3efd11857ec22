//! How the end of a file is asked for: by the file itself, with setxattr(2), for the kernel takes the inode's lock
//! then. The value is
//!
//! ```text
//!   0  u32 magic   4  u32 version   8  u32 entry   12  zeros   16  u64 the process's token
//!  24  u64 bytes   32  u64 bytes expected
//! ```

use super::{BYTES, begin, get32, get64, put32, put64, understood};
use rustix::fs::XattrFlags;
use rustix::io::{Errno, Result};
use std::os::fd::BorrowedFd;

/// The extended attribute of a file that is set to a [`Lease`]. One of `system.` asks for no permissions, which the
/// kernel would have to ask the server about.
const LEASE: &str = "system.scmfs.lease";
/// That the end of the file was leased is said by an error: nothing was set, which would change the file's times.
pub const LEASED: Errno = Errno::CANCELED;
const LEASE_BYTES: usize = 40;

/// The end of a file is to be a process's alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lease {
    /// The process, as it was told when it attached.
    pub token: u64,
    /// The file's entry.
    pub index: u32,
    /// What it wants to append at once, in bytes.
    pub bytes: u64,
    /// What it expects to append all in all, in bytes: what it gets if there is space.
    pub expected: u64,
}

impl Lease {
    /// What the setting of an extended attribute asks for; `None`: it is another attribute.
    ///
    /// # Errors
    /// `Errno::INVAL` if the value is not understood.
    pub fn asked(name: &[u8], value: &[u8]) -> Option<Result<Lease>> {
        (name == LEASE.as_bytes()).then(|| Lease::decode(value).ok_or(Errno::INVAL))
    }

    fn encode(&self) -> [u8; LEASE_BYTES] {
        let mut message = begin();
        put32(&mut message, 8, self.index);
        put64(&mut message, 16, self.token);
        put64(&mut message, 24, self.bytes);
        put64(&mut message, 32, self.expected);
        std::array::from_fn(|at| message[at])
    }

    fn decode(value: &[u8]) -> Option<Lease> {
        let mut message = [0; BYTES];
        message[..LEASE_BYTES].copy_from_slice(<&[u8; LEASE_BYTES]>::try_from(value).ok()?);
        understood(&message).then(|| Lease {
            token: get64(&message, 16),
            index: get32(&message, 8),
            bytes: get64(&message, 24),
            expected: get64(&message, 32),
        })
    }

    /// Asks for it by an open file.
    ///
    /// # Errors
    /// `Errno::BADF` if that is another file; `Errno::INVAL` by a server of another version; `Errno::ACCESS` if the
    /// process may not; `Errno::PROTO` if another file system took it; or what else the server or the kernel answers.
    pub fn ask(&self, file: BorrowedFd<'_>) -> Result<()> {
        match rustix::fs::fsetxattr(file, LEASE, &self.encode(), XattrFlags::empty()) {
            Err(LEASED) => Ok(()),
            Err(error) => Err(error),
            // Some other file system took it.
            Ok(()) => Err(Errno::PROTO),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_comes_through_and_else_is_not_understood() {
        let lease = Lease { token: u64::MAX - 1, index: 16_383, bytes: 1 << 33, expected: 1 << 34 };
        let value = lease.encode();
        assert_eq!(Lease::asked(LEASE.as_bytes(), &value), Some(Ok(lease)));
        assert_eq!(Lease::asked(b"system.scmfs.forget", &value), None);
        for wrong in [&value[..39], &[value.as_slice(), &[0]].concat(), &[0; 40], &[]] {
            assert_eq!(Lease::asked(LEASE.as_bytes(), wrong), Some(Err(Errno::INVAL)));
        }
    }
}
