//! Operations on a volume, as data: to be executed on the model and on a volume, shrunk and printed.

use super::errno::Errno;
use super::model::Node;
use pocketstone_scmfs::{Allocate, FileType, Rename, SetXattr};
use std::fmt;

/// The file that an operation on content is for.
#[derive(Clone, PartialEq, Eq)]
pub enum Target {
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
    /// Size through `set_attributes`.
    SetSize(String, u64),
    /// Path, name, bytes, fill.
    SetXattr(String, String, u64, u8, SetXattr),
    GetXattr(String, String),
    ListXattrs(String),
    RemoveXattr(String, String),
    List(String),
    SyncFile(Target),
    Sync,
    Collect,
    Resize(u64),
}

/// What an operation gave.
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
