//! The plain data of the interface: flags, options, attributes, entries.

use std::ffi::c_char;

/// scmfs_open(): the file can be read.
pub const SCMFS_READ: u32 = 0x1;
/// scmfs_open(): the file can be changed.
pub const SCMFS_WRITE: u32 = 0x2;
/// scmfs_open(): a missing file is created; requires SCMFS_WRITE.
pub const SCMFS_CREATE: u32 = 0x4;
/// scmfs_open(): the file is created, and it is an error if the name exists; requires SCMFS_WRITE.
pub const SCMFS_CREATE_NEW: u32 = 0x8;
/// scmfs_open(): the file is truncated to no bytes; requires SCMFS_WRITE.
pub const SCMFS_TRUNCATE: u32 = 0x10;
/// scmfs_volume_open(): nothing is changed. A volume that was not closed cleanly is refused.
pub const SCMFS_READ_ONLY: u32 = 0x100;
/// scmfs_volume_open(): a thread of its own collects garbage when space runs low; without, calls that find no space do.
pub const SCMFS_BACKGROUND: u32 = 0x200;
/// scmfs_volume_open(): a declaration that the memory behind the region outlives a loss of power (batteries, say). Not
/// needed for DAX. If it is wrong, a loss of power destroys the volume.
pub const SCMFS_PERSISTENT: u32 = 0x400;
/// scmfs_create_options: an existing file that is not empty, or a device, is overwritten.
pub const SCMFS_OVERWRITE: u32 = 0x1000;
/// scmfs_create_options: every small page of contents has a checksum; reading a damaged one fails with -EIO.
pub const SCMFS_CHECKSUMS: u32 = 0x2000;

/// scmfs_create_options: files never move to huge pages.
pub const SCMFS_THRESHOLD_NEVER: u64 = u64::MAX;
/// scmfs_file_batch: the size is as the writes leave it.
pub const SCMFS_KEEP_SIZE: u64 = u64::MAX;

/// Options of a new volume. All zero bytes are the defaults.
#[repr(C)]
pub struct CreateOptions {
    /// SCMFS_OVERWRITE, SCMFS_CHECKSUMS, or both.
    pub flags: u32,
    /// Inodes to begin with; 0: one for each 16 KiB. More are made on demand.
    pub inodes: u32,
    /// How far the volume may ever be grown, in bytes; 0: 16 times its size.
    pub max_bytes: u64,
    /// Size of the zone of small pages in bytes; 0: an eighth of the space. It grows on demand.
    pub small_bytes: u64,
    /// A file moves to huge pages when it would grow beyond so many bytes; 0: 128 KiB.
    pub threshold_bytes: u64,
    /// A name of at most 32 bytes, UTF-8; NULL: none.
    pub label: *const c_char,
    /// Zero.
    pub reserved: [u64; 4],
}

/// Attributes of a file, directory or symbolic link. Times are nanoseconds since 1970, UTC.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Attributes {
    /// Size in bytes.
    pub size: u64,
    /// Space taken in bytes, preallocated space included.
    pub allocated: u64,
    /// Last read; kept as with the mount option relatime.
    pub atime_ns: i64,
    /// Last change of the contents.
    pub mtime_ns: i64,
    /// Last change of the attributes.
    pub ctime_ns: i64,
    /// Creation.
    pub btime_ns: i64,
    /// Inode number.
    pub inode: u32,
    /// How often this inode number has been used.
    pub generation: u32,
    /// Type and permissions as in st_mode: S_ISDIR(mode) and the like work.
    pub mode: u32,
    /// Hard links.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Device number of a device.
    pub rdev: u32,
    /// Zero.
    pub reserved: u32,
}

/// An entry of a directory.
#[repr(C)]
pub struct Entry {
    /// The name, valid until the directory is closed.
    pub name: *const c_char,
    /// The inode number.
    pub inode: u32,
    /// The type as in st_mode, without permissions.
    pub mode: u32,
}
