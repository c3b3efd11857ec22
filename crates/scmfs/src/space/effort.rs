//! What has been done to make space, and what need not be tried again before something changes.

use std::sync::atomic::{AtomicU64, Ordering};

/// One way to make space, which may have failed when files' space had changed so many times.
#[derive(Default)]
pub(crate) struct Attempt(AtomicU64);

impl Attempt {
    /// Whether it failed when there had been so many changes.
    pub fn failed_at(&self, changes: u64) -> bool {
        self.0.load(Ordering::Relaxed) == changes
    }

    /// Notes that it failed then.
    pub fn fail(&self, changes: u64) {
        self.0.store(changes, Ordering::Relaxed);
    }
}

/// Counts of changes and of attempts.
pub(crate) struct Effort {
    /// Changes of files' space since the volume was opened.
    changes: AtomicU64,
    /// Looking for space beyond files' ends.
    pub tails: Attempt,
    /// Moving pages out of the way of a run.
    pub run: Attempt,
    /// Moving pages out of a huge page.
    pub segment: Attempt,
    collections: AtomicU64,
    collected_bytes: AtomicU64,
}

impl Effort {
    pub fn new() -> Effort {
        Effort {
            changes: AtomicU64::new(1),
            tails: Attempt::default(),
            run: Attempt::default(),
            segment: Attempt::default(),
            collections: AtomicU64::new(0),
            collected_bytes: AtomicU64::new(0),
        }
    }

    /// Notes that a file's space has changed: what failed before may succeed now.
    #[inline]
    pub fn changed(&self) {
        self.changes.fetch_add(1, Ordering::Relaxed);
    }

    /// How many such changes there were.
    pub fn changes(&self) -> u64 {
        self.changes.load(Ordering::Relaxed)
    }

    /// Tries what takes time, unless it failed before and nothing has changed since.
    pub fn unless_fruitless<T>(&self, way: &Attempt, attempt: impl FnOnce() -> Option<T>) -> Option<T> {
        if way.failed_at(self.changes()) {
            return None;
        }
        let done = attempt();
        if done.is_none() {
            way.fail(self.changes());
        }
        done
    }

    /// Counts a collection.
    pub fn begun(&self) {
        self.collections.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts what it gave back.
    pub fn gave_back(&self, bytes: u64) {
        self.collected_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Collections since the volume was opened, and the bytes that they gave back.
    pub fn collected(&self) -> (u64, u64) {
        (self.collections.load(Ordering::Relaxed), self.collected_bytes.load(Ordering::Relaxed))
    }
}
