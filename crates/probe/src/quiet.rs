//! Waiting until a board has nothing left to do, and what others do on one that is not one's own.

use crate::usage::Snapshot;
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Others;
use pocketstone_core::{Error, Result};
use procfs::{CpuTime, CurrentSI, KernelStats};
use std::time::Duration;

/// Ticks that the processors spent not idle since boot (unit: USER_HZ, 10 ms).
fn busy_ticks(spent: &CpuTime) -> u64 {
    let interrupts = [spent.irq, spent.softirq, spent.steal].into_iter().flatten();
    spent.user + spent.nice + spent.system + interrupts.sum::<u64>()
}

/// What the machine's processors have done so far, and one process of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    busy_ticks: u64,
    own_ns: u64,
    at_ns: u64,
}

impl Load {
    /// Now; `None` where the kernel does not say it of the machine or of process `pid`.
    pub fn of(pid: u32, now_ns: u64) -> Option<Load> {
        let busy_ticks = busy_ticks(&KernelStats::current().ok()?.total);
        Some(Load { busy_ticks, own_ns: Snapshot::of(pid).on_core_ns()?, at_ns: now_ns })
    }

    /// What all others did from `earlier` on.
    pub fn others_since(&self, earlier: &Load) -> Others {
        let tick_ns = 1_000_000_000 / procfs::ticks_per_second();
        let busy_ns = (self.busy_ticks - earlier.busy_ticks) * tick_ns;
        Others {
            busy_ns: busy_ns.saturating_sub(self.own_ns - earlier.own_ns),
            over_ns: self.at_ns - earlier.at_ns,
            // A tick at either end.
            within_ns: 2 * tick_ns,
        }
    }
}

/// Waits until the machine did at most 10 ms of work in each of four half seconds on end.
///
/// Meant for a board of one's own: file systems such as JFFS2 go on checking and erasing flash after
/// a mount, and none of that may count as a workload's.
///
/// # Errors
/// `ErrorKind::Board` if that does not happen within `limit`, or /proc/stat cannot be read.
pub fn wait(limit: Duration) -> Result<()> {
    let busy = || -> Result<u64> {
        let stat = KernelStats::current().board(|| "/proc/stat does not report the machine's load".into())?;
        Ok(busy_ticks(&stat.total))
    };
    let (mut before, mut still) = (busy()?, 0);
    for _ in 0..2 * limit.as_secs() {
        std::thread::sleep(Duration::from_millis(500));
        let now = busy()?;
        still = if now - before <= 1 { still + 1 } else { 0 };
        if still == 4 {
            return Ok(());
        }
        before = now;
    }
    Err(Error::board(format!("the board did not become idle within {} s", limit.as_secs()))
        .hint("find the task that keeps it busy with `pocketstone board shell NAME`, then `top`"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use procfs::{FromBufReadSI, LocalSystemInfo};

    #[test]
    fn others_are_all_that_the_process_did_not_do() {
        let tick_ns = 1_000_000_000 / procfs::ticks_per_second();
        let before = Load { busy_ticks: 100, own_ns: 5, at_ns: 7 };
        let after = Load { busy_ticks: 150, own_ns: 5 + 30 * tick_ns, at_ns: 7 + 100 * tick_ns };
        let others = after.others_since(&before);
        assert_eq!((others.busy_ns, others.over_ns), (20 * tick_ns, 100 * tick_ns));
        // Two ticks of them may be rounding.
        assert!((others.load().unwrap() - 0.18).abs() < 1e-9);
        // Rounding may also make the process's own time the larger one.
        let alone = Load { busy_ticks: 129, ..after };
        assert_eq!(alone.others_since(&before).load(), Some(0.0));
    }

    #[test]
    fn of_a_cell_that_is_too_short_for_the_clock_nothing_is_known() {
        let tick_ns = 1_000_000_000 / procfs::ticks_per_second();
        let before = Load { busy_ticks: 100, own_ns: 0, at_ns: 0 };
        let load = |busy_ticks: u64, at_ns: u64| {
            Load { busy_ticks: 100 + busy_ticks, own_ns: 0, at_ns }.others_since(&before).load()
        };
        // A processor that others use for all of 5 ms is one tick or none, which rounding may be, too.
        assert_eq!((load(0, tick_ns / 2), load(1, tick_ns / 2), load(2, tick_ns)), (None, None, None));
        // Nothing seen in 19 ticks may still be two of them, more than a tenth; in 20 it is a tenth at most.
        assert_eq!((load(0, 19 * tick_ns), load(0, 20 * tick_ns)), (None, Some(0.0)));
        // What is more than rounding is known however short the cell is.
        assert_eq!(load(4, 2 * tick_ns), Some(1.0));
    }

    #[test]
    fn a_thread_of_another_process_is_seen() {
        let own = std::process::id();
        let mut other = std::process::Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
        let now_ns = |since: std::time::Instant| since.elapsed().as_nanos() as u64;
        let start = std::time::Instant::now();
        let before = Load::of(own, now_ns(start)).unwrap();
        std::thread::sleep(Duration::from_millis(500));
        let others = Load::of(own, now_ns(start)).unwrap().others_since(&before);
        other.kill().unwrap();
        other.wait().unwrap();
        assert!(others.load().unwrap() > 0.1, "{others:?}");
    }

    #[test]
    fn idle_and_waiting_for_io_are_not_busy() {
        let stat = "cpu  10 1 20 4000 300 5 6 7 0 0\ncpu0 10 1 20 4000 300 5 6 7 0 0\nctxt 1\nbtime 2\nprocesses 3\n";
        let read = |text: &str| KernelStats::from_buf_read(text.as_bytes(), &LocalSystemInfo);
        assert_eq!(busy_ticks(&read(stat).unwrap().total), 10 + 1 + 20 + 5 + 6 + 7);
        assert!(read("intr 5").is_err());
    }
}
