//! Directories: entries in slots of 64 bytes on the medium, found by a hash index in memory that is made
//! when a directory is first used.
//!
//! ```text
//! entry: 1 to 5 slots, never across the end of a huge page of the directory
//!   0  u32 inode; 0, with all other bytes of the slot: the slot is free
//!   4  u32 crc32c of the directory's inode number, the slot's number, and all bytes of header and
//!      name but these four
//!   8  u32 crc32c of the name          12  u8 bytes of the name
//!  13  u8 type: the upper four bits of st_mode       14  u8 slots       15  0
//!  16  the name
//! ```

use crate::bytes::{get_u32, put_u32};
use crate::journal::Transaction;
use crate::layout::{INODE_BYTES, SLOT_BYTES};
use crate::node::State;
use crate::volume::Inner;
use crate::{Entry, Error, FileType, Ino, NAME_MAX, Result};
use pocketstone_media::LINE_BYTES;
use std::hash::{BuildHasher, RandomState};

const HEADER_BYTES: usize = 16;
/// Most slots of an entry.
const MAX_SLOTS: usize = 5;
/// Bytes of the longest entry.
const ENTRY_MAX: usize = MAX_SLOTS * SLOT_BYTES as usize;
/// A directory doubles up to this size, and grows by it from then on.
const GROWTH_BYTES: u64 = 256 << 10;

/// An entry as it lies on the medium.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Found {
    pub slot: u32,
    pub slots: u32,
    pub ino: Ino,
    pub kind: FileType,
}

/// What one slot holds.
pub(crate) enum Slot {
    Free,
    Entry(Entry, u32),
}

/// What the index knows of a name: its hash; the entry's slot + 1, 0 if there is nothing here; and its
/// inode, so that both can be fetched at once. An array: a table of zeros comes untouched from the kernel.
type Known = [u32; 3];
const HASH: usize = 0;
const PLACE: usize = 1;
const INO: usize = 2;

/// Which names a directory has, and which slots are free.
pub(crate) struct Index {
    /// Open addressing; the size is a power of two.
    table: Vec<Known>,
    count: usize,
    /// Free runs by their length in slots, less one.
    free: [Vec<u32>; MAX_SLOTS],
    /// From here on no slot was ever used.
    frontier: u32,
    /// Keys the hash: nobody can choose names that all have the same one.
    hasher: RandomState,
}

impl Index {
    fn new() -> Index {
        Index { table: vec![[0; 3]; 16], count: 0, free: Default::default(), frontier: 0, hasher: RandomState::new() }
    }

    pub fn count(&self) -> usize {
        self.count
    }

    fn hash(&self, name: &[u8]) -> u32 {
        (self.hasher.hash_one(name) >> 32) as u32
    }

    fn start(&self, hash: u32) -> usize {
        // The multiplication brings all bits of the hash down.
        (u64::from(hash).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & (self.table.len() - 1)
    }

    /// The places of names with this hash.
    fn probe(&self, hash: u32) -> impl Iterator<Item = usize> + '_ {
        let mask = self.table.len() - 1;
        let start = self.start(hash);
        (0..self.table.len())
            .map(move |i| (start + i) & mask)
            .take_while(|place| self.table[*place][PLACE] != 0)
            .filter(move |place| self.table[*place][HASH] == hash)
    }

    fn insert(&mut self, hash: u32, slot: u32, ino: Ino) {
        if (self.count + 1) * 4 > self.table.len() * 3 {
            let size = self.table.len() * 2;
            let old = std::mem::replace(&mut self.table, new_table(size));
            for known in old.into_iter().filter(|known| known[PLACE] != 0) {
                self.place(known);
            }
        }
        self.place([hash, slot + 1, ino]);
        self.count += 1;
    }

    fn place(&mut self, known: Known) {
        let mask = self.table.len() - 1;
        let mut place = self.start(known[HASH]);
        while self.table[place][PLACE] != 0 {
            place = (place + 1) & mask;
        }
        self.table[place] = known;
    }

    fn find(&self, hash: u32, slot: u32) -> Option<usize> {
        self.probe(hash).find(|place| self.table[*place][PLACE] == slot + 1)
    }

    fn set_inode(&mut self, hash: u32, slot: u32, ino: Ino) {
        if let Some(place) = self.find(hash, slot) {
            self.table[place][INO] = ino;
        }
    }

    fn remove(&mut self, hash: u32, slot: u32) {
        let Some(mut hole) = self.find(hash, slot) else { return };
        self.count -= 1;
        // What follows moves up, where its own chain allows it: so no tombstones are needed.
        let mask = self.table.len() - 1;
        let mut next = hole;
        loop {
            self.table[hole] = [0; 3];
            loop {
                next = (next + 1) & mask;
                let known = self.table[next];
                if known[PLACE] == 0 {
                    return;
                }
                let home = self.start(known[HASH]);
                if (next.wrapping_sub(home) & mask) >= (next.wrapping_sub(hole) & mask) {
                    self.table[hole] = known;
                    hole = next;
                    break;
                }
            }
        }
    }

    fn add_free(&mut self, mut slot: u32, mut slots: u32) {
        while slots > 0 {
            let part = slots.min(MAX_SLOTS as u32);
            self.free[part as usize - 1].push(slot);
            slot += part;
            slots -= part;
        }
    }

    /// Takes free slots: `limit` is how many the directory has, `unit` how many a huge page.
    fn take(&mut self, slots: u32, limit: u32, unit: u32) -> Option<u32> {
        if let Some(slot) = self.free[slots as usize - 1].pop() {
            return Some(slot);
        }
        let left = unit - self.frontier % unit;
        if left < slots && self.frontier + left <= limit {
            let from = self.frontier;
            self.frontier += left;
            self.add_free(from, left);
        }
        if unit - self.frontier % unit >= slots && self.frontier + slots <= limit {
            self.frontier += slots;
            return Some(self.frontier - slots);
        }
        let larger = (slots as usize..MAX_SLOTS).find(|i| !self.free[*i].is_empty())?;
        let slot = self.free[larger].pop()?;
        self.add_free(slot + slots, larger as u32 + 1 - slots);
        Some(slot)
    }
}

/// An empty table. The kernel is asked for huge pages for a large one: a look-up in it misses the caches,
/// and should not miss the TLB as well.
fn new_table(size: usize) -> Vec<Known> {
    let mut table: Vec<Known> = vec![[0; 3]; size];
    let bytes = size * size_of::<Known>();
    if bytes >= 4 << 20 {
        let first = (table.as_mut_ptr() as usize).next_multiple_of(4096);
        let last = (table.as_mut_ptr() as usize + bytes) & !4095;
        // SAFETY: the pages lie inside the table; the advice changes no content.
        let _ = unsafe { rustix::mm::madvise(first as *mut _, last - first, rustix::mm::Advice::LinuxHugepage) };
    }
    table
}

/// Slots that an entry with this name takes.
pub(crate) fn slots_of(name: &[u8]) -> u32 {
    (HEADER_BYTES + name.len()).div_ceil(SLOT_BYTES as usize) as u32
}

/// Refuses what cannot be a name.
pub(crate) fn check_name(name: &[u8]) -> Result<()> {
    if name.len() > NAME_MAX {
        return Err(Error::NameTooLong);
    }
    if name.is_empty() || name.contains(&b'/') || name.contains(&0) {
        return Err(Error::Invalid);
    }
    if name == b"." || name == b".." {
        return Err(Error::Exists);
    }
    Ok(())
}

/// An entry's bytes.
pub(crate) fn encode(directory: Ino, slot: u32, name: &[u8], ino: Ino, kind: FileType) -> Vec<u8> {
    let slots = slots_of(name);
    let mut b = vec![0; slots as usize * SLOT_BYTES as usize];
    put_u32(&mut b, 0, ino);
    put_u32(&mut b, 8, crc32c::crc32c(name));
    b[12] = name.len() as u8;
    b[13] = (kind.mode_bits() >> 12) as u8;
    b[14] = slots as u8;
    b[HEADER_BYTES..HEADER_BYTES + name.len()].copy_from_slice(name);
    let crc = entry_crc(directory, slot, &b);
    put_u32(&mut b, 4, crc);
    b
}

fn entry_crc(directory: Ino, slot: u32, b: &[u8]) -> u32 {
    let crc = crc32c::crc32c_append(directory, &slot.to_le_bytes());
    let crc = crc32c::crc32c_append(crc, &b[..4]);
    crc32c::crc32c_append(crc, &b[8..HEADER_BYTES + b[12] as usize])
}

/// Reads what starts at a slot. `b` holds its bytes and those after it, as far as there are any.
pub(crate) fn decode(directory: Ino, slot: u32, b: &[u8]) -> Option<Slot> {
    let ino = get_u32(b, 0);
    if ino == 0 {
        return b[..SLOT_BYTES as usize].iter().all(|byte| *byte == 0).then_some(Slot::Free);
    }
    let (length, slots) = (b[12] as usize, u32::from(b[14]));
    let kind = FileType::of_mode(u32::from(b[13]) << 12)?;
    let whole = b.len() >= HEADER_BYTES + length
        && slots as usize == (HEADER_BYTES + length).div_ceil(SLOT_BYTES as usize)
        && b[15] == 0
        && length > 0
        && get_u32(b, 4) == entry_crc(directory, slot, b);
    let name = &b[HEADER_BYTES..(HEADER_BYTES + length).min(b.len())];
    (whole && get_u32(b, 8) == crc32c::crc32c(name)).then(|| {
        let cookie = u64::from(slot) + 1;
        Slot::Entry(Entry { name: name.to_vec(), ino, kind, cookie }, slots)
    })
}

impl Inner {
    fn slots_per_huge(&self) -> u32 {
        (self.layout.huge / SLOT_BYTES) as u32
    }

    pub fn slot_at(&self, state: &State, slot: u32) -> Result<u64> {
        let offset = u64::from(slot) * SLOT_BYTES;
        state.body.locate(offset).0.ok_or_else(|| Error::damaged(0, "a directory with a hole"))
    }

    /// The bytes from a slot on, at most those of an entry.
    fn slot_bytes<'a>(&self, state: &State, slot: u32, buffer: &'a mut [u8; ENTRY_MAX]) -> Result<(u64, &'a [u8])> {
        let at = self.slot_at(state, slot)?;
        let (offset, unit) = (u64::from(slot) * SLOT_BYTES, self.layout.huge);
        let bytes = (state.record.size - offset).min(unit - offset % unit).min(ENTRY_MAX as u64) as usize;
        self.medium.read(at, &mut buffer[..bytes]);
        Ok((at, &buffer[..bytes]))
    }

    /// Calls `each` for the entries from a slot on, until it returns false.
    pub fn entries(
        &self,
        directory: Ino,
        state: &State,
        from: u32,
        each: &mut dyn FnMut(&Entry) -> bool,
    ) -> Result<()> {
        let end = (state.record.size / SLOT_BYTES) as u32;
        let mut slot = from;
        while slot < end {
            let mut buffer = [0; ENTRY_MAX];
            let (at, bytes) = self.slot_bytes(state, slot, &mut buffer)?;
            match decode(directory, slot, bytes) {
                Some(Slot::Free) => slot += 1,
                Some(Slot::Entry(entry, slots)) => {
                    if !each(&entry) {
                        return Ok(());
                    }
                    slot += slots;
                }
                None => return Err(broken_entry(directory, at)),
            }
        }
        Ok(())
    }

    /// The slots of the entry that starts at a slot, if one does.
    pub fn entry_at(&self, directory: Ino, state: &State, slot: u32) -> Result<Option<u32>> {
        let mut buffer = [0; ENTRY_MAX];
        let (_, bytes) = self.slot_bytes(state, slot, &mut buffer)?;
        match decode(directory, slot, bytes) {
            Some(Slot::Entry(_, slots)) => Ok(Some(slots)),
            _ => Ok(None),
        }
    }

    /// Makes a directory's index, if it has none yet.
    pub fn index<'a>(&self, directory: Ino, state: &'a mut State) -> Result<&'a mut Index> {
        if state.index.is_none() {
            let mut index = Index::new();
            let mut next = 0;
            self.entries(directory, state, 0, &mut |entry| {
                let slot = (entry.cookie - 1) as u32;
                index.add_free_run(next, slot, self.slots_per_huge());
                index.insert(index.hash(&entry.name), slot, entry.ino);
                next = slot + slots_of(&entry.name);
                true
            })?;
            index.frontier = next;
            state.index = Some(Box::new(index));
        }
        state.index.as_deref_mut().ok_or(Error::NotDirectory)
    }

    /// Finds a name. The index must be there.
    pub fn find(&self, directory: Ino, state: &State, name: &[u8]) -> Result<Option<Found>> {
        let Some(index) = &state.index else { return Ok(None) };
        let hash = index.hash(name);
        for place in index.probe(hash) {
            let known = index.table[place];
            let slot = known[PLACE] - 1;
            let at = self.slot_at(state, slot)?;
            for line in 0..INODE_BYTES / LINE_BYTES {
                self.medium.prefetch(self.layout.version_at(known[INO], 0) + line * LINE_BYTES);
            }
            // Another name with this hash may be shorter, and end where the directory does.
            let mut buffer = [0; ENTRY_MAX];
            let bytes = slots_of(name) as usize * SLOT_BYTES as usize;
            let (offset, unit) = (u64::from(slot) * SLOT_BYTES, self.layout.huge);
            let room = (state.record.size - offset).min(unit - offset % unit) as usize;
            self.medium.read(at, &mut buffer[..bytes.min(room)]);
            let b = &buffer[..bytes];
            if b[12] as usize != name.len() || b[HEADER_BYTES..HEADER_BYTES + name.len()] != *name {
                continue;
            }
            let kind = FileType::of_mode(u32::from(b[13]) << 12);
            let sound = get_u32(b, 4) == entry_crc(directory, slot, b) && get_u32(b, 0) == known[INO];
            return match kind.filter(|_| sound) {
                Some(kind) => Ok(Some(Found { slot, slots: u32::from(b[14]), ino: known[INO], kind })),
                None => Err(broken_entry(directory, at)),
            };
        }
        Ok(None)
    }

    /// Takes slots for a name; the directory grows if it has to.
    pub fn take_slots(&self, directory: Ino, state: &mut State, name: &[u8]) -> Result<u32> {
        let (slots, unit) = (slots_of(name), self.slots_per_huge());
        loop {
            let limit = (state.record.size / SLOT_BYTES) as u32;
            if let Some(slot) = self.index(directory, state)?.take(slots, limit, unit) {
                return Ok(slot);
            }
            let size = state.record.size;
            let grown = (size + size.clamp(self.layout.page, GROWTH_BYTES)).next_multiple_of(self.layout.page);
            if grown / SLOT_BYTES >= u64::from(u32::MAX) {
                return Err(Error::NoSpace);
            }
            self.grow_directory(directory, state, grown)?;
        }
    }

    /// Gives slots back that were taken and not used.
    pub fn return_slots(&self, state: &mut State, slot: u32, slots: u32) {
        if let Some(index) = &mut state.index {
            index.add_free(slot, slots);
        }
    }

    /// Adds the storing of an entry to a transaction.
    pub fn stage_entry(
        &self,
        tx: &mut Transaction,
        (directory, state): (Ino, &State),
        slot: u32,
        name: &[u8],
        (ino, kind): (Ino, FileType),
    ) -> Result<()> {
        let at = self.slot_at(state, slot)?;
        tx.bytes(at, &encode(directory, slot, name, ino, kind));
        Ok(())
    }

    /// Adds the removal of an entry to a transaction.
    pub fn stage_removal(&self, tx: &mut Transaction, state: &State, found: &Found) -> Result<()> {
        let at = self.slot_at(state, found.slot)?;
        tx.zero(at, found.slots * SLOT_BYTES as u32);
        Ok(())
    }

    /// Notes in the index what a transaction added.
    pub fn entry_added(&self, state: &mut State, name: &[u8], slot: u32, ino: Ino) {
        if let Some(index) = &mut state.index {
            index.insert(index.hash(name), slot, ino);
        }
    }

    /// Notes in the index that an entry leads to another inode.
    pub fn entry_changed(&self, state: &mut State, name: &[u8], slot: u32, ino: Ino) {
        if let Some(index) = &mut state.index {
            index.set_inode(index.hash(name), slot, ino);
        }
    }

    /// Notes in the index what a transaction removed.
    pub fn entry_removed(&self, state: &mut State, name: &[u8], found: &Found) {
        if let Some(index) = &mut state.index {
            index.remove(index.hash(name), found.slot);
            index.add_free(found.slot, found.slots);
        }
    }
}

impl Index {
    /// Notes a gap between entries as free; it is cut where a huge page ends.
    fn add_free_run(&mut self, from: u32, to: u32, unit: u32) {
        let mut from = from;
        while from < to {
            let end = to.min((from / unit + 1) * unit);
            self.add_free(from, end - from);
            from = end;
        }
    }
}

fn broken_entry(directory: Ino, at: u64) -> Error {
    Error::damaged(at, format!("an entry of directory {directory} with a wrong checksum"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_index_finds_what_it_holds_after_any_removal() {
        let mut index = Index::new();
        let hash = |i: u32| (i % 97).wrapping_mul(0x1357_9BDF);
        for i in 0..5000 {
            index.insert(hash(i), i, 1);
        }
        for i in (0..5000).filter(|i| i % 3 != 0) {
            index.remove(hash(i), i);
        }
        for i in 0..5000 {
            assert_eq!(index.find(hash(i), i).is_some(), i % 3 == 0, "{i}");
        }
        assert_eq!(index.count(), 1667);
    }

    #[test]
    fn slots_never_cross_the_end_of_a_huge_page_and_none_is_lost() {
        let mut index = Index::new();
        let mut taken = [false; 64];
        let mut sizes = [3, 5, 1, 4, 2].into_iter().cycle();
        while let Some(slot) = {
            let n = sizes.next().unwrap();
            index.take(n, 64, 32).map(|s| (s, n))
        } {
            let (slot, n) = slot;
            assert_eq!(slot / 32, (slot + n - 1) / 32, "{slot}+{n}");
            for s in slot..slot + n {
                assert!(!std::mem::replace(&mut taken[s as usize], true), "slot {s} given twice");
            }
        }
        while let Some(slot) = index.take(1, 64, 32) {
            assert!(!std::mem::replace(&mut taken[slot as usize], true));
        }
        assert!(taken.iter().all(|t| *t));
    }

    #[test]
    fn an_entry_survives_its_encoding_and_only_in_its_place() {
        let name = [b'x'; 200];
        let b = encode(7, 3, &name, 42, FileType::Symlink);
        assert_eq!(b.len(), 256);
        let Some(Slot::Entry(entry, 4)) = decode(7, 3, &b) else { panic!("not decoded") };
        assert_eq!((entry.ino, entry.kind, &entry.name[..]), (42, FileType::Symlink, &name[..]));
        assert!(decode(8, 3, &b).is_none() && decode(7, 4, &b).is_none());
        for i in 0..216 {
            let mut c = b.clone();
            c[i] ^= 4;
            assert!(decode(7, 3, &c).is_none(), "byte {i}");
        }
    }
}
