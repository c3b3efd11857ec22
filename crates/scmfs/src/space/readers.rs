//! Who is given bytes of files where they lie: what a file loses meanwhile is given to nobody else.

use crate::Running;
use crate::store::lock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};

/// Whether one of them has bytes now. Odd: it has; each time that it begins or ends to have any, the number grows.
#[derive(Default)]
pub(crate) struct Reading(AtomicU64);

impl Reading {
    /// To be called before the place of the bytes is looked up, and again when they are not needed any more.
    // Whoever frees the place has had the inode's lock after the look-up, so it sees what was stored before that.
    pub fn turn(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn turns(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// All of an open volume.
#[derive(Default)]
pub(crate) struct Readers {
    /// Most volumes have none.
    any: AtomicBool,
    all: Mutex<Vec<Weak<Reading>>>,
}

impl Readers {
    pub fn add(&self) -> Arc<Reading> {
        let reading = Arc::<Reading>::default();
        let mut all = lock(&self.all);
        all.retain(|one| one.strong_count() > 0);
        all.push(Arc::downgrade(&reading));
        self.any.store(true, Ordering::SeqCst);
        reading
    }

    /// Those that have bytes now; `None`: none do.
    pub fn running(&self) -> Option<Running> {
        if !self.any.load(Ordering::SeqCst) {
            return None;
        }
        let all = lock(&self.all);
        let now = all.iter().filter_map(Weak::upgrade).map(|one| (one.turns(), one));
        let reading: Vec<(u64, Arc<Reading>)> = now.filter(|(turns, _)| turns % 2 == 1).collect();
        (!reading.is_empty())
            .then(|| -> Running { Box::new(move || reading.iter().any(|(turns, one)| one.turns() == *turns)) })
    }
}
