//! Creating, opening, recovering and closing a volume.

use crate::contents;
use crate::format::chunks;
use crate::format::inode::{self, Half, Record};
use crate::format::layout::Layout;
use crate::format::mapping::{INODE_TABLE, Mapping, SMALL_ZONE};
use crate::format::sizes;
use crate::format::superblock::Superblock;
use crate::inodes::{Extents, Inodes};
use crate::parts::{Parts, Windows};
use crate::space::{Alloc, Space};
use crate::store::{self, Clock, Journal, Store, Transaction, lock};
use crate::{CreateOptions, Error, Ino, Meta, OpenOptions, ROOT, Result, Threshold, defects};
use pocketstone_media::{Dirty, Durable, Flushed, Medium, Region};
use pocketstone_vfs::MediumError;
use std::sync::Mutex;

/// Creates an empty volume in a region, destroying its contents.
pub(crate) fn create(region: Box<dyn Region>, options: &CreateOptions) -> Result<()> {
    let medium = Medium::new(region);
    let (layout, bytes, small_segments) = plan(medium.bytes(), medium.region().map_bytes(), options)?;
    let segments = layout.segments(bytes);
    // Whatever was there stops being a volume before anything else is written: both its superblocks go.
    // Looking for the second one reads all of a region that has no first one: not where there are zeros.
    let old = if options.zeroed { None } else { Superblock::read(&medium).ok() };
    // SAFETY: nobody else has the volume.
    let mut wiped = unsafe { medium.zero(0, layout.journal_at, Durable::repeatable()) };
    if let Some((old, _)) = old {
        let (at, bytes) = (old.layout.far_at(), layout.page.min(old.layout.page));
        // SAFETY: nobody else has the volume.
        wiped.join(unsafe { medium.zero(at, bytes, Durable::repeatable()) });
    }
    let wiped = medium.fence(wiped);
    let mut flushed = Flushed::nothing();
    if !options.zeroed {
        // SAFETY: nobody else has the volume.
        flushed = unsafe { medium.zero(0, layout.data_at, wiped) };
    }
    let now = Clock::new(None).now();
    let zeroed = medium.fence(flushed);
    let mut root = Record::new(&Meta::directory(0o755), 1, now);
    root.parent = ROOT;
    let root = root.encode(ROOT, 1);
    // SAFETY: nobody else has the volume.
    let mut flushed = medium.flush(unsafe { medium.write(layout.version_at(ROOT, 1), &root, zeroed) });
    let mut alloc = Alloc::new(&layout, segments);
    for segment in 0..small_segments {
        alloc.claim_segment(segment, SMALL_ZONE);
    }
    let entry = |segment| if segment < small_segments { Mapping::SmallZone } else { Mapping::Free };
    let table: Vec<u8> = (0..layout.max_segments).flat_map(|segment| entry(segment).encode(segment)).collect();
    for at in [layout.mapping_at, layout.mirror_at] {
        // SAFETY: nobody else has the volume.
        flushed.join(unsafe { medium.stream(at, &table, Durable::repeatable()) });
    }
    alloc.inodes.claim(ROOT);
    let (crc, map) = write_free_map(&medium, &layout, &alloc);
    let written = medium.fence(flushed.and(map));
    let mut superblock = Superblock {
        geometry: options.geometry,
        inodes: layout.inodes,
        bytes,
        max_bytes: layout.max_bytes,
        layout: layout.clone(),
        small_segments,
        threshold: options.threshold,
        clean: true,
        size_records: false,
        opened: 0,
        sequence: 0,
        uuid: options.uuid.unwrap_or_else(random_uuid),
        free_map_crc: crc,
        label: options.label.clone(),
        created_ns: now,
        compatible: 0,
        read_only: 0,
    };
    for after in [written, Durable::nothing_new()] {
        let dirty = superblock.write(&medium, after);
        medium.fence(medium.flush(dirty)).done();
    }
    Ok(medium.sync()?)
}

impl CreateOptions {
    /// Checks whether a volume with these options fits a region of this size that is mapped in units of `map_bytes`.
    /// [`Volume::create`] checks this first; call it beforehand if getting the region destroys data.
    ///
    /// # Errors
    /// `Medium` if the sizes do not fit the region or contradict each other.
    pub fn check(&self, region_bytes: u64, map_bytes: u64) -> Result<()> {
        plan(region_bytes, map_bytes, self).map(drop)
    }
}

/// The layout that options ask for, the volume's size, and the huge pages that serve as zone of small pages.
fn plan(region_bytes: u64, map_bytes: u64, options: &CreateOptions) -> Result<(Layout, u64, u32)> {
    let (layout, bytes) = Layout::plan(region_bytes, options)?;
    if options.threshold == Threshold::Never && map_bytes >= layout.huge {
        let message =
            format!("the threshold \"never\" requires small pages; memory mapped with {map_bytes} pages has none");
        return Err(MediumError::refused(message).hint("choose a threshold such as 128K").into());
    }
    if options.label.len() > 32 {
        return Err(MediumError::refused(format!("the label \"{}\" is longer than 32 bytes", options.label)).into());
    }
    let segments = layout.segments(bytes);
    let default_small = u64::from(segments / 8) * layout.huge;
    let small = options.small_bytes.unwrap_or(default_small).div_ceil(layout.huge);
    let small_segments = u32::try_from(small.max(1)).unwrap_or(u32::MAX);
    if small_segments > segments {
        let data = u64::from(segments) * layout.huge;
        let message = format!("a small-page zone of {} bytes", u64::from(small_segments) * layout.huge);
        return Err(MediumError::refused(message).hint(format!("the data area has {data} bytes")).into());
    }
    Ok((layout, bytes, small_segments))
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
    // SAFETY: the free map is read when a volume is opened or checked, and stored when it is made or closed.
    (crc32c::crc32c(&map), unsafe { medium.stream(layout.free_map_at, &map, Durable::unreferenced()) })
}

/// Opens a volume: takes the free map of a clean one, recovers any other.
pub(crate) fn open(medium: Medium, options: &OpenOptions) -> Result<Parts> {
    let (mut superblock, _) = Superblock::read(&medium)?;
    if !options.read_only {
        superblock.check_writable()?;
    }
    let layout = superblock.layout.clone();
    let segments = layout.segments(superblock.bytes);
    if !superblock.clean && options.read_only {
        let message = format!("the volume on {} was not closed cleanly", medium.region().describe());
        return Err(MediumError::refused(message).hint("open it for writing once to recover it").into());
    }
    let last = store::find(&medium, &layout, &superblock.uuid);
    let journal = Journal::after(&layout, &superblock.uuid, last.clone());
    let recovered = !superblock.clean;
    // The inodes that a record changes may be in a chunk of the inode table: so those must be known before.
    let load = |segment| Mapping::load(&medium, &layout, segment);
    let load_all = || (0..segments).map(load).collect::<Result<Vec<_>>>();
    let mapping;
    let (extents, orphans);
    let mut alloc;
    if superblock.clean {
        mapping = load_all()?;
        chunks::find(&layout, segments, true, |segment| Ok(mapping[segment as usize]))?;
        alloc = Alloc::new(&layout, segments);
        (extents, orphans) = (read_mapping(&mapping, &layout, &mut alloc)?, Vec::new());
        let mut map = vec![0; alloc.free_map_bytes() as usize];
        medium.read(layout.free_map_at, &mut map);
        if crc32c::crc32c(&map) != superblock.free_map_crc {
            return Err(Error::damaged(layout.free_map_at, "a free map with a wrong checksum"));
        }
        alloc.load(&map);
        for ino in layout.inodes + 1..=layout.last_inode() {
            // One that cannot be read is damage, and not to be given out.
            if !inode::load(&medium, &layout, ino, segments).is_ok_and(|(_, record)| record.is_free()) {
                alloc.inodes.claim(ino);
            }
        }
    } else {
        chunks::find(&layout, segments, false, load)?;
        if let Some((_, record)) = last.filter(|_| !defects::on(defects::NO_REPLAY)) {
            replay(&medium, &layout, &record);
        }
        mapping = load_all()?;
        chunks::find(&layout, segments, true, |segment| Ok(mapping[segment as usize]))?;
        if superblock.size_records {
            take_sizes(&medium, &layout);
        }
        alloc = Alloc::new(&layout, segments);
        extents = read_mapping(&mapping, &layout, &mut alloc)?;
        orphans = rebuild(&medium, &layout, &mut alloc, &extents)?;
    }
    if !options.read_only {
        Mapping::heal(&medium, &layout);
        // Both copies: should the newer one be damaged later, the older one must not say "clean".
        superblock.clean = defects::on(defects::OPEN_CLEAN);
        superblock.size_records = false;
        superblock.opened = superblock.opened.saturating_add(1);
        for _ in 0..2 {
            let dirty = superblock.write(&medium, Durable::repeatable());
            medium.fence(medium.flush(dirty)).done();
        }
        // Where fences do not reach the medium: before any change does.
        medium.sync()?;
    }
    let space = Space::new(alloc, &layout, options);
    let store = Store::new(medium, superblock, journal, options);
    let (inodes, windows, tree) = (Inodes::new(extents), Windows::default(), Mutex::new(()));
    let parts = Parts { store, space, inodes, windows, tree };
    if recovered {
        // What was replayed may be changed in place from now on: its record must not be the newest then.
        parts.store.commit(Transaction::new(), Durable::nothing_new()).done();
    }
    if !defects::on(defects::ORPHANS_KEPT) {
        for ino in orphans {
            let node = parts.node(ino)?;
            contents::free_inode(&parts, ino, &mut node.write());
        }
    }
    Ok(parts)
}

/// Stores what the newest record says, where it is not older than what is there.
fn replay(medium: &Medium, layout: &Layout, record: &[u8]) {
    let mut flushed = Flushed::nothing();
    for (at, bytes) in store::replay(medium, layout, record) {
        // SAFETY: nobody else has the volume yet.
        flushed.join(medium.flush(unsafe { medium.write(at, &bytes, Durable::repeatable()) }));
    }
    medium.fence(flushed).done();
}

/// Stores the sizes that records say, which say nothing more then.
fn take_sizes(medium: &Medium, layout: &Layout) {
    let mut flushed = Flushed::nothing();
    for (at, version) in sizes::versions(layout, |at, into| medium.read(at, into)) {
        // SAFETY: nobody else has the volume yet.
        flushed.join(medium.flush(unsafe { medium.write(at, &version, Durable::repeatable()) }));
    }
    let stored = medium.fence(flushed);
    // SAFETY: as above.
    unsafe { sizes::wipe(medium, layout, stored) }.done();
}

/// Claims the huge pages that are in use; which file has which.
fn read_mapping(mapping: &[Mapping], layout: &Layout, alloc: &mut Alloc) -> Result<Extents> {
    let mut extents = Extents::new();
    for (segment, entry) in (0..).zip(mapping) {
        match *entry {
            Mapping::Free => {}
            Mapping::SmallZone => {
                alloc.claim_segment(segment, SMALL_ZONE);
            }
            Mapping::Inodes { .. } => {
                alloc.claim_segment(segment, INODE_TABLE);
            }
            Mapping::File { owner, index, .. } => {
                if owner > layout.last_inode() {
                    let found = format!("an impossible mapping entry {segment} of inode {owner}");
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

/// Finds out from the inodes what is in use, and mends torn inodes. Lists the inodes without a name: they were open
/// when the volume was lost.
fn rebuild(medium: &Medium, layout: &Layout, alloc: &mut Alloc, extents: &Extents) -> Result<Vec<Ino>> {
    let mut orphans = Vec::new();
    let segments = alloc.segment_count();
    let mut mended = Flushed::nothing();
    for ino in 1..=layout.last_inode() {
        let record = match inode::read_newest(medium, layout, ino) {
            Some((_, record)) => record,
            None => {
                let (record, dirty) = mend(medium, layout, ino)?;
                mended = mended.and(medium.flush(dirty));
                record
            }
        };
        if record.is_free() {
            continue;
        }
        let at = layout.version_at(ino, 0);
        if let Some(what) = record.nonsense(layout, segments) {
            return Err(Error::damaged(at, format!("inode {ino} with {what}")));
        }
        alloc.inodes.claim(ino);
        if record.links == 0 {
            orphans.push(ino);
        }
        let list = inode::load_list(layout, ino, &record, segments, |at, into| medium.read(at, into))?;
        for (start, pages) in inode::small_runs(&record, &list) {
            if pages > 0 && !alloc.take_pages_at(start, pages) {
                return Err(Error::damaged(at, format!("inode {ino} with pages that are not its own")));
            }
        }
    }
    medium.fence(mended).done();
    if let Some(owner) = extents.keys().find(|owner| !alloc.inodes.is_used(**owner)) {
        let found = format!("inode {owner}, which is free and owns huge pages");
        return Err(Error::damaged(layout.version_at(*owner, 0), found));
    }
    Ok(orphans)
}

/// The record that counts after a crash, of an inode with a torn half: that is written anew, as the newest version.
/// From then on a half that is torn is damage.
fn mend(medium: &Medium, layout: &Layout, ino: Ino) -> Result<(Record, Dirty)> {
    let (sequence, record) = match inode::halves(medium, layout, ino) {
        [Half::Torn, Half::Valid(s, r)] | [Half::Valid(s, r), Half::Torn] => (s, r),
        // The first version of all was torn: the inode is still free.
        [Half::Virgin, Half::Torn] => (0, Record::default()),
        _ => {
            let at = layout.version_at(ino, 0);
            return Err(Error::damaged(at, format!("inode {ino} without a valid version")));
        }
    };
    let next = sequence.wrapping_add(1);
    let (at, version) = (layout.version_at(ino, next), record.encode(ino, next));
    // SAFETY: nobody else has the volume yet.
    let dirty = unsafe { medium.write(at, &version, Durable::repeatable()) };
    Ok((record, dirty))
}

/// Stores what is only in memory, the free map, and then that the volume is clean.
pub(crate) fn close(parts: &Parts) -> Result<()> {
    let store = &parts.store;
    if !store.close() {
        return Ok(());
    }
    let _tree = lock(&parts.tree);
    for node in parts.inodes.all() {
        // Whoever changes it now is waited for; after this, nobody starts.
        let mut state = node.write();
        if state.record.links == 0 && !state.record.is_free() {
            contents::free_inode(parts, node.ino, &mut state);
        } else if state.stale {
            parts.store_version(node.ino, &mut state, Durable::nothing_new()).done();
        }
    }
    parts.space.release_nulls(0);
    let mut alloc = parts.space.alloc();
    // Whoever still stores there keeps others from opening the volume, too.
    parts.space.held.settle(&mut alloc, true);
    let (crc, flushed) = write_free_map(&store.medium, &store.layout, &alloc);
    let mut superblock = store.superblock();
    if superblock.size_records {
        // SAFETY: all sizes are stored, and whoever still stores there keeps others from opening the volume, too.
        let wiped = unsafe { sizes::wipe(&store.medium, &store.layout, Durable::repeatable()) };
        superblock.size_records = false;
        // The other copy, too: an older program heeds what either of them says it needs.
        store.store_superblock(&mut superblock, wiped).done();
    }
    let written = store::fence(&store.medium, flushed, defects::CLEAN_EARLY);
    store.medium.sync()?;
    superblock.clean = true;
    superblock.free_map_crc = crc;
    store.store_superblock(&mut superblock, written).done();
    Ok(store.medium.sync()?)
}
