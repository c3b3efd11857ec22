//! YAFFS2: a log-structured file system for raw NAND flash, in user space.
//!
//! Every page of the chip has tags that identify its contents; a mount reads the tags, or a checkpoint of the resulting
//! state. `docs/yaffs2-format.md` documents the format, `docs/yaffs2.md` the guarantees.
//!
//! Inside it has layers, each of which uses only those before it: `log` (the chip, tags of pages, blocks, where the
//! next page is written), `tree` (objects, headers, names, where chunks are), `checkpoint`, `files` (contents, the
//! cache, garbage collection), `operations`, `mount` (scanning, putting in order what a loss of power left), and
//! [`Volume`], which offers all of it. Beside them stand [`check`], [`dump`] and the writer of images.
//!
#![doc = include_str!("../README.md")]

mod bytes;
mod check;
mod checkpoint;
mod dump;
mod files;
mod image;
mod log;
mod mount;
mod mounted;
mod operations;
mod options;
mod tree;
mod volume;

pub use check::{Finding, Kinds, Report, Severity, check};
pub use dump::{DumpOptions, dump, has_checkpoint};
pub use image::{ImageForm, ImageMeta, ImageWriter};
pub use mount::{MountedBy, byte_order};
pub use mounted::{Missing, Usage};
pub use options::{ByteOrder, OpenOptions};
pub use pocketstone_vfs as vfs;
pub use pocketstone_vfs::{
    Attr, Damage, Entry, Error, FileSystem, FileType, Ino, Meta, NAME_MAX, Operations, ROOT, Rename, Result, SetAttr,
    SetXattr, Statfs, TimeNs,
};
pub use tree::objects::LARGEST_OBJECT;
pub use volume::{File, Volume};
