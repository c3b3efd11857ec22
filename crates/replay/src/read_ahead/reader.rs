//! A file that is read, with its part of the page cache: what each read makes the file system do.

use super::cache::PageCache;
use super::{MapAdvice, Mapping, OpenFile, PAGE_BYTES, Request, Rules, Setting};
use std::ops::{Add, AddAssign};

/// What reads make a file system do.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Work {
    /// Pages that calls touch, cached or not; one that two calls touch counts twice.
    pub touched: u64,
    /// Pages read from the medium.
    pub pages: u64,
    /// Nodes of the file system's index read to find them.
    pub nodes: u64,
}

impl Add for Work {
    type Output = Work;

    fn add(self, other: Work) -> Work {
        Work { touched: self.touched + other.touched, pages: self.pages + other.pages, nodes: self.nodes + other.nodes }
    }
}

impl AddAssign for Work {
    fn add_assign(&mut self, other: Work) {
        *self = *self + other;
    }
}

impl std::iter::Sum for Work {
    fn sum<I: Iterator<Item = Work>>(all: I) -> Work {
        all.fold(Work::default(), Add::add)
    }
}

/// A file and its reader.
#[derive(Debug, Clone)]
pub struct Reader {
    cache: PageCache,
    file: OpenFile,
    index: Index,
}

impl Reader {
    /// A file of `file_bytes` that is cold and was just opened. `fan_out` is how many entries a node of the file
    /// system's index has, where that is on the medium too and nothing of it is in memory yet (UBIFS: 8).
    pub fn cold(rules: Rules, setting: Setting, file_bytes: u64, fan_out: Option<u64>) -> Self {
        let cache = PageCache::cold(file_bytes);
        let index = Index::new(cache.pages(), fan_out);
        Reader { cache, file: OpenFile::new(rules, setting), index }
    }

    /// A read().
    pub fn read(&mut self, request: Request) -> Work {
        self.read_pages(request, &mut |_| {})
    }

    /// A read(); `take` hears each page that is read from the medium, in order.
    pub fn read_pages(&mut self, request: Request, take: &mut impl FnMut(u64)) -> Work {
        let mut work = Work { touched: request.pages(self.cache.file_bytes()), ..Work::default() };
        let Reader { cache, file, index } = self;
        file.read(cache, request, &mut |page| {
            work.pages += 1;
            work.nodes += index.look_up(page);
            take(page);
        });
        work
    }

    /// A program touches each page of the request in a mapping, in order.
    pub fn touch(&mut self, mapping: &mut Mapping, request: Request, take: &mut impl FnMut(u64)) -> Work {
        let mut work = Work { touched: request.pages(self.cache.file_bytes()), ..Work::default() };
        let Reader { cache, file, index } = self;
        let first = request.offset / PAGE_BYTES;
        for page in first..first + work.touched {
            file.touch(cache, mapping, page, &mut |page| {
                work.pages += 1;
                work.nodes += index.look_up(page);
                take(page);
            });
        }
        work
    }

    /// readahead(2), POSIX_FADV_WILLNEED or MADV_WILLNEED on a range.
    pub fn will_need(&mut self, request: Request, take: &mut impl FnMut(u64)) -> Work {
        let mut work = Work::default();
        let Reader { cache, file, index } = self;
        file.will_need(cache, request, &mut |page| {
            work.pages += 1;
            work.nodes += index.look_up(page);
            take(page);
        });
        work
    }

    /// A mapping of the file.
    pub fn map(&self, advice: MapAdvice) -> Mapping {
        Mapping::new(self.cache.file_bytes(), 0, advice)
    }

    /// The file is closed and opened again: what it knew of its reader is gone, its pages stay.
    pub fn reopen(&mut self) {
        self.file = self.file.reopened();
    }

    /// A page was cached before the run.
    pub fn preload(&mut self, page: u64) {
        self.cache.add(page);
    }

    /// A write(): what it wrote is cached, and the file may be longer.
    pub fn write(&mut self, request: Request) {
        let end = request.offset.saturating_add(request.bytes);
        self.cache.grow(end);
        for page in request.offset / PAGE_BYTES..end.div_ceil(PAGE_BYTES) {
            self.cache.add(page);
        }
    }
}

impl Request {
    /// Number of pages of a file of `file_bytes` that it touches.
    pub fn pages(&self, file_bytes: u64) -> u64 {
        let end = self.offset.saturating_add(self.bytes).min(file_bytes);
        if end <= self.offset { 0 } else { end.div_ceil(PAGE_BYTES) - self.offset / PAGE_BYTES }
    }
}

/// A tree over a file's pages whose nodes are read once, when a page below them is first looked up.
#[derive(Debug, Clone)]
struct Index {
    fan_out: u64,
    /// Nodes in memory, from the level above the pages up to the one below the root.
    levels: Vec<PageCache>,
}

impl Index {
    fn new(pages: u64, fan_out: Option<u64>) -> Self {
        let fan_out = fan_out.filter(|f| *f > 1).unwrap_or(u64::MAX);
        let mut levels = Vec::new();
        let mut nodes = pages.div_ceil(fan_out);
        while nodes > 1 {
            levels.push(PageCache::cold(nodes * PAGE_BYTES));
            nodes = nodes.div_ceil(fan_out);
        }
        Index { fan_out, levels }
    }

    /// Nodes to read until a page is found.
    fn look_up(&mut self, page: u64) -> u64 {
        let (mut node, mut read) = (page, 0);
        for level in &mut self.levels {
            node /= self.fan_out;
            read += u64::from(level.add(node));
        }
        read
    }
}
