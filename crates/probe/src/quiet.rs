//! Waiting until a board has nothing left to do.

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use procfs::{CpuTime, CurrentSI, KernelStats};
use std::time::Duration;

/// Ticks that the processors spent not idle since boot (unit: USER_HZ, 10 ms).
fn busy_ticks(spent: &CpuTime) -> u64 {
    let interrupts = [spent.irq, spent.softirq, spent.steal].into_iter().flatten();
    spent.user + spent.nice + spent.system + interrupts.sum::<u64>()
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
    fn idle_and_waiting_for_io_are_not_busy() {
        let stat = "cpu  10 1 20 4000 300 5 6 7 0 0\ncpu0 10 1 20 4000 300 5 6 7 0 0\nctxt 1\nbtime 2\nprocesses 3\n";
        let read = |text: &str| KernelStats::from_buf_read(text.as_bytes(), &LocalSystemInfo);
        assert_eq!(busy_ticks(&read(stat).unwrap().total), 10 + 1 + 20 + 5 + 6 + 7);
        assert!(read("intr 5").is_err());
    }
}
