//! Errors of file system operations, as cheap as an errno; damage includes what and where.

use crate::MediumError;
use std::fmt;

/// The result of an operation on a volume.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The error of a failed operation.
#[derive(Debug)]
#[non_exhaustive]
pub enum Error {
    /// No such name or inode (ENOENT).
    NotFound,
    /// The name already exists (EEXIST).
    Exists,
    /// A path component, or the object of a directory operation, is not a directory (ENOTDIR).
    NotDirectory,
    /// The object is a directory (EISDIR).
    IsDirectory,
    /// The directory is not empty (ENOTEMPTY).
    NotEmpty,
    /// A name longer than 255 bytes, or a longer target than symbolic links have (ENAMETOOLONG).
    NameTooLong,
    /// Too many hard links (EMLINK).
    TooManyLinks,
    /// Invalid argument (EINVAL).
    Invalid,
    /// The operation is not permitted on this object (EPERM).
    NotPermitted,
    /// The operation does not apply to this kind of object (EACCES).
    Denied,
    /// The file is not open for this operation (EBADF).
    BadHandle,
    /// Too many symbolic links (ELOOP).
    TooManySymlinks,
    /// It is in use, or another process is changing it (EBUSY).
    Busy,
    /// Beyond the maximum file size (EFBIG).
    TooLarge,
    /// No space or no inode is left (ENOSPC).
    NoSpace,
    /// No such extended attribute (ENODATA).
    NoAttribute,
    /// The buffer is too small, or a name too long or empty (ERANGE).
    Range,
    /// The volume is read-only (EROFS).
    ReadOnly,
    /// There is no data, or no hole, after the offset (ENXIO).
    NoMore,
    /// The operation is not supported (EOPNOTSUPP).
    NotSupported,
    /// The volume is damaged (EIO). No damaged data was returned.
    Damaged(Box<Damage>),
    /// The medium failed, or could not be opened (EIO).
    Medium(Box<MediumError>),
}

/// Damage found in a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// Offset in the volume, in bytes.
    pub at: u64,
    /// What was found there.
    pub found: String,
}

impl Error {
    /// Damage at an offset.
    pub fn damaged(at: u64, found: impl Into<String>) -> Error {
        Error::Damaged(Box::new(Damage { at, found: found.into() }))
    }

    /// The suggested fix, if known.
    pub fn cure(&self) -> Option<&str> {
        match self {
            Error::Medium(error) => error.cure(),
            Error::Damaged(_) => Some("unmount it, keep a copy, then check it with fsck"),
            _ => None,
        }
    }

    /// The Linux errno.
    pub fn errno(&self) -> i32 {
        match self {
            Error::NotFound => 2,
            Error::BadHandle => 9,
            Error::TooManySymlinks => 40,
            Error::Exists => 17,
            Error::NotDirectory => 20,
            Error::IsDirectory => 21,
            Error::NotEmpty => 39,
            Error::NameTooLong => 36,
            Error::TooManyLinks => 31,
            Error::Invalid => 22,
            Error::NotPermitted => 1,
            Error::Denied => 13,
            Error::Busy => 16,
            Error::TooLarge => 27,
            Error::NoSpace => 28,
            Error::NoAttribute => 61,
            Error::Range => 34,
            Error::ReadOnly => 30,
            Error::NoMore => 6,
            Error::NotSupported => 95,
            Error::Damaged(_) | Error::Medium(_) => 5,
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Error::NotFound => "no such file or directory",
            Error::Exists => "the name already exists",
            Error::NotDirectory => "not a directory",
            Error::IsDirectory => "is a directory",
            Error::NotEmpty => "the directory is not empty",
            Error::NameTooLong => "the name or target is too long",
            Error::TooManyLinks => "too many links",
            Error::Invalid => "invalid argument",
            Error::NotPermitted => "operation not permitted",
            Error::Denied => "permission denied",
            Error::BadHandle => "the file is not open for this operation",
            Error::TooManySymlinks => "too many symbolic links",
            Error::Busy => "it is in use",
            Error::TooLarge => "beyond the maximum file size",
            Error::NoSpace => "no space left on the volume",
            Error::NoAttribute => "no such extended attribute",
            Error::Range => "the buffer is too small, or the name of an extended attribute is invalid",
            Error::ReadOnly => "the volume is read-only",
            Error::NoMore => "no data or hole after this offset",
            Error::NotSupported => "operation not supported",
            Error::Damaged(damage) => return write!(f, "the volume is damaged: {damage}"),
            Error::Medium(error) => return f.write_str(&error.chain()),
        };
        f.write_str(text)
    }
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.found, self.at)
    }
}

impl std::error::Error for Error {}

impl From<MediumError> for Error {
    fn from(error: MediumError) -> Error {
        Error::Medium(Box::new(error))
    }
}

impl From<Error> for std::io::Error {
    /// Converts to the OS error with the same errno; damage and medium errors keep their message.
    fn from(error: Error) -> std::io::Error {
        match error {
            Error::Damaged(_) | Error::Medium(_) => std::io::Error::other(error),
            error => std::io::Error::from_raw_os_error(error.errno()),
        }
    }
}
