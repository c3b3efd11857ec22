//! Free space: pages, huge pages and inodes that nobody has, and null files. It says when there is none, and leaves it
//! to others to make some.

mod alloc;
mod effort;
mod held;
mod inode_map;
mod readers;

pub(crate) use alloc::Alloc;
pub(crate) use effort::Effort;
pub(crate) use held::{Freed, Held};
pub(crate) use readers::Reading;

use crate::format::layout::Layout;
use crate::format::mapping::Mapping;
use crate::store::{Store, Transaction, lock};
use crate::{Ino, OpenOptions};
use pocketstone_media::Durable;
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard};

/// A null file: an inode and a page, both ready for use. In memory only: on the medium both are free.
#[derive(Debug, Clone, Copy)]
struct NullFile {
    ino: Ino,
    page: u32,
}

/// The null files. First in, first out: so wear goes round.
#[derive(Default)]
pub(crate) struct NullFiles(VecDeque<NullFile>);

impl NullFiles {
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many of them have an inode after `ino`.
    pub fn after(&self, ino: Ino) -> usize {
        self.0.iter().filter(|null| null.ino > ino).count()
    }
}

/// What of an open volume nobody has. Of its locks, that of the null files comes first.
pub(crate) struct Space {
    alloc: Mutex<Alloc>,
    nulls: Mutex<NullFiles>,
    pub held: Held,
    pub effort: Effort,
    page: u64,
    huge: u64,
    /// Null files to keep ready.
    null_files: usize,
    low_water_percent: u8,
}

impl Space {
    pub fn new(alloc: Alloc, layout: &Layout, options: &OpenOptions) -> Space {
        Space {
            alloc: Mutex::new(alloc),
            nulls: Mutex::default(),
            held: Held::default(),
            effort: Effort::new(),
            page: layout.page,
            huge: layout.huge,
            null_files: options.null_files as usize,
            low_water_percent: options.low_water_percent,
        }
    }

    pub fn alloc(&self) -> MutexGuard<'_, Alloc> {
        let mut alloc = lock(&self.alloc);
        self.held.settle(&mut alloc, false);
        alloc
    }

    pub fn nulls(&self) -> MutexGuard<'_, NullFiles> {
        lock(&self.nulls)
    }

    /// Whether free space is below the low-water mark.
    pub fn is_low(&self, alloc: &Alloc) -> bool {
        self.free_bytes(alloc) < self.low_water_bytes(alloc)
    }

    /// Free small and huge pages together, in bytes.
    pub fn free_bytes(&self, alloc: &Alloc) -> u64 {
        alloc.free_pages() * self.page + u64::from(alloc.free_segments()) * self.huge
    }

    pub fn low_water_bytes(&self, alloc: &Alloc) -> u64 {
        let data = u64::from(alloc.segment_count()) * self.huge;
        data / 100 * u64::from(self.low_water_percent)
    }

    // --- null files -----------------------------------------------------------------------------

    /// An inode for a new file and its page, if a null file was ready; else an inode alone, if one is free.
    pub fn take_inode(&self) -> Option<(Ino, Option<u32>)> {
        if let Some(null) = self.nulls().0.pop_front() {
            return Some((null.ino, Some(null.page)));
        }
        self.alloc().inodes.take().map(|ino| (ino, None))
    }

    /// Takes back what a new file did not need after all.
    pub fn return_inode(&self, ino: Ino, page: Option<u32>) {
        match page {
            Some(page) => self.nulls().0.push_back(NullFile { ino, page }),
            None => self.alloc().inodes.free(ino),
        }
    }

    /// Frees a deleted file's inode and run; its first page may become a null file.
    pub fn retire(&self, ino: Ino, start: u32, pages: u32) {
        if let Some(running) = self.held.running().filter(|_| pages > 0) {
            self.held.keep(running, vec![Freed::Pages(start, pages)]);
            return self.alloc().inodes.free(ino);
        }
        let mut rest = (start, pages);
        {
            let mut nulls = self.nulls();
            if pages > 0 && nulls.0.len() < self.null_files * 2 {
                nulls.0.push_back(NullFile { ino, page: start });
                rest = (start + 1, pages - 1);
            }
        }
        let mut alloc = self.alloc();
        if rest.1 == pages {
            alloc.inodes.free(ino);
        }
        alloc.free_page_run(rest.0, rest.1);
    }

    /// Frees pages that a file was cut by; the first may become a null file, if there are too few.
    pub fn take_back(&self, start: u32, pages: u32) {
        if let Some(running) = self.held.running().filter(|_| pages > 0) {
            return self.held.keep(running, vec![Freed::Pages(start, pages)]);
        }
        let mut nulls = self.nulls();
        let mut alloc = self.alloc();
        let mut rest = (start, pages);
        if pages > 0 && nulls.len() < self.null_files && !self.is_low(&alloc) {
            if let Some(ino) = alloc.inodes.take() {
                nulls.0.push_back(NullFile { ino, page: start });
                rest = (start + 1, pages - 1);
            }
        }
        alloc.free_page_run(rest.0, rest.1);
    }

    /// Makes null files until there are as many as there should be, with their pages mapped and touched.
    pub fn refill(&self, store: &Store) {
        loop {
            // Held until the page is where `statfs` counts it again.
            let mut nulls = self.nulls();
            if nulls.len() >= self.null_files {
                return;
            }
            let made = {
                let mut alloc = self.alloc();
                // The last inodes and pages are for those who need them.
                if self.is_low(&alloc) || alloc.inodes.free_count() < store.layout.last_inode() / 8 {
                    return;
                }
                alloc.take_pages(1).map(|page| (alloc.inodes.take(), page))
            };
            match made {
                Some((Some(ino), page)) => {
                    store.medium.touch(store.layout.page_at(page), self.page);
                    nulls.0.push_back(NullFile { ino, page });
                }
                Some((None, page)) => return self.alloc().free_page_run(page, 1),
                None => return,
            }
        }
    }

    /// Gives all null files back but `keep`; the bytes that are free now.
    pub fn release_nulls(&self, keep: usize) -> u64 {
        let mut nulls = self.nulls();
        let mut alloc = self.alloc();
        let count = nulls.len().saturating_sub(keep);
        for null in nulls.0.drain(..count) {
            alloc.inodes.free(null.ino);
            alloc.free_page_run(null.page, 1);
        }
        count as u64 * self.page
    }

    // --- pages and huge pages -------------------------------------------------------------------

    /// Takes consecutive small pages that are free: `roomy` of them if there is space enough, else `needed`; huge pages
    /// are lent for them where there are none.
    pub fn take_run(&self, store: &Store, roomy: u32, needed: u32) -> Option<(u32, u32)> {
        let taken = {
            let mut alloc = self.alloc();
            let low = self.is_low(&alloc);
            let first = if low { None } else { alloc.take_pages(roomy).map(|start| (start, roomy)) };
            first.or_else(|| alloc.take_pages(needed).map(|start| (start, needed)))
        };
        taken.or_else(|| self.lend(store, needed))
    }

    /// Lets huge pages serve the small-page zone, so many that a run of `needed` pages fits.
    fn lend(&self, store: &Store, needed: u32) -> Option<(u32, u32)> {
        // Held to the end: nobody may use a page of them before the mapping table says what they are.
        let mut alloc = self.alloc();
        let lent = alloc.lend_segments(needed.div_ceil(store.layout.pages_per_segment()))?;
        map_lent(store, lent);
        alloc.take_pages(needed).map(|start| (start, needed))
    }

    /// Takes small pages wherever they are free, best the ones from `after` on; huge pages are lent for them.
    pub fn take_scattered(&self, store: &Store, count: u32, after: Option<u32>) -> Option<Vec<(u32, u32)>> {
        let mut alloc = self.alloc();
        if let Some(after) = after.filter(|after| alloc.take_pages_at(*after, count)) {
            return Some(vec![(after, count)]);
        }
        let lendable = u64::from(alloc.free_segments()) * u64::from(store.layout.pages_per_segment());
        if alloc.free_pages() + lendable < u64::from(count) {
            return None;
        }
        while alloc.free_pages() < u64::from(count) {
            let Some(lent) = alloc.lend_segments(1) else { break };
            map_lent(store, lent);
        }
        alloc.take_scattered(count)
    }

    /// Takes free huge pages, as [`Alloc::take_segments`]; `ahead` more of them, if there is space enough.
    pub fn take_segments(&self, needed: u32, ahead: u32, previous: Option<u32>, owner: Ino) -> Option<Vec<u32>> {
        let mut alloc = self.alloc();
        let more = ahead > 0 && !self.is_low(&alloc);
        let taken = if more { alloc.take_segments(needed + ahead, previous, owner) } else { None };
        taken.or_else(|| alloc.take_segments(needed, previous, owner))
    }

    /// Frees huge pages whose entries in the mapping table are cleared.
    pub fn free_segments(&self, segments: &[u32]) {
        if segments.is_empty() {
            return;
        }
        if let Some(running) = self.held.running() {
            return self.held.keep(running, segments.iter().map(|segment| Freed::Segment(*segment)).collect());
        }
        let mut alloc = self.alloc();
        for segment in segments {
            alloc.free_segment(*segment);
        }
    }

    /// Frees small pages that nothing refers to any more.
    pub fn free_pages(&self, start: u32, pages: u32) {
        self.free_runs(std::iter::once((start, pages)));
    }

    /// Frees runs of small pages that nothing refers to any more.
    pub fn free_runs(&self, runs: impl IntoIterator<Item = (u32, u32)>) {
        let mut runs = runs.into_iter().filter(|(_, pages)| *pages > 0).peekable();
        if runs.peek().is_none() {
            return;
        }
        if let Some(running) = self.held.running() {
            return self.held.keep(running, runs.map(|(start, pages)| Freed::Pages(start, pages)).collect());
        }
        let mut alloc = self.alloc();
        runs.for_each(|(start, pages)| alloc.free_page_run(start, pages));
    }

    // --- what was lent --------------------------------------------------------------------------

    /// Takes back huge pages that were lent to inodes and small pages and hold nothing.
    pub fn return_idle(&self, store: &Store) {
        self.return_idle_chunks(store);
        self.return_idle_segments(store);
    }

    /// Takes back the last chunks of the inode table in which no inode is in use.
    fn return_idle_chunks(&self, store: &Store) {
        // Held to the end: nobody may take an inode of a chunk that is on its way out.
        let mut alloc = self.alloc();
        let layout = &store.layout;
        while alloc.inodes.used_in_chunks().last() == Some(&0) {
            let Some(segment) = layout.chunks.get(layout.chunks.count() - 1) else { return };
            let mut tx = Transaction::new();
            tx.unmap(layout, &[segment]);
            store.commit(tx, Durable::nothing_new()).done();
            layout.chunks.pop();
            alloc.inodes.remove_chunk();
            alloc.free_segment(segment);
        }
    }

    /// Takes back huge pages that serve the zone of small pages beyond its reserve, and hold nothing.
    pub fn return_idle_segments(&self, store: &Store) {
        let keep = store.superblock().small_segments;
        // Held to the end: nobody may take a page of a huge page that is on its way out.
        let mut alloc = self.alloc();
        let idle = alloc.idle_small_segments(keep);
        for batch in idle.chunks(store.layout.segments_per_transaction()) {
            let mut tx = Transaction::new();
            tx.unmap(&store.layout, batch);
            store.commit(tx, Durable::nothing_new()).done();
            for segment in batch {
                alloc.free_segment(*segment);
            }
        }
    }
}

fn map_lent(store: &Store, lent: Range<u32>) {
    for batch in lent.collect::<Vec<_>>().chunks(store.layout.segments_per_transaction()) {
        let mut tx = Transaction::new();
        for segment in batch {
            tx.map(&store.layout, *segment, Mapping::SmallZone);
        }
        store.commit(tx, Durable::nothing_new()).done();
    }
}
