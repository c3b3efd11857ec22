//! A volume as it would be after the journal's newest record: nothing is written to look at it.

use crate::Ino;
use crate::format::inode::{self, Half};
use crate::format::layout::{INODE_BYTES, Layout};
use crate::format::mapping::{INODE_TABLE, Mapping};
use crate::format::sizes;
use crate::format::superblock::Superblock;
use crate::store;
use pocketstone_media::{Durable, Flushed, Medium};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// In pieces of this size is kept what the journal changes.
const UNIT: u64 = 4096;

pub(crate) struct Image {
    pub medium: Medium,
    pub superblock: Superblock,
    pub layout: Layout,
    /// What the newest record stores, if it counts, and the inodes that records of sizes make longer.
    stores: Vec<(u64, Vec<u8>)>,
    /// What that changes, as it is afterwards.
    units: HashMap<u64, Vec<u8>>,
}

impl Image {
    pub fn new(medium: Medium, superblock: Superblock) -> Image {
        let layout = Layout { chunks: Arc::default(), ..superblock.layout.clone() };
        let mut image = Image { medium, superblock, layout, stores: Vec::new(), units: HashMap::new() };
        if image.superblock.clean {
            return image;
        }
        // Which versions in the inode table's later parts are stale can be told only if it is known where they are.
        image.find_chunks();
        if let Some((_, record)) = store::find(&image.medium, &image.layout, &image.superblock.uuid) {
            image.stores = store::replay(&image.medium, &image.layout, &record);
        }
        image.apply();
        if image.superblock.size_records {
            image.find_chunks();
            for (at, version) in sizes::versions(&image.layout, |at, into| image.read(at, into)) {
                image.overlay(at, &version);
                image.stores.push((at, version.to_vec()));
            }
        }
        image.layout.chunks = Arc::default();
        image
    }

    fn find_chunks(&mut self) {
        self.layout.chunks = Arc::default();
        for segment in self.chunks().into_iter().map_while(|chunk| chunk) {
            self.layout.chunks.push(segment);
        }
    }

    /// Versions of inodes in a huge page that are whole, if it is such a part of the inode table.
    fn versions(&self, segment: u32, chunk: u32) -> usize {
        let first = self.layout.inodes + 1 + chunk * self.layout.inodes_per_chunk();
        let mut found = 0;
        for within in 0..self.layout.inodes_per_chunk() {
            let mut b = [0; INODE_BYTES as usize];
            self.read(self.layout.segment_at(segment) + u64::from(within) * INODE_BYTES, &mut b);
            for half in 0..2 {
                let version = inode::decode_half(first + within, half, &b[half as usize * 128..][..128]);
                found += usize::from(matches!(version, Half::Valid(..)));
            }
        }
        found
    }

    /// Whether a huge page that a copy of its entry calls a part of the inode table is to be believed to be that part.
    /// Where the other copy says something else, one of them is out of date: then there must be inodes in it.
    fn is_chunk(&self, segment: u32, chunk: u32) -> bool {
        match self.entries(segment) {
            [Some(one), Some(other)] if one != other => self.versions(segment, chunk) > 0,
            _ => true,
        }
    }

    /// Where the inode table goes on, in order. An entry that is lost is made up for by what its huge page holds;
    /// `None` is a part that is not there, though later ones are.
    pub fn chunks(&self) -> Vec<Option<u32>> {
        let mut told: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
        let mut lost = Vec::new();
        for segment in 0..self.segments() {
            let copies = self.entries(segment);
            if copies == [None, None] {
                lost.push(segment);
            }
            for index in copies.into_iter().flatten().filter_map(|entry| match entry {
                Mapping::Inodes { index } => Some(index),
                _ => None,
            }) {
                let there = told.entry(index).or_default();
                if there.last() != Some(&segment) {
                    there.push(segment);
                }
            }
        }
        // Numbers that mean something else are not reached.
        let most = ((INODE_TABLE - 1 - self.layout.inodes) / self.layout.inodes_per_chunk()).min(self.segments());
        told.retain(|index, there| {
            there.retain(|segment| *index < most && self.is_chunk(*segment, *index));
            !there.is_empty()
        });
        let end = told.keys().last().map_or(0, |last| last + 1);
        let mut chunks = Vec::new();
        for chunk in 0..most {
            let best = |segments: &[u32]| {
                let counted = segments.iter().map(|segment| (self.versions(*segment, chunk), *segment));
                counted.max_by_key(|(count, segment)| (*count, std::cmp::Reverse(*segment)))
            };
            let by_table =
                told.get(&chunk).and_then(|there| if let [only] = there[..] { Some((0, only)) } else { best(there) });
            let found = by_table.or_else(|| best(&lost).filter(|(count, _)| *count > 0));
            match found {
                Some((_, segment)) => {
                    lost.retain(|other| *other != segment);
                    chunks.push(Some(segment));
                }
                None if chunk < end => chunks.push(None),
                None => break,
            }
        }
        chunks
    }

    /// A volume as it would be after some stores.
    pub fn planned(medium: Medium, superblock: Superblock, stores: Vec<(u64, Vec<u8>)>) -> Image {
        let layout = Layout { chunks: Arc::default(), ..superblock.layout.clone() };
        let mut image = Image { medium, superblock, layout, stores, units: HashMap::new() };
        image.apply();
        image
    }

    fn apply(&mut self) {
        for (at, bytes) in std::mem::take(&mut self.stores) {
            self.overlay(at, &bytes);
            self.stores.push((at, bytes));
        }
    }

    fn overlay(&mut self, at: u64, bytes: &[u8]) {
        let end = at + bytes.len() as u64;
        let mut from = at;
        while from < end {
            let (unit, to) = (from / UNIT, end.min((from / UNIT + 1) * UNIT));
            let kept = self.units.entry(unit).or_insert_with(|| {
                let mut kept = vec![0; UNIT.min(self.medium.bytes() - unit * UNIT) as usize];
                self.medium.read(unit * UNIT, &mut kept);
                kept
            });
            let within = (from - unit * UNIT) as usize;
            let part = &bytes[(from - at) as usize..(to - at) as usize];
            kept[within..within + part.len()].copy_from_slice(part);
            from = to;
        }
    }

    pub fn read(&self, at: u64, into: &mut [u8]) {
        self.medium.read(at, into);
        if self.units.is_empty() {
            return;
        }
        let end = at + into.len() as u64;
        for unit in at / UNIT..end.div_ceil(UNIT) {
            let Some(kept) = self.units.get(&unit) else { continue };
            let (low, high) = (at.max(unit * UNIT), end.min(unit * UNIT + kept.len() as u64));
            if low < high {
                let part = &kept[(low - unit * UNIT) as usize..(high - unit * UNIT) as usize];
                into[(low - at) as usize..(high - at) as usize].copy_from_slice(part);
            }
        }
    }

    /// Stores what the journal's newest record says, and the records of sizes, and empties both: nothing of it comes
    /// ever again.
    pub fn settle(&self) {
        let mut flushed = Flushed::nothing();
        for (at, bytes) in &self.stores {
            // SAFETY: nobody else has the volume.
            let dirty = unsafe { self.medium.write(*at, bytes, Durable::repeatable()) };
            flushed.join(self.medium.flush(dirty));
        }
        let applied = self.medium.fence(flushed);
        // SAFETY: nobody else has the volume.
        let emptied = unsafe { self.medium.zero(self.layout.journal_at, self.layout.journal_bytes, applied) };
        let emptied = self.medium.fence(emptied);
        if self.superblock.size_records {
            // SAFETY: as above.
            unsafe { sizes::wipe(&self.medium, &self.layout, emptied) }.done();
        } else {
            emptied.done();
        }
    }

    pub fn halves(&self, ino: Ino) -> [Half; 2] {
        let mut b = [0; 256];
        self.read(self.layout.version_at(ino, 0), &mut b);
        [inode::decode_half(ino, 0, &b[..128]), inode::decode_half(ino, 1, &b[128..])]
    }

    /// Both copies of what the mapping table says of a huge page; `None` for one that is damaged.
    pub fn entries(&self, segment: u32) -> [Option<Mapping>; 2] {
        Mapping::copies(&self.layout, segment, |at, into| self.read(at, into)).map(Result::ok)
    }

    /// Huge pages in the data area.
    pub fn segments(&self) -> u32 {
        self.layout.segments(self.superblock.bytes)
    }
}
