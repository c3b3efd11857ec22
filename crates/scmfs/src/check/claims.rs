//! Small pages: who has which, and what becomes of those that several inodes have.

use super::{FindingKind, PageCopy, Subject, Survey};
use crate::format::attributes;
use crate::format::entry::{ENTRY_MAX, Slot, decode};
use crate::format::extents::{self, Extent};
use crate::format::inode::Record;
use crate::format::layout::SLOT_BYTES;
use crate::format::mapping::Mapping;
use crate::space::Alloc;
use crate::{FileType, Ino};
use std::cmp::Reverse;
use std::ops::Range;

/// What small pages hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Holds {
    Xattrs,
    List,
    Run,
    /// The extent with this number in the inode's list.
    Extent(u32),
}

/// Small pages that an inode says are its own. The order is that of belief: what has a right checksum comes first,
/// then what was changed last; what an inode with a damaged half says comes after all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Claim {
    is_doubtful: bool,
    has_no_proof: bool,
    changed_ns: Reverse<i64>,
    ino: Ino,
    holds: Holds,
    start: u32,
    pages: u32,
}

impl Survey {
    /// Says who has which small page. What collides with a better claim gets a copy in free pages.
    pub(super) fn claims(&mut self) {
        let unit = self.image.layout.pages_per_segment();
        let mut used: Vec<Ino> = vec![0; self.segments.len() * unit as usize];
        let mut colliding: Vec<(Claim, u32)> = Vec::new();
        for claim in all_claims(self) {
            let pages = claim.start..claim.start + claim.pages;
            let is_taken =
                |page: &u32| used[*page as usize] != 0 || self.segments[(*page / unit) as usize] != Mapping::SmallZone;
            if let Some(first) = pages.clone().find(is_taken) {
                colliding.push((claim, first - claim.start));
            }
            for page in pages {
                let owner = &mut used[page as usize];
                *owner = if *owner == 0 { claim.ino } else { *owner };
            }
        }
        if colliding.is_empty() && self.relisted.is_empty() {
            return cut_off(self);
        }
        let mut free = free_space(self, &used);
        for (claim, first) in colliding {
            settle_collision(self, claim, first, &used, &mut free);
        }
        write_lists(self, &mut free);
        cut_off(self);
    }
}

/// What all inodes claim, the most believable first. Damaged attributes, lists and links are dropped.
fn all_claims(survey: &mut Survey) -> Vec<Claim> {
    let mut claims = Vec::new();
    // Sound directories have each slot of the data area once: whoever says that all have all of it gets no proof.
    let mut slots_left = survey.segments.len() as u64 * survey.image.layout.huge / SLOT_BYTES;
    let all: Vec<(Ino, Record)> = survey.records.iter().map(|(ino, record)| (*ino, *record)).collect();
    for (ino, record) in all {
        let mut claim = |holds, has_proof: bool, start, pages| {
            if pages > 0 {
                let changed_ns = Reverse(record.ctime_ns);
                let is_doubtful = survey.doubtful.contains(&ino);
                claims.push(Claim { is_doubtful, has_no_proof: !has_proof, changed_ns, ino, holds, start, pages });
            }
        };
        let layout = &survey.image.layout;
        let at = |page: u32| layout.page_at(page);
        let mut target = Vec::new();
        if record.kind() == FileType::Symlink {
            target.resize(record.size as usize, 0);
            survey.image.read(at(record.run_start), &mut target);
            if crc32c::crc32c(&target) != record.target_crc {
                survey.lose(ino, "the target of the symbolic link has a wrong checksum");
                continue;
            }
        }
        let mut attributes = vec![0; record.xattr_bytes as usize];
        survey.image.read(at(record.xattr_start), &mut attributes);
        let attributes_are_sound = attributes.is_empty() || attributes::decode(ino, &attributes).is_some();
        if attributes_are_sound {
            claim(Holds::Xattrs, !attributes.is_empty(), record.xattr_start, record.xattr_pages);
        }
        let list = survey.read_list(ino, &record);
        let fits = |extent: &Extent| {
            // First: an extent outside the volume may be as long as numbers go.
            if !survey.is_inside(extent.start, extent.pages) || extent.index < record.run_pages {
                return false;
            }
            let huge = survey.huge.get(&ino).map_or(&[][..], Vec::as_slice);
            let per_segment = u64::from(layout.pages_per_segment());
            let first = huge.partition_point(|(index, _)| (u64::from(*index) + 1) * per_segment <= extent.index.into());
            huge.get(first).is_none_or(|(index, _)| extent.end_index() <= u64::from(*index) * per_segment)
        };
        let kept: Option<Vec<Extent>> = list.as_ref().map(|list| list.iter().copied().filter(fits).collect());
        if record.list_pages > 0 && kept.is_some() {
            claim(Holds::List, record.list_extents > 0, record.list_start, record.list_pages);
        }
        for (i, extent) in kept.iter().flatten().enumerate() {
            claim(Holds::Extent(i as u32), record.is_directory(), extent.start, extent.pages);
        }
        let has_proof = match record.kind() {
            FileType::Directory => {
                let bytes = record.size.min(u64::from(record.run_pages) * survey.image.layout.page);
                let read = |offset, into: &mut [u8]| survey.image.read(at(record.run_start) + offset, into);
                has_an_entry(read, ino, bytes, &mut slots_left)
            }
            FileType::Symlink => true,
            _ => false,
        };
        claim(Holds::Run, has_proof, record.run_start, record.run_pages);
        if !attributes_are_sound {
            let at = at(record.xattr_start);
            survey.find(at, FindingKind::Xattr, "its extended attributes are damaged", Subject::Inode(ino));
            survey.change(ino, |record| (record.xattr_start, record.xattr_pages, record.xattr_bytes) = (0, 0, 0));
        }
        let lost_extents = match (&list, &kept) {
            (Some(list), Some(kept)) => list.len() - kept.len(),
            _ => record.list_extents as usize,
        };
        if lost_extents > 0 {
            let what = format!("{lost_extents} of its {} extents are lost: there are holes now", record.list_extents);
            survey.find(survey.image.layout.page_at(record.list_start), FindingKind::List, what, Subject::Inode(ino));
            survey.relisted.insert(ino);
        }
        if let Some(kept) = kept.filter(|kept| !kept.is_empty()) {
            survey.lists.insert(ino, kept);
        } else if lost_extents > 0 {
            survey.change(ino, |record| (record.list_start, record.list_pages, record.list_extents) = (0, 0, 0));
        }
    }
    claims.sort_unstable();
    claims
}

/// Whether the run of a directory, so many bytes of it, holds an entry of that directory: then the run is the
/// directory's. `read` gets the bytes from an offset on; it is looked at so many slots that are left.
fn has_an_entry(read: impl Fn(u64, &mut [u8]), ino: Ino, bytes: u64, slots_left: &mut u64) -> bool {
    let mut buffer = [0; ENTRY_MAX];
    for slot in 0..bytes / SLOT_BYTES {
        let Some(left) = slots_left.checked_sub(1) else { return false };
        *slots_left = left;
        let offset = slot * SLOT_BYTES;
        let b = &mut buffer[..(bytes - offset).min(ENTRY_MAX as u64) as usize];
        read(offset, b);
        if matches!(decode(ino, slot as u32, b), Some(Slot::Entry(..))) {
            return true;
        }
    }
    false
}

/// What nobody has, to give copies a place.
fn free_space(survey: &Survey, used: &[Ino]) -> Alloc {
    let unit = survey.image.layout.pages_per_segment();
    let mut alloc = Alloc::new(&survey.image.layout, survey.segments.len() as u32);
    for (segment, entry) in (0..).zip(&survey.segments) {
        match entry {
            Mapping::Free => {
                // A claim that was refused may still point into it: what is there is not written over.
                let first = segment * unit;
                if (first..first + unit).any(|page| used[page as usize] != 0) {
                    alloc.claim_segment(segment, 1);
                }
            }
            Mapping::SmallZone => {
                alloc.claim_segment(segment, crate::format::mapping::SMALL_ZONE);
            }
            _ => {
                alloc.claim_segment(segment, 1);
            }
        }
    }
    for (page, owner) in (0..).zip(used) {
        if *owner != 0 {
            alloc.take_pages_at(page, 1);
        }
    }
    alloc
}

/// Takes free small pages; huge pages join the zone for them if they must.
fn take_pages(survey: &mut Survey, free: &mut Alloc, pages: u32) -> Option<u32> {
    if let Some(start) = free.take_pages(pages) {
        return Some(start);
    }
    for segment in free.lend_segments(pages.div_ceil(survey.image.layout.pages_per_segment()))? {
        survey.segments[segment as usize] = Mapping::SmallZone;
        survey.entries.insert(segment, Mapping::SmallZone);
    }
    free.take_pages(pages)
}

/// Gives a claim that collides a copy; without space for it, what collides is cut off. `first` is the first
/// page that collides.
fn settle_collision(survey: &mut Survey, claim: Claim, first: u32, used: &[Ino], free: &mut Alloc) {
    let Some(record) = survey.records.get(&claim.ino).copied() else { return };
    let (layout, ino, at) = (survey.image.layout.clone(), claim.ino, survey.image.layout.version_at(claim.ino, 0));
    let page = claim.start + first;
    let other = match used[page as usize] {
        other if other != ino && other != 0 => format!("as has inode {other}"),
        _ => "which is not for it".into(),
    };
    let content = layout.pages(record.size).min(u64::from(record.run_pages)) as u32;
    let needed = if claim.holds == Holds::Run { content } else { claim.pages };
    let what = format!("it has page {page}, {other}");
    if claim.holds == Holds::Run && first >= content {
        // Only what was reserved for later collides.
        survey.find(at, FindingKind::Page, what, Subject::Inode(ino));
        return survey.change(ino, |record| set_run(record, record.run_start, first));
    }
    let start = if needed == 0 { None } else { take_pages(survey, free, needed) };
    if let Some(start) = start {
        let foreign = |page: &u32| ![0, ino].contains(&used[*page as usize]);
        survey.copies.push(PageCopy {
            from: claim.start,
            to: start,
            pages: needed,
            content: matches!(claim.holds, Holds::Run | Holds::Extent(_)) && record.kind() == FileType::Regular,
            foreign: (claim.start..claim.start + needed).filter(foreign).collect(),
        });
        survey.find(at, FindingKind::Page, format!("{what}: it gets a copy"), Subject::Inode(ino));
        match claim.holds {
            Holds::Run => survey.change(ino, |record| set_run(record, start, needed)),
            Holds::Xattrs => survey.change(ino, |record| record.xattr_start = start),
            Holds::List => survey.change(ino, |record| record.list_start = start),
            Holds::Extent(i) => {
                if let Some(extent) = survey.lists.get_mut(&ino).and_then(|list| list.get_mut(i as usize)) {
                    extent.start = start;
                }
                survey.relisted.insert(ino);
            }
        }
        return;
    }
    match claim.holds {
        Holds::Xattrs => {
            survey.find(
                at,
                FindingKind::Xattr,
                format!("its extended attributes: {what}, and no space"),
                Subject::Inode(ino),
            );
            survey.change(ino, |record| (record.xattr_start, record.xattr_pages, record.xattr_bytes) = (0, 0, 0));
        }
        Holds::List => {
            survey.relisted.insert(ino);
            survey.change(ino, |record| (record.list_start, record.list_pages) = (0, 0));
        }
        Holds::Extent(i) => {
            let lost = survey.lists.get_mut(&ino).and_then(|list| list.get_mut(i as usize));
            let bytes = lost.map_or(0..0, |extent| {
                let from = u64::from(extent.index) * layout.page;
                extent.pages = 0;
                from..from + u64::from(claim.pages) * layout.page
            });
            let what = format!("{what}: bytes {}..{} are lost, for lack of space", bytes.start, bytes.end);
            survey.find(at, FindingKind::Page, what, Subject::Inode(ino));
            survey.relisted.insert(ino);
        }
        Holds::Run if record.kind() == FileType::Symlink => {
            survey.lose(ino, &format!("{what}, and no space for a copy"))
        }
        Holds::Run => {
            let from = u64::from(first) * layout.page;
            let end = record.size.min(u64::from(record.run_pages) * layout.page);
            let what = format!("{what}: bytes {from}..{end} are lost, for lack of space");
            survey.find(at, FindingKind::Page, what, Subject::Inode(ino));
            let is_directory = record.is_directory();
            survey.change(ino, |record| {
                set_run(record, record.run_start, first);
                record.size = if is_directory { from } else { record.size };
            });
        }
    }
}

/// Writes the lists of extents that changed anew.
fn write_lists(survey: &mut Survey, free: &mut Alloc) {
    for ino in std::mem::take(&mut survey.relisted) {
        let mut list = survey.lists.remove(&ino).unwrap_or_default();
        list.retain(|extent| extent.pages > 0);
        let Some(record) = survey.records.get(&ino).copied() else { continue };
        let bytes = extents::encode(ino, &list);
        let pages = survey.image.layout.pages(bytes.len() as u64) as u32;
        let has_place = record.list_pages >= pages && !list.is_empty();
        let start = match list.is_empty() {
            true => None,
            // In place only where there is nothing else: what is torn there is lost.
            false => take_pages(survey, free, pages).or(has_place.then_some(record.list_start)),
        };
        let Some(start) = start else {
            if !list.is_empty() {
                let at = survey.image.layout.version_at(ino, 0);
                survey.find(at, FindingKind::List, "there is no space for its extent list", Subject::Inode(ino));
            }
            survey.change(ino, |record| (record.list_start, record.list_pages, record.list_extents) = (0, 0, 0));
            continue;
        };
        survey.texts.push((survey.image.layout.page_at(start), bytes));
        survey.change(ino, |record| {
            let extents = list.len() as u32;
            (record.list_start, record.list_pages, record.list_extents) = (start, pages, extents);
        });
        survey.lists.insert(ino, list);
    }
}

/// Which files lost bytes to the end of a region that was cut off, and is made of zeros again.
fn cut_off(survey: &mut Survey) {
    let Some(from) = survey.cut_from else { return };
    let layout = survey.image.layout.clone();
    let mut lost: Vec<(Ino, Range<u64>)> = Vec::new();
    for (ino, record) in &survey.records {
        let mut piece = |offset: u64, at: u64, bytes: u64| {
            let end = record.size.min(offset + bytes);
            let begin = offset + from.saturating_sub(at).min(bytes);
            if begin < end {
                lost.push((*ino, begin..end));
            }
        };
        piece(0, layout.page_at(record.run_start), u64::from(record.run_pages) * layout.page);
        for (index, segment) in survey.huge.get(ino).into_iter().flatten() {
            piece(u64::from(*index) * layout.huge, layout.segment_at(*segment), layout.huge);
        }
        for extent in survey.lists.get(ino).into_iter().flatten() {
            let bytes = u64::from(extent.pages) * layout.page;
            piece(u64::from(extent.index) * layout.page, layout.page_at(extent.start), bytes);
        }
    }
    for (ino, Range { start, end }) in lost {
        let what = format!("bytes {start}..{end} are lost: the region was truncated");
        survey.find(from, FindingKind::Cut, what, Subject::Inode(ino));
    }
}

fn set_run(record: &mut Record, start: u32, pages: u32) {
    (record.run_start, record.run_pages) = if pages == 0 { (0, 0) } else { (start, pages) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::entry::encode;
    use std::cell::Cell;

    #[test]
    fn directories_that_all_claim_the_same_run_are_looked_through_once() {
        let entry = encode(3, 9, b"name", 7, FileType::Regular);
        let mut run = [0; 16 * SLOT_BYTES as usize];
        let at = 9 * SLOT_BYTES as usize;
        run[at..at + entry.len()].copy_from_slice(&entry);
        let reads = Cell::new(0);
        let read = |offset: u64, into: &mut [u8]| {
            reads.set(reads.get() + 1);
            into.copy_from_slice(&run[offset as usize..][..into.len()]);
        };
        let proves = |ino, left: &mut u64| has_an_entry(read, ino, run.len() as u64, left);
        assert!(proves(3, &mut 16) && !proves(4, &mut 16) && !proves(3, &mut 9));
        reads.set(0);
        let mut left = 16;
        assert!((10..1000).all(|ino| !proves(ino, &mut left)));
        assert_eq!(reads.get(), 16);
    }
}
