//! A human-readable dump of a volume.

use crate::format::bytes::get_u64;
use crate::format::chunks;
use crate::format::entry::{Slot, decode};
use crate::format::inode::{self, Half, Record};
use crate::format::layout::SLOT_BYTES;
use crate::format::mapping::Mapping;
use crate::format::superblock::{FORMAT_VERSION, Superblock};
use crate::inodes::Body;
use crate::store::{self, Item};
use crate::{Error, Ino, Result, Threshold};
use pocketstone_media::{Medium, Region};
use pocketstone_vfs::shown;

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

/// A volume's label for people.
pub fn shown_label(label: &str) -> String {
    if label.is_empty() { "(none)".into() } else { shown(label.as_bytes()) }
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
        let fields = superblock_fields(&self.superblock).into_iter().map(|(name, value)| line(name, &value));
        fields.chain(faults.iter().map(|fault| format!("the other copy: {fault}"))).collect()
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
        let mut lines = Vec::new();
        for (name, half) in ["even", "odd"].iter().zip(self.halves(ino)?) {
            match half {
                Half::Virgin => lines.push(format!("{name} half: never written")),
                Half::Torn => lines.push(format!("{name} half: a wrong checksum")),
                Half::Valid(sequence, record) => {
                    lines.push(format!("{name} half: version {sequence}"));
                    lines.extend(record_fields(&record).into_iter().map(|(name, value)| line(name, &value)));
                }
            }
        }
        Ok(lines)
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
                    lines.push(format!("slot {slot}: inode {} {} \"{name}\"", entry.ino, entry.kind.name()));
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

fn line(name: &str, value: &str) -> String {
    format!("  {name:<42}{value}").trim_end().to_owned()
}

/// What a superblock says, in the order in which it is stored.
fn superblock_fields(superblock: &Superblock) -> Vec<(&'static str, String)> {
    let (s, l) = (superblock, &superblock.layout);
    let features = [(l.checks_at.is_some(), "content checksums"), (s.size_records, "records of sizes")];
    let features: Vec<&str> = features.into_iter().filter(|(there, _)| *there).map(|(_, name)| name).collect();
    vec![
        ("format", FORMAT_VERSION.to_string()),
        ("small page, bytes", s.geometry.page_bytes.to_string()),
        ("huge page, bytes", s.geometry.huge_bytes.to_string()),
        ("inodes", s.inodes.to_string()),
        ("volume, bytes", s.bytes.to_string()),
        ("largest size, bytes", s.max_bytes.to_string()),
        ("journal at", l.journal_at.to_string()),
        ("journal, bytes", l.journal_bytes.to_string()),
        ("inode table at", l.inodes_at.to_string()),
        ("mapping table at", l.mapping_at.to_string()),
        ("free map at", l.free_map_at.to_string()),
        ("data at", l.data_at.to_string()),
        ("huge pages of the zone at creation", s.small_segments.to_string()),
        (
            "huge pages for files beyond, bytes",
            match s.threshold {
                Threshold::Bytes(bytes) => bytes.to_string(),
                Threshold::Never => "never".into(),
            },
        ),
        ("state", if s.clean { "closed cleanly" } else { "in use" }.into()),
        ("times opened", s.opened.to_string()),
        ("sequence number", s.sequence.to_string()),
        ("uuid", s.uuid.iter().map(|byte| format!("{byte:02x}")).collect()),
        ("checksum of the free map", format!("{:#010x}", s.free_map_crc)),
        ("features", features.join(", ")),
        ("label", shown_label(&s.label)),
        ("created, ns since 1970", s.created_ns.to_string()),
        ("unknown features that may be ignored", format!("{:#x}", s.compatible)),
        ("unknown features that allow reading only", format!("{:#x}", s.read_only)),
        ("second mapping table at", l.mirror_at.to_string()),
        ("checksums of contents at", l.checks_at.map_or("none".into(), |at| at.to_string())),
    ]
}

/// What a version of an inode says, in the order in which it is stored.
fn record_fields(r: &Record) -> Vec<(&'static str, String)> {
    let flags = [
        (r.huge, "huge pages"),
        (r.reserved, "space beyond the end"),
        (r.append_only, "append-only"),
        (r.immutable, "immutable"),
    ];
    let flags: Vec<&str> = flags.into_iter().filter(|(set, _)| *set).map(|(_, name)| name).collect();
    vec![
        ("mode", format!("{:06o}", r.mode)),
        ("flags", flags.join(", ")),
        ("hard links", r.links.to_string()),
        ("owner", r.uid.to_string()),
        ("group", r.gid.to_string()),
        ("size", r.size.to_string()),
        ("mtime, ns since 1970", r.mtime_ns.to_string()),
        ("ctime", r.ctime_ns.to_string()),
        ("atime", r.atime_ns.to_string()),
        ("btime", r.btime_ns.to_string()),
        ("run: first small page", r.run_start.to_string()),
        ("run: small pages", r.run_pages.to_string()),
        ("extended attributes: first small page", r.xattr_start.to_string()),
        ("extended attributes: small pages", r.xattr_pages.to_string()),
        ("extended attributes: bytes", r.xattr_bytes.to_string()),
        ("generation", r.generation.to_string()),
        ("device number", r.rdev.to_string()),
        ("parent", r.parent.to_string()),
        ("huge pages", r.segments.to_string()),
        ("checksum of the target", format!("{:#010x}", r.target_crc)),
        ("extent list: first small page", r.list_start.to_string()),
        ("extent list: small pages", r.list_pages.to_string()),
        ("extent list: extents", r.list_extents.to_string()),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_shown_as_they_are_but_for_control_characters() {
        assert_eq!(shown_label(r#"Bob's "disk""#), r#"Bob's "disk""#);
        assert_eq!([shown_label(""), shown_label("\x1b[2J")], ["(none)", "\\x1b[2J"]);
    }
}
