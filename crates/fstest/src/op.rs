//! Operations as data: to be executed on the model, on a volume and by the kernel, shrunk and printed.

use crate::errno::Errno;
use pocketstone_vfs::{Allocate, FileType, Rename, SetXattr};
use std::fmt;

/// The file that an operation on content is for.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
    /// By its name.
    Path(String),
    /// An open file.
    Slot(u8),
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Target::Path(path) => write!(f, "{path}"),
            Target::Slot(slot) => write!(f, "#{slot}"),
        }
    }
}

impl From<&str> for Target {
    fn from(path: &str) -> Target {
        Target::Path(path.into())
    }
}

/// What a batch of writes does to one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BatchPart {
    /// The file.
    pub path: String,
    /// Offset, bytes, fill; where they overlap, the last one counts.
    pub writes: Vec<(u64, u64, u8)>,
    /// The size after it; `None`: as the writes leave it.
    pub size: Option<u64>,
}

impl BatchPart {
    /// Whether a write goes beyond the size that is to be.
    pub fn is_too_small(&self) -> bool {
        let ends = self.writes.iter().map(|(offset, bytes, _)| offset + bytes);
        self.size.is_some_and(|size| ends.max().is_some_and(|end| size < end))
    }
}

/// An operation: what Linux has a call for, and a few that file systems have besides.
#[allow(missing_docs, reason = "the manual pages say it")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    /// Path, kind, permissions, and the slot that keeps it open.
    Create(String, FileType, u16, Option<u8>),
    Mkdir(String, u16),
    /// Path, target.
    Symlink(String, String),
    /// Existing path, new path.
    Link(String, String),
    Unlink(String),
    Rmdir(String),
    Rename(String, String, Rename),
    Open(u8, String),
    Close(u8),
    /// An unnamed file in a slot.
    Temporary(u8),
    /// A name for the unnamed file in a slot.
    LinkSlot(u8, String),
    /// Offset, bytes, fill.
    Write(Target, u64, u64, u8),
    WriteAtomic(Target, u64, u64, u8),
    /// All or nothing.
    WriteBatch(Vec<BatchPart>),
    /// Bytes, fill.
    Append(Target, u64, u8),
    Truncate(Target, u64),
    Allocate(Target, Allocate, u64, u64),
    Read(Target, u64, u64),
    View(Target),
    Stat(String),
    ReadLink(String),
    Chmod(String, u16),
    Chown(String, u32, u32),
    /// Path, last read and last change of the content in seconds.
    Times(String, i64, i64),
    /// Size through `set_attributes`.
    SetSize(String, u64),
    /// Path, name, bytes, fill.
    SetXattr(String, String, u64, u8, SetXattr),
    GetXattr(String, String),
    ListXattrs(String),
    RemoveXattr(String, String),
    /// Path, whether it is the default, and the list: see `acl::value`.
    SetAcl(String, bool, u16, u16),
    List(String),
    SyncFile(Target),
    Sync,
    /// What a volume does when nobody wants anything: nothing changes.
    Background,
    Resize(u64),
}

impl Op {
    /// The file whose content an operation is for.
    pub fn file(&self) -> Option<&Target> {
        match self {
            Op::Write(target, ..)
            | Op::WriteAtomic(target, ..)
            | Op::Append(target, ..)
            | Op::Truncate(target, _)
            | Op::Allocate(target, ..)
            | Op::Read(target, ..)
            | Op::View(target)
            | Op::SyncFile(target) => Some(target),
            _ => None,
        }
    }
}

/// What attributes an operation returns, without what depends on the implementation.
#[allow(missing_docs, reason = "the manual pages say it")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub kind: FileType,
    pub permissions: u16,
    pub uid: u32,
    pub gid: u32,
    pub links: u32,
    /// 0 for all but files and symbolic links.
    pub size: u64,
}

/// What an operation gave.
#[allow(missing_docs, reason = "what an operation gives")]
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// The attributes that do not depend on the implementation.
    Node(Node),
    Bytes(Vec<u8>),
    Number(u64),
    Names(Vec<Vec<u8>>),
    Failed(Errno),
    /// An operation that makes no sense here, and was not executed: reading a pipe, an empty slot.
    Skipped,
}

impl fmt::Debug for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done => write!(f, "done"),
            Outcome::Node(node) => write!(f, "{node:?}"),
            Outcome::Bytes(bytes) => write!(f, "{} bytes {:02x?}", bytes.len(), &bytes[..bytes.len().min(16)]),
            Outcome::Number(number) => write!(f, "{number}"),
            Outcome::Names(names) => {
                f.debug_list().entries(names.iter().map(|name| String::from_utf8_lossy(name))).finish()
            }
            Outcome::Failed(errno) => write!(f, "{errno:?}"),
            Outcome::Skipped => write!(f, "skipped"),
        }
    }
}
