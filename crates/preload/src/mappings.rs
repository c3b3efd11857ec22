//! A table of what is mapped where, in memory that children of fork(2) have, too, as they have the mappings. One at a
//! time changes it; whoever looks meanwhile waits for nobody, and so may be a signal handler that has interrupted who
//! changes it.

use core::sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};

/// So many mappings are known at a time.
pub const MOST: usize = 1024;
/// Words that say what a mapping is of.
pub const WORDS: usize = 10;
pub type What = [u64; WORDS];

/// Nothing begins there.
const FREE: usize = 0;
/// Being filled. Nor there.
const CLAIMED: usize = 1;

/// A part of the address space. Zeros: none.
struct Place {
    /// How often the place was taken: what was read in between is of one mapping if it is still the same.
    generation: AtomicU64,
    /// [`FREE`], [`CLAIMED`], or the first address.
    start: AtomicUsize,
    end: AtomicUsize,
    what: [AtomicU64; WORDS],
}

/// A part of what is mapped: its addresses, and what it is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Part {
    pub start: usize,
    pub end: usize,
    pub what: What,
}

impl Place {
    const fn new() -> Place {
        Place {
            generation: AtomicU64::new(0),
            start: AtomicUsize::new(FREE),
            end: AtomicUsize::new(0),
            what: [const { AtomicU64::new(0) }; WORDS],
        }
    }

    fn fill(&self, part: &Part) -> bool {
        if self.start.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_err() {
            return false;
        }
        // Whoever sees the new number sees that the place is claimed, or what it holds then.
        self.generation.fetch_add(1, Ordering::Release);
        // Whoever sees any of the new words sees the new number.
        fence(Ordering::Release);
        self.end.store(part.end, Ordering::Relaxed);
        self.what.iter().zip(part.what).for_each(|(place, word)| place.store(word, Ordering::Relaxed));
        self.start.store(part.start, Ordering::Release);
        true
    }

    /// All that is mapped here, if that is a part of a range of addresses, too.
    fn across(&self, from: usize, to: usize) -> Option<Part> {
        // Once more means that others have used the place anew meanwhile.
        loop {
            let generation = self.generation.load(Ordering::Acquire);
            let start = self.start.load(Ordering::Acquire);
            if start <= CLAIMED {
                return None;
            }
            let end = self.end.load(Ordering::Relaxed);
            let is_part = start < to && from < end;
            let word = |at: usize| if is_part { self.what[at].load(Ordering::Relaxed) } else { 0 };
            let what = core::array::from_fn(word);
            fence(Ordering::Acquire);
            if self.generation.load(Ordering::Relaxed) == generation {
                return is_part.then_some(Part { start, end, what });
            }
        }
    }
}

/// All of them.
pub struct Mappings {
    places: [Place; MOST],
    /// Places below are or were taken: most processes have none.
    taken: AtomicUsize,
    /// How often the second part of one that is cut in two was known, before the first one was made shorter.
    cuts: AtomicUsize,
}

impl Mappings {
    pub const fn new() -> Mappings {
        Mappings { places: [const { Place::new() }; MOST], taken: AtomicUsize::new(0), cuts: AtomicUsize::new(0) }
    }

    fn taken(&self) -> impl Iterator<Item = &Place> {
        self.places[..self.taken.load(Ordering::Acquire).min(MOST)].iter()
    }

    /// What is mapped of a range of addresses. What others unmap just now may be among it.
    pub fn within(&self, start: usize, end: usize) -> impl Iterator<Item = Part> {
        let clipped = move |part: Part| Part { start: part.start.max(start), end: part.end.min(end), ..part };
        self.taken().filter_map(move |place| place.across(start, end).map(clipped))
    }

    /// Whether any of a range of addresses is mapped.
    pub fn is_any(&self, start: usize, end: usize) -> bool {
        loop {
            let cuts = self.cuts.load(Ordering::Acquire);
            if self.within(start, end).next().is_some() {
                return true;
            }
            // Its first part may have been seen as it is now, and the place of its second part as it was. Changes are
            // made with all signals blocked, so none waits for this.
            fence(Ordering::Acquire);
            if self.cuts.load(Ordering::Relaxed) == cuts {
                return false;
            }
        }
    }

    /// Whether so many more can be known.
    pub fn has_room(&self, parts: usize) -> bool {
        let free = self.places.iter().filter(|place| place.start.load(Ordering::Relaxed) == FREE);
        free.take(parts).count() == parts
    }

    /// Knows one more, where nothing is known. Whether there was room. The caller is alone.
    pub fn add(&self, part: &Part) -> bool {
        let number = self.places.iter().position(|place| place.fill(part));
        if let Some(number) = number {
            self.taken.fetch_max(number + 1, Ordering::Release);
        }
        number.is_some()
    }

    /// A range of addresses is not what it was any more. The caller is alone.
    pub fn remove(&self, start: usize, end: usize) {
        for place in self.taken() {
            let Some(all) = place.across(start, end) else { continue };
            // One word each: whoever looks sees the mapping as it was, or as it is.
            match (start <= all.start, all.end <= end) {
                (true, true) => place.start.store(FREE, Ordering::Release),
                (true, false) => place.start.store(end, Ordering::Release),
                (false, true) => place.end.store(start, Ordering::Release),
                (false, false) => {
                    // For a moment the second part is known twice, and never not. If there is no room for it, all of it
                    // stays known: what is mapped and not known could grow into other files.
                    if self.add(&Part { start: end, ..all }) {
                        self.cuts.fetch_add(1, Ordering::Release);
                        place.end.store(start, Ordering::Release);
                    }
                }
            }
        }
    }
}
