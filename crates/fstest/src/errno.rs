//! Linux's error numbers, from errno(3), as the model gives them.

use std::fmt;

/// A number.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Errno(pub i32);

pub const EPERM: Errno = Errno(1);
pub const ENOENT: Errno = Errno(2);
pub const EIO: Errno = Errno(5);
pub const EEXIST: Errno = Errno(17);
pub const ENOTDIR: Errno = Errno(20);
pub const EISDIR: Errno = Errno(21);
pub const EINVAL: Errno = Errno(22);
pub const EFBIG: Errno = Errno(27);
pub const ENOSPC: Errno = Errno(28);
pub const ERANGE: Errno = Errno(34);
pub const ENAMETOOLONG: Errno = Errno(36);
pub const ENOTEMPTY: Errno = Errno(39);
pub const ENODATA: Errno = Errno(61);

impl fmt::Debug for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match *self {
            EPERM => "EPERM",
            ENOENT => "ENOENT",
            EIO => "EIO",
            EEXIST => "EEXIST",
            ENOTDIR => "ENOTDIR",
            EISDIR => "EISDIR",
            EINVAL => "EINVAL",
            EFBIG => "EFBIG",
            ENOSPC => "ENOSPC",
            ERANGE => "ERANGE",
            ENAMETOOLONG => "ENAMETOOLONG",
            ENOTEMPTY => "ENOTEMPTY",
            ENODATA => "ENODATA",
            Errno(number) => return write!(f, "errno {number}"),
        };
        f.write_str(name)
    }
}
