//! SCMFS: a file system for storage class memory, in user space.
//!
//! A volume occupies a region of byte-addressable memory. Files are contiguous or consist of huge pages, so that a read
//! or write is one copy. Metadata changes through transactions or checksummed versions: after a crash at any store,
//! every operation has either happened or not. `docs/scmfs-format.md` documents the format, `docs/scmfs.md` the
//! guarantees.
//!
//! ```
//! use pocketstone_media::{Pcm, PcmOptions};
//! use pocketstone_scmfs::{CreateOptions, Meta, OpenOptions, Operations, ROOT, Volume, check};
//!
//! # fn main() -> pocketstone_scmfs::Result<()> {
//! // Any region does: a file in /dev/shm, a DAX device, or simulated memory that takes no time.
//! let (memory, _) = Pcm::new(64 << 20, &PcmOptions::default().read_ns(0).write_ns(0));
//! Volume::create(Box::new(memory.region()?), &CreateOptions::default())?;
//! let volume = Volume::open(Box::new(memory.region()?), &OpenOptions::default())?;
//! let directory = volume.create_directory(ROOT, b"d", &Meta::directory(0o755))?;
//! let file = volume.create_file(directory.ino, b"f", &Meta::file(0o644))?;
//! file.write_at(b"durable when this returns", 0)?;
//! assert_eq!(&file.view()?[..7], b"durable");
//! drop(file);
//! volume.close()?;
//!
//! let volume = Volume::open(Box::new(memory.region()?), &OpenOptions::default())?;
//! let mut bytes = [0; 7];
//! volume.open(volume.resolve("/d/f")?)?.read_at(&mut bytes, 0)?;
//! assert_eq!(&bytes, b"durable");
//! volume.close()?;
//! assert!(check(Box::new(memory.region()?))?.findings.is_empty());
//! # Ok(())
//! # }
//! ```
//!
//! It is layered. Each module uses only those above it in this table:
//!
//! | Module | For |
//! | --- | --- |
//! | `format` | what lies on the medium: offsets and encodings |
//! | `store` | the medium of an open volume: the journal, the superblock, flushes and fences |
//! | `space` | what nobody has: pages, huge pages, inodes, null files; it says when there is none, and makes none |
//! | `inodes` | inodes in memory, each with its lock; where the bytes of a file lie; names by their hashes |
//! | `parts` | an open volume: the three above, and the order in which their locks are taken |
//! | `contents` | what files hold, and giving them another place; checksums |
//! | `reclaim` | making space: collecting, moving out of the way, putting files together; taking space with all that |
//! | `operations` | what can be done to files and directories, each thing whole or not at all after a crash |
//! | `recovery` | making, opening, recovering and closing a volume |
//! | `collector`, `scrub`, `checkpoint` | what is done in the background |
//! | `volume` | a volume, its files and views, as users see them |
//! | `path` | a volume's files by their paths |
//! | `check`, `repair`, `upgrade`, `dump` | fsck, conversion, and what people look at |
//!
//! `Store`, `Space` and `Inodes` hold the state, each with its own locks; the other modules are functions on them.
//!
#![doc = include_str!("../README.md")]

mod check;
pub mod checkpoint;
mod collector;
mod contents;
#[cfg(feature = "defects")]
pub mod defects;
#[cfg(not(feature = "defects"))]
mod defects;
mod dump;
mod format;
mod inodes;
mod operations;
mod parts;
mod path;
mod reclaim;
mod recovery;
mod repair;
mod scrub;
mod space;
mod store;
mod types;
mod upgrade;
mod volume;

pub use check::{Finding, FindingKind, Report, check, volume_bytes};
pub use dump::{Dump, dump, shown_label};
pub use pocketstone_vfs as vfs;
pub use pocketstone_vfs::{Damage, Error, FileSystem, Operations, Result};
pub use repair::repair;

pub use format::superblock::FORMAT_VERSION;
pub use scrub::{DamageOf, ScrubDamage, ScrubProgress, ScrubReport, ScrubState};
pub use types::*;
pub use upgrade::{Upgraded, upgrade};
pub use volume::{File, FileBatch, InPlace, View, Volume};
