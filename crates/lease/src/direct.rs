//! Reading and storing without the kernel.

use crate::memory::Memory;
use crate::slots::Slots;
use crate::table::{Entry, PIECES_MAX};
use pocketstone_media::mapping;
use std::mem::MaybeUninit;
use std::sync::atomic::{Ordering, fence};

/// How a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// So many bytes were read or stored; of a read, 0 at the end of the file.
    Done(usize),
    /// Nothing counts as done: the kernel has to do all of it.
    Kernel(Why),
}

/// Why a call goes by the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The server is changing the file, again and again.
    Changing,
    /// The entry is another file's by now: ask for the file again.
    Gone,
    /// Others use the file by the kernel.
    KernelPages,
    /// The file has checksums, or is protected, or its mode or capabilities would have to change.
    Refused,
    /// A part of the range has no space of its own, or lies in too many pieces.
    Hole,
    /// The file would grow.
    Growth,
    /// All slots are taken.
    Busy,
    /// The process may only read directly.
    ReadOnly,
    /// The end of the file is another process's, or that of another thread, to append to.
    Leased,
    /// The server has ended.
    Ended,
    /// A checkpoint is being made: the server keeps what it has not copied yet.
    Checkpoint,
}

impl Why {
    /// All of them.
    pub const ALL: [Why; 11] = [
        Why::Changing,
        Why::Gone,
        Why::KernelPages,
        Why::Refused,
        Why::Hole,
        Why::Growth,
        Why::Busy,
        Why::ReadOnly,
        Why::Leased,
        Why::Ended,
        Why::Checkpoint,
    ];
    /// How many there are.
    pub const COUNT: usize = Why::ALL.len();

    /// Its place among [`Why::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// In words, for a report.
    pub fn name(self) -> &'static str {
        match self {
            Why::Changing => "file being changed",
            Why::Gone => "file not published",
            Why::KernelPages => "used by the kernel too",
            Why::Refused => "protected file",
            Why::Hole => "hole",
            Why::Growth => "growth",
            Why::Busy => "too many at once",
            Why::ReadOnly => "reads only",
            Why::Leased => "others append to it",
            Why::Ended => "server ended",
            Why::Checkpoint => "checkpoint",
        }
    }
}

/// How often a call looks again before it leaves things to the kernel.
const ATTEMPTS: usize = 8;
/// Looks at a sequence that is odd: a change of the server takes about a microsecond.
const LOOKS: usize = 200;

/// Where a test looks at what others do meanwhile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// All has been looked at; nothing is copied.
    Looked,
    /// All is copied; nothing is looked at again.
    Copied,
    /// A store is copied; one of two things is looked at again.
    HalfLooked,
}

#[cfg(not(test))]
#[inline]
fn step(_: Step) {}

#[cfg(test)]
use tests::step;

/// A part of a range: where it lies, which part it is, and how many bytes.
type Part = (*mut u8, usize, usize);

/// Where the parts of a range lie. It is filled where it is: a store of a page takes as long as clearing and moving it.
struct Parts {
    parts: [MaybeUninit<Part>; PIECES_MAX],
    count: usize,
}

impl Parts {
    fn new() -> Parts {
        Parts { parts: [const { MaybeUninit::uninit() }; PIECES_MAX], count: 0 }
    }

    fn iter(&self) -> impl Iterator<Item = Part> {
        // SAFETY: as many were written.
        self.parts[..self.count].iter().map(|part| unsafe { part.assume_init() })
    }

    /// Marks all of them, before they are stored to.
    fn mark(&self, slots: &Slots, region: &Memory) {
        self.iter().for_each(|(place, _, part)| slots.mark(region.offset(place), part as u64));
    }
}

/// Where a range of a file lies in the region.
#[derive(Debug, Clone, Copy)]
pub struct Pieces {
    pieces: [(u64, u64); PIECES_MAX],
    count: usize,
}

impl Pieces {
    /// In the order of the file: offset in the region, and bytes.
    pub fn iter(&self) -> impl Iterator<Item = (u64, u64)> {
        self.pieces[..self.count].iter().copied()
    }
}

/// What a direct call works on.
pub(crate) struct Direct<'a> {
    pub entry: Entry<'a>,
    pub key: u64,
    pub region: &'a Memory,
    /// Stores are flushed and fenced.
    pub flushed: bool,
    /// The process's own slots, if it may store, and the number of the entry there.
    pub own: Option<(&'a Slots, u32)>,
}

impl Direct<'_> {
    /// The file's size, as the table has it or this process has made it; and whether another one may be appending.
    #[inline]
    fn size(&self) -> (u64, bool) {
        let shown = self.entry.size();
        if self.entry.leased() == 0 {
            return (shown, false);
        }
        match self.own.and_then(|(slots, index)| slots.lease(index)) {
            Some(lease) => (lease.size().max(shown), false),
            None => (shown, true),
        }
    }

    /// The file's end, as far as this process knows.
    pub fn own_size(&self) -> u64 {
        self.size().0
    }

    /// The file's size.
    ///
    /// # Errors
    /// [`Why::Leased`] if another process may be appending; those of an entry that is not served, or does not lie
    /// still.
    pub fn known_size(&self) -> Result<u64, Why> {
        let sequence = self.begin()?;
        let (size, others_append) = self.size();
        fence(Ordering::Acquire);
        match self.entry.sequence() == sequence {
            _ if others_append => Err(Why::Leased),
            true => Ok(size),
            false => Err(Why::Changing),
        }
    }

    /// An even sequence, with the entry still the file's.
    #[inline]
    fn begin(&self) -> Result<u64, Why> {
        if !self.entry.is_served() {
            return Err(Why::Ended);
        }
        for _ in 0..LOOKS {
            let sequence = self.entry.sequence();
            if sequence % 2 == 0 {
                return if self.entry.key() == self.key { Ok(sequence) } else { Err(Why::Gone) };
            }
            std::hint::spin_loop();
        }
        Err(Why::Changing)
    }

    /// The same, while the kernel holds nothing: it is made to go.
    #[inline]
    fn look(&self, free: &impl Fn() -> bool) -> Result<u64, Why> {
        for _ in 0..ATTEMPTS {
            let sequence = self.begin()?;
            if !self.entry.has_kernel_pages() {
                return Ok(sequence);
            }
            if !free() {
                return Err(Why::KernelPages);
            }
        }
        Err(Why::KernelPages)
    }

    /// Calls `each` with the parts of a range: where, which part of the range, and how many bytes.
    #[inline]
    fn parts(&self, offset: u64, bytes: usize, mut each: impl FnMut(*mut u8, usize, usize)) -> Result<(), Why> {
        let mut done = 0;
        while done < bytes {
            let (at, rest) = self.entry.locate(offset + done as u64).ok_or(Why::Hole)?;
            let part = (bytes - done).min(usize::try_from(rest).unwrap_or(usize::MAX));
            // A volume that grew is longer than what this process has mapped.
            let place = self.region.place(at, part as u64).ok_or(Why::Hole)?;
            each(place, done, part);
            done += part;
        }
        Ok(())
    }

    /// Finds the parts of a range, if there are not too many.
    #[inline]
    fn parts_of(&self, offset: u64, bytes: usize, all: &mut Parts) -> Result<(), Why> {
        let (mut count, parts) = (0, &mut all.parts);
        self.parts(offset, bytes, |place, done, part| {
            if let Some(next) = parts.get_mut(count) {
                next.write((place, done, part));
            }
            count += 1;
        })?;
        all.count = count.min(PIECES_MAX);
        if count <= PIECES_MAX { Ok(()) } else { Err(Why::Hole) }
    }

    /// Where a range lies that lies still.
    pub fn lying(&self, offset: u64, bytes: u64) -> Result<Pieces, Why> {
        for _ in 0..ATTEMPTS {
            let sequence = self.begin()?;
            let (mut found, mut at, end) = (Pieces { pieces: [(0, 0); PIECES_MAX], count: 0 }, offset, offset + bytes);
            let mut whole = self.entry.is_readable();
            while whole && at < end {
                match (self.entry.locate(at), found.pieces.get_mut(found.count)) {
                    (Some((place, rest)), Some(next)) => {
                        *next = (place, rest.min(end - at));
                        (at, found.count) = (at + next.1, found.count + 1);
                    }
                    _ => whole = false,
                }
            }
            if self.entry.sequence() == sequence {
                return if whole { Ok(found) } else { Err(Why::Hole) };
            }
        }
        Err(Why::Changing)
    }

    /// Reads at an offset. `free` has the kernel forget what it holds of the file; whether it has.
    ///
    /// # Safety
    /// `into` is writable for `bytes` bytes.
    #[inline]
    pub unsafe fn read(&self, into: *mut u8, bytes: usize, offset: u64, free: impl Fn() -> bool) -> Outcome {
        for _ in 0..ATTEMPTS {
            let sequence = match self.look(&free) {
                Ok(sequence) => sequence,
                Err(why) => return Outcome::Kernel(why),
            };
            let readable = self.entry.is_readable();
            let (size, others_append) = self.size();
            let wanted = bytes;
            let bytes = bytes.min(usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX));
            step(Step::Looked);
            let copied = self.parts(offset, bytes, |place, done, part| {
                // SAFETY: `place` lies in the region for `part` bytes, `into` is the caller's promise. Others may store
                // to the region meanwhile: what was read then is thrown away, or as mixed as read(2) may give it.
                unsafe { mapping::load(place, into.add(done), part) };
            });
            step(Step::Copied);
            fence(Ordering::Acquire);
            if self.entry.sequence() != sequence {
                continue;
            }
            return match copied {
                _ if !self.entry.is_served() => Outcome::Kernel(Why::Ended),
                _ if !readable => Outcome::Kernel(Why::Refused),
                _ if bytes < wanted && others_append => Outcome::Kernel(Why::Leased),
                Ok(()) => Outcome::Done(bytes),
                Err(why) => Outcome::Kernel(why),
            };
        }
        Outcome::Kernel(Why::Changing)
    }

    /// Stores to parts of the region. The rule for whatever stores: a slot, a look whether it may, marks, and only then
    /// the first byte.
    ///
    /// # Safety
    /// The slot is held since before the parts were looked up, so that nobody is given these bytes for another file
    /// meanwhile; `from` is readable for all of them.
    #[inline]
    unsafe fn store(&self, (slots, index): (&Slots, u32), parts: &Parts, from: *const u8) {
        step(Step::Looked);
        // Whoever dies in here has stored something, perhaps.
        slots.note(index);
        parts.mark(slots, self.region);
        for (place, done, part) in parts.iter() {
            // SAFETY: `place` lies in the region for `part` bytes; the rest is the caller's promise.
            unsafe { mapping::store(place, from.add(done), part, self.flushed, false) };
        }
        mapping::fence(self.flushed);
        step(Step::Copied);
    }

    /// Stores at an offset, inside the file; all of it or, by its word, nothing. `free` as of [`Direct::read`].
    ///
    /// # Safety
    /// `from` is readable for `bytes` bytes.
    #[inline]
    pub unsafe fn write(
        &self,
        (slots, index): (&Slots, u32),
        from: *const u8,
        bytes: usize,
        offset: u64,
        free: impl Fn() -> bool,
    ) -> Outcome {
        for _ in 0..ATTEMPTS {
            let Some(taken) = slots.take(index) else { return Outcome::Kernel(Why::Busy) };
            if self.entry.is_paused() {
                return Outcome::Kernel(Why::Checkpoint);
            }
            // Only what is seen with the slot counts.
            let sequence = match self.begin() {
                Ok(sequence) => sequence,
                Err(why) => return Outcome::Kernel(why),
            };
            if self.entry.has_kernel_pages() {
                // Without the slot: it may take its time.
                drop(taken);
                if !free() {
                    return Outcome::Kernel(Why::KernelPages);
                }
                continue;
            }
            let writable = self.entry.is_writable();
            let inside = offset.checked_add(bytes as u64).is_some_and(|end| end <= self.size().0);
            // Where to store is known for sure before the first store: words of two states would lead anywhere.
            let mut parts = Parts::new();
            let found = self.parts_of(offset, bytes, &mut parts);
            if self.entry.sequence() != sequence {
                continue;
            }
            match found {
                _ if !writable => return Outcome::Kernel(Why::Refused),
                _ if !inside => return Outcome::Kernel(Why::Growth),
                Ok(()) => {}
                Err(why) => return Outcome::Kernel(why),
            }
            // SAFETY: the slot is held; `from` is the caller's promise.
            unsafe { self.store((slots, index), &parts, from) };
            // The stores are seen before what is looked at now. The kernel first: if it came and has gone by then, what
            // it wrote back on its way has changed the sequence.
            fence(Ordering::SeqCst);
            let came = self.entry.has_kernel_pages();
            step(Step::HalfLooked);
            if self.entry.sequence() != sequence {
                continue;
            }
            if !self.entry.is_served() {
                return Outcome::Kernel(Why::Ended);
            }
            if !came {
                slots.note_again(index);
                return Outcome::Done(bytes);
            }
            drop(taken);
            // The kernel may hold what was there before, and may write a page of that back on its way out: once it is
            // gone the same is stored again. If it does not go, it stores the same bytes in its pages, too.
            if !free() {
                return Outcome::Kernel(Why::KernelPages);
            }
        }
        Outcome::Kernel(Why::Changing)
    }
}

mod append;
mod durable;
#[cfg(test)]
mod tests;
