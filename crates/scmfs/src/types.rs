//! The plain data that a volume takes and gives.

use serde::Serialize;

/// An inode number. The root directory is [`ROOT`].
pub type Ino = u32;

/// The root directory's inode number.
pub const ROOT: Ino = 1;

/// Longest name in a directory, in bytes.
pub const NAME_MAX: usize = 255;

/// Nanoseconds since 1970, UTC; negative before.
pub type TimeNs = i64;

/// What kind of object an inode is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum FileType {
    /// A file with bytes.
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

/// What a new inode starts with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Meta {
    /// The kind of object.
    pub kind: FileType,
    /// Permission bits, `0o7777`.
    pub permissions: u16,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number, of devices.
    pub rdev: u32,
}

impl Meta {
    /// A regular file of user and group 0.
    pub fn file(permissions: u16) -> Meta {
        Meta { kind: FileType::Regular, permissions, uid: 0, gid: 0, rdev: 0 }
    }

    /// A directory of user and group 0.
    pub fn directory(permissions: u16) -> Meta {
        Meta { kind: FileType::Directory, ..Meta::file(permissions) }
    }
}

/// An inode's attributes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Attr {
    /// Inode number.
    pub ino: Ino,
    /// Counts the uses of this inode number.
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
    /// Device number, of devices.
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

/// Attributes to change; `None` leaves one as it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits.
    pub permissions: Option<u16>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Size: cuts, or extends with zeros.
    pub size: Option<u64>,
    /// Last read.
    pub atime_ns: Option<TimeNs>,
    /// Last change of the content.
    pub mtime_ns: Option<TimeNs>,
    /// Last change of the attributes; now, if anything else changes and this is `None`.
    pub ctime_ns: Option<TimeNs>,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The name.
    pub name: Vec<u8>,
    /// The inode it names.
    pub ino: Ino,
    /// The kind of object.
    pub kind: FileType,
    /// Pass it to `read_directory` to go on after this entry. Never changes while the entry exists.
    pub cookie: u64,
}

/// How to rename when the new name exists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rename {
    /// Replace what has the new name.
    Replace,
    /// Fail with [`crate::Error::Exists`].
    NoReplace,
    /// Let the two names change places; both must exist.
    Exchange,
}

/// How to set an extended attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SetXattr {
    /// Create or replace.
    Any,
    /// Fail if it exists.
    Create,
    /// Fail if it does not.
    Replace,
}

/// What `allocate` does with a range.
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
}

/// When a file moves from small pages to huge pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Threshold {
    /// When it would grow beyond so many bytes.
    Bytes(u64),
    /// Never.
    Never,
}

/// The sizes a volume is laid out in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Geometry {
    /// A small page in bytes: a power of two, at least 256.
    pub page_bytes: u32,
    /// A huge page in bytes: a power of two, at least 8 small pages.
    pub huge_bytes: u32,
}

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry { page_bytes: 4096, huge_bytes: 2 << 20 }
    }
}

/// What to make of a region.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreateOptions {
    /// Size of the volume in bytes; `None`: the whole region.
    pub bytes: Option<u64>,
    /// How far `resize` may ever grow it; `None`: 16 times its size, as far as page numbers go.
    pub max_bytes: Option<u64>,
    /// Number of inodes; `None`: one for each 16 KiB.
    pub inodes: Option<u32>,
    /// Size of the small-page zone in bytes; `None`: an eighth of the data area. It grows by
    /// whole huge pages when it is full.
    pub small_bytes: Option<u64>,
    /// When files move to huge pages.
    pub threshold: Threshold,
    /// Page sizes.
    pub geometry: Geometry,
    /// A name for the volume, at most 32 bytes.
    pub label: String,
    /// Identifies the volume; `None`: random.
    pub uuid: Option<[u8; 16]>,
    /// The region holds zeros already: do not write them again.
    pub zeroed: bool,
}

impl Default for CreateOptions {
    fn default() -> CreateOptions {
        CreateOptions {
            bytes: None,
            max_bytes: None,
            inodes: None,
            small_bytes: None,
            threshold: Threshold::Bytes(128 << 10),
            geometry: Geometry::default(),
            label: String::new(),
            uuid: None,
            zeroed: false,
        }
    }
}

/// How to open a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenOptions {
    /// Change nothing. A volume that was not closed cleanly is refused.
    pub read_only: bool,
    /// Null files to keep ready.
    pub null_files: u32,
    /// Collect garbage when less than this part of the data area is free, in percent.
    pub low_water_percent: u8,
    /// Run the collector in a thread of its own.
    pub background: bool,
    /// Times come from here instead of the system's clock: they start at this value and grow by 1 ns.
    pub fixed_clock_ns: Option<TimeNs>,
}

impl Default for OpenOptions {
    fn default() -> OpenOptions {
        OpenOptions { read_only: false, null_files: 64, low_water_percent: 5, background: false, fixed_clock_ns: None }
    }
}

/// What the kernel wants to know of a file system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Statfs {
    /// Unit of the next three.
    pub block_bytes: u32,
    /// Blocks of the data area.
    pub blocks: u64,
    /// Blocks that are free; those of null files are.
    pub free_blocks: u64,
    /// Inodes.
    pub inodes: u64,
    /// Inodes not in use.
    pub free_inodes: u64,
}

/// Where the space is. All in bytes unless it says otherwise.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Usage {
    /// The volume.
    pub volume_bytes: u64,
    /// How far it may grow.
    pub max_bytes: u64,
    /// Superblocks, journal, tables.
    pub metadata_bytes: u64,
    /// Huge pages that serve as small-page zone.
    pub small_zone_bytes: u64,
    /// Of it, free.
    pub small_free_bytes: u64,
    /// Huge pages that belong to files.
    pub huge_used_bytes: u64,
    /// Free huge pages.
    pub huge_free_bytes: u64,
    /// Held by null files; counts as used in the zones above, and as free in `statfs`.
    pub null_bytes: u64,
    /// Number of null files.
    pub null_files: u32,
    /// Inodes in use.
    pub inodes_used: u32,
    /// Inodes in all.
    pub inodes: u32,
    /// Fragmented files that have a window of their own now.
    pub windows: u32,
    /// Bytes that the last collections gave back since the volume was opened.
    pub collected_bytes: u64,
    /// Collections since the volume was opened.
    pub collections: u64,
    /// When files move to huge pages.
    pub threshold: Threshold,
    /// What flushed bytes survive on this medium.
    pub persistence: &'static str,
}
