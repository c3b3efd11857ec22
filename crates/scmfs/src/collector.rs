//! The thread that keeps null files ready and free space above the low-water mark.

use crate::node::lock;
use crate::volume::Inner;
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
    pub fn start(inner: &Arc<Inner>) -> Collector {
        let stop = Arc::new((Mutex::new(false), Condvar::new()));
        let (inner, told) = (inner.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("scmfs-collector".into()).spawn(move || {
            let mut touched = None;
            loop {
                let pause = inner.tend(&mut touched);
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

impl Drop for Collector {
    fn drop(&mut self) {
        *lock(&self.stop.0) = true;
        self.stop.1.notify_all();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Inner {
    /// One round: collect when space is low, else keep null files and huge pages ready. The pause after it.
    fn tend(&self, touched: &mut Option<u32>) -> Duration {
        let short = {
            let alloc = lock(&self.alloc);
            self.is_low(&alloc).then(|| self.low_water_bytes(&alloc))
        };
        match short {
            Some(goal) if self.collect(goal) == 0 => FRUITLESS,
            Some(_) => PERIOD,
            None => {
                self.refill();
                self.touch_ahead(touched);
                PERIOD
            }
        }
    }

    /// Touches free huge pages where the next ones will probably be taken.
    fn touch_ahead(&self, touched: &mut Option<u32>) {
        let ahead: Vec<u32> = {
            let alloc = lock(&self.alloc);
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
                self.medium.region().touch(self.layout.segment_at(segment), self.layout.huge);
                *touched = Some(segment);
            }
        }
    }
}
