//! A few chunks of files in memory: parts of chunks are read and written here, so that many small ones cost one
//! page. It is no read-ahead: nothing comes here that was not asked for.

/// A chunk of a file in memory.
pub struct Entry {
    pub object: u32,
    /// From 1, as in tags.
    pub chunk: u32,
    pub dirty: bool,
    used_at: u64,
    pub data: Box<[u8]>,
}

/// The chunk cache ("short-op cache").
pub struct Cache {
    entries: Vec<Entry>,
    most: usize,
    bytes: usize,
    clock: u64,
}

impl Cache {
    pub fn new(chunks: u32, bytes: usize) -> Cache {
        Cache { entries: Vec::new(), most: chunks as usize, bytes, clock: 0 }
    }

    pub fn is_on(&self) -> bool {
        self.most > 0
    }

    /// Where a chunk is, if it is here.
    pub fn find(&mut self, object: u32, chunk: u32) -> Option<&mut Entry> {
        self.clock += 1;
        let clock = self.clock;
        let entry = self.entries.iter_mut().find(|entry| entry.object == object && entry.chunk == chunk)?;
        entry.used_at = clock;
        Some(entry)
    }

    pub fn has(&self, object: u32, chunk: u32) -> bool {
        self.entries.iter().any(|entry| entry.object == object && entry.chunk == chunk)
    }

    /// Room for a chunk: the entry that was not used for the longest time is handed out if none is free. If it is
    /// dirty it has to be written.
    pub fn make_room(&mut self) -> Option<Entry> {
        if self.entries.len() < self.most {
            return None;
        }
        self.oldest().map(|oldest| self.entries.swap_remove(oldest))
    }

    /// Whether room can only be made by writing something.
    pub fn must_write_first(&self) -> bool {
        self.entries.len() >= self.most && self.oldest().is_some_and(|oldest| self.entries[oldest].dirty)
    }

    fn oldest(&self) -> Option<usize> {
        (0..self.entries.len()).min_by_key(|&at| self.entries[at].used_at)
    }

    /// Puts a chunk in. `old` is what room was made of.
    pub fn insert(&mut self, object: u32, chunk: u32, old: Option<Entry>) -> &mut Entry {
        self.clock += 1;
        let data = old.map_or_else(|| vec![0; self.bytes].into_boxed_slice(), |entry| entry.data);
        self.entries.push(Entry { object, chunk, dirty: false, used_at: self.clock, data });
        let last = self.entries.len() - 1;
        &mut self.entries[last]
    }

    /// Puts an entry back that could not be written.
    pub fn put_back(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    /// Takes a chunk of an object out that has to be written, the lowest first.
    pub fn take_dirty(&mut self, object: u32) -> Option<Entry> {
        let dirty = (0..self.entries.len()).filter(|&at| self.entries[at].object == object && self.entries[at].dirty);
        let at = dirty.min_by_key(|&at| self.entries[at].chunk)?;
        Some(self.entries.swap_remove(at))
    }

    /// Whether a chunk of an object has to be written.
    pub fn is_dirty(&self, object: u32) -> bool {
        self.entries.iter().any(|entry| entry.object == object && entry.dirty)
    }

    /// Objects of which something has to be written.
    pub fn dirty_objects(&self) -> Vec<u32> {
        let mut objects: Vec<u32> = self.entries.iter().filter(|e| e.dirty).map(|e| e.object).collect();
        objects.sort_unstable();
        objects.dedup();
        objects
    }

    /// Forgets the chunks of an object from one on.
    pub fn forget(&mut self, object: u32, from_chunk: u32) {
        self.entries.retain(|entry| entry.object != object || entry.chunk < from_chunk);
    }

    /// Forgets one chunk.
    pub fn forget_one(&mut self, object: u32, chunk: u32) {
        self.entries.retain(|entry| entry.object != object || entry.chunk != chunk);
    }
}
