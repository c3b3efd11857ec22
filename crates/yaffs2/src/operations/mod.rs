//! What a volume does for its users: each operation is a function of the files.

pub mod file;
pub mod names;
pub mod unlink;
pub mod xattr;
