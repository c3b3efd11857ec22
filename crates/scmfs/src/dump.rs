//! A human-readable dump of a volume.

use crate::format::bytes::get_u64;
use crate::format::chunks;
use crate::format::entry::{Slot, decode};
use crate::format::inode::{self, Half, Record};
use crate::format::layout::SLOT_BYTES;
use crate::format::mapping::Mapping;
use crate::format::superblock::Superblock;
use crate::inodes::Body;
use crate::store::{self, Item};
use crate::{Error, Ino, Result};
use pocketstone_media::{Medium, Region};

/// How many slots of a directory the longest name takes.
const MOST_SLOTS: u64 = 5;

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
    let segments = superblock.layout.segments(superblock.bytes);
    let layout = superblock.layout.clone();
    chunks::find(&layout, segments, false, |segment| Mapping::load(&medium, &layout, segment))?;
    let volume = Dumped { medium, superblock, segments };
    let lines = match what {
        Dump::Superblock => volume.superblock(&faults),
        Dump::Journal => volume.journal(),
        Dump::Mapping => volume.mapping(),
        Dump::Inode(ino) => volume.inode(*ino)?,
        Dump::Directory(ino) => volume.directory(*ino)?,
    };
    Ok(lines.into_iter().map(|line| line + "\n").collect())
}

/// The volume that is dumped: each part of it is some lines.
struct Dumped {
    medium: Medium,
    superblock: Superblock,
    segments: u32,
}

impl Dumped {
    fn superblock(&self, faults: &[Error]) -> Vec<String> {
        let current = format!("{:#?}", self.superblock);
        std::iter::once(current).chain(faults.iter().map(|fault| format!("the other copy: {fault}"))).collect()
    }

    fn journal(&self) -> Vec<String> {
        let Some((position, record)) = store::find(&self.medium, &self.superblock.layout, &self.superblock.uuid) else {
            return vec!["no valid record".into()];
        };
        let sequence = get_u64(&record, 8);
        let mut lines = vec![format!("newest record: {sequence} at {position}, {} bytes", record.len())];
        lines.extend(store::items(&record).flatten().map(|item| match item {
            Item::Bytes(at, bytes) => format!("  store {} bytes at {at}", bytes.len()),
            Item::Mapping(at, entry) => format!("  store {} bytes at {at} and in the second table", entry.len()),
            Item::Zero(at, bytes) => format!("  zero {bytes} bytes at {at}"),
        }));
        lines
    }

    fn mapping(&self) -> Vec<String> {
        let layout = &self.superblock.layout;
        let line = |segment| {
            let line = match Mapping::load(&self.medium, layout, segment) {
                Ok(Mapping::Free) => return None,
                Ok(Mapping::SmallZone) => "small-page zone".to_string(),
                Ok(Mapping::Inodes { index }) => format!("inode table, part {index}"),
                Ok(Mapping::File { owner, index, generation }) => {
                    format!("inode {owner}, page {index}, generation {generation}")
                }
                Err(error) => error.to_string(),
            };
            Some(format!("{segment} at {}: {line}", layout.segment_at(segment)))
        };
        (0..self.segments).filter_map(line).collect()
    }

    fn inode(&self, ino: Ino) -> Result<Vec<String>> {
        let lines = self.halves(ino)?.map(|half| match half {
            Half::Virgin => "never written".to_string(),
            Half::Torn => "a wrong checksum".to_string(),
            Half::Valid(sequence, record) => format!("version {sequence}: {record:#?}"),
        });
        Ok(["even", "odd"].iter().zip(lines).map(|(name, line)| format!("{name} half: {line}")).collect())
    }

    fn directory(&self, ino: Ino) -> Result<Vec<String>> {
        let (_, record) = inode::newest(self.halves(ino)?).ok_or(Error::NotFound)?;
        if !record.is_directory() {
            return Err(Error::NotDirectory);
        }
        let body = self.body(ino, &record)?;
        let (mut lines, mut slot) = (Vec::new(), 0);
        while u64::from(slot) * SLOT_BYTES < record.size {
            let offset = u64::from(slot) * SLOT_BYTES;
            let (Some(at), _) = body.locate(offset) else { break };
            match decode(ino, slot, &self.entry(&body, offset, record.size)) {
                Some(Slot::Free) => slot += 1,
                Some(Slot::Entry(entry, slots)) => {
                    let name = String::from_utf8_lossy(&entry.name);
                    lines.push(format!("slot {slot}: inode {} {:?} \"{name}\"", entry.ino, entry.kind));
                    slot += slots;
                }
                None => {
                    lines.push(format!("slot {slot} at {at}: damaged"));
                    slot += 1;
                }
            }
        }
        Ok(lines)
    }

    /// Where the content of a directory is.
    fn body(&self, ino: Ino, record: &Record) -> Result<Body> {
        let layout = &self.superblock.layout;
        let mut extents: Vec<_> = (0..self.segments).filter_map(|segment| self.page_of(ino, segment)).collect();
        extents.sort_unstable();
        if record.nonsense(layout, self.segments).is_some() {
            return Err(Error::damaged(layout.version_at(ino, 0), "a directory with impossible values"));
        }
        let mut body = Body::new(layout, record, extents);
        let read = |at: u64, into: &mut [u8]| self.medium.read(at, into);
        let list = inode::load_list(layout, ino, record, self.segments, read)?;
        body.set(body.run(), body.extents().to_vec(), list);
        Ok(body)
    }

    /// Which page of an inode a huge page is, if any.
    fn page_of(&self, ino: Ino, segment: u32) -> Option<(u32, u32)> {
        match Mapping::load(&self.medium, &self.superblock.layout, segment) {
            Ok(Mapping::File { owner, index, .. }) if owner == ino => Some((index, segment)),
            _ => None,
        }
    }

    /// The bytes of a directory from a slot on, as many as an entry may have.
    fn entry(&self, body: &Body, offset: u64, size: u64) -> Vec<u8> {
        let huge = self.superblock.layout.huge;
        let bytes = (huge - offset % huge).min(size - offset).min(MOST_SLOTS * SLOT_BYTES);
        let mut b = vec![0; bytes as usize];
        body.spans(offset, offset + bytes, |at, part| {
            if let Some(at) = at {
                self.medium.read(at, &mut b[part]);
            }
        });
        b
    }

    fn halves(&self, ino: Ino) -> Result<[Half; 2]> {
        if ino == 0 || ino > self.superblock.layout.last_inode() {
            return Err(Error::NotFound);
        }
        Ok(inode::halves(&self.medium, &self.superblock.layout, ino))
    }
}
