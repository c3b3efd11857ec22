//! Space for files: small pages first, huge pages beyond the threshold; null files; the collector.

use crate::body::Body;
use crate::journal::Transaction;
use crate::mapping::Mapping;
use crate::node::{State, lock};
use crate::volume::Inner;
use crate::{Error, Ino, Result, Threshold, TimeNs, inode};
use pocketstone_media::Durable;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Most huge pages that a growing file gets ahead of its need.
const AHEAD_SEGMENTS: u32 = 8;
/// A run doubles up to so many pages; a longer one grows by a quarter.
const DOUBLING_PAGES: u64 = 4096;

/// Space that a file is about to get.
pub(crate) struct Reservation {
    /// Where the content lies then.
    pub body: Body,
    /// Its run of small pages: first and number.
    pub run: (u32, u32),
    /// Huge pages to enter in the mapping table: `(index, huge page)`.
    pub new: Vec<(u32, u32)>,
    /// The parts of the file whose space is new, in bytes of the file.
    pub fresh: Vec<Range<u64>>,
    /// The content has to be copied.
    pub moved: bool,
    /// The run to free when it has been.
    pub old_run: Option<(u32, u32)>,
}

/// A null file: an inode and a page, both ready for use. In memory only: on the medium both are free.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NullFile {
    pub ino: Ino,
    pub page: u32,
}

/// The null files. First in, first out: so wear goes round.
#[derive(Default)]
pub(crate) struct NullFiles(VecDeque<NullFile>);

impl NullFiles {
    pub fn len(&self) -> usize {
        self.0.len()
    }
}

impl Inner {
    /// Huge pages that one transaction can map or unmap.
    pub fn segments_per_transaction(&self) -> usize {
        ((self.layout.max_record() - 512) / 32) as usize
    }

    /// Finds space for a range of a file that will have `size` bytes. `None` if it has the space.
    pub fn reserve(&self, ino: Ino, state: &State, range: &Range<u64>, size: u64) -> Result<Option<Reservation>> {
        if range.is_empty() || state.body.has_space(range.start, range.end) {
            return Ok(None);
        }
        if state.body.is_huge() {
            return self.reserve_huge(ino, state, range).map(Some);
        }
        let end = range.end;
        match self.threshold {
            Threshold::Bytes(threshold) if size.max(end) > threshold => {
                // A file beyond the threshold stays in small pages only when there are no huge ones.
                let huge = self.reserve_huge(ino, state, range);
                huge.or_else(|_| self.reserve_run(state, end, threshold)).map(Some)
            }
            Threshold::Bytes(threshold) => {
                let run = self.reserve_run(state, end, threshold);
                run.or_else(|_| self.reserve_huge(ino, state, range)).map(Some)
            }
            Threshold::Never => self.reserve_run(state, end, u64::MAX).map(Some),
        }
    }

    fn reserve_run(&self, state: &State, end: u64, threshold: u64) -> Result<Reservation> {
        let (start, pages) = (state.record.run_start, state.record.run_pages);
        let old_bytes = u64::from(pages) * self.layout.page;
        let needed = self.layout.pages(end);
        let roomy = if needed <= DOUBLING_PAGES { needed.next_power_of_two() } else { needed + needed / 4 };
        let roomy = roomy.min(self.layout.pages(threshold)).max(needed);
        let too_large = |_| Error::NoSpace;
        let (needed, roomy) = (u32::try_from(needed).map_err(too_large)?, u32::try_from(roomy).map_err(too_large)?);
        let mut body = state.body.clone();
        let mut reservation = |start: u32, count: u32, moved: bool, old_run| {
            body.set_run(start, count);
            let fresh = std::iter::once(old_bytes..u64::from(count) * self.layout.page).collect();
            Reservation { body: body.clone(), run: (start, count), new: Vec::new(), fresh, moved, old_run }
        };
        if pages > 0 {
            for count in [roomy, needed] {
                if lock(&self.alloc).take_pages_at(start + pages, count - pages) {
                    return Ok(reservation(start, count, false, None));
                }
            }
        }
        let old_run = (pages > 0).then_some((start, pages));
        let (start, count) = self.take_run(roomy, needed)?;
        Ok(reservation(start, count, true, old_run))
    }

    /// Takes consecutive small pages: `roomy` of them if it can be, else `needed`.
    pub fn take_run(&self, roomy: u32, needed: u32) -> Result<(u32, u32)> {
        for collected in [false, true] {
            let taken = {
                let mut alloc = lock(&self.alloc);
                let low = self.is_low(&alloc);
                let first = if low { None } else { alloc.take_pages(roomy).map(|start| (start, roomy)) };
                first.or_else(|| alloc.take_pages(needed).map(|start| (start, needed)))
            };
            if let Some(taken) = taken {
                return Ok(taken);
            }
            if let Some(taken) = self.lend(needed) {
                return Ok(taken);
            }
            if !collected {
                self.collect(u64::from(needed) * self.layout.page);
            }
        }
        Err(Error::NoSpace)
    }

    /// Lets huge pages serve the small-page zone, so many that a run of `needed` pages fits.
    fn lend(&self, needed: u32) -> Option<(u32, u32)> {
        // Held to the end: nobody may use a page of them before the mapping table says what they are.
        let mut alloc = lock(&self.alloc);
        let lent = alloc.lend_segments(needed.div_ceil(self.layout.pages_per_segment()))?;
        for batch in lent.collect::<Vec<_>>().chunks(self.segments_per_transaction()) {
            let mut tx = Transaction::new();
            for segment in batch {
                tx.bytes(self.layout.mapping_entry_at(*segment), &Mapping::SmallZone.encode(*segment));
            }
            self.commit(tx, Durable::nothing()).done();
        }
        alloc.take_pages(needed).map(|start| (start, needed))
    }

    fn reserve_huge(&self, ino: Ino, state: &State, range: &Range<u64>) -> Result<Reservation> {
        let huge = self.layout.huge;
        let extents = state.body.extents();
        let has = |index: u32| extents.binary_search_by_key(&index, |(i, _)| *i).is_ok();
        let last = ((range.end - 1) / huge) as u32;
        let mut missing: Vec<u32> = ((range.start / huge) as u32..=last).filter(|index| !has(*index)).collect();
        let moved = !state.body.is_huge() && state.record.run_pages > 0;
        if moved {
            // What lies in small pages now comes along.
            let content = state.record.size.min(u64::from(state.record.run_pages) * self.layout.page);
            let more = (0..content.div_ceil(huge) as u32).filter(|index| !missing.contains(index));
            let more: Vec<u32> = more.collect();
            missing.extend(more);
            missing.sort_unstable();
        }
        if missing.len() > self.segments_per_transaction() {
            return Err(Error::NoSpace);
        }
        let previous = missing[0]
            .checked_sub(1)
            .and_then(|before| extents.binary_search_by_key(&before, |(i, _)| *i).ok().map(|i| extents[i].1));
        // A file that grows at its end gets some more, so that its huge pages follow each other.
        let grows = extents.last().is_none_or(|(index, _)| *index < last) && range.end > state.record.size;
        let room = u32::MAX - 1 - last;
        let ahead = if grows { (extents.len() as u32).min(AHEAD_SEGMENTS).min(room) } else { 0 };
        let taken = self.take_segments(missing.len() as u32, ahead, previous, ino)?;
        let extra = (taken.len() - missing.len()) as u32;
        missing.extend(last + 1..=last + extra);
        let new: Vec<(u32, u32)> = missing.iter().copied().zip(taken).collect();
        let mut all = extents.to_vec();
        all.extend(&new);
        all.sort_unstable();
        let mut body = state.body.clone();
        body.set_extents(all);
        let fresh = new.iter().map(|(i, _)| u64::from(*i) * huge..(u64::from(*i) + 1) * huge).collect();
        let old_run = (state.record.run_pages > 0).then_some((state.record.run_start, state.record.run_pages));
        Ok(Reservation { body, run: (0, 0), new, fresh, moved, old_run })
    }

    fn take_segments(&self, needed: u32, ahead: u32, previous: Option<u32>, ino: Ino) -> Result<Vec<u32>> {
        for collected in [false, true] {
            {
                let mut alloc = lock(&self.alloc);
                if ahead > 0 && !self.is_low(&alloc) {
                    if let Some(taken) = alloc.take_segments(needed + ahead, previous, ino) {
                        return Ok(taken);
                    }
                }
                if let Some(taken) = alloc.take_segments(needed, previous, ino) {
                    return Ok(taken);
                }
            }
            if !collected {
                self.collect(u64::from(needed) * self.layout.huge);
            }
        }
        Err(Error::NoSpace)
    }

    /// Frees huge pages whose entries in the mapping table are cleared.
    pub fn free_segments(&self, segments: &[u32]) {
        let mut alloc = lock(&self.alloc);
        for segment in segments {
            alloc.free_segment(*segment);
        }
    }

    // --- null files -----------------------------------------------------------------------------

    /// An inode for a new file and, if a null file was ready, its page.
    pub fn take_null(&self) -> Result<(Ino, Option<u32>)> {
        if let Some(null) = lock(&self.nulls).0.pop_front() {
            return Ok((null.ino, Some(null.page)));
        }
        if let Some(ino) = lock(&self.alloc).take_inode() {
            return Ok((ino, None));
        }
        Err(Error::NoSpace)
    }

    /// Takes back what a new file did not need after all.
    pub fn return_null(&self, ino: Ino, page: Option<u32>) {
        match page {
            Some(page) => lock(&self.nulls).0.push_back(NullFile { ino, page }),
            None => lock(&self.alloc).free_inode(ino),
        }
    }

    /// Frees a deleted file's inode and run; its first page may become a null file.
    pub fn retire(&self, ino: Ino, start: u32, pages: u32) {
        let limit = self.options.null_files as usize * 2;
        let mut rest = (start, pages);
        {
            let mut nulls = lock(&self.nulls);
            if pages > 0 && nulls.0.len() < limit {
                nulls.0.push_back(NullFile { ino, page: start });
                rest = (start + 1, pages - 1);
            }
        }
        let mut alloc = lock(&self.alloc);
        if rest.1 == pages {
            alloc.free_inode(ino);
        }
        alloc.free_page_run(rest.0, rest.1);
    }

    /// Frees pages that a file was cut by; the first may become a null file, if there are too few.
    pub fn take_back(&self, start: u32, pages: u32) {
        let mut nulls = lock(&self.nulls);
        let mut alloc = lock(&self.alloc);
        let mut rest = (start, pages);
        if pages > 0 && nulls.len() < self.options.null_files as usize && !self.is_low(&alloc) {
            if let Some(ino) = alloc.take_inode() {
                nulls.0.push_back(NullFile { ino, page: start });
                rest = (start + 1, pages - 1);
            }
        }
        alloc.free_page_run(rest.0, rest.1);
    }

    /// Makes null files until there are as many as there should be, with their pages mapped and touched.
    pub fn refill(&self) {
        loop {
            // Held until the page is where `statfs` counts it again.
            let mut nulls = lock(&self.nulls);
            if nulls.len() >= self.options.null_files as usize {
                return;
            }
            let made = {
                let mut alloc = lock(&self.alloc);
                // The last inodes and pages are for those who need them.
                if self.is_low(&alloc) || alloc.free_inodes() < self.layout.inodes / 8 {
                    return;
                }
                alloc.take_pages(1).map(|page| (alloc.take_inode(), page))
            };
            match made {
                Some((Some(ino), page)) => {
                    self.medium.region().touch(self.layout.page_at(page), self.layout.page);
                    nulls.0.push_back(NullFile { ino, page });
                }
                Some((None, page)) => return lock(&self.alloc).free_page_run(page, 1),
                None => return,
            }
        }
    }

    /// Gives all null files back but `keep`; the bytes that are free now.
    pub fn release_nulls(&self, keep: usize) -> u64 {
        let mut nulls = lock(&self.nulls);
        let mut alloc = lock(&self.alloc);
        let count = nulls.len().saturating_sub(keep);
        for null in nulls.0.drain(..count) {
            alloc.free_inode(null.ino);
            alloc.free_page_run(null.page, 1);
        }
        count as u64 * self.layout.page
    }

    // --- the collector --------------------------------------------------------------------------

    /// Whether free space is below the low-water mark.
    pub fn is_low(&self, alloc: &crate::alloc::Alloc) -> bool {
        let free = alloc.free_pages() * self.layout.page + u64::from(alloc.free_segments()) * self.layout.huge;
        free < self.low_water_bytes(alloc)
    }

    pub fn low_water_bytes(&self, alloc: &crate::alloc::Alloc) -> u64 {
        let data = u64::from(alloc.segment_count()) * self.layout.huge;
        data / 100 * u64::from(self.options.low_water_percent)
    }

    /// Gives back at least `goal` bytes if it can: surplus null files first, then what was preallocated
    /// for files beyond their ends, that of the least recently modified ones first; last, huge pages that
    /// serve the small-page zone beyond its reserve and hold nothing. The bytes given back.
    pub fn collect(&self, goal: u64) -> u64 {
        if self.read_only() {
            return 0;
        }
        self.collections.fetch_add(1, Ordering::Relaxed);
        let mut freed = self.release_nulls(0);
        let changes = self.space_changes.load(Ordering::Relaxed);
        if freed < goal && self.fruitless.load(Ordering::Relaxed) != changes {
            let before = freed;
            let mut tails = self.tails();
            tails.sort_unstable();
            for (_, ino) in tails {
                freed += self.cut_tail(ino);
                if freed >= goal {
                    break;
                }
            }
            if freed == before {
                self.fruitless.store(changes, Ordering::Relaxed);
            }
        }
        self.return_idle_segments();
        self.collected_bytes.fetch_add(freed, Ordering::Relaxed);
        freed
    }

    /// Files with preallocated space, and when they were last modified. Only what is stored is looked
    /// at: good enough to choose by.
    fn tails(&self) -> Vec<(TimeNs, Ino)> {
        let used: Vec<Ino> = lock(&self.alloc).used_inodes().collect();
        let segments = self.segments();
        let has_tail = |ino: &Ino| {
            let (_, record) = inode::load(&self.medium, &self.layout, *ino, segments).ok()?;
            let space = u64::from(record.run_pages) * self.layout.page + u64::from(record.segments) * self.layout.huge;
            let unit = if record.huge { self.layout.huge } else { self.layout.page };
            let has_tail = space >= record.size.saturating_add(unit);
            (has_tail && !record.is_free() && !record.reserved).then_some((record.mtime_ns, *ino))
        };
        used.iter().filter_map(has_tail).collect()
    }

    /// Cuts a file's space down to its size; the bytes given back. Files in use right now are left alone.
    fn cut_tail(&self, ino: Ino) -> u64 {
        let Ok(node) = self.node(ino) else { return 0 };
        let Some(mut state) = node.try_write() else { return 0 };
        let record = state.record;
        if record.is_free() || record.reserved || record.is_directory() && state.record.size > 0 {
            return 0;
        }
        if state.body.is_huge() {
            let first = record.size.div_ceil(self.layout.huge) as u32;
            let gone = state.body.extents().iter().filter(|(index, _)| *index >= first).count() as u64;
            if gone > 0 {
                self.drop_segments(ino, &mut state, record, first..u32::MAX);
            }
            return gone * self.layout.huge;
        }
        let keep = self.layout.pages(record.size).min(u64::from(record.run_pages)) as u32;
        if keep < record.run_pages {
            let (start, pages) = self.shorten_run(ino, &mut state, record, keep);
            lock(&self.alloc).free_page_run(start, pages);
        }
        u64::from(record.run_pages - keep) * self.layout.page
    }

    fn return_idle_segments(&self) {
        let keep = lock(&self.superblock).small_segments;
        // Held to the end: nobody may take a page of a huge page that is on its way out.
        let mut alloc = lock(&self.alloc);
        let idle = alloc.idle_small_segments(keep);
        for batch in idle.chunks(self.segments_per_transaction()) {
            let mut tx = Transaction::new();
            self.unmap_segments(&mut tx, batch);
            self.commit(tx, Durable::nothing()).done();
            for segment in batch {
                alloc.free_segment(*segment);
            }
        }
    }
}
