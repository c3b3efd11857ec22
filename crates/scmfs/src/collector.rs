//! The thread that keeps null files ready and free space above the low-water mark.

use crate::parts::Parts;
use crate::reclaim::{self, CHEAP};
use crate::space::Alloc;
use crate::store::lock;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// How often it looks.
const PERIOD: Duration = Duration::from_millis(50);
/// How long it waits when space is low and nothing could be given back: looking costs time.
const FRUITLESS: Duration = Duration::from_secs(2);
/// Huge pages that are kept mapped ahead of their use.
const TOUCH_AHEAD: u32 = 8;

/// The running thread. Dropping it ends it and waits.
pub(crate) struct Collector {
    stop: Arc<(Mutex<bool>, Condvar)>,
    thread: Option<JoinHandle<()>>,
}

impl Collector {
    pub fn start(parts: &Arc<Parts>) -> Collector {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (parts, told) = (parts.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("scmfs-collector".into()).spawn(move || {
            let mut seen = Seen::default();
            loop {
                let pause = tend(&parts, &mut seen);
                let stopped = lock(&told.0);
                let (stopped, _) = told.1.wait_timeout(stopped, pause).unwrap_or_else(PoisonError::into_inner);
                if *stopped {
                    return;
                }
            }
        });
        // Without the thread, whoever finds no space collects for himself.
        Collector { stop, thread: thread.ok() }
    }
}

/// What the thread saw when it looked last.
#[derive(Default)]
struct Seen {
    /// The last huge page that was touched.
    touched: Option<u32>,
    /// Free small and huge pages.
    free: (u64, u32),
    /// The same when what was lent was taken back last.
    tidied: (u64, u32),
}

impl Drop for Collector {
    fn drop(&mut self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// An operation of its own: between two of them a checkpoint may begin.
fn alone<T>(parts: &Parts, act: impl FnOnce() -> T) -> T {
    let _operation = parts.store.operation();
    act()
}

/// One round: collect when space is low, else keep null files and huge pages ready. The pause after it.
fn tend(parts: &Parts, seen: &mut Seen) -> Duration {
    let free = |alloc: &Alloc| (alloc.free_pages(), alloc.free_segments());
    let (short, now) = {
        let alloc = parts.space.alloc();
        (parts.space.is_low(&alloc).then(|| parts.space.low_water_bytes(&alloc)), free(&alloc))
    };
    let quiet = std::mem::replace(&mut seen.free, now) == now;
    match short {
        Some(goal) if alone(parts, || reclaim::collect(parts, goal) == 0 && !empty_cheap_segment(parts)) => FRUITLESS,
        Some(_) => PERIOD,
        None => {
            let untidy = quiet && seen.tidied != now;
            if untidy {
                alone(parts, || return_lent(parts));
            }
            alone(parts, || parts.space.refill(&parts.store));
            if untidy {
                seen.tidied = free(&parts.space.alloc());
                seen.free = seen.tidied;
            }
            touch_ahead(parts, &mut seen.touched);
            PERIOD
        }
    }
}

/// Takes back what was lent to small pages and inodes and is not used any more; null files may be in its way.
fn return_lent(parts: &Parts) {
    let reserve = parts.store.superblock().small_segments;
    if parts.store.layout.chunks.count() > 0 || parts.space.alloc().small_segments() > reserve {
        parts.space.release_nulls(0);
        parts.space.return_idle(&parts.store);
    }
}

/// Keeps a huge page free for large files, if few small pages are in its way.
fn empty_cheap_segment(parts: &Parts) -> bool {
    parts.space.alloc().free_segments() == 0
        && reclaim::empty_segment(parts, parts.store.layout.pages_per_segment() / CHEAP)
}

/// Touches free huge pages where the next ones will probably be taken.
fn touch_ahead(parts: &Parts, touched: &mut Option<u32>) {
    let ahead: Vec<u32> = {
        let alloc = parts.space.alloc();
        let mut from = alloc.next_segment();
        let next = |_| {
            let found = alloc.free_segment_from(from)?;
            from = found + 1;
            Some(found)
        };
        (0..TOUCH_AHEAD).map_while(next).collect()
    };
    for segment in ahead {
        if touched.is_none_or(|last| segment > last || segment + TOUCH_AHEAD < last) {
            parts.store.medium.touch(parts.store.layout.segment_at(segment), parts.store.layout.huge);
            *touched = Some(segment);
        }
    }
}
