//! Inodes, their attributes, names.

use crate::setters;
use serde::{Deserialize, Serialize};

/// An inode number. The root directory is [`ROOT`].
pub type Ino = u32;

/// The root directory's inode number.
pub const ROOT: Ino = 1;

/// Longest name in a directory, in bytes.
pub const NAME_MAX: usize = 255;

/// Nanoseconds since 1970, UTC; negative before.
pub type TimeNs = i64;

/// The kind of an inode.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileType {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A socket.
    Socket,
}

impl FileType {
    /// The kind in words, for people.
    pub fn name(self) -> &'static str {
        match self {
            FileType::Regular => "file",
            FileType::Directory => "directory",
            FileType::Symlink => "symbolic link",
            FileType::Fifo => "pipe",
            FileType::CharDevice => "character device",
            FileType::BlockDevice => "block device",
            FileType::Socket => "socket",
        }
    }

    /// The type bits of `st_mode`.
    pub fn mode_bits(self) -> u16 {
        match self {
            FileType::Regular => 0o100_000,
            FileType::Directory => 0o040_000,
            FileType::Symlink => 0o120_000,
            FileType::Fifo => 0o010_000,
            FileType::CharDevice => 0o020_000,
            FileType::BlockDevice => 0o060_000,
            FileType::Socket => 0o140_000,
        }
    }

    /// The type encoded in a mode; `None` for an unknown type.
    pub fn of_mode(mode: u32) -> Option<FileType> {
        Some(match mode & 0o170_000 {
            0o100_000 => FileType::Regular,
            0o040_000 => FileType::Directory,
            0o120_000 => FileType::Symlink,
            0o010_000 => FileType::Fifo,
            0o020_000 => FileType::CharDevice,
            0o060_000 => FileType::BlockDevice,
            0o140_000 => FileType::Socket,
            _ => return None,
        })
    }
}

/// Initial attributes of a new inode.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// The kind of object.
    pub kind: FileType,
    /// Permission bits, `0o7777`.
    pub permissions: u16,
    /// The umask, ignored if the directory has a default ACL.
    pub umask: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number, for devices.
    pub rdev: u32,
}

impl Meta {
    /// A regular file of user and group 0.
    pub fn file(permissions: u16) -> Meta {
        Meta { kind: FileType::Regular, permissions, umask: 0, uid: 0, gid: 0, rdev: 0 }
    }

    /// A directory of user and group 0.
    pub fn directory(permissions: u16) -> Meta {
        Meta { kind: FileType::Directory, ..Meta::file(permissions) }
    }

    setters! { kind: FileType, umask: u16, uid: u32, gid: u32, rdev: u32 }
}

/// An inode's attributes.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Generation: counts the uses of this inode number.
    pub generation: u32,
    /// The kind of object.
    pub kind: FileType,
    /// Permission bits, `0o7777`.
    pub permissions: u16,
    /// Hard links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number, for devices.
    pub rdev: u32,
    /// Size in bytes.
    pub size: u64,
    /// Space taken in bytes, preallocated space included.
    pub allocated: u64,
    /// Last read.
    pub atime_ns: TimeNs,
    /// Last change of the content.
    pub mtime_ns: TimeNs,
    /// Last change of the attributes.
    pub ctime_ns: TimeNs,
    /// Creation.
    pub btime_ns: TimeNs,
}

impl Attr {
    /// Those of an inode with one link, and zeros.
    pub fn new(ino: Ino, kind: FileType) -> Attr {
        Attr {
            ino,
            generation: 0,
            kind,
            permissions: 0,
            links: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            size: 0,
            allocated: 0,
            atime_ns: 0,
            mtime_ns: 0,
            ctime_ns: 0,
            btime_ns: 0,
        }
    }

    setters! {
        generation: u32,
        permissions: u16,
        links: u32,
        uid: u32,
        gid: u32,
        rdev: u32,
        size: u64,
        allocated: u64,
        atime_ns: TimeNs,
        mtime_ns: TimeNs,
        ctime_ns: TimeNs,
        btime_ns: TimeNs,
    }
}

/// Attributes to change; `None` leaves one unchanged.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits.
    pub permissions: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size: truncates, or extends with zeros.
    pub size: Option<u64>,
    /// Last read.
    pub atime_ns: Option<TimeNs>,
    /// Last change of the content.
    pub mtime_ns: Option<TimeNs>,
    /// Last change of the attributes; now, if anything else changes and this is `None`.
    pub ctime_ns: Option<TimeNs>,
    /// An implicit change: times by the clock, set-id bits cleared by a write. It is permitted on append-only files.
    pub implied: bool,
}

impl SetAttr {
    setters! {
        permissions: Option<u16>,
        uid: Option<u32>,
        gid: Option<u32>,
        size: Option<u64>,
        atime_ns: Option<TimeNs>,
        mtime_ns: Option<TimeNs>,
        ctime_ns: Option<TimeNs>,
        implied: bool,
    }
}

/// The protection of an inode, as set by chattr(1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Protection {
    /// Append-only: a file can only grow at its end, a directory only gain names.
    pub append_only: bool,
    /// Immutable.
    pub immutable: bool,
}

/// One name in a directory.
#[non_exhaustive]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// The inode it names.
    pub ino: Ino,
    /// The kind of object.
    pub kind: FileType,
    /// The cookie to continue `read_directory` after this entry. Stable while the entry exists.
    pub cookie: u64,
}

impl Entry {
    /// A name in a directory, and the cookie to continue after it.
    pub fn new(name: Vec<u8>, ino: Ino, kind: FileType, cookie: u64) -> Entry {
        Entry { name, ino, kind, cookie }
    }
}

/// What to do if the new name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rename {
    /// Replace the existing object.
    Replace,
    /// Fail if it exists.
    NoReplace,
    /// Exchange the two names; both must exist.
    Exchange,
    /// Leave a whiteout under the old name: a character device 0:0, which overlayfs treats as deleted.
    Whiteout {
        /// Whether to replace an existing object instead of failing.
        replace: bool,
        /// The device's owner.
        uid: u32,
        /// The device's group.
        gid: u32,
    },
}

/// What is done with a range of a file, as fallocate(2) has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Allocate {
    /// Reserve space, and lengthen the file if the range ends beyond it.
    Extend,
    /// Reserve space, keep the size.
    KeepSize,
    /// Give space back; the range reads as zeros. Keeps the size.
    PunchHole,
    /// The range reads as zeros and stays reserved; lengthens the file.
    Zero,
    /// As `Zero`, but the size is kept.
    ZeroKeepSize,
    /// Take the range out: what follows moves up, and the file is shorter. Whole pages; not up to the end.
    Collapse,
    /// Put a hole in: what follows moves back, and the file is longer. Whole pages; not from the end on.
    Insert,
}

/// How to set an extended attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetXattr {
    /// Create or replace.
    Any,
    /// Fail if it exists.
    Create,
    /// Fail if it does not exist.
    Replace,
}

/// File system statistics, as in statvfs(3).
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Statfs {
    /// Unit of the next three fields.
    pub block_bytes: u32,
    /// Blocks for data.
    pub blocks: u64,
    /// Free blocks.
    pub free_blocks: u64,
    /// Blocks available to file contents; other free blocks may be needed for metadata.
    pub available_blocks: u64,
    /// Inodes.
    pub inodes: u64,
    /// Free inodes.
    pub free_inodes: u64,
}

impl Statfs {
    /// Those of a volume that has nothing.
    pub fn new(block_bytes: u32) -> Statfs {
        Statfs { block_bytes, blocks: 0, free_blocks: 0, available_blocks: 0, inodes: 0, free_inodes: 0 }
    }

    setters! { blocks: u64, free_blocks: u64, available_blocks: u64, inodes: u64, free_inodes: u64 }
}

#[cfg(test)]
mod tests {
    use super::FileType;

    #[test]
    fn modes_have_types() {
        // Of inode(7).
        assert_eq!(FileType::of_mode(0o100_644), Some(FileType::Regular));
        assert_eq!(FileType::of_mode(0o041_777), Some(FileType::Directory));
        assert_eq!(FileType::of_mode(0o644), None);
        for bits in (0..16).map(|bits| bits << 12) {
            assert!(FileType::of_mode(bits).is_none_or(|kind| u32::from(kind.mode_bits()) == bits));
        }
    }
}
