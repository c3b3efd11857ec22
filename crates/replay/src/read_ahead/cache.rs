//! The pages of one file that are in the page cache.

/// Bytes of a page.
pub const PAGE_BYTES: u64 = 4096;

/// Which pages of a file are cached, and which of them carry the marker whose access starts the next window.
///
/// Nothing is ever evicted: the model is of files that fit the memory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PageCache {
    file_bytes: u64,
    cached: Vec<u64>,
    marked: Vec<u64>,
}

impl PageCache {
    /// The cold cache of a file of `file_bytes`.
    pub fn cold(file_bytes: u64) -> Self {
        let words = file_bytes.div_ceil(PAGE_BYTES).div_ceil(64) as usize;
        PageCache { file_bytes, cached: vec![0; words], marked: vec![0; words] }
    }

    /// Size of the file in bytes.
    pub fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Number of pages of the file, a last one in part included.
    pub fn pages(&self) -> u64 {
        self.file_bytes.div_ceil(PAGE_BYTES)
    }

    /// Whether a page is cached; pages behind the file's end are not.
    pub fn has(&self, page: u64) -> bool {
        get(&self.cached, page)
    }

    /// Number of cached pages.
    pub fn count(&self) -> u64 {
        self.cached.iter().map(|w| u64::from(w.count_ones())).sum()
    }

    /// Puts a page of the file into the cache, as a read or write of it by other means would; says whether it is new.
    pub fn add(&mut self, page: u64) -> bool {
        if page >= self.pages() || self.has(page) {
            return false;
        }
        set(&mut self.cached, page);
        true
    }

    /// Makes the file longer, as writes at its end do. It never gets shorter.
    pub fn grow(&mut self, file_bytes: u64) {
        if file_bytes > self.file_bytes {
            let words = file_bytes.div_ceil(PAGE_BYTES).div_ceil(64) as usize;
            self.file_bytes = file_bytes;
            self.cached.resize(words, 0);
            self.marked.resize(words, 0);
        }
    }

    pub(super) fn mark(&mut self, page: u64) {
        set(&mut self.marked, page);
    }

    pub(super) fn is_marked(&self, page: u64) -> bool {
        get(&self.marked, page)
    }

    pub(super) fn unmark(&mut self, page: u64) {
        if let Some(word) = self.marked.get_mut((page / 64) as usize) {
            *word &= !(1 << (page % 64));
        }
    }

    /// Cached pages in an unbroken row right before `page`, at most `most`.
    pub(super) fn run_before(&self, page: u64, most: u64) -> u64 {
        (1..=most.min(page)).take_while(|back| self.has(page - back)).count() as u64
    }

    /// Cached pages in an unbroken row from `page` on, at most `most`.
    pub(super) fn run_from(&self, page: u64, most: u64) -> u64 {
        (0..most).take_while(|on| self.has(page + on)).count() as u64
    }
}

fn get(bits: &[u64], page: u64) -> bool {
    bits.get((page / 64) as usize).is_some_and(|word| word >> (page % 64) & 1 == 1)
}

fn set(bits: &mut [u64], page: u64) {
    if let Some(word) = bits.get_mut((page / 64) as usize) {
        *word |= 1 << (page % 64);
    }
}
