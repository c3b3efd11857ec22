//! An open file: its window, and what reads, faults and calls for pages do to the page cache.

use super::cache::{PAGE_BYTES, PageCache};
use super::window::{Cause, Pass, Window};
use super::{Advice, Request, Rules, Setting};

/// Above so many more misses than hits, faults no longer read around.
const MOST_FAULT_MISSES: u64 = 100;
/// Where 3.0 and later stop to count them.
const COUNTED_FAULT_MISSES: u64 = 10 * MOST_FAULT_MISSES;
/// Pages that a fault of 6.1 maps at once where they are cached (fault_around_bytes is 64 KiB).
const FAULT_AROUND_PAGES: u64 = 16;

/// An open file, as read-ahead sees it.
#[derive(Debug, Clone)]
pub struct OpenFile {
    rules: Rules,
    setting: Setting,
    window: Window,
    /// Where the access before ended: a byte's address for 6.1, a page before.
    before: Option<u64>,
    fault_misses: u64,
}

impl OpenFile {
    /// A file as it is after open() and the advice.
    pub fn new(rules: Rules, setting: Setting) -> Self {
        OpenFile { rules, setting, window: Window::default(), before: None, fault_misses: 0 }
    }

    pub(super) fn reopened(&self) -> Self {
        OpenFile::new(self.rules, self.setting)
    }

    /// A read of part of the file; `take` hears each page that is read from the medium, in order.
    ///
    /// What lies behind the file's end is not read. (Old kernels look for a page there, too, which may move the window
    /// but costs no medium anything; that is left out.)
    pub fn read(&mut self, cache: &mut PageCache, request: Request, take: &mut impl FnMut(u64)) {
        let end = request.offset.saturating_add(request.bytes);
        let behind = end.div_ceil(PAGE_BYTES);
        let stop = end.min(cache.file_bytes());
        if request.offset >= stop {
            return;
        }
        let pages = request.offset / PAGE_BYTES..stop.div_ceil(PAGE_BYTES);
        let last = pages.end - 1;
        for page in pages {
            if !cache.has(page) {
                self.missed(cache, page, behind - page, take);
                read_one(cache, page, take);
            }
            self.meet_marker(cache, page, behind - page, take);
            if self.rules.today() {
                self.before = Some(((page + 1) * PAGE_BYTES).min(stop));
            }
        }
        if !self.rules.today() {
            self.before = Some(last);
        }
    }

    /// readahead(2), POSIX_FADV_WILLNEED, or madvise(MADV_WILLNEED) on a mapping of the file. 6.1 reads no more than
    /// the larger of window and best transfer, from the start on: nothing at all where both are 0.
    pub fn will_need(&mut self, cache: &mut PageCache, request: Request, take: &mut impl FnMut(u64)) {
        let first = request.offset / PAGE_BYTES;
        let end = request.offset.saturating_add(request.bytes);
        let pages = self.allowed(end.div_ceil(PAGE_BYTES).saturating_sub(first));
        self.carry_out(cache, Pass { first, pages, ahead: 0 }, take);
    }

    /// A page of a mapping is touched.
    pub fn touch(&mut self, cache: &mut PageCache, mapping: &mut Mapping, page: u64, take: &mut impl FnMut(u64)) {
        if page >= cache.pages() || mapping.has(page) {
            return;
        }
        if self.rules.today() && self.map_around(cache, mapping, page) {
            return;
        }
        let around = mapping.advice != MapAdvice::Random && self.setting.window_pages() > 0;
        if cache.has(page) {
            if around {
                self.fault_misses = self.fault_misses.saturating_sub(1);
                self.meet_marker(cache, page, self.setting.window_pages(), take);
            }
        } else {
            if around {
                self.fault(cache, mapping.advice, page, take);
            }
            read_one(cache, page, take);
        }
        mapping.map(page);
        if self.rules.follows_faults() {
            self.before = Some(page);
        }
    }

    /// A fault on a page that is not cached.
    fn fault(&mut self, cache: &mut PageCache, advice: MapAdvice, page: u64, take: &mut impl FnMut(u64)) {
        let window = self.setting.window_pages();
        let follows = self.rules.follows_faults() && page > 0 && self.before == Some(page - 1);
        if advice == MapAdvice::Sequential || follows {
            return self.missed(cache, page, window, take);
        }
        if self.rules.follows_faults() || self.fault_misses < COUNTED_FAULT_MISSES {
            self.fault_misses += 1;
        }
        if self.fault_misses > MOST_FAULT_MISSES {
            return;
        }
        let ahead = if self.rules.follows_faults() { 0 } else { window / 4 };
        self.window = Window { first: page.saturating_sub(window / 2), pages: window, ahead };
        self.carry_out(cache, Pass { first: self.window.first, pages: window, ahead }, take);
    }

    /// Maps what is cached around a page, markers apart; says whether the page is now mapped.
    fn map_around(&mut self, cache: &PageCache, mapping: &mut Mapping, page: u64) -> bool {
        let aligned = (page + mapping.skew) / FAULT_AROUND_PAGES * FAULT_AROUND_PAGES;
        let first = aligned.saturating_sub(mapping.skew);
        for near in first..(first + FAULT_AROUND_PAGES).min(cache.pages()) {
            if cache.has(near) && !cache.is_marked(near) {
                self.fault_misses = self.fault_misses.saturating_sub(1);
                mapping.map(near);
            }
        }
        mapping.has(page)
    }

    /// A reader of `request` pages misses the first of them.
    fn missed(&mut self, cache: &mut PageCache, page: u64, request: u64, take: &mut impl FnMut(u64)) {
        if self.setting.advice == Advice::Random && self.setting.window_pages() > 0 {
            let pages = self.allowed(request);
            return self.carry_out(cache, Pass { first: page, pages, ahead: 0 }, take);
        }
        // Without a window, each page is read as the reader comes to it.
        if self.setting.window_pages() > 0 {
            self.pass(cache, (page, request), Cause::Miss, take);
        }
    }

    /// A reader of `request` pages finds the first of them cached: where it is marked, the next window starts.
    fn meet_marker(&mut self, cache: &mut PageCache, page: u64, request: u64, take: &mut impl FnMut(u64)) {
        if cache.is_marked(page) && self.setting.window_pages() > 0 {
            cache.unmark(page);
            self.pass(cache, (page, request), Cause::Marker, take);
        }
    }

    fn pass(&mut self, cache: &mut PageCache, wanted: (u64, u64), cause: Cause, take: &mut impl FnMut(u64)) {
        let before = self.before.map(|place| if self.rules.today() { place / PAGE_BYTES } else { place });
        let pass = self.window.pass(self.rules, self.setting, cache, wanted, cause, before);
        if let Some(pass) = pass {
            self.carry_out(cache, pass, take);
        }
    }

    /// How many of the pages that a program asks for by name are read in one go.
    fn allowed(&self, pages: u64) -> u64 {
        match self.rules.today() {
            true => pages.min(self.setting.window_pages().max(self.setting.io_pages)),
            false => pages,
        }
    }

    /// Reads a pass's pages as far as the file goes, and sets its marker.
    fn carry_out(&mut self, cache: &mut PageCache, pass: Pass, take: &mut impl FnMut(u64)) {
        let pages = pass.pages.min(cache.pages().saturating_sub(pass.first));
        // 6.1 counts the marker from the end that the file leaves, older kernels from the end that was meant.
        let counted = if self.rules.today() { pages } else { pass.pages };
        let marker = (pass.ahead > 0).then(|| counted.checked_sub(pass.ahead)).flatten().map(|at| pass.first + at);
        for page in pass.first..pass.first + pages {
            if cache.add(page) {
                take(page);
                if marker == Some(page) {
                    cache.mark(page);
                }
            }
        }
    }
}

/// A page that no pass has brought is read by itself.
fn read_one(cache: &mut PageCache, page: u64, take: &mut impl FnMut(u64)) {
    if cache.add(page) {
        take(page);
    }
}

/// What a program said of a mapping by madvise.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MapAdvice {
    /// Nothing.
    Normal,
    /// MADV_SEQUENTIAL.
    Sequential,
    /// MADV_RANDOM.
    Random,
}

/// A shared or private mapping of a whole file, to read it.
#[derive(Debug, Clone)]
pub struct Mapping {
    advice: MapAdvice,
    skew: u64,
    mapped: PageCache,
}

impl Mapping {
    /// A mapping of a file of `file_bytes` from the virtual `address` on: pages are mapped in groups that are
    /// aligned there.
    pub fn new(file_bytes: u64, address: u64, advice: MapAdvice) -> Self {
        Mapping { advice, skew: address / PAGE_BYTES % FAULT_AROUND_PAGES, mapped: PageCache::cold(file_bytes) }
    }

    fn has(&self, page: u64) -> bool {
        self.mapped.has(page)
    }

    fn map(&mut self, page: u64) {
        self.mapped.add(page);
    }
}
