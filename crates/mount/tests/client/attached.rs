//! What a hostile client got, and what it does with that.

use pocketstone_random::Random;
use rustix::fs::{FallocateFlags, Mode, OFlags, SealFlags};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap, mprotect, munmap};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::process::Child;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering};

/// As the comments of `crates/lease` lay table and slots out, not by its code.
const ENTRIES: usize = 16_384;
const TABLE_BYTES: usize = 4096 + ENTRIES * 512;
const SLOTS: usize = 64;
/// Slots and times; leases and marks follow.
const LEASES_AT: usize = SLOTS * 64 + ENTRIES * 8;
const MARKS_AT: usize = LEASES_AT + ENTRIES * 8;

/// A mapping of words.
struct Map {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: the mapping stays until the value is dropped, and is used as atomic words alone.
unsafe impl Send for Map {}
// SAFETY: as above.
unsafe impl Sync for Map {}

impl Map {
    fn new(file: BorrowedFd<'_>, bytes: usize, prot: ProtFlags) -> Result<Map, Errno> {
        // SAFETY: a new mapping at a place that the kernel chooses.
        let base = unsafe { mmap(null_mut(), bytes, prot, MapFlags::SHARED, file, 0)? };
        Ok(Map { base: base.cast(), bytes })
    }

    fn word(&self, at: usize) -> &AtomicU64 {
        assert!(at % 8 == 0 && at + 8 <= self.bytes, "outside the mapping");
        // SAFETY: aligned and inside the mapping, which is as long as it says.
        unsafe { AtomicU64::from_ptr(self.base.add(at).cast()) }
    }
}

impl Drop for Map {
    fn drop(&mut self) {
        // SAFETY: nobody else knows the mapping.
        unsafe { munmap(self.base.cast(), self.bytes).expect("it is mapped") };
    }
}

/// A slot that is taken by the rules, and where it allows to store: region offset and bytes.
struct Hold {
    slot: usize,
    word: u64,
    pieces: Vec<(u64, u64)>,
}

pub struct Attached {
    pub token: u64,
    table: Map,
    table_file: OwnedFd,
    region: Map,
    region_file: OwnedFd,
    slots: Option<(Map, OwnedFd)>,
    slots_bytes: usize,
    /// Entries that it was told of, their keys, and whether it may store there.
    shown: Vec<(u32, u64, bool)>,
    holds: Vec<Hold>,
    /// The process that asked, if that was not this one.
    child: Option<Child>,
}

impl Attached {
    pub fn new(token: u64, bytes: u64, files: [Option<OwnedFd>; 3], child: Option<Child>) -> Attached {
        let [table_file, region_file, slots] = files;
        let (table_file, region_file) = (table_file.expect("a table"), region_file.expect("a region"));
        let both = ProtFlags::READ | ProtFlags::WRITE;
        let prot = if slots.is_some() { both } else { ProtFlags::READ };
        let region = Map::new(region_file.as_fd(), bytes as usize, prot).expect("what was given can be mapped");
        let table = Map::new(table_file.as_fd(), TABLE_BYTES, ProtFlags::READ).expect("a table to read");
        let slots_bytes = MARKS_AT + (bytes as usize).div_ceil(4096).div_ceil(64) * 8;
        let slots = slots.map(|file| (Map::new(file.as_fd(), slots_bytes, both).expect("slots"), file));
        let (shown, holds) = (Vec::new(), Vec::new());
        Attached { token, table, table_file, region, region_file, slots, slots_bytes, shown, holds, child }
    }

    pub fn may_store(&self) -> bool {
        self.slots.is_some()
    }

    pub fn shown(&mut self, index: u32, key: u64, mine: bool) {
        assert!((index as usize) < ENTRIES, "no entry of the table");
        self.shown.push((index, key, mine));
    }

    /// The key of an entry that it was told of.
    pub fn key(&self, index: u32) -> Option<u64> {
        self.shown.iter().rev().find(|(known, ..)| *known == index).map(|(_, key, _)| *key)
    }

    /// Any value anywhere among slots, times, leases and marks.
    pub fn scribble(&mut self, how: u8, random: &mut Random) {
        let Some((slots, _)) = &self.slots else { return };
        let value = |random: &mut Random| match how / 4 % 6 {
            0 => 0,
            1 => u64::MAX,
            2 => 1 + random.below(8),
            3 => 1 + random.below(1 << 16),
            4 => random.below(8) << 16,
            _ => random.next_u64(),
        };
        match how % 5 {
            0 => slots.word(random.below(SLOTS as u64) as usize * 64).store(value(random), Ordering::SeqCst),
            1 => (0..SLOTS).for_each(|slot| slots.word(slot * 64).store(value(random), Ordering::SeqCst)),
            2 => (0..64).for_each(|entry| slots.word(SLOTS * 64 + entry * 8).store(value(random), Ordering::SeqCst)),
            // Also valid ones, of any size.
            3 => (0..64).for_each(|entry| {
                let word = value(random) << 16 | random.below(4);
                slots.word(LEASES_AT + entry * 8).store(word, Ordering::SeqCst);
            }),
            _ => {
                let at = random.below(self.slots_bytes as u64 / 8) as usize * 8;
                slots.word(at).store(value(random), Ordering::SeqCst);
            }
        }
        // Whoever gives up a slot may store no more.
        self.holds.retain(|hold| slots.word(hold.slot * 64).load(Ordering::SeqCst) == hold.word);
    }

    /// Takes a slot by the rules, and keeps it.
    pub fn hold(&mut self, which: u8, slot: u8) {
        let Some((slots, _)) = &self.slots else { return };
        let mine: Vec<(u32, u64)> =
            self.shown.iter().filter(|(.., mine)| *mine).map(|(index, key, _)| (*index, *key)).collect();
        let Some((index, key)) = mine.get(usize::from(which) % mine.len().max(1)) else { return };
        let (slot, entry) = (usize::from(slot) % SLOTS, 4096 + *index as usize * 512);
        self.holds.retain(|hold| hold.slot != slot);
        let word = ((slots.word(slot * 64).load(Ordering::SeqCst) >> 16) + 1) << 16 | u64::from(index + 1);
        slots.word(slot * 64).store(word, Ordering::SeqCst);
        let table = |at: usize| self.table.word(entry + at).load(Ordering::SeqCst);
        let sequence = table(0);
        let pieces = (0..(table(40) as usize).min(19)).map(|piece| (table(56 + piece * 24), table(64 + piece * 24)));
        let pieces: Vec<(u64, u64)> = pieces.collect();
        let allowed = sequence % 2 == 0 && table(8) == *key && table(32) & 2 != 0;
        for (at, bytes) in pieces.iter().filter(|_| allowed && table(0) == sequence) {
            assert!(at + bytes <= self.region.bytes as u64, "an entry leads out of the region");
        }
        if allowed && table(0) == sequence {
            self.holds.push(Hold { slot, word, pieces });
        } else {
            slots.word(slot * 64).fetch_and(!0xFFFF, Ordering::SeqCst);
        }
    }

    /// Stores wherever its slots allow it to, even long after the server has changed the file. Whether it has.
    pub fn store(&mut self, byte: u8) -> bool {
        let word = u64::from_ne_bytes([byte; 8]);
        let mut stored = false;
        for (at, bytes) in self.holds.iter().flat_map(|hold| &hold.pieces) {
            for at in (*at..at + bytes).step_by(8).filter(|word| word % 8 == 0 && word + 8 <= at + bytes) {
                self.region.word(at as usize).store(word, Ordering::Relaxed);
                stored = true;
            }
        }
        stored
    }

    /// Tries what nobody may: to change the table, or the region where it may be read alone.
    pub fn overreach(&mut self) {
        frozen(&self.table_file);
        // SAFETY: the mapping is this value's own. That it becomes writable must fail.
        let changed = unsafe { mprotect(self.table.base.cast(), 4096, MprotectFlags::READ | MprotectFlags::WRITE) };
        assert!(changed.is_err(), "the table can be changed");
        if let Some((_, slots)) = &self.slots {
            for size in [0, 1 << 30] {
                assert!(rustix::fs::ftruncate(slots, size).is_err(), "the server's mapping would end there");
            }
            // Nothing that the server notices.
            let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
            let _ = rustix::fs::fallocate(slots, how, 0, self.slots_bytes as u64);
            let _ = rustix::fs::fcntl_add_seals(slots, SealFlags::WRITE);
            let _ = rustix::fs::fcntl_add_seals(slots, SealFlags::FUTURE_WRITE | SealFlags::SEAL);
            self.holds.clear();
        } else {
            let stored = Map::new(self.region_file.as_fd(), 4096, ProtFlags::READ | ProtFlags::WRITE);
            assert_eq!(stored.err(), Some(Errno::ACCESS), "the region can be stored to");
            assert!(rustix::io::pwrite(&self.region_file, &[1], 0).is_err());
            assert!(rustix::fs::ftruncate(&self.region_file, 0).is_err());
        }
    }
}

/// Nobody changes a file, not even by opening it anew.
fn frozen(file: &OwnedFd) {
    let again = rustix::fs::open(format!("/proc/self/fd/{}", file.as_raw_fd()), OFlags::RDWR, Mode::empty());
    for file in [file.as_fd()].into_iter().chain(again.as_ref().ok().map(AsFd::as_fd)) {
        let both = ProtFlags::READ | ProtFlags::WRITE;
        assert!(Map::new(file, 4096, both).is_err(), "the table can be stored to");
        assert!(rustix::io::pwrite(file, &[1], 0).is_err(), "the table can be written");
        let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        assert!(rustix::fs::fallocate(file, how, 0, 4096).is_err(), "the table can be emptied");
        for size in [0, 1 << 30] {
            assert!(rustix::fs::ftruncate(file, size).is_err(), "the table can be cut");
        }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
