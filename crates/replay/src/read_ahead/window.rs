//! When a window opens, and how large it is: the rules themselves.

use super::cache::PageCache;
use super::{Rules, Setting};

/// Pages that one pass of read-ahead asks for, from `first` on; those that are cached are not read again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Pass {
    pub first: u64,
    pub pages: u64,
    /// How many pages before the end the marker stands; 0: nowhere.
    pub ahead: u64,
}

/// The window of an open file: the last pages that were asked for beyond a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Window {
    pub first: u64,
    pub pages: u64,
    pub ahead: u64,
}

/// What made a reader ask for pages.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Cause {
    /// The page is not cached.
    Miss,
    /// The page is cached and carries the marker.
    Marker,
}

/// What the rules know of the access before: the page where it ended, `None` for the first one. In 6.1 that is the
/// page of the byte behind it, before that the page of its last byte.
pub(super) type Before = Option<u64>;

impl Window {
    /// The pass that a reader's `request` pages from `page` on cause, or `None` where nothing is to be read.
    pub fn pass(
        &mut self,
        rules: Rules,
        setting: Setting,
        cache: &PageCache,
        (page, request): (u64, u64),
        cause: Cause,
        before: Before,
    ) -> Option<Pass> {
        // A request beyond the window may be as long as the device's best transfer.
        let window = setting.window_pages();
        let most = if rules.today() && request > window { window.max(request.min(setting.io_pages)) } else { window };
        let expected = page == self.first + self.pages - self.ahead || page == self.first + self.pages;
        if page == 0 {
            self.open(page, request, most);
        } else if expected {
            self.first += self.pages;
            self.pages = next_pages(self.pages, most);
            self.ahead = self.pages;
        } else if cause == Cause::Marker {
            // A marker that this reader's window did not set: several readers take turns, or the reader came back.
            self.follow(rules, cache, page, request, most)?;
        } else if request > most || is_next(rules, page, before) {
            self.open(page, request, most);
        } else if !self.resume(rules, cache, page, request, most) {
            return Some(Pass { first: page, pages: request, ahead: 0 });
        }
        // Would the marker stand on the very page that is read, the window after this one is opened at once.
        if page == self.first && self.pages == self.ahead {
            let next = next_pages(self.pages, most);
            if rules.today() && self.pages + next > most {
                self.pages = most;
                self.ahead = most / 2;
            } else {
                self.pages += next;
                self.ahead = next;
            }
        }
        Some(Pass { first: self.first, pages: self.pages, ahead: self.ahead })
    }

    /// A first window.
    fn open(&mut self, page: u64, request: u64, most: u64) {
        self.first = page;
        self.pages = first_pages(request, most);
        self.ahead = if self.pages > request { self.pages - request } else { self.pages };
    }

    /// A window behind the cached pages that follow a foreign marker.
    fn follow(&mut self, rules: Rules, cache: &PageCache, page: u64, request: u64, most: u64) -> Option<()> {
        let row = cache.run_from(page + 1, most);
        // Where no gap is found within the window, the old kernels read nothing; 6.1 takes the last page looked at
        // for a gap (its search says "none" by a page that is one too near).
        let gap = match row == most {
            true if rules.today() => page + most,
            true => return None,
            false => page + 1 + row,
        };
        self.first = gap;
        self.pages = next_pages(gap - page + request, most);
        self.ahead = self.pages;
        Some(())
    }

    /// A window after a row of cached pages that a sequential reader may have left; `false` where there is none.
    fn resume(&mut self, rules: Rules, cache: &PageCache, page: u64, request: u64, most: u64) -> bool {
        // 6.1 counts one page fewer where it finds no gap.
        let row = cache.run_before(page, if rules.today() { most.saturating_sub(1) } else { most });
        let eager = rules == Rules::Linux2_6_37;
        let enough = if eager { 0 } else { request };
        if row <= enough {
            return false;
        }
        // From the file's start on: surely sequential.
        let row = if row >= page { 2 * row } else { row };
        self.first = page;
        if eager {
            self.pages = first_pages(row + request, most);
            self.ahead = self.pages;
        } else {
            self.pages = (row + request).min(most);
            self.ahead = 1;
        }
        true
    }
}

/// Whether a missed page is the one after the access before. On 32 bits, kernels before 3.13 compared signed numbers:
/// every page before it counts, too.
fn is_next(rules: Rules, page: u64, before: Before) -> bool {
    let before = before.map_or(-1, |b| b as i64);
    let distance = page as i64 - before;
    distance <= 1 && (distance >= 0 || !rules.today())
}

/// Pages of a first window.
pub(super) fn first_pages(request: u64, most: u64) -> u64 {
    let power = request.max(1).next_power_of_two();
    match power {
        _ if power <= most / 32 => 4 * power,
        _ if power <= most / 4 => 2 * power,
        _ => most,
    }
}

/// Pages of the window after one of `pages`.
pub(super) fn next_pages(pages: u64, most: u64) -> u64 {
    match pages {
        _ if pages < most / 16 => 4 * pages,
        // Halves are compared, so that nothing overflows and odd limits round as the kernel's division does.
        _ if pages <= most / 2 => 2 * pages,
        _ => most,
    }
}
