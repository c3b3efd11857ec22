//! SCMFS volumes for C, and for whatever can call C. `include/scmfs.h` is the interface and its documentation; it is
//! generated from the comments here.
//!
//! This crate only translates: pointers into references, flags into options, errors into numbers and messages. The file
//! system is `pocketstone-scmfs`, and paths are followed by `pocketstone-vfs`.
//!
//! No panic crosses the border: each function catches it and returns `-EIO`. From then on the volume counts as broken
//! (see [`error`]). A program that is compiled with `panic = "abort"` ends instead, which a volume survives like any
//! other death of its process.

#![allow(
    clippy::missing_safety_doc,
    reason = "what callers must keep to is the same for all functions, and stands once, at the top of the header"
)]

pub mod batch;
pub mod directory;
pub mod error;
pub mod file;
pub mod names;
pub mod types;
pub mod version;
pub mod volume;

mod arguments;
