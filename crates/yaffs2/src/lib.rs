//! YAFFS2: a log-structured file system for raw NAND flash, in user space.
//!
//! Every page of the chip carries tags that say whose it is; a mount reads them, or a checkpoint of what they
//! said. `docs/yaffs2-format.md` draws the format, `docs/yaffs2.md` says what is promised.

mod blocks;
mod cache;
mod check;
mod checkpoint;
mod chip;
mod collect;
mod details;
mod dump;
mod extents;
mod file;
mod header;
mod headers;
mod image;
mod log;
mod map;
mod mend;
mod names;
mod objects;
mod options;
mod scan;
mod summary;
mod tags;
mod unlink;
mod volume;
mod xattr;

pub use check::{Finding, Kinds, Report, Severity, check};
pub use dump::{DumpOptions, dump, has_checkpoint};
pub use image::{ImageForm, ImageMeta, ImageWriter};
pub use objects::LARGEST_OBJECT;
pub use options::Options;
pub use volume::{MountedBy, Usage, Volume, format};
