//! What can go wrong in an operation of a file system, as cheap to make as an errno; damage says what and where.

use std::fmt;

/// The outcome of an operation on a volume.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why an operation failed.
#[derive(Debug)]
pub enum Error {
    /// No such name or inode (ENOENT).
    NotFound,
    /// The name is taken (EEXIST).
    Exists,
    /// A path's part or a directory operation's object is no directory (ENOTDIR).
    NotDirectory,
    /// The object is a directory (EISDIR).
    IsDirectory,
    /// The directory is not empty (ENOTEMPTY).
    NotEmpty,
    /// A name longer than 255 bytes (ENAMETOOLONG).
    NameTooLong,
    /// More hard links than an inode can count (EMLINK).
    TooManyLinks,
    /// An argument makes no sense (EINVAL).
    Invalid,
    /// The operation is not permitted on such an object (EPERM).
    NotPermitted,
    /// Beyond the largest size of a file (EFBIG).
    TooLarge,
    /// No space or no inode is left (ENOSPC).
    NoSpace,
    /// No such extended attribute (ENODATA).
    NoAttribute,
    /// The buffer is too small, or the attributes are too large (ERANGE, E2BIG).
    Range,
    /// The volume is open for reading only (EROFS).
    ReadOnly,
    /// There is no data, or no hole, after the offset (ENXIO).
    NoMore,
    /// This kind of operation does not exist here (EOPNOTSUPP).
    NotSupported,
    /// The volume holds something it cannot hold (EIO). Nothing was served from it.
    Damaged(Box<Damage>),
    /// The medium, or opening it, failed (EIO).
    Medium(Box<crate::Error>),
}

/// Something in a volume that is not as it should be.
#[derive(Debug, Clone, PartialEq, Eq)]
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

    /// The number that Linux has for it.
    pub fn errno(&self) -> i32 {
        match self {
            Error::NotFound => 2,
            Error::Exists => 17,
            Error::NotDirectory => 20,
            Error::IsDirectory => 21,
            Error::NotEmpty => 39,
            Error::NameTooLong => 36,
            Error::TooManyLinks => 31,
            Error::Invalid => 22,
            Error::NotPermitted => 1,
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
            Error::Exists => "the name exists",
            Error::NotDirectory => "not a directory",
            Error::IsDirectory => "is a directory",
            Error::NotEmpty => "the directory is not empty",
            Error::NameTooLong => "the name is longer than 255 bytes",
            Error::TooManyLinks => "too many links",
            Error::Invalid => "invalid argument",
            Error::NotPermitted => "operation not permitted",
            Error::TooLarge => "larger than a file can be",
            Error::NoSpace => "no space left on the volume",
            Error::NoAttribute => "no such extended attribute",
            Error::Range => "extended attributes too large",
            Error::ReadOnly => "the volume is open for reading only",
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

impl From<crate::Error> for Error {
    fn from(error: crate::Error) -> Error {
        Error::Medium(Box::new(error))
    }
}

impl From<Error> for crate::Error {
    fn from(error: Error) -> crate::Error {
        match error {
            Error::Medium(inner) => *inner,
            Error::Damaged(damage) => crate::Error::user(format!("the volume is damaged: {damage}"))
                .hint("unmount it, keep a copy, then check it with fsck"),
            other => crate::Error::user(other.to_string()),
        }
    }
}
