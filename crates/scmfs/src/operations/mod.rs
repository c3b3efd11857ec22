//! What can be done to files and directories, each thing whole or not at all after a crash.

pub(crate) mod acl;
pub(crate) mod allocate;
pub(crate) mod atomic;
pub(crate) mod attributes;
pub(crate) mod batch;
pub(crate) mod create;
pub(crate) mod directory;
pub(crate) mod names;
pub(crate) mod protection;
pub(crate) mod rename;
mod reserve;
mod shift;
pub(crate) mod tail;
mod unlink;
pub(crate) mod usage;
pub(crate) mod write;
pub(crate) mod xattr;
