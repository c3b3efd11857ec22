//! The time that changes are stamped with.

use crate::TimeNs;
use std::sync::atomic::{AtomicI64, Ordering};

/// The system's clock, or one that tests can predict.
pub(crate) enum Clock {
    /// The kernel's coarse clock, as the kernel's own file systems use it: a tick is 1 to 10 ms.
    System,
    /// Starts somewhere and ticks with each question.
    Fixed(AtomicI64),
}

impl Clock {
    pub fn new(fixed_ns: Option<TimeNs>) -> Clock {
        match fixed_ns {
            Some(start) => Clock::Fixed(AtomicI64::new(start)),
            None => Clock::System,
        }
    }

    #[inline]
    pub fn now(&self) -> TimeNs {
        match self {
            Clock::Fixed(next) => next.fetch_add(1, Ordering::Relaxed),
            Clock::System => {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
                // 32-bit machines may have 32-bit fields.
                #[allow(clippy::unnecessary_cast)]
                let (seconds, nanoseconds) = (time.tv_sec as i64, time.tv_nsec as i64);
                seconds * 1_000_000_000 + nanoseconds
            }
        }
    }
}
