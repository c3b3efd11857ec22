//! Making, opening, recovering and closing a volume.

use crate::alloc::Alloc;
use crate::clock::Clock;
use crate::inode::{self, Half, Record};
use crate::journal::{self, Journal, Transaction};
use crate::layout::Layout;
use crate::mapping::{Mapping, SMALL_ZONE};
use crate::node::{Nodes, lock};
use crate::space::NullFiles;
use crate::superblock::Superblock;
use crate::view::Windows;
use crate::volume::{Inner, Volume};
use crate::{CreateOptions, Error, Ino, Meta, OpenOptions, ROOT, Result, Threshold, defects, persist};
use pocketstone_core::Error as CoreError;
use pocketstone_media::{Dirty, Durable, Flushed, Medium, Region};
use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// Huge pages of files: `(index, huge page)` by inode.
type Extents = HashMap<Ino, Vec<(u32, u32)>>;

impl Volume {
    /// Makes an empty volume in a region. What the region held is lost.
    ///
    /// # Errors
    /// If the sizes do not fit the region or each other.
    pub fn create(region: Box<dyn Region>, options: &CreateOptions) -> Result<()> {
        let medium = Medium::new(region);
        let (layout, bytes) = Layout::plan(medium.bytes(), options)?;
        if options.threshold == Threshold::Never && medium.region().map_bytes() >= layout.huge {
            let message = format!("the threshold \"never\" needs small pages; {} has none", medium.region().describe());
            return Err(CoreError::user(message).hint("choose a threshold such as 128K").into());
        }
        if options.label.len() > 32 {
            return Err(CoreError::user(format!("the label \"{}\" is longer than 32 bytes", options.label)).into());
        }
        let segments = layout.segments(bytes);
        let default_small = u64::from(segments / 8) * layout.huge;
        let small = options.small_bytes.unwrap_or(default_small).div_ceil(layout.huge);
        let small_segments = u32::try_from(small.max(1)).unwrap_or(u32::MAX);
        if small_segments > segments {
            let data = u64::from(segments) * layout.huge;
            let message = format!("a small-page zone of {} bytes", u64::from(small_segments) * layout.huge);
            return Err(CoreError::user(message).hint(format!("the data area has {data} bytes")).into());
        }
        // Whatever was there stops being a volume before anything else is written.
        let wiped = medium.fence(medium.zero(0, layout.journal_at, Durable::nothing()));
        let mut flushed = Flushed::nothing();
        if !options.zeroed {
            flushed = medium.zero(0, layout.free_map_at + layout.free_map_bytes, wiped);
        }
        let now = Clock::new(None).now();
        let zeroed = medium.fence(flushed);
        let mut root = Record::new(&Meta::directory(0o755), 1, now);
        root.parent = ROOT;
        let root = root.encode(ROOT, 1);
        let mut flushed = medium.flush(medium.write(layout.version_at(ROOT, 1), &root, zeroed));
        let mut alloc = Alloc::new(&layout, segments);
        for segment in 0..small_segments {
            alloc.claim_segment(segment, SMALL_ZONE);
            let entry = Mapping::SmallZone.encode(segment);
            let at = layout.mapping_entry_at(segment);
            flushed = flushed.and(medium.flush(medium.write(at, &entry, Durable::nothing())));
        }
        alloc.claim_inode(ROOT);
        let (crc, map) = write_free_map(&medium, &layout, &alloc);
        let written = medium.fence(flushed.and(map));
        let mut superblock = Superblock {
            geometry: options.geometry,
            inodes: layout.inodes,
            bytes,
            max_bytes: layout.max_bytes,
            layout,
            small_segments,
            threshold: options.threshold,
            clean: true,
            opened: 0,
            sequence: 0,
            uuid: options.uuid.unwrap_or_else(random_uuid),
            free_map_crc: crc,
            label: options.label.clone(),
            created_ns: now,
            compatible: 0,
            read_only: 0,
        };
        for after in [written, Durable::nothing()] {
            let dirty = superblock.write(&medium, after);
            medium.fence(medium.flush(dirty)).done();
        }
        Ok(medium.sync()?)
    }
}

fn random_uuid() -> [u8; 16] {
    // Seeded by the system at random; time and address make it differ where that fails.
    use std::hash::{BuildHasher, Hasher, RandomState};
    let mut uuid = [0; 16];
    for half in uuid.chunks_mut(8) {
        let word = RandomState::new().build_hasher().finish();
        half.copy_from_slice(&word.to_le_bytes());
    }
    uuid[6] = uuid[6] & 0x0f | 0x40;
    uuid[8] = uuid[8] & 0x3f | 0x80;
    uuid
}

fn write_free_map(medium: &Medium, layout: &Layout, alloc: &Alloc) -> (u32, Flushed) {
    let map = alloc.free_map();
    (crc32c::crc32c(&map), medium.stream(layout.free_map_at, &map, Durable::nothing()))
}

/// Opens a volume: takes the free map of a clean one, recovers any other.
pub(crate) fn open(medium: Medium, options: &OpenOptions) -> Result<Inner> {
    let (mut superblock, _) = Superblock::read(&medium)?;
    if !options.read_only {
        superblock.check_writable()?;
    }
    let layout = superblock.layout;
    let segments = layout.segments(superblock.bytes);
    if !superblock.clean && options.read_only {
        let message = format!("the volume on {} was not closed", medium.region().describe());
        return Err(CoreError::user(message).hint("open it for writing once: that recovers it").into());
    }
    let last = journal::find(&medium, &layout, &superblock.uuid);
    let journal = Journal::after(&layout, &superblock.uuid, last.clone());
    let mut alloc = Alloc::new(&layout, segments);
    let recovered = !superblock.clean;
    let (extents, orphans);
    if superblock.clean {
        (extents, orphans) = (read_mapping(&medium, &layout, &mut alloc)?, Vec::new());
        let mut map = vec![0; alloc.free_map_bytes() as usize];
        medium.read(layout.free_map_at, &mut map);
        if crc32c::crc32c(&map) != superblock.free_map_crc {
            return Err(Error::damaged(layout.free_map_at, "a free map with a wrong checksum"));
        }
        alloc.load(&map);
    } else {
        if let Some((_, record)) = last.filter(|_| !defects::on(defects::NO_REPLAY)) {
            replay(&medium, &layout, &record);
        }
        (extents, orphans) = rebuild(&medium, &layout, &mut alloc)?;
    }
    if !options.read_only {
        // Both copies: should the newer one be damaged later, the older one must not say "clean".
        superblock.clean = defects::on(defects::OPEN_CLEAN);
        superblock.opened = superblock.opened.saturating_add(1);
        for _ in 0..2 {
            let dirty = superblock.write(&medium, Durable::nothing());
            medium.fence(medium.flush(dirty)).done();
        }
        // Where fences do not reach the medium: before any change does.
        medium.sync()?;
    }
    let inner = Inner {
        layout,
        threshold: superblock.threshold,
        options: options.clone(),
        superblock: Mutex::new(superblock),
        journal: Mutex::new(journal),
        alloc: Mutex::new(alloc),
        nodes: Nodes::new(),
        extents: Mutex::new(extents),
        nulls: Mutex::new(NullFiles::default()),
        windows: Windows::default(),
        tree: Mutex::new(()),
        clock: Clock::new(options.fixed_clock_ns),
        segments: AtomicU32::new(segments),
        closed: AtomicBool::new(false),
        collections: AtomicU64::new(0),
        collected_bytes: AtomicU64::new(0),
        space_changes: AtomicU64::new(1),
        fruitless: AtomicU64::new(0),
        medium,
    };
    if recovered {
        // What was replayed may be changed in place from now on: its record must not be the newest then.
        inner.commit(Transaction::new(), Durable::nothing()).done();
    }
    if !defects::on(defects::ORPHANS_KEPT) {
        for ino in orphans {
            let node = inner.node(ino)?;
            inner.free_inode(ino, &mut node.write());
        }
    }
    Ok(inner)
}

/// Stores what the newest record says, where it is not older than what is there.
fn replay(medium: &Medium, layout: &Layout, record: &[u8]) {
    let mut flushed = Flushed::nothing();
    for (at, bytes) in journal::replay(medium, layout, record) {
        flushed = flushed.and(medium.flush(medium.write(at, &bytes, Durable::nothing())));
    }
    medium.fence(flushed).done();
}

/// Claims the huge pages that are in use; which file has which.
fn read_mapping(medium: &Medium, layout: &Layout, alloc: &mut Alloc) -> Result<Extents> {
    let mut extents = Extents::new();
    for segment in 0..alloc.segment_count() {
        match Mapping::load(medium, layout, segment)? {
            Mapping::Free => {}
            Mapping::SmallZone => {
                alloc.claim_segment(segment, SMALL_ZONE);
            }
            Mapping::File { owner, index, .. } => {
                if owner == 0 || owner > layout.inodes {
                    let found = format!("mapping entry {segment} of inode {owner}, which cannot be");
                    return Err(Error::damaged(layout.mapping_entry_at(segment), found));
                }
                alloc.claim_segment(segment, owner);
                extents.entry(owner).or_default().push((index, segment));
            }
        }
    }
    for list in extents.values_mut() {
        list.sort_unstable();
    }
    Ok(extents)
}

/// Finds out from inodes and mapping table what is in use, and mends torn inodes. Also lists the inodes
/// without a name: they were open when the volume was lost.
fn rebuild(medium: &Medium, layout: &Layout, alloc: &mut Alloc) -> Result<(Extents, Vec<Ino>)> {
    let extents = read_mapping(medium, layout, alloc)?;
    let mut orphans = Vec::new();
    let segments = alloc.segment_count();
    let mut mended = Flushed::nothing();
    for ino in 1..=layout.inodes {
        let halves = inode::halves(medium, layout, ino);
        if halves == [Half::Virgin, Half::Virgin] {
            continue;
        }
        let (record, dirty) = mend(medium, layout, ino, halves)?;
        if let Some(dirty) = dirty {
            mended = mended.and(medium.flush(dirty));
        }
        if record.is_free() {
            continue;
        }
        let at = layout.version_at(ino, 0);
        if let Some(what) = record.nonsense(layout, segments) {
            return Err(Error::damaged(at, format!("inode {ino} with {what}")));
        }
        alloc.claim_inode(ino);
        if record.links == 0 {
            orphans.push(ino);
        }
        for (start, pages) in [(record.run_start, record.run_pages), (record.xattr_start, record.xattr_pages)] {
            if pages > 0 && !alloc.take_pages_at(start, pages) {
                return Err(Error::damaged(at, format!("inode {ino} with pages that are not its own")));
            }
        }
    }
    medium.fence(mended).done();
    if let Some(owner) = extents.keys().find(|owner| !alloc.inode_used(**owner)) {
        let found = format!("inode {owner}, which is free and owns huge pages");
        return Err(Error::damaged(layout.version_at(*owner, 0), found));
    }
    Ok((extents, orphans))
}

/// The record that counts after a crash. A torn half is written anew, as the newest version: from then
/// on a half that is torn is damage.
fn mend(medium: &Medium, layout: &Layout, ino: Ino, halves: [Half; 2]) -> Result<(Record, Option<Dirty>)> {
    if let Some((_, record)) = inode::newest(halves) {
        return Ok((record, None));
    }
    let (sequence, record) = match halves {
        [Half::Torn, Half::Valid(s, r)] | [Half::Valid(s, r), Half::Torn] => (s, r),
        // The first version of all was torn: the inode is still free.
        [Half::Virgin, Half::Torn] => (0, Record::default()),
        _ => {
            let at = layout.version_at(ino, 0);
            return Err(Error::damaged(at, format!("inode {ino} without a version that is whole")));
        }
    };
    let next = sequence.wrapping_add(1);
    let dirty = medium.write(layout.version_at(ino, next), &record.encode(ino, next), Durable::nothing());
    Ok((record, Some(dirty)))
}

/// Stores what is only in memory, the free map, and then that the volume is clean.
pub(crate) fn close(inner: &Inner) -> Result<()> {
    if inner.options.read_only || inner.closed.swap(true, Ordering::SeqCst) {
        return Ok(());
    }
    let _tree = lock(&inner.tree);
    for node in inner.nodes.all() {
        // Whoever changes it now is waited for; after this, nobody starts.
        let mut state = node.write();
        if state.record.links == 0 && !state.record.is_free() {
            inner.free_inode(node.ino, &mut state);
        } else if state.stale {
            inner.store_version(node.ino, &mut state, Durable::nothing()).done();
        }
    }
    inner.release_nulls(0);
    let alloc = lock(&inner.alloc);
    let (crc, flushed) = write_free_map(&inner.medium, &inner.layout, &alloc);
    let written = persist::fence(&inner.medium, flushed, defects::CLEAN_EARLY);
    inner.medium.sync()?;
    let mut superblock = lock(&inner.superblock);
    superblock.clean = true;
    superblock.free_map_crc = crc;
    inner.store_superblock(&mut superblock, written).done();
    Ok(inner.medium.sync()?)
}
