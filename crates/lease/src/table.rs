//! The table of published inodes. The server writes it; direct processes map it to read.
//!
//! ```text
//! 0     who serves: a robust lock of glibc, held by a thread of the server
//! 2048  u64: not 0: nothing is stored directly for the moment
//! 2056  u64: not 0: the kernel has something to say at the next fdatasync(2) of a file
//! 4096  entries, each 512 bytes:
//!   0  u64 sequence; odd while the inode is being changed
//!   8  u64 key: inode number, and its generation << 32; 0: nobody's
//!  16  u64 what the kernel may hold: bit 0 pages; above it a count of its coming, and of sizes that it was told
//!  24  u64 size, bytes
//!  32  u64 bit 0: may be read directly; bit 1: may be stored to directly; bit 2: the size is stored
//!          bits 16 to 31: which record of sizes is the file's, and 1; 0: none
//!          bits 32 to 63: the sequence number of the inode's version that is stored
//!  40  u64 pieces
//!  48  pieces, each: u64 offset in the file, u64 offset in the region, u64 bytes; in the order of the file
//! 504  u64 up to where the end of the file is leased to a process, which may have appended; 0: to none
//! ```

use crate::memory::{self, Memory};
use crate::served::{self, Serving};
use pocketstone_media::marked;
use pocketstone_media::size_record::Version;
use rustix::io::Result;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Entries of the table.
pub const ENTRIES: usize = 16_384;
/// Most pieces that an entry has room for. What lies in further ones is the kernel's.
pub const PIECES_MAX: usize = 19;
const ENTRY_BYTES: usize = 512;
const PAUSED: usize = 2048;
const FAILED: usize = 2056;
const ENTRIES_AT: usize = 4096;
pub(crate) const TABLE_BYTES: usize = ENTRIES_AT + ENTRIES * ENTRY_BYTES;

const SEQUENCE: usize = 0;
const KEY: usize = 8;
const KERNEL: usize = 16;
const SIZE: usize = 24;
const FLAGS: usize = 32;
const COUNT: usize = 40;
const PIECES: usize = 48;
const PIECE_BYTES: usize = 24;
const LEASED: usize = 504;
const _: () = assert!(PIECES + PIECES_MAX * PIECE_BYTES <= LEASED && LEASED + 8 == ENTRY_BYTES);

const READABLE: u64 = 1;
const WRITABLE: u64 = 2;
const SETTLED: u64 = 4;
const RECORD_SHIFT: u32 = 16;
const RECORD_MASK: u64 = 0xFFFF;
const VERSION_SHIFT: u32 = 32;
const PAGES: u64 = 1;

/// A file of a mount, as long as its inode number is in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct File {
    /// Its key, which tells whether an entry is this file's.
    pub key: u64,
    /// Its entry of the table.
    pub index: u32,
}

/// What an entry says of an inode.
#[derive(Debug, Clone, Copy, Default)]
pub struct Content<'a> {
    /// The size in bytes.
    pub size: u64,
    /// What is read directly is what read(2) would give.
    pub readable: bool,
    /// A direct store does all that write(2) would do.
    pub writable: bool,
    /// The size outlives the server.
    pub settled: bool,
    /// The sequence number of the inode's version that is stored.
    pub sequence: u32,
    /// The record of sizes that is the file's.
    pub record: Option<u32>,
    /// Where the file's bytes lie, in the order of the file: offset in the file, offset in the region, bytes.
    pub pieces: &'a [(u64, u64, u64)],
    /// Up to where the end of the file is leased; 0: not at all.
    pub leased: u64,
}

/// The table, as the server has it.
pub struct Table {
    file: OwnedFd,
    memory: Memory,
    free: Mutex<Vec<u32>>,
}

impl Table {
    /// A table without inodes.
    ///
    /// # Errors
    /// `Errno::NOMEM`, `Errno::MFILE` or what else the kernel says if it gives no memory; `Errno::INVAL` before Linux
    /// 5.1, which cannot freeze it.
    pub fn new() -> Result<Table> {
        let file = memory::create("scmfs-table", TABLE_BYTES)?;
        let memory = Memory::map(file.as_fd(), TABLE_BYTES, true)?;
        memory::freeze(&file)?;
        Ok(Table { file, memory, free: Mutex::new((0..ENTRIES as u32).rev().collect()) })
    }

    /// What a direct process maps, with a [mark](marked) that is its own.
    ///
    /// # Errors
    /// `Errno::NOENT` if /proc is not there; `Errno::MFILE` if this process has too many files open.
    pub fn share(&self, mark: u32) -> Result<OwnedFd> {
        let file = memory::reopen(self.file.as_fd())?;
        // Where such locks cannot be had, nobody asks for them either.
        let _ = marked::mark(file.as_fd(), mark);
        Ok(file)
    }

    /// Whether somebody still has what was shared with a mark open or mapped.
    ///
    /// # Errors
    /// The `Errno` that fcntl(2) returns where that cannot be known.
    pub fn is_shared(&self, mark: u32) -> Result<bool> {
        marked::is_marked(self.file.as_fd(), Some(mark))
    }

    /// Says that this thread serves, until what it returns is dropped or the thread ends, even by force. Nobody is
    /// direct while nobody serves.
    pub fn serve(&self) -> Option<Serving<'_>> {
        served::begin(&self.memory)
    }

    /// Whether direct stores are turned away from now on. A store that takes a slot afterwards sees it.
    pub fn pause(&self, paused: bool) {
        self.memory.word(PAUSED).store(paused.into(), Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// What the kernel wrote back could not be stored, which it tells who calls fdatasync(2).
    pub fn failed(&self) {
        self.memory.word(FAILED).store(1, Ordering::SeqCst);
    }

    fn free(&self) -> MutexGuard<'_, Vec<u32>> {
        self.free.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn entry(&self, index: u32) -> Entry<'_> {
        Entry::at(&self.memory, index)
    }

    /// Takes an entry for an inode; `None`: there are no more. Nobody is direct before [`Table::end`] says what there
    /// is, and the kernel has forgotten what it may hold.
    pub fn take(&self, ino: u32, generation: u32) -> Option<(u32, u64)> {
        let index = self.free().pop()?;
        let (entry, key) = (self.entry(index), u64::from(generation) << 32 | u64::from(ino));
        entry.begin();
        entry.word(KEY).store(key, Ordering::Relaxed);
        entry.word(FLAGS).store(0, Ordering::Relaxed);
        entry.word(LEASED).store(0, Ordering::Relaxed);
        entry.end();
        // Whoever is about to have the kernel forget another inode has not that of this one.
        self.kernel_came(index);
        Some((index, key))
    }

    /// Gives an entry back: its inode is nobody's any more.
    pub fn give_back(&self, index: u32) {
        let entry = self.entry(index);
        entry.begin();
        entry.word(KEY).store(0, Ordering::Relaxed);
        entry.word(FLAGS).store(0, Ordering::Relaxed);
        entry.end();
        self.free().push(index);
    }

    /// Shows an entry to nobody any more; it is given back later.
    pub fn withdraw(&self, index: u32) {
        self.entry(index).word(KEY).store(0, Ordering::Relaxed);
        self.entry(index).word(SEQUENCE).fetch_add(2, Ordering::SeqCst);
    }

    /// The inode is about to be changed: by its exclusive lock, this is one thread's alone until [`Table::end`].
    pub fn begin(&self, index: u32) {
        self.entry(index).begin();
    }

    /// The change has been made.
    pub fn end(&self, index: u32, content: &Content<'_>) {
        let entry = self.entry(index);
        let count = content.pieces.len().min(PIECES_MAX);
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        entry.word(SIZE).store(content.size, Ordering::Relaxed);
        entry.word(LEASED).store(content.leased, Ordering::Relaxed);
        let flags = flag(content.readable, READABLE) | flag(content.writable, WRITABLE);
        let flags = flags | flag(content.settled, SETTLED) | u64::from(content.sequence) << VERSION_SHIFT;
        let record = content.record.map_or(0, |record| u64::from(record) + 1) & RECORD_MASK;
        let flags = flags | record << RECORD_SHIFT;
        entry.word(FLAGS).store(flags, Ordering::Relaxed);
        entry.word(COUNT).store(count as u64, Ordering::Relaxed);
        for (number, (offset, at, bytes)) in content.pieces[..count].iter().enumerate() {
            for (word, value) in [*offset, *at, *bytes].into_iter().enumerate() {
                entry.word(PIECES + number * PIECE_BYTES + word * 8).store(value, Ordering::Relaxed);
            }
        }
        entry.end();
    }

    /// The kernel asks for an inode's content, or brings some: said before it is answered, and before the content is
    /// read for it.
    pub fn kernel_came(&self, index: u32) {
        let came = |word: u64| Some((((word >> 1) + 1) << 1) | PAGES);
        let _ = self.entry(index).word(KERNEL).fetch_update(Ordering::SeqCst, Ordering::SeqCst, came);
    }

    /// The kernel is told a size: said before that is looked at. Who is about to lease the end does not get it.
    pub fn kernel_told(&self, index: u32) {
        let told = |word: u64| Some(word.wrapping_add(2));
        let _ = self.entry(index).word(KERNEL).fetch_update(Ordering::SeqCst, Ordering::SeqCst, told);
    }

    /// What the kernel may hold, for [`Table::kernel_went`].
    pub fn kernel(&self, index: u32) -> u64 {
        self.entry(index).word(KERNEL).load(Ordering::SeqCst)
    }

    /// The kernel has forgotten all that it held when it was `noted`. False: it came again meanwhile.
    pub fn kernel_went(&self, index: u32, noted: u64) -> bool {
        let word = self.entry(index).word(KERNEL);
        word.compare_exchange(noted, noted & !PAGES, Ordering::SeqCst, Ordering::SeqCst).is_ok()
    }
}

/// One entry.
#[derive(Clone, Copy)]
pub(crate) struct Entry<'a> {
    memory: &'a Memory,
    at: usize,
}

impl<'a> Entry<'a> {
    fn at(memory: &'a Memory, index: u32) -> Entry<'a> {
        Entry { memory, at: ENTRIES_AT + index as usize * ENTRY_BYTES }
    }

    /// The entry of a table that another process writes; `None`: there is no such one.
    pub fn of(memory: &'a Memory, index: u32) -> Option<Entry<'a>> {
        ((index as usize) < ENTRIES).then_some(Entry::at(memory, index))
    }

    #[inline]
    fn word(&self, offset: usize) -> &'a std::sync::atomic::AtomicU64 {
        self.memory.word(self.at + offset)
    }

    fn begin(&self) {
        // Seen by everybody before any of the change, and before slots are looked at.
        self.word(SEQUENCE).fetch_or(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    fn end(&self) {
        let sequence = self.word(SEQUENCE);
        // Seen only after all of the change.
        sequence.store((sequence.load(Ordering::Relaxed) | 1).wrapping_add(1), Ordering::Release);
    }

    /// The sequence: the same and even before and after something was looked at, if nothing changed meanwhile.
    #[inline]
    pub fn sequence(&self) -> u64 {
        self.word(SEQUENCE).load(Ordering::SeqCst)
    }

    /// Whether the server still serves.
    #[inline]
    pub fn is_served(&self) -> bool {
        served::is_served(self.memory)
    }

    /// Whether nothing is stored directly for the moment.
    #[inline]
    pub fn is_paused(&self) -> bool {
        self.memory.word(PAUSED).load(Ordering::SeqCst) != 0
    }

    #[inline]
    pub fn key(&self) -> u64 {
        self.word(KEY).load(Ordering::Relaxed)
    }

    #[inline]
    pub fn has_kernel_pages(&self) -> bool {
        self.word(KERNEL).load(Ordering::SeqCst) & PAGES != 0
    }

    #[inline]
    pub fn is_readable(&self) -> bool {
        self.word(FLAGS).load(Ordering::Relaxed) & READABLE != 0
    }

    #[inline]
    pub fn is_writable(&self) -> bool {
        self.word(FLAGS).load(Ordering::Relaxed) & WRITABLE != 0
    }

    /// Whether all that was written without the kernel, or that it has written, is as durable as fdatasync(2) makes it,
    /// but for an end that is leased.
    pub fn is_settled(&self) -> bool {
        self.word(FLAGS).load(Ordering::Relaxed) & SETTLED != 0 && self.memory.word(FAILED).load(Ordering::SeqCst) == 0
    }

    /// The record of sizes that is the file's, and the version of the inode that it goes on from.
    pub fn record(&self) -> Option<(u32, Version)> {
        let flags = self.word(FLAGS).load(Ordering::Relaxed);
        let record = (flags >> RECORD_SHIFT & RECORD_MASK).checked_sub(1)?;
        Some((record as u32, Version { key: self.key(), sequence: (flags >> VERSION_SHIFT) as u32 }))
    }

    #[inline]
    pub fn size(&self) -> u64 {
        self.word(SIZE).load(Ordering::Relaxed)
    }

    /// Up to where the end of the file is leased to a process; 0: to none.
    #[inline]
    pub fn leased(&self) -> u64 {
        self.word(LEASED).load(Ordering::Relaxed)
    }

    /// Where an offset lies in the region, and how many bytes follow it there; `None`: not here.
    #[inline]
    pub fn locate(&self, offset: u64) -> Option<(u64, u64)> {
        let count = (self.word(COUNT).load(Ordering::Relaxed) as usize).min(PIECES_MAX);
        (0..count).find_map(|number| {
            let word = |word: usize| self.word(PIECES + number * PIECE_BYTES + word * 8).load(Ordering::Relaxed);
            let within = offset.checked_sub(word(0))?;
            let rest = word(2).checked_sub(within).filter(|rest| *rest > 0)?;
            Some((word(1).checked_add(within)?, rest))
        })
    }
}
