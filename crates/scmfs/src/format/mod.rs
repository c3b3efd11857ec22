//! What lies on the medium, and how: offsets and encodings. Nothing here knows of a volume that is in use.

pub(crate) mod attributes;
pub(crate) mod bytes;
pub(crate) mod chunks;
pub(crate) mod entry;
pub(crate) mod extents;
pub(crate) mod inode;
pub(crate) mod layout;
pub(crate) mod mapping;
pub(crate) mod old;
pub(crate) mod sizes;
pub(crate) mod superblock;
