//! What the kernel asks.

use super::abi::{Fields, IN_HEADER_BYTES, SETXATTR_ACL_KILL_SGID, fattr, opcode};

/// Who asks, about what: `struct fuse_in_header`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Request {
    /// The question's number, for the answer.
    pub unique: u64,
    /// The inode it is about.
    pub node: u64,
    pub uid: u32,
    pub gid: u32,
    pub pid: u32,
}

/// A time: seconds since 1970, and nanoseconds to add.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Time {
    pub seconds: i64,
    pub nanoseconds: u32,
}

/// A time to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SetTime {
    Now,
    To(Time),
}

/// Attributes to change.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SetAttributes {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<SetTime>,
    pub mtime: Option<SetTime>,
    pub ctime: Option<Time>,
    /// They come with an open file.
    pub of_file: bool,
}

/// A part of an open file or directory to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Part {
    pub handle: u64,
    pub offset: u64,
    pub size: u32,
    /// The flags that open(2) had, or fcntl(2) set since.
    pub flags: u32,
}

/// What is to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Write<'a> {
    pub handle: u64,
    pub offset: u64,
    /// [`super::abi::write`].
    pub how: u32,
    /// The flags that open(2) had, or fcntl(2) set since.
    pub flags: u32,
    pub data: &'a [u8],
}

/// An extended attribute to set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SetXattr<'a> {
    pub name: &'a [u8],
    pub value: &'a [u8],
    /// Those of setxattr(2).
    pub flags: u32,
    /// Whether the set-group-id bit goes with a list of access rights; `None` where the kernel does not say.
    pub kills_group_id: Option<bool>,
}

/// A range to reserve, free or zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Fallocate {
    pub handle: u64,
    pub offset: u64,
    pub bytes: u64,
    pub mode: u32,
}

/// A part of one file to copy into another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Copy {
    pub from: u64,
    /// The inode that `to` is of; `from` is of the one that the request is about.
    pub to_node: u64,
    pub from_offset: u64,
    pub to: u64,
    pub to_offset: u64,
    pub bytes: u64,
}

/// A question by ioctl(2), of a size that its number tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ioctl<'a> {
    pub handle: u64,
    pub command: u32,
    pub data: &'a [u8],
    /// Most that may be answered, in bytes.
    pub room: u32,
}

/// The kernel's rules for a mount, as it offers them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Init {
    pub major: u32,
    pub minor: u32,
    pub max_readahead: u32,
    /// [`super::abi::init`].
    pub flags: u64,
}

/// The names of the kernel's own enumeration.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    Forget {
        lookups: u64,
    },
    BatchForget(Forgotten<'a>),
    Getattr,
    Statx,
    Setattr(SetAttributes),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        name: &'a [u8],
        mode: u32,
        rdev: u32,
        umask: u32,
    },
    Mkdir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        to: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    Link {
        node: u64,
        name: &'a [u8],
    },
    Open {
        flags: u32,
    },
    Create {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Tmpfile {
        mode: u32,
        umask: u32,
        flags: u32,
    },
    Read(Part),
    Write(Write<'a>),
    Statfs,
    Flush {
        handle: u64,
    },
    Release {
        handle: u64,
    },
    Fsync {
        handle: u64,
    },
    Setxattr(SetXattr<'a>),
    Getxattr {
        name: &'a [u8],
        size: u32,
    },
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a [u8],
    },
    Opendir,
    Readdir(Part),
    Readdirplus(Part),
    Releasedir {
        handle: u64,
    },
    Fsyncdir,
    Fallocate(Fallocate),
    Lseek {
        handle: u64,
        offset: u64,
        whence: u32,
    },
    CopyFileRange {
        copy: Copy,
        wide: bool,
    },
    Ioctl(Ioctl<'a>),
    Init(Init),
    Interrupt,
    Destroy,
    /// One that is not answered here.
    Other,
}

/// What the kernel has forgotten, and how many lookups it gives back for each.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Forgotten<'a>(&'a [u8]);

impl Iterator for Forgotten<'_> {
    type Item = (u64, u64);

    fn next(&mut self) -> Option<(u64, u64)> {
        let mut fields = Fields(self.0);
        let one = (fields.u64()?, fields.u64()?);
        self.0 = fields.0;
        Some(one)
    }
}

/// A message that is not as the protocol has it; with the number to refuse it by, if that can be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed(pub Option<u64>);

/// Reads a message. `long_xattrs`: FUSE_SETXATTR_EXT was agreed on.
pub(crate) fn parse(message: &[u8], long_xattrs: bool) -> Result<(Request, Operation<'_>), Malformed> {
    let (header, code, body) = header(message).ok_or(Malformed(None))?;
    let operation = operation(code, Fields(body), long_xattrs).ok_or(Malformed(Some(header.unique)))?;
    Ok((header, operation))
}

fn header(message: &[u8]) -> Option<(Request, u32, &[u8])> {
    let mut fields = Fields(message);
    let (length, code, unique, node) = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?);
    let (uid, gid, pid) = (fields.u32()?, fields.u32()?, fields.u32()?);
    let body = message.get(IN_HEADER_BYTES..usize::try_from(length).ok()?)?;
    Some((Request { unique, node, uid, gid, pid }, code, body))
}

fn operation(code: u32, mut fields: Fields<'_>, long_xattrs: bool) -> Option<Operation<'_>> {
    let f = &mut fields;
    Some(match code {
        opcode::LOOKUP => Operation::Lookup { name: f.name()? },
        opcode::FORGET => Operation::Forget { lookups: f.u64()? },
        opcode::BATCH_FORGET => {
            let (count, _) = (f.u32()?, f.u32()?);
            Operation::BatchForget(Forgotten(f.bytes(usize::try_from(count).ok()?.checked_mul(16)?)?))
        }
        opcode::GETATTR => Operation::Getattr,
        opcode::STATX => Operation::Statx,
        opcode::SETATTR => Operation::Setattr(set_attributes(f)?),
        opcode::READLINK => Operation::Readlink,
        opcode::SYMLINK => Operation::Symlink { name: f.name()?, target: f.name()? },
        opcode::MKNOD => {
            let (mode, rdev, umask, _) = (f.u32()?, f.u32()?, f.u32()?, f.u32()?);
            Operation::Mknod { name: f.name()?, mode, rdev, umask }
        }
        opcode::MKDIR => {
            let (mode, umask) = (f.u32()?, f.u32()?);
            Operation::Mkdir { name: f.name()?, mode, umask }
        }
        opcode::UNLINK => Operation::Unlink { name: f.name()? },
        opcode::RMDIR => Operation::Rmdir { name: f.name()? },
        opcode::RENAME => {
            let to = f.u64()?;
            Operation::Rename { name: f.name()?, to, new_name: f.name()?, flags: 0 }
        }
        opcode::RENAME2 => {
            let (to, flags, _) = (f.u64()?, f.u32()?, f.u32()?);
            Operation::Rename { name: f.name()?, to, new_name: f.name()?, flags }
        }
        opcode::LINK => Operation::Link { node: f.u64()?, name: f.name()? },
        opcode::OPEN => Operation::Open { flags: f.u32()? },
        opcode::CREATE | opcode::TMPFILE => {
            let (flags, mode, umask, _) = (f.u32()?, f.u32()?, f.u32()?, f.u32()?);
            match code {
                opcode::CREATE => Operation::Create { name: f.name()?, mode, umask },
                // The kernel sends a name that says nothing.
                _ => Operation::Tmpfile { mode, umask, flags },
            }
        }
        opcode::READ => Operation::Read(part(f)?),
        opcode::READDIR => Operation::Readdir(part(f)?),
        opcode::READDIRPLUS => Operation::Readdirplus(part(f)?),
        opcode::WRITE => Operation::Write(write(f)?),
        opcode::STATFS => Operation::Statfs,
        opcode::FLUSH => Operation::Flush { handle: f.u64()? },
        opcode::RELEASE => Operation::Release { handle: f.u64()? },
        opcode::RELEASEDIR => Operation::Releasedir { handle: f.u64()? },
        opcode::FSYNC => Operation::Fsync { handle: f.u64()? },
        opcode::FSYNCDIR => Operation::Fsyncdir,
        opcode::SETXATTR => {
            let (size, flags) = (f.u32()?, f.u32()?);
            let more = if long_xattrs { Some((f.u32()?, f.u32()?)) } else { None };
            let kills_group_id = more.map(|(flags, _)| flags & SETXATTR_ACL_KILL_SGID != 0);
            let name = f.name()?;
            Operation::Setxattr(SetXattr { name, value: f.bytes(usize::try_from(size).ok()?)?, flags, kills_group_id })
        }
        opcode::GETXATTR => {
            let (size, _) = (f.u32()?, f.u32()?);
            Operation::Getxattr { name: f.name()?, size }
        }
        opcode::LISTXATTR => Operation::Listxattr { size: f.u32()? },
        opcode::REMOVEXATTR => Operation::Removexattr { name: f.name()? },
        opcode::OPENDIR => Operation::Opendir,
        opcode::FALLOCATE => {
            let (handle, offset, bytes) = (f.u64()?, f.u64()?, f.u64()?);
            Operation::Fallocate(Fallocate { handle, offset, bytes, mode: f.u32()? })
        }
        opcode::LSEEK => Operation::Lseek { handle: f.u64()?, offset: f.u64()?, whence: f.u32()? },
        opcode::COPY_FILE_RANGE | opcode::COPY_FILE_RANGE_64 => {
            let (from, from_offset, to_node) = (f.u64()?, f.u64()?, f.u64()?);
            let copy = Copy { from, from_offset, to_node, to: f.u64()?, to_offset: f.u64()?, bytes: f.u64()? };
            Operation::CopyFileRange { copy, wide: code == opcode::COPY_FILE_RANGE_64 }
        }
        opcode::IOCTL => {
            let (handle, _flags, command, _) = (f.u64()?, f.u32()?, f.u32()?, f.u64()?);
            let (size, room) = (f.u32()?, f.u32()?);
            Operation::Ioctl(Ioctl { handle, command, data: f.bytes(usize::try_from(size).ok()?)?, room })
        }
        opcode::INIT => Operation::Init(init(f)?),
        opcode::INTERRUPT => Operation::Interrupt,
        opcode::DESTROY => Operation::Destroy,
        _ => Operation::Other,
    })
}

fn part(f: &mut Fields<'_>) -> Option<Part> {
    let (handle, offset, size) = (f.u64()?, f.u64()?, f.u32()?);
    // What of locks, and their owner.
    let _ = (f.u32()?, f.u64()?);
    Some(Part { handle, offset, size, flags: f.u32()? })
}

fn write<'a>(f: &mut Fields<'a>) -> Option<Write<'a>> {
    let (handle, offset, size, how) = (f.u64()?, f.u64()?, f.u32()?, f.u32()?);
    let (_lock_owner, flags, _) = (f.u64()?, f.u32()?, f.u32()?);
    Some(Write { handle, offset, how, flags, data: f.bytes(usize::try_from(size).ok()?)? })
}

fn set_attributes(f: &mut Fields<'_>) -> Option<SetAttributes> {
    let (valid, _, _handle, size, _lock_owner) = (f.u32()?, f.u32()?, f.u64()?, f.u64()?, f.u64()?);
    let [atime, mtime, ctime] = [f.u64()?, f.u64()?, f.u64()?];
    let [atime_ns, mtime_ns, ctime_ns] = [f.u32()?, f.u32()?, f.u32()?];
    let (mode, _, uid, gid) = (f.u32()?, f.u32()?, f.u32()?, f.u32()?);
    let has = |bit: u32| valid & bit != 0;
    let at = |seconds: u64, nanoseconds: u32| Time { seconds: seconds as i64, nanoseconds };
    let set = |given: u32, now: u32, time: Time| {
        has(given).then_some(if has(now) { SetTime::Now } else { SetTime::To(time) })
    };
    Some(SetAttributes {
        mode: has(fattr::MODE).then_some(mode),
        uid: has(fattr::UID).then_some(uid),
        gid: has(fattr::GID).then_some(gid),
        size: has(fattr::SIZE).then_some(size),
        atime: set(fattr::ATIME, fattr::ATIME_NOW, at(atime, atime_ns)),
        mtime: set(fattr::MTIME, fattr::MTIME_NOW, at(mtime, mtime_ns)),
        ctime: has(fattr::CTIME).then_some(at(ctime, ctime_ns)),
        of_file: has(fattr::FH),
    })
}

fn init(f: &mut Fields<'_>) -> Option<Init> {
    let (major, minor) = (f.u32()?, f.u32()?);
    // A kernel with another major version may say no more.
    let (max_readahead, low) = (f.u32().unwrap_or(0), f.u32().unwrap_or(0));
    let extended = u64::from(low) & super::abi::init::INIT_EXT != 0;
    let high = if extended { f.u32()? } else { 0 };
    Some(Init { major, minor, max_readahead, flags: u64::from(low) | u64::from(high) << 32 })
}
