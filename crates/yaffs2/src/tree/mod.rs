//! The objects of a volume: their headers, their names, where their chunks are.

pub mod details;
pub mod header;
pub mod headers;
pub mod map;
pub mod names;
pub mod objects;
pub mod xattrs;

use crate::log::Log;
use crate::log::chip::Chunk;
use crate::log::tags::Kind;
use crate::options::OpenOptions;
use details::Details;
use map::Width;
use objects::{DELETED_ID, LOST_ID, Mark, Object, Objects, ROOT_ID, UNLINKED_ID};
use pocketstone_vfs::{Error, Ino, Result};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{SystemTime, UNIX_EPOCH};

/// Deepest that directories can lie in each other before something is wrong.
const DEEPEST: u32 = 1 << 18;

/// Chunks from which on a file's are counted once, and not each time that somebody asks.
const MANY_CHUNKS: u32 = 1024;

/// All objects of a volume, and the log that they are in.
pub struct Tree {
    pub log: Log,
    /// What numbers of chunks are like.
    pub width: Width,
    pub objects: Objects,
    pub details: Details,
    /// Hard links by the object they name.
    pub links: BTreeMap<u32, Vec<u32>>,
    /// How many chunks files have that have many.
    pub chunk_counts: HashMap<u32, u32>,
    /// How often objects are in use.
    pub held: HashMap<u32, u32>,
    /// The directory that was listed last, and its objects in order.
    pub listing: Option<(u32, Vec<u32>)>,
    /// The time is always this one, in nanoseconds since 1970.
    fixed_clock_ns: Option<i64>,
}

/// What the numbers of a log's chunks are like.
pub fn width_of(log: &Log) -> Width {
    let (pages, blocks) = (log.chip.pages_per_block(), log.chip.blocks());
    Width::of((blocks + 1) * pages - 1, pages, log.shape.entries)
}

impl Tree {
    /// No objects yet.
    pub fn new(log: Log, options: &OpenOptions) -> Tree {
        Tree {
            width: width_of(&log),
            objects: Objects::default(),
            details: Details::new(options.scanned_headers as usize),
            links: BTreeMap::new(),
            chunk_counts: HashMap::new(),
            held: HashMap::new(),
            listing: None,
            fixed_clock_ns: options.fixed_clock_ns,
            log,
        }
    }

    /// Seconds since 1970.
    pub(crate) fn now_s(&self) -> i64 {
        if let Some(ns) = self.fixed_clock_ns {
            return ns.div_euclid(1_000_000_000);
        }
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs() as i64)
    }

    pub(crate) fn must_be_directory(&self, ino: Ino) -> Result<()> {
        match self.objects.get(ino) {
            Some(object) if object.kind == Kind::Directory => Ok(()),
            Some(_) => Err(Error::NotDirectory),
            None => Err(Error::NotFound),
        }
    }

    /// Something in a directory changed. Its header is written soon.
    pub(crate) fn touch(&mut self, directory: Ino) {
        let now = self.now_s();
        self.details.changed(directory, now);
        self.listing = None;
    }

    /// Whether a directory is another one, or lies in it.
    pub(crate) fn is_within(&self, mut directory: u32, other: u32) -> bool {
        for _ in 0..DEEPEST {
            if directory == other {
                return true;
            }
            match self.objects.get(directory) {
                Some(object) if object.parent != 0 => directory = object.parent,
                _ => return false,
            }
        }
        true
    }

    /// Puts an object whose place is not known into lost+found.
    pub(crate) fn lose(&mut self, id: u32) {
        self.objects.detach(id);
        self.objects.attach(id, LOST_ID);
        if let Some(lost) = self.objects.get_mut(LOST_ID) {
            lost.set(Mark::AllNamed, false);
        }
    }

    /// What lies below an object that is always there.
    pub(crate) fn rooted(&self) -> HashSet<u32> {
        let mut below = Vec::new();
        [ROOT_ID, LOST_ID, UNLINKED_ID, DELETED_ID].iter().for_each(|&id| self.list_tree(id, &mut below));
        below.into_iter().collect()
    }

    /// Everything below a directory, what is deepest first.
    pub(crate) fn list_tree(&self, directory: u32, into: &mut Vec<u32>) {
        let mut found = vec![directory];
        let mut at = 0;
        while at < found.len() {
            found.extend(self.objects.children(found[at]));
            at += 1;
        }
        into.extend(found[1..].iter().rev());
    }

    pub(crate) fn note_links(&mut self, links: Vec<(u32, u32)>) {
        for (link, target) in links {
            // One that was deleted may still be among them.
            let is_link = self.objects.get(link).is_some_and(|object| {
                object.kind == Kind::HardLink && !matches!(object.parent, UNLINKED_ID | DELETED_ID)
            });
            if is_link && self.objects.get(target).is_some_and(|o| !matches!(o.kind, Kind::HardLink | Kind::Directory))
            {
                self.links.entry(target).or_default().push(link);
            }
        }
    }

    pub(crate) fn forget_link(&mut self, target: u32, link: u32) {
        if let Some(links) = self.links.get_mut(&target) {
            links.retain(|&other| other != link);
            if links.is_empty() {
                self.links.remove(&target);
            }
        }
    }

    /// A header on the chip says already that an object is deleted. It is garbage, and its block keeps what is older
    /// from coming back.
    pub(crate) fn forget_deleted(&mut self, id: u32) {
        let width = self.width;
        let is_bare = |object: &Object| object.parent == DELETED_ID && object.map.chunks(width).next().is_none();
        if self.objects.get(id).is_some_and(is_bare) {
            if let Some(object) = self.objects.remove(id) {
                self.log.blocks.clear(object.header);
            }
        }
    }

    pub(crate) fn file_size(&self, ino: Ino) -> Result<u64> {
        match self.objects.get(ino) {
            Some(object) if object.kind == Kind::File => Ok(object.value),
            Some(object) if object.kind == Kind::Directory => Err(Error::IsDirectory),
            Some(_) => Err(Error::Invalid),
            None => Err(Error::NotFound),
        }
    }

    /// Chunks that a file should have and does not: builders of images leave no holes, others do.
    pub(crate) fn missing_chunks(&self, id: u32) -> u64 {
        let Some(file) = self.objects.get(id).filter(|object| object.kind == Kind::File) else { return 0 };
        let all = file.value.div_ceil(self.log.chip.data_bytes() as u64);
        let missing = all.saturating_sub(file.map.chunks(self.width).count() as u64);
        // All blocks are looked at for this, which is only worth it for a file that has holes.
        if missing == 0 || self.log.chip.yaffs1 || !self.log.blocks.are_as_built() { 0 } else { missing }
    }

    pub(crate) fn chunk_of(&self, ino: Ino, chunk: u32) -> Chunk {
        self.objects.get(ino).map_or(0, |object| object.map.get(self.width, chunk - 1))
    }

    /// Puts the `chunk`-th chunk, from 1, of a file into a page, or makes it a hole: 0. Returns where it was.
    pub(crate) fn set_chunk(&mut self, ino: Ino, chunk: u32, place: Chunk) -> Chunk {
        let Some(object) = self.objects.get_mut(ino) else { return place };
        let old = object.map.get(self.width, chunk - 1);
        object.map.set(self.width, chunk - 1, place);
        if let Some(count) = self.chunk_counts.get_mut(&ino) {
            *count = *count + u32::from(place != 0) - u32::from(old != 0);
        }
        old
    }

    /// How many chunks of a file are no holes.
    pub(crate) fn count_chunks(&mut self, ino: Ino) -> u32 {
        if let Some(&count) = self.chunk_counts.get(&ino) {
            return count;
        }
        let count = self.objects.get(ino).map_or(0, |file| file.map.chunks(self.width).count()) as u32;
        if count >= MANY_CHUNKS {
            self.chunk_counts.insert(ino, count);
        }
        count
    }

    /// Valid bytes of the `chunk`-th chunk, from 1, of a file of `size` bytes.
    pub(crate) fn valid_bytes(&self, size: u64, chunk: u32) -> usize {
        let all = self.log.chip.data_bytes() as u64;
        size.saturating_sub(u64::from(chunk - 1) * all).min(all) as usize
    }

    pub(crate) fn set_size(&mut self, ino: Ino, size: u64) {
        if let Some(object) = self.objects.get_mut(ino) {
            object.value = size;
        }
    }

    pub(crate) fn grow_to(&mut self, ino: Ino, size: u64) {
        if let Some(object) = self.objects.get_mut(ino) {
            object.value = object.value.max(size);
        }
    }
}
