//! The journal: a ring of records, each a transaction on the metadata. A record is durable before any
//! of it is applied, and applied durably before the next one is written: so recovery replays just the
//! newest valid record, and no older one can overwrite what was reused since.
//!
//! ```text
//! record, 64-byte aligned:
//!   0  u32 magic "SCMJ"      16  u32 crc32c of the record without this word,
//!   4  u32 bytes                 seeded with the uuid and the record's offset
//!   8  u64 sequence number   20  u32 items
//!  24  zeros to 64
//! item, 8-byte aligned:
//!   0  u64 offset in the volume
//!   8  u32 bytes             12  u32 kind: 1 bytes follow, 2 zeros, 3 bytes follow for both mapping tables
//!  16  the bytes, filled up to a multiple of 8
//! ```

use super::persist;
use crate::defects;
use crate::format::bytes::{get_u32, get_u64, put_u32, put_u64};
use crate::format::entry::ENTRY_MAX;
use crate::format::inode::{Half, decode_half, halves, newer};
use crate::format::layout::{Layout, MAPPING_BYTES, MOST_SEQUENCE, SLOT_BYTES, VERSION_BYTES};
use crate::format::mapping::Mapping;
use pocketstone_media::{Durable, Flushed, Medium};
use std::cmp::Reverse;

const MAGIC: u32 = u32::from_le_bytes(*b"SCMJ");
const HEADER_BYTES: usize = 64;
const ITEM_BYTES: usize = 16;
const KIND_BYTES: u32 = 1;
const KIND_ZERO: u32 = 2;
const KIND_MAPPING: u32 = 3;

/// What a record takes beside its items: the header, and what fills up its last slot.
pub(crate) const RECORD_OVERHEAD_BYTES: u64 = HEADER_BYTES as u64 + SLOT_BYTES;

/// What an item with so many bytes takes in a record.
pub(crate) const fn item_bytes(bytes: usize) -> u64 {
    (ITEM_BYTES + bytes).next_multiple_of(8) as u64
}

/// A transaction that is being put together: already in the form of a record.
pub(crate) struct Transaction {
    record: Vec<u8>,
    items: u32,
}

impl Transaction {
    pub fn new() -> Transaction {
        Transaction::of(512)
    }

    /// With room for a record of about so many bytes.
    pub fn of(bytes: u64) -> Transaction {
        let mut record = Vec::with_capacity(bytes as usize);
        record.resize(HEADER_BYTES, 0);
        Transaction { record, items: 0 }
    }

    fn item(&mut self, at: u64, bytes: u32, kind: u32) {
        debug_assert!(at % 8 == 0);
        self.items += 1;
        self.record.extend_from_slice(&at.to_le_bytes());
        self.record.extend_from_slice(&bytes.to_le_bytes());
        self.record.extend_from_slice(&kind.to_le_bytes());
    }

    /// Bytes to store.
    pub fn bytes(&mut self, at: u64, bytes: &[u8]) {
        self.bytes_of_kind(at, bytes, KIND_BYTES);
    }

    /// A huge page's entry to store in both mapping tables.
    pub fn map(&mut self, layout: &Layout, segment: u32, entry: Mapping) {
        self.bytes_of_kind(layout.mapping_entry_at(segment), &entry.encode(segment), KIND_MAPPING);
    }

    /// Entries that say, in both mapping tables, that huge pages are free.
    pub fn unmap(&mut self, layout: &Layout, segments: &[u32]) {
        for segment in segments {
            self.map(layout, *segment, Mapping::Free);
        }
    }

    fn bytes_of_kind(&mut self, at: u64, bytes: &[u8], kind: u32) {
        self.item(at, bytes.len() as u32, kind);
        self.record.extend_from_slice(bytes);
        self.record.resize(self.record.len().next_multiple_of(8), 0);
    }

    /// Zeros to store in place of an entry of a directory, or a part of one.
    pub fn zero(&mut self, at: u64, bytes: u32) {
        debug_assert!(bytes <= ENTRY_MAX as u32);
        self.item(at, bytes, KIND_ZERO);
    }
}

/// One item of a record.
pub(crate) enum Item<'a> {
    Bytes(u64, &'a [u8]),
    /// An entry, and where it lies in the first mapping table.
    Mapping(u64, &'a [u8]),
    Zero(u64, u64),
}

/// The items of a record, `None` at the first that is not well-formed.
pub(crate) fn items(record: &[u8]) -> impl Iterator<Item = Option<Item<'_>>> {
    let mut left = get_u32(record, 20);
    let mut at = HEADER_BYTES;
    std::iter::from_fn(move || {
        if left == 0 {
            return None;
        }
        left -= 1;
        if at + ITEM_BYTES > record.len() {
            left = 0;
            return Some(None);
        }
        let (offset, bytes) = (get_u64(record, at), get_u32(record, at + 8) as usize);
        let kind = get_u32(record, at + 12);
        at += ITEM_BYTES;
        match kind {
            // More would take memory that the record itself does not show.
            KIND_ZERO if bytes <= ENTRY_MAX => Some(Some(Item::Zero(offset, bytes as u64))),
            KIND_BYTES | KIND_MAPPING if bytes <= record.len() - at => {
                let body = &record[at..at + bytes];
                at = (at + bytes).next_multiple_of(8);
                Some(Some(if kind == KIND_BYTES { Item::Bytes(offset, body) } else { Item::Mapping(offset, body) }))
            }
            _ => {
                left = 0;
                Some(None)
            }
        }
    })
}

/// Where the next record goes.
#[derive(Debug)]
pub(crate) struct Journal {
    position: u64,
    sequence: u64,
    seed: u32,
}

impl Journal {
    /// A journal whose newest record is `last`, as [`find`] gave it.
    pub fn after(layout: &Layout, uuid: &[u8; 16], last: Option<(u64, Vec<u8>)>) -> Journal {
        let seed = crc32c::crc32c(uuid);
        match last {
            None => Journal { position: 0, sequence: 1, seed },
            Some((position, record)) => {
                let next = position + record.len() as u64;
                let position = if next + HEADER_BYTES as u64 > layout.journal_bytes { 0 } else { next };
                Journal { position, sequence: get_u64(&record, 8) + 1, seed }
            }
        }
    }

    /// Makes a transaction durable, then applies it. When this returns, all of it is durable.
    /// `after` is what the transaction refers to.
    pub fn commit(&mut self, medium: &Medium, layout: &Layout, transaction: Transaction, after: Durable) -> Durable {
        let mut record = transaction.record;
        record.resize(record.len().next_multiple_of(SLOT_BYTES as usize), 0);
        let bytes = record.len() as u64;
        assert!(bytes <= layout.max_record(), "a transaction larger than the journal allows");
        if self.position + bytes > layout.journal_bytes {
            self.position = 0;
        }
        put_u32(&mut record, 0, MAGIC);
        put_u32(&mut record, 4, bytes as u32);
        put_u64(&mut record, 8, self.sequence);
        put_u32(&mut record, 20, transaction.items);
        let crc = record_crc(&record, self.seed, self.position);
        put_u32(&mut record, 16, crc);
        let at = layout.journal_at + self.position;
        // SAFETY: the ring is the journal's alone, which is borrowed exclusively.
        let stored = unsafe { medium.stream(at, &record, after) };
        let committed = persist::fence(medium, stored, defects::JOURNAL_FENCE);
        committed.must_cover(at, bytes);
        self.position += bytes;
        self.sequence += 1;
        let flushed = apply(medium, layout, &record, committed);
        persist::fence(medium, flushed, defects::APPLY_FENCE)
    }
}

fn apply(medium: &Medium, layout: &Layout, record: &[u8], committed: Durable) -> Flushed {
    let (mut proof, mut flushed) = (committed, Flushed::nothing());
    let store = |at: u64, bytes: &[u8], after: Durable| {
        // SAFETY: who commits a transaction has locked the inodes and directories that it changes, or has taken the
        // pages; the mapping tables are read by who has the journal.
        persist::flush(medium, unsafe { medium.write(at, bytes, after) }, defects::APPLY_FLUSH)
    };
    for item in items(record) {
        // Every item of a record that was just made is well-formed.
        let Some(item) = item else { break };
        let (this, next) = proof.twice();
        proof = next;
        flushed.join(match item {
            Item::Bytes(at, bytes) => store(at, bytes, this),
            Item::Mapping(at, bytes) => {
                let (first, second) = this.twice();
                store(at, bytes, first).and(store(layout.mirrored(at), bytes, second))
            }
            // SAFETY: as above.
            Item::Zero(at, bytes) => unsafe { medium.zero(at, bytes, this) },
        });
    }
    proof.done();
    flushed
}

fn record_crc(record: &[u8], seed: u32, position: u64) -> u32 {
    let mut head = [0; 24];
    head[..8].copy_from_slice(&position.to_le_bytes());
    head[8..].copy_from_slice(&record[..16]);
    let crc = crc32c::crc32c_append(seed, &head);
    crc32c::crc32c_append(crc, &record[20..])
}

/// The newest valid record and its position in the ring.
pub(crate) fn find(medium: &Medium, layout: &Layout, uuid: &[u8; 16]) -> Option<(u64, Vec<u8>)> {
    let seed = crc32c::crc32c(uuid);
    // The newest first: what is read of the others is their headers.
    let mut found = Vec::new();
    let mut position = 0;
    while position + HEADER_BYTES as u64 <= layout.journal_bytes {
        let mut header = [0; HEADER_BYTES];
        medium.read(layout.journal_at + position, &mut header);
        let bytes = u64::from(get_u32(&header, 4));
        let whole = get_u32(&header, 0) == MAGIC
            && bytes >= HEADER_BYTES as u64
            && bytes % SLOT_BYTES == 0
            && bytes <= layout.max_record()
            && position + bytes <= layout.journal_bytes
            && get_u64(&header, 8) <= MOST_SEQUENCE;
        if whole {
            found.push((Reverse(get_u64(&header, 8)), position, bytes));
        }
        position += SLOT_BYTES;
    }
    found.sort_unstable();
    // What looks like headers may overlap: the memory of one record serves all.
    let mut record = Vec::new();
    let newest = found.into_iter().find(|(_, position, bytes)| {
        record.resize(*bytes as usize, 0);
        medium.read(layout.journal_at + position, &mut record);
        let is_valid = record_crc(&record, seed, *position) == get_u32(&record, 16);
        is_valid || defects::on(defects::RECORD_CRC)
    });
    newest.map(|(_, position, _)| (position, record))
}

/// The stores that bring a volume to the state after its newest record: `(offset, bytes)`. Versions of
/// inodes that are older than what is there are left out: an inode may have changed since by itself.
pub(crate) fn replay(medium: &Medium, layout: &Layout, record: &[u8]) -> Vec<(u64, Vec<u8>)> {
    let mut stores = Vec::new();
    let mut store = |at: u64, bytes: Vec<u8>| {
        // A record with a right checksum was written by this program; the check is for the fuzzer.
        let inside = at.checked_add(bytes.len() as u64).is_some_and(|end| end <= medium.bytes());
        if inside && (!is_stale_version(medium, layout, at, &bytes) || defects::on(defects::REPLAY_OLDER)) {
            stores.push((at, bytes));
        }
    };
    let table = layout.mapping_at..layout.mapping_entry_at(layout.max_segments);
    for item in items(record).flatten() {
        match item {
            Item::Bytes(at, bytes) => store(at, bytes.to_vec()),
            Item::Zero(at, bytes) => store(at, vec![0; bytes as usize]),
            Item::Mapping(at, bytes) if table.contains(&at) && bytes.len() as u64 == MAPPING_BYTES => {
                store(at, bytes.to_vec());
                store(layout.mirrored(at), bytes.to_vec());
            }
            Item::Mapping(..) => {}
        }
    }
    stores
}

fn is_stale_version(medium: &Medium, layout: &Layout, at: u64, bytes: &[u8]) -> bool {
    let Some(ino) = layout.inode_of(at).filter(|_| bytes.len() == VERSION_BYTES) else { return false };
    let sequence = get_u32(bytes, 0);
    halves(medium, layout, ino).into_iter().any(|half| matches!(half, Half::Valid(there, _) if newer(there, sequence)))
        || decode_half(ino, sequence & 1, bytes) == Half::Torn
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_ends_at_zeros_that_are_more_than_an_entry() {
        for (bytes, expected) in [(ENTRY_MAX as u32, vec![true; 3]), (ENTRY_MAX as u32 + 1, vec![true, false])] {
            let mut tx = Transaction::new();
            tx.bytes(64, b"before");
            tx.item(128, bytes, KIND_ZERO);
            tx.bytes(1024, b"behind");
            put_u32(&mut tx.record, 20, tx.items);
            assert_eq!(items(&tx.record).map(|item| item.is_some()).collect::<Vec<_>>(), expected, "{bytes}");
        }
    }
}
