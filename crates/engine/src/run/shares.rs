//! Which thread does what, and what it waits for.

use super::Order;
use pocketstone_core::{Error, Result};
use pocketstone_workload::Operation;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Threads wait in so many places, each for operations on other files.
const PLACES: usize = 64;

/// The operations of all threads.
pub(super) struct Shares {
    pub(super) of_threads: Vec<Share>,
    /// The thread of each logged operation.
    pub(super) owners: Vec<u32>,
    /// Whether the operations say whose turn it is.
    pub(super) in_turns: bool,
    /// Operations that have ended, by file.
    ended: Vec<AtomicU32>,
    /// A thread has failed: what others wait for may never come.
    failed: AtomicBool,
    /// Where threads wait, by file.
    places: [Place; PLACES],
}

/// Where threads wait.
#[derive(Default)]
struct Place {
    /// How many there are, or may be in a moment: nobody is told where nobody waits.
    waiting: AtomicU32,
    lock: Mutex<()>,
    changed: Condvar,
}

impl Place {
    fn locked(&self) -> MutexGuard<'_, ()> {
        self.lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until something is so. A thread counts itself before it looks, and who changes something looks for waiting
    /// threads after that: in the one order of all these accesses, one of both sees the other.
    fn wait_until(&self, so: impl Fn() -> bool) {
        self.waiting.fetch_add(1, Ordering::SeqCst);
        let mut locked = self.locked();
        while !so() {
            locked = self.changed.wait(locked).unwrap_or_else(PoisonError::into_inner);
        }
        drop(locked);
        self.waiting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Something has changed.
    #[inline]
    fn tell(&self) {
        if self.waiting.load(Ordering::SeqCst) > 0 {
            // Who has looked and not found it waits by now, and hears it.
            drop(self.locked());
            self.changed.notify_all();
        }
    }
}

/// The operations of a thread.
#[derive(Default)]
pub(super) struct Share {
    pub(super) operations: Vec<Operation>,
    /// Of each, where they are in turns: the file, and how many operations on it must have ended.
    after: Vec<Option<(u32, u32)>>,
}

impl Shares {
    pub(super) fn of(operations: &[Operation], threads: usize) -> Result<Shares> {
        let mut of_threads: Vec<Share> = Vec::new();
        of_threads.resize_with(threads, Share::default);
        let files = operations.iter().filter_map(Operation::file).max().map_or(0, |most| most as usize + 1);
        let in_turns = operations.iter().any(|operation| matches!(operation, Operation::Turn { .. }));
        // Of each file: operations so far, and those up to the last one that changed its name.
        let mut seen = vec![(0, 0); if in_turns { files } else { 0 }];
        let (mut turn, mut owners) = (0, Vec::with_capacity(operations.len()));
        for operation in operations {
            if let Operation::Turn { thread } = *operation {
                turn = thread as usize;
                continue;
            }
            let owner = if in_turns { turn } else { owners.len() % threads };
            let share = of_threads.get_mut(owner).ok_or_else(|| Error::bug(format!("there is no thread {owner}")))?;
            share.operations.push(*operation);
            if operation.is_logged() {
                owners.push(owner as u32);
            }
            let file = operation.file().filter(|_| in_turns);
            share.after.push(file.map(|file| {
                let (before, named) = &mut seen[file as usize];
                *before += 1;
                match operation.changes_a_name() {
                    true => {
                        *named = *before;
                        (file, *before - 1)
                    }
                    false => (file, *named),
                }
            }));
        }
        let ended = seen.iter().map(|_| AtomicU32::new(0)).collect();
        let (failed, places) = (AtomicBool::new(false), std::array::from_fn(|_| Place::default()));
        Ok(Shares { of_threads, owners, in_turns, ended, failed, places })
    }

    /// The number among all logged operations of a thread's own.
    pub(super) fn number(&self, thread: usize, own: usize) -> usize {
        let numbers = self.owners.iter().enumerate().filter(|(_, owner)| **owner as usize == thread);
        numbers.map(|(number, _)| number).nth(own).unwrap_or(self.owners.len())
    }
}

/// A thread that keeps the order of operations on a file where one of them changes its name: such a one waits for all
/// before it, the others for the last such one. None waits for one behind it, so that somebody can always go on.
pub(super) struct InOrder<'a> {
    pub(super) share: &'a Share,
    pub(super) shares: &'a Shares,
}

impl Order for InOrder<'_> {
    #[inline]
    fn may_begin(&self, number: usize) -> bool {
        let Some((file, after)) = self.share.after[number] else { return true };
        let ended = || self.shares.ended[file as usize].load(Ordering::SeqCst) >= after;
        if ended() {
            return true;
        }
        let failed = || self.shares.failed.load(Ordering::SeqCst);
        self.shares.places[file as usize % PLACES].wait_until(|| ended() || failed());
        ended()
    }

    #[inline]
    fn ended(&self, number: usize, failed: bool) {
        if failed {
            self.shares.failed.store(true, Ordering::SeqCst);
            self.shares.places.iter().for_each(Place::tell);
            return;
        }
        if let Some((file, _)) = self.share.after[number] {
            self.shares.ended[file as usize].fetch_add(1, Ordering::SeqCst);
            self.shares.places[file as usize % PLACES].tell();
        }
    }
}
