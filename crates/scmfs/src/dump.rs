//! A human-readable dump of a volume.

use crate::format::bytes::get_u64;
use crate::format::chunks;
use crate::format::entry::{Slot, decode};
use crate::format::inode::{self, Half};
use crate::format::layout::SLOT_BYTES;
use crate::format::mapping::Mapping;
use crate::format::superblock::Superblock;
use crate::inodes::Body;
use crate::store::{self, Item};
use crate::{Error, Ino, Result};
use pocketstone_media::{Medium, Region};
use std::fmt::Write;

/// What to dump.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dump {
    /// The current superblock.
    Superblock,
    /// The newest record of the journal.
    Journal,
    /// The huge pages and their owners.
    Mapping,
    /// Both versions of an inode.
    Inode(Ino),
    /// The slots of a directory.
    Directory(Ino),
}

/// Dumps part of a possibly damaged volume without changing it.
///
/// # Errors
/// `Medium` if there is no superblock; `NotFound` or `NotDirectory` if there is no such inode or directory.
pub fn dump(region: Box<dyn Region>, what: &Dump) -> Result<String> {
    let medium = Medium::new(region);
    let (superblock, faults) = Superblock::read(&medium)?;
    let mut text = String::new();
    let write = |text: &mut String, line: String| {
        let _ = writeln!(text, "{line}");
    };
    let layout = superblock.layout.clone();
    let segments = layout.segments(superblock.bytes);
    chunks::find(&layout, segments, false, |segment| Mapping::load(&medium, &layout, segment))?;
    match what {
        Dump::Superblock => {
            write(&mut text, format!("{superblock:#?}"));
            for fault in faults {
                write(&mut text, format!("the other copy: {fault}"));
            }
        }
        Dump::Journal => match store::find(&medium, &layout, &superblock.uuid) {
            None => write(&mut text, "no valid record".into()),
            Some((position, record)) => {
                let sequence = get_u64(&record, 8);
                write(&mut text, format!("newest record: {sequence} at {position}, {} bytes", record.len()));
                for item in store::items(&record).flatten() {
                    let line = match item {
                        Item::Bytes(at, bytes) => format!("  store {} bytes at {at}", bytes.len()),
                        Item::Mapping(at, entry) => {
                            format!("  store {} bytes at {at} and in the second table", entry.len())
                        }
                        Item::Zero(at, bytes) => format!("  zero {bytes} bytes at {at}"),
                    };
                    write(&mut text, line);
                }
            }
        },
        Dump::Mapping => {
            for segment in 0..segments {
                let line = match Mapping::load(&medium, &layout, segment) {
                    Ok(Mapping::Free) => continue,
                    Ok(Mapping::SmallZone) => "small-page zone".to_string(),
                    Ok(Mapping::Inodes { index }) => format!("inode table, part {index}"),
                    Ok(Mapping::File { owner, index, generation }) => {
                        format!("inode {owner}, page {index}, generation {generation}")
                    }
                    Err(error) => error.to_string(),
                };
                write(&mut text, format!("{segment} at {}: {line}", layout.segment_at(segment)));
            }
        }
        Dump::Inode(ino) => {
            let halves = halves(&medium, &superblock, *ino)?;
            for (half, name) in halves.iter().zip(["even", "odd"]) {
                let line = match half {
                    Half::Virgin => "never written".to_string(),
                    Half::Torn => "a wrong checksum".to_string(),
                    Half::Valid(sequence, record) => format!("version {sequence}: {record:#?}"),
                };
                write(&mut text, format!("{name} half: {line}"));
            }
        }
        Dump::Directory(ino) => {
            let (_, record) = inode::newest(halves(&medium, &superblock, *ino)?).ok_or(Error::NotFound)?;
            if !record.is_directory() {
                return Err(Error::NotDirectory);
            }
            let mut extents = Vec::new();
            for segment in 0..segments {
                if let Ok(Mapping::File { owner, index, .. }) = Mapping::load(&medium, &layout, segment) {
                    if owner == *ino {
                        extents.push((index, segment));
                    }
                }
            }
            extents.sort_unstable();
            if record.nonsense(&layout, segments).is_some() {
                return Err(Error::damaged(layout.version_at(*ino, 0), "a directory with impossible values"));
            }
            let mut body = Body::new(&layout, &record, extents);
            let read = |at: u64, into: &mut [u8]| medium.read(at, into);
            let list = inode::load_list(&layout, *ino, &record, segments, read)?;
            body.set(body.run(), body.extents().to_vec(), list);
            let mut slot = 0;
            while u64::from(slot) * SLOT_BYTES < record.size {
                let offset = u64::from(slot) * SLOT_BYTES;
                let (Some(at), _) = body.locate(offset) else { break };
                let mut b = [0; 5 * SLOT_BYTES as usize];
                let left = layout.huge - offset % layout.huge;
                let bytes = left.min(record.size - offset).min(b.len() as u64) as usize;
                body.spans(offset, offset + bytes as u64, |at, part| {
                    if let Some(at) = at {
                        medium.read(at, &mut b[part]);
                    }
                });
                match decode(*ino, slot, &b[..bytes]) {
                    Some(Slot::Free) => slot += 1,
                    Some(Slot::Entry(entry, slots)) => {
                        let name = String::from_utf8_lossy(&entry.name);
                        write(&mut text, format!("slot {slot}: inode {} {:?} \"{name}\"", entry.ino, entry.kind));
                        slot += slots;
                    }
                    None => {
                        write(&mut text, format!("slot {slot} at {at}: damaged"));
                        slot += 1;
                    }
                }
            }
        }
    }
    Ok(text)
}

fn halves(medium: &Medium, superblock: &Superblock, ino: Ino) -> Result<[Half; 2]> {
    if ino == 0 || ino > superblock.layout.last_inode() {
        return Err(Error::NotFound);
    }
    Ok(inode::halves(medium, &superblock.layout, ino))
}
