//! SCMFS: a file system for storage class memory, in user space.
//!
//! A volume lies in a region of byte-addressable memory. Every file is contiguous there, or made of huge
//! pages, so that a read or write is one copy. Metadata is changed by transactions or by versions with
//! checksums: after a crash at any store, every operation has happened or has not.
//! `docs/scmfs-format.md` draws the layout, `docs/scmfs.md` says what is promised.

mod alloc;
mod body;
mod bytes;
mod check;
mod clock;
mod collector;
mod content;
#[cfg(feature = "defects")]
pub mod defects;
#[cfg(not(feature = "defects"))]
mod defects;
mod directory;
mod dump;
mod file;
mod inode;
mod journal;
mod layout;
mod mapping;
mod namespace;
mod node;
mod persist;
mod recovery;
mod rename;
mod repair;
mod space;
mod superblock;
mod types;
mod unlink;
mod view;
mod volume;
mod xattr;

pub use check::{Finding, Report, check};
pub use dump::{Dump, dump};
pub use pocketstone_core::inode::{Damage, Error, Result};

pub use file::File;
pub use superblock::FORMAT_VERSION;
pub use types::*;
pub use view::View;
pub use volume::Volume;
