//! A gate that operations pass without waiting for each other, and that can be closed for a moment in which none is
//! under way.
//!
//! Who passes says so and then looks whether the gate is closed; who closes it says so and then looks who is inside.
//! Each needs a barrier in between, which takes as long as the rest of a small operation's bookkeeping: all stores of
//! the one before have to leave the processor. So whoever closes has membarrier(2) make all processors that run the
//! process pass one, and whoever passes goes without.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering, compiler_fence};
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Threads that have a count of their own; all further ones share one.
const THREADS: usize = 1024;

/// Numbers of threads: those that were given back, and how many there ever were.
static FREE: Mutex<Vec<usize>> = Mutex::new(Vec::new());
static GIVEN: AtomicUsize = AtomicUsize::new(1);

/// Whether the kernel makes all processors pass a barrier when it is asked. (Miri has no such call.)
static BARRIERS: LazyLock<bool> = LazyLock::new(|| {
    use rustix::thread::{MembarrierCommand, membarrier};
    !cfg!(miri) && membarrier(MembarrierCommand::RegisterPrivateExpedited).is_ok()
});

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Not asked for yet.
const UNKNOWN: usize = usize::MAX;

thread_local! {
    /// This thread's number: 0 is that of all threads that got none. Apart from what gives it back, because what has
    /// nothing to drop is read by one load.
    static NUMBER: Cell<usize> = const { Cell::new(UNKNOWN) };
    static LEASE: Lease = const { Lease };
}

/// Gives the thread's number back when the thread ends.
struct Lease;

impl Drop for Lease {
    fn drop(&mut self) {
        // What the thread still does counts as that of one without a number.
        let number = NUMBER.replace(0);
        if (1..THREADS).contains(&number) {
            lock(&FREE).push(number);
        }
    }
}

#[inline]
fn number() -> usize {
    let number = NUMBER.get();
    if number == UNKNOWN { first_number() } else { number }
}

#[cold]
fn first_number() -> usize {
    // In a thread that is ending already, nothing would give it back.
    let number = LEASE.try_with(|_| {
        let fresh = || GIVEN.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |n| (n < THREADS).then_some(n + 1));
        lock(&FREE).pop().or_else(|| fresh().ok()).unwrap_or(0)
    });
    let number = number.unwrap_or(0);
    NUMBER.set(number);
    number
}

/// How many operations of a thread are under way: a line of its own, so that threads do not get in each other's way.
#[repr(align(64))]
struct Count(AtomicU32);

/// The gate.
pub(crate) struct Gate {
    counts: Box<[Count]>,
    closed: AtomicBool,
    /// Held by who has closed it: the others wait for it.
    door: Mutex<()>,
    /// Of [`BARRIERS`].
    barriers: bool,
}

/// An operation that is under way, until this is dropped.
pub(crate) struct Inside<'a> {
    gate: &'a Gate,
    number: usize,
    /// The thread's own count is the thread's alone.
    stays: PhantomData<*const ()>,
}

impl Gate {
    pub(crate) fn new() -> Gate {
        let counts = (0..THREADS).map(|_| Count(AtomicU32::new(0))).collect();
        Gate { counts, closed: AtomicBool::new(false), door: Mutex::new(()), barriers: *BARRIERS }
    }

    /// Whether an operation of this thread is surely under way; of a thread without a number nobody knows.
    #[inline]
    pub(crate) fn is_inside(&self) -> bool {
        let number = number();
        number != 0 && self.counts[number].0.load(Ordering::Relaxed) > 0
    }

    /// Begins an operation. Waits while the gate is closed, unless it is a part of one that has begun.
    #[inline]
    pub(crate) fn enter(&self) -> Inside<'_> {
        let number = number();
        if number == 0 || !self.barriers {
            return self.enter_with_barrier(number);
        }
        let count = &self.counts[number].0;
        let before = count.load(Ordering::Relaxed);
        // Nobody else changes it. The processor may look before others see this: until it passes the barrier of who
        // closes the gate, which looks at the count after that.
        count.store(before + 1, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if before == 0 && self.closed.load(Ordering::SeqCst) {
            count.store(0, Ordering::Release);
            return self.enter_with_barrier(number);
        }
        Inside { gate: self, number, stays: PhantomData }
    }

    /// The same of a thread without a number of its own, without barriers of the kernel, and at a gate that was closed.
    #[cold]
    fn enter_with_barrier(&self, number: usize) -> Inside<'_> {
        let count = &self.counts[number].0;
        if number != 0 && count.load(Ordering::Relaxed) > 0 {
            count.fetch_add(1, Ordering::Relaxed);
            return Inside { gate: self, number, stays: PhantomData };
        }
        loop {
            // Seen by who closes the gate before this thread looks whether it is closed, or that is seen here.
            count.fetch_add(1, Ordering::SeqCst);
            if !self.closed.load(Ordering::SeqCst) {
                return Inside { gate: self, number, stays: PhantomData };
            }
            count.fetch_sub(1, Ordering::SeqCst);
            drop(lock(&self.door));
        }
    }

    /// Does something while no operation is under way; `None` if one takes longer than `patience` to end.
    pub(crate) fn closed<T>(&self, patience: Duration, act: impl FnOnce() -> T) -> Option<T> {
        let _door = lock(&self.door);
        // Opened again even if `act` panics.
        struct Open<'a>(&'a AtomicBool);
        impl Drop for Open<'_> {
            fn drop(&mut self) {
                self.0.store(false, Ordering::SeqCst);
            }
        }
        self.closed.store(true, Ordering::SeqCst);
        let _open = Open(&self.closed);
        let start = Instant::now();
        if self.barriers {
            use rustix::thread::{MembarrierCommand, membarrier};
            // What was registered does not fail.
            membarrier(MembarrierCommand::PrivateExpedited).ok()?;
        }
        // A thread that got its number since then finds the gate closed.
        for count in &self.counts[..GIVEN.load(Ordering::SeqCst).min(THREADS)] {
            while count.0.load(Ordering::SeqCst) != 0 {
                if start.elapsed() > patience {
                    return None;
                }
                std::thread::yield_now();
            }
        }
        Some(act())
    }
}

impl Drop for Inside<'_> {
    #[inline]
    fn drop(&mut self) {
        let count = &self.gate.counts[self.number].0;
        if self.number == 0 {
            count.fetch_sub(1, Ordering::Release);
        } else {
            // Nobody else changes it. What the operation stored is seen before its end is.
            count.store(count.load(Ordering::Relaxed) - 1, Ordering::Release);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn a_closed_gate_lets_nobody_in_and_closes_when_nobody_is_inside() {
        let gate = Gate::new();
        // Two words that are equal whenever no operation is under way.
        let (left, right, stop) = (AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let _outer = gate.enter();
                        left.fetch_add(1, Ordering::Relaxed);
                        let _inner = gate.enter();
                        assert!(gate.is_inside());
                        right.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            for _ in 0..300 {
                let seen = gate.closed(LONG, || {
                    let first = (left.load(Ordering::Relaxed), right.load(Ordering::Relaxed));
                    std::thread::sleep(Duration::from_micros(20));
                    (first, (left.load(Ordering::Relaxed), right.load(Ordering::Relaxed)))
                });
                let (first, last) = seen.unwrap();
                assert_eq!(first.0, first.1);
                assert_eq!(first, last);
            }
            stop.store(true, Ordering::Relaxed);
        });
    }

    #[test]
    fn patience_ends_and_the_gate_is_open_again() {
        let gate = Gate::new();
        let inside = gate.enter();
        let from_outside = |patience| {
            std::thread::scope(|scope| scope.spawn(|| gate.closed(patience, || ())).join().unwrap().is_some())
        };
        assert!(!from_outside(Duration::from_millis(1)));
        drop(gate.enter());
        drop(inside);
        assert!(from_outside(LONG));
        drop(gate.enter());
    }
}
