//! Waiting until a board has nothing left to do.

use pocketstone_core::{Error, Result};
use std::time::Duration;

/// Ticks that the processors spent not idle since boot, from /proc/stat (unit: USER_HZ, 10 ms).
fn busy_ticks(stat: &str) -> Option<u64> {
    let line = stat.lines().find(|l| l.starts_with("cpu "))?;
    let ticks: Vec<u64> = line.split_whitespace().skip(1).map_while(|t| t.parse().ok()).collect();
    // user nice system [idle iowait] irq softirq steal
    (ticks.len() >= 8).then(|| ticks[..3].iter().chain(&ticks[5..8]).sum())
}

/// Waits until the machine did at most 10 ms of work in each of four half seconds on end.
///
/// Meant for a board of one's own: file systems such as JFFS2 go on checking and erasing flash after
/// a mount, and none of that may count as a workload's.
///
/// # Errors
/// When that does not happen within `limit`, or /proc/stat cannot be read.
pub fn wait(limit: Duration) -> Result<()> {
    let busy = || {
        let stat = std::fs::read_to_string("/proc/stat").unwrap_or_default();
        busy_ticks(&stat).ok_or_else(|| Error::board("/proc/stat does not say how busy the machine is"))
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
    Err(Error::board(format!("the board was not quiet within {} s", limit.as_secs()))
        .hint("look for a task that keeps it busy with `pocketstone board shell NAME`, then `top`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_and_waiting_for_io_are_not_busy() {
        let stat = "cpu  10 1 20 4000 300 5 6 7 0 0\ncpu0 10 1 20 4000 300 5 6 7 0 0\n";
        assert_eq!(busy_ticks(stat), Some(10 + 1 + 20 + 5 + 6 + 7));
        assert_eq!(busy_ticks("intr 5"), None);
    }
}
