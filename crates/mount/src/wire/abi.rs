//! What both sides have agreed on: numbers and layouts of include/uapi/linux/fuse.h, protocol 7.23 to 7.45.
//!
//! Messages are in the machine's own byte order, and every structure is a multiple of eight bytes without hidden
//! padding, the same on machines of 32 bits.

/// The protocol's major version.
pub const MAJOR: u32 = 7;
/// The newest minor version that is spoken here.
pub const MINOR: u32 = 45;
/// The oldest one (Linux 3.15): from it on the structures used here have the size they have now.
pub const OLDEST_MINOR: u32 = 23;

/// `struct fuse_in_header`.
pub const IN_HEADER_BYTES: usize = 40;
/// `struct fuse_write_in`, behind which the data are.
pub const WRITE_IN_BYTES: usize = 40;
/// `struct fuse_out_header`.
pub const OUT_HEADER_BYTES: usize = 16;
/// `struct fuse_entry_out`.
pub const ENTRY_OUT_BYTES: usize = 40 + ATTR_BYTES;
/// `struct fuse_attr`.
pub const ATTR_BYTES: usize = 88;
/// `struct fuse_dirent` without the name.
pub const DIRENT_BYTES: usize = 24;
/// Smallest buffer that the device is read into.
pub const LEAST_READ_BUFFER: usize = 8192;
/// The root directory's number.
pub const ROOT: u64 = 1;

/// Operations: `enum fuse_opcode`.
pub mod opcode {
    #![allow(missing_docs)]
    pub const LOOKUP: u32 = 1;
    pub const FORGET: u32 = 2;
    pub const GETATTR: u32 = 3;
    pub const SETATTR: u32 = 4;
    pub const READLINK: u32 = 5;
    pub const SYMLINK: u32 = 6;
    pub const MKNOD: u32 = 8;
    pub const MKDIR: u32 = 9;
    pub const UNLINK: u32 = 10;
    pub const RMDIR: u32 = 11;
    pub const RENAME: u32 = 12;
    pub const LINK: u32 = 13;
    pub const OPEN: u32 = 14;
    pub const READ: u32 = 15;
    pub const WRITE: u32 = 16;
    pub const STATFS: u32 = 17;
    pub const RELEASE: u32 = 18;
    pub const FSYNC: u32 = 20;
    pub const SETXATTR: u32 = 21;
    pub const GETXATTR: u32 = 22;
    pub const LISTXATTR: u32 = 23;
    pub const REMOVEXATTR: u32 = 24;
    pub const FLUSH: u32 = 25;
    pub const INIT: u32 = 26;
    pub const OPENDIR: u32 = 27;
    pub const READDIR: u32 = 28;
    pub const RELEASEDIR: u32 = 29;
    pub const FSYNCDIR: u32 = 30;
    pub const CREATE: u32 = 35;
    pub const INTERRUPT: u32 = 36;
    pub const DESTROY: u32 = 38;
    pub const IOCTL: u32 = 39;
    pub const BATCH_FORGET: u32 = 42;
    pub const FALLOCATE: u32 = 43;
    pub const READDIRPLUS: u32 = 44;
    pub const RENAME2: u32 = 45;
    pub const LSEEK: u32 = 46;
    pub const COPY_FILE_RANGE: u32 = 47;
    pub const TMPFILE: u32 = 51;
    pub const STATX: u32 = 52;
    pub const COPY_FILE_RANGE_64: u32 = 53;
}

/// Flags of FUSE_INIT; those from bit 32 on travel in `flags2`.
pub mod init {
    #![allow(missing_docs)]
    pub const ASYNC_READ: u64 = 1 << 0;
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const WRITEBACK_CACHE: u64 = 1 << 16;
    pub const NO_OPEN_SUPPORT: u64 = 1 << 17;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const NO_OPENDIR_SUPPORT: u64 = 1 << 24;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const SETXATTR_EXT: u64 = 1 << 29;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// What the kernel is told about a file that was opened.
pub mod fopen {
    #![allow(missing_docs)]
    pub const DIRECT_IO: u32 = 1 << 0;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const CACHE_DIR: u32 = 1 << 3;
    pub const NOFLUSH: u32 = 1 << 5;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
}

/// Which fields of FUSE_SETATTR count.
pub mod fattr {
    #![allow(missing_docs)]
    pub const MODE: u32 = 1 << 0;
    pub const UID: u32 = 1 << 1;
    pub const GID: u32 = 1 << 2;
    pub const SIZE: u32 = 1 << 3;
    pub const ATIME: u32 = 1 << 4;
    pub const MTIME: u32 = 1 << 5;
    pub const FH: u32 = 1 << 6;
    pub const ATIME_NOW: u32 = 1 << 7;
    pub const MTIME_NOW: u32 = 1 << 8;
    pub const CTIME: u32 = 1 << 10;
}

/// FUSE_SETXATTR_ACL_KILL_SGID of the long `struct fuse_setxattr_in`.
pub const SETXATTR_ACL_KILL_SGID: u32 = 1;

/// How a write is meant.
pub mod write {
    #![allow(missing_docs)]
    /// From the page cache, later.
    pub const CACHE: u32 = 1 << 0;
    /// The set-id bits go.
    pub const KILL_SUIDGID: u32 = 1 << 2;
}

/// What the kernel is told unasked: `enum fuse_notify_code`.
pub mod notify {
    #![allow(missing_docs)]
    pub const INVAL_INODE: i32 = 2;
    pub const STORE: i32 = 4;
}

/// Fields of `struct statx`.
pub mod statx {
    #![allow(missing_docs)]
    pub const BASIC_STATS: u32 = 0x7ff;
    pub const BTIME: u32 = 0x800;
    pub const ATTR_IMMUTABLE: u64 = 0x10;
    pub const ATTR_APPEND: u64 = 0x20;
}

/// `FUSE_DEV_IOC_CLONE`: `_IOR(229, 0, uint32_t)`.
pub const DEV_IOC_MAGIC: u8 = 229;

/// Takes fields off the front of a message; `None` once there is too little left.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'a>(pub &'a [u8]);

impl<'a> Fields<'a> {
    /// So many bytes.
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.bytes(N)?.try_into().ok()
    }

    /// A number of 32 bits.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_ne_bytes)
    }

    /// A number of 64 bits.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_ne_bytes)
    }

    /// A name up to its zero byte, which is taken, too.
    pub fn name(&mut self) -> Option<&'a [u8]> {
        let end = self.0.iter().position(|&byte| byte == 0)?;
        let name = self.bytes(end)?;
        self.bytes(1)?;
        Some(name)
    }
}

#[cfg(test)]
mod tests {
    use super::Fields;

    #[test]
    fn fields_are_taken_in_order_and_never_from_beyond_the_end() {
        let mut message = Vec::new();
        message.extend(0x0102_0304_u32.to_ne_bytes());
        message.extend(5_u64.to_ne_bytes());
        message.extend(b"name\0more");
        let mut fields = Fields(&message);
        assert_eq!((fields.u32(), fields.u64(), fields.name()), (Some(0x0102_0304), Some(5), Some(&b"name"[..])));
        assert_eq!(fields.name(), None, "no zero byte");
        assert_eq!((fields.u64(), fields.u32()), (None, Some(u32::from_ne_bytes(*b"more"))));
        assert_eq!((fields.u32(), fields.bytes(0)), (None, Some(&b""[..])));
    }
}
