//! UTIL_EST: what a thread will use, estimated from what it used when it last went to sleep. Kernels have it since
//! 4.17, because utilisation decays while a thread sleeps, and is small when it wakes.
//!
//! When a thread goes to sleep, and its utilisation changed since the last time:
//!
//! - from 5.5 on, one that is at least the average becomes the average ("sched/fair/util_est: Implement faster ramp-up
//!   EWMA on utilization increases");
//! - one that is within 10 of the average (less than 1 % of 1024) changes nothing;
//! - otherwise the average moves by a quarter of the difference.
//!
//! The estimate is the larger one of the average and the last utilisation that changed it. It counts while the thread
//! is on a core, and is the least that the core's utilisation is taken for. A governor sees cores, not threads: all
//! that runs on a core is one thread here.

use super::kernel::Version;

/// Utilisations closer than this are the same: `1024 / 100`.
const MARGIN: u64 = 10;

/// The estimate of what runs on a core.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Estimate {
    average: u64,
    last: u64,
    /// Utilisation was tracked anew since the last sleep.
    pub changed: bool,
    /// The thread is on the core.
    pub counts: bool,
}

impl Estimate {
    /// What is counted of it now, 0 to 1024.
    pub(super) fn utilisation(&self) -> u64 {
        if self.counts { self.average.max(self.last) } else { 0 }
    }

    /// The thread goes to sleep with this utilisation.
    pub(super) fn sleeps(&mut self, utilisation: u64, version: Version) {
        self.counts = false;
        if version < Version(4, 17) || !std::mem::take(&mut self.changed) {
            return;
        }
        if version >= Version(5, 5) && utilisation >= self.average {
            (self.average, self.last) = (utilisation, utilisation);
        } else if utilisation.abs_diff(self.average) >= MARGIN {
            (self.average, self.last) = ((self.average * 3 + utilisation) / 4, utilisation);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Estimates after each of some sleeps.
    fn after(utilisations: &[u64], version: Version) -> Vec<u64> {
        let mut estimate = Estimate::default();
        let mut all = Vec::new();
        for utilisation in utilisations {
            estimate.changed = true;
            estimate.sleeps(*utilisation, version);
            estimate.counts = true;
            all.push(estimate.utilisation());
        }
        all
    }

    #[test]
    fn it_rises_at_once_and_falls_by_quarters_from_5_5_on() {
        // 400; (3 x 400 + 100) / 4 = 325; (3 x 325 + 100) / 4 = 268; 260 is within 10 of it; 500 at once.
        assert_eq!(after(&[400, 100, 100, 260, 500], Version(5, 5)), [400, 325, 268, 268, 500]);
    }

    #[test]
    fn it_rose_by_quarters_before_and_the_last_one_counted() {
        // Average 100, last 400; (300 + 100) / 4 = 100 within 10: nothing changes; 75 -> (300 + 0) / 4 = 75, last 0.
        assert_eq!(after(&[400, 100, 0], Version(4, 17)), [400, 400, 75]);
        assert_eq!(after(&[400, 100, 0], Version(4, 16)), [0, 0, 0]);
    }

    #[test]
    fn a_sleep_without_a_change_and_one_that_is_not_over_do_not_count() {
        let mut estimate = Estimate { changed: true, ..Estimate::default() };
        estimate.sleeps(300, Version(6, 12));
        assert_eq!(estimate.utilisation(), 0);
        estimate.sleeps(900, Version(6, 12));
        estimate.counts = true;
        assert_eq!(estimate.utilisation(), 300);
    }
}
