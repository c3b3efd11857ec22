//! A file's bytes in the model: sparse, so that a large hole costs nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

const CHUNK: u64 = 256;

type Chunk = Box<[u8; CHUNK as usize]>;

/// Two contents are equal exactly when their sizes and bytes are: no chunk is all zeros, and bytes beyond
/// the size are zero.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Content {
    size: u64,
    /// Shared by the copies of it until one is changed.
    chunks: Arc<BTreeMap<u64, Chunk>>,
}

impl Content {
    /// The file's size.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// Zero beyond the end.
    pub fn byte(&self, at: u64) -> u8 {
        self.chunks.get(&(at / CHUNK)).map_or(0, |chunk| chunk[(at % CHUNK) as usize])
    }

    /// As read(2): what there is of the range.
    pub fn read(&self, offset: u64, bytes: u64) -> Vec<u8> {
        let bytes = bytes.min(self.size.saturating_sub(offset));
        let mut out = vec![0; bytes as usize];
        for (index, chunk) in self.chunks.range(offset / CHUNK..=(offset + bytes) / CHUNK) {
            let (from, to) = ((index * CHUNK).max(offset), ((index + 1) * CHUNK).min(offset + bytes));
            if from < to {
                let part = &chunk[(from % CHUNK) as usize..][..(to - from) as usize];
                out[(from - offset) as usize..(to - offset) as usize].copy_from_slice(part);
            }
        }
        out
    }

    /// As pwrite(2): nothing to write does not lengthen the file.
    pub fn write(&mut self, offset: u64, from: &[u8]) {
        if from.is_empty() {
            return;
        }
        self.size = self.size.max(offset + from.len() as u64);
        let (chunks, mut at) = (Arc::make_mut(&mut self.chunks), offset);
        let mut rest = from;
        while !rest.is_empty() {
            let place = (at % CHUNK) as usize;
            let (part, later) = rest.split_at(rest.len().min(CHUNK as usize - place));
            let chunk = chunks.entry(at / CHUNK).or_insert_with(|| Box::new([0; CHUNK as usize]));
            chunk[place..place + part.len()].copy_from_slice(part);
            (at, rest) = (at + part.len() as u64, later);
        }
        self.tidy(offset, from.len() as u64);
    }

    /// Zeros in the range, inside the size.
    pub fn zero(&mut self, offset: u64, bytes: u64) {
        let end = offset.saturating_add(bytes);
        for (index, chunk) in Arc::make_mut(&mut self.chunks).range_mut(offset / CHUNK..=end / CHUNK) {
            let (from, to) = ((index * CHUNK).max(offset), ((index + 1) * CHUNK).min(end));
            if from < to {
                chunk[(from % CHUNK) as usize..][..(to - from) as usize].fill(0);
            }
        }
        self.tidy(offset, bytes);
    }

    /// As ftruncate(2).
    pub fn resize(&mut self, size: u64) {
        if size < self.size {
            self.zero(size, self.size - size);
        }
        self.size = size;
    }

    /// As FALLOC_FL_COLLAPSE_RANGE: what follows the range moves up.
    pub fn collapse(&mut self, offset: u64, bytes: u64) {
        let (size, tail) = (self.size, self.read(offset + bytes, self.size));
        self.resize(offset);
        self.write(offset, &tail);
        self.resize(size - bytes);
    }

    /// As FALLOC_FL_INSERT_RANGE: what is there from the offset on moves back.
    pub fn insert(&mut self, offset: u64, bytes: u64) {
        let (size, tail) = (self.size, self.read(offset, self.size));
        self.resize(offset);
        self.write(offset + bytes, &tail);
        self.resize(size + bytes);
    }

    fn tidy(&mut self, offset: u64, bytes: u64) {
        let (first, last) = (offset / CHUNK, offset.saturating_add(bytes) / CHUNK);
        let empty: Vec<u64> = self
            .chunks
            .range(first..=last)
            .filter(|(_, chunk)| chunk.iter().all(|byte| *byte == 0))
            .map(|(index, _)| *index)
            .collect();
        for index in empty {
            Arc::make_mut(&mut self.chunks).remove(&index);
        }
    }

    /// Offsets at which the two differ, the bytes between the two sizes included when they are not zero.
    pub fn differences(&self, other: &Content) -> Vec<u64> {
        let mut indices: Vec<u64> = self.chunks.keys().chain(other.chunks.keys()).copied().collect();
        indices.sort_unstable();
        indices.dedup();
        let bytes = indices.into_iter().flat_map(|index| index * CHUNK..(index + 1) * CHUNK);
        bytes.filter(|at| self.byte(*at) != other.byte(*at)).collect()
    }

    /// Whether every byte of the range is zero.
    pub fn is_zero(&self, from: u64, to: u64) -> bool {
        let chunks = self.chunks.range(from / CHUNK..=to / CHUNK).map(|(index, _)| *index);
        !chunks
            .flat_map(|index| index * CHUNK..(index + 1) * CHUNK)
            .any(|at| at >= from && at < to && self.byte(at) != 0)
    }
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // FNV-1a, enough to tell two contents apart in a message.
        let bytes = self.chunks.iter().flat_map(|(index, chunk)| index.to_le_bytes().into_iter().chain(**chunk));
        let hash = bytes.fold(0xcbf2_9ce4_8422_2325u64, |h, b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01b3));
        write!(f, "{} bytes #{:08x}", self.size, hash as u32)
    }
}

/// The bytes that a write with this `fill` puts at an offset. Never zero, so that they differ from holes;
/// they depend on the place, so that a page at the wrong place shows.
pub fn pattern(fill: u8, offset: u64, bytes: u64) -> Vec<u8> {
    (offset..offset + bytes).map(|at| 1 + ((u64::from(fill) * 37 + at * 11 + at / 256 * 7) % 255) as u8).collect()
}
