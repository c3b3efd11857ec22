//! What protects an inode from everybody: append-only and immutable, as chattr(1) sets them. What each refuses is
//! what Linux's VFS and ext4 refuse.

use crate::format::inode::Record;
use crate::inodes::live;
use crate::parts::Parts;
use crate::{Allocate, Error, FileType, Ino, Protection, Result, SetAttr};
use pocketstone_media::Durable;

/// The protection of an inode.
pub(crate) fn protection(parts: &Parts, ino: Ino) -> Result<Protection> {
    let node = parts.node(ino)?;
    let state = node.read();
    live(&state.record)?;
    Ok(Protection { append_only: state.record.append_only, immutable: state.record.immutable })
}

/// Sets the protection of a file or directory.
pub(crate) fn protect(parts: &Parts, ino: Ino, how: Protection) -> Result<()> {
    let node = parts.node(ino)?;
    let mut state = node.exclusive(&parts.store)?;
    live(&state.record)?;
    if !matches!(state.record.kind(), FileType::Regular | FileType::Directory) {
        return Err(Error::NotSupported);
    }
    (state.record.append_only, state.record.immutable) = (how.append_only, how.immutable);
    state.record.ctime_ns = parts.store.now();
    parts.store_version(ino, &mut state, Durable::nothing_new()).done();
    Ok(())
}

fn unless(refused: bool) -> Result<()> {
    if refused { Err(Error::NotPermitted) } else { Ok(()) }
}

impl Record {
    pub fn is_protected(&self) -> bool {
        self.append_only || self.immutable
    }

    /// Refuses what neither an append-only inode nor an immutable one allows.
    pub fn must_be_free_to_change(&self) -> Result<()> {
        unless(self.is_protected())
    }

    /// Refuses what only an append-only inode allows: something new at a file's end or in a directory.
    pub fn must_take_more(&self) -> Result<()> {
        unless(self.immutable)
    }

    pub fn must_allow_attributes(&self, change: &SetAttr) -> Result<()> {
        unless(self.immutable || self.append_only && !change.implied)
    }

    pub fn must_allow_write(&self, offset: u64) -> Result<()> {
        unless(self.immutable || self.append_only && offset < self.size)
    }

    pub fn must_allow_space(&self, how: Allocate) -> Result<()> {
        match how {
            Allocate::Extend | Allocate::KeepSize => self.must_take_more(),
            Allocate::PunchHole | Allocate::Zero | Allocate::ZeroKeepSize | Allocate::Collapse | Allocate::Insert => {
                self.must_be_free_to_change()
            }
        }
    }
}
