//! Types shared by user-space file systems and their callers: inodes, attributes, names, access control lists, errors.
//!
//! This crate does no I/O and is platform-independent.
//!
#![doc = include_str!("../README.md")]

mod acl;
mod causes;
mod error;
mod held;
mod inode;
mod medium_error;
mod operations;
pub mod path;
mod setters;
mod shown;
mod staging;

pub use acl::{ACL_ACCESS, ACL_DEFAULT, Acl};
pub use causes::{causes, chain};
pub use error::{Damage, Error, Result};
pub use held::Held;
pub use inode::{
    Allocate, Attr, Entry, FileType, Ino, Meta, NAME_MAX, Protection, ROOT, Rename, SetAttr, SetXattr, Statfs, TimeNs,
};
pub use medium_error::{Context, MediumError, MediumErrorKind, Source};
pub use operations::Operations;
pub use path::{FileSystem, OpenOptions};
pub use shown::shown;
pub use staging::{Original, Staging};
