//! The one clock of all times here, CLOCK_MONOTONIC, and waiting on it.

use pocketstone_core::database::Waiting;
use rustix::thread::ClockId;
use rustix::time::Timespec;
use std::num::NonZeroU64;

/// Time now in ns.
#[inline]
pub fn now_ns() -> u64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    t.tv_sec as u64 * 1_000_000_000 + t.tv_nsec as u64
}

/// Sleeps until `ns`.
pub(crate) fn sleep_until(ns: u64) {
    let until = Timespec { tv_sec: (ns / 1_000_000_000) as _, tv_nsec: (ns % 1_000_000_000) as _ };
    // An interrupted sleep is taken up again; any other failure would show as a wrong pause.
    while rustix::thread::clock_nanosleep_absolute(ClockId::Monotonic, &until)
        .is_err_and(|e| e == rustix::io::Errno::INTR)
    {}
}

/// Waits until `ns` and returns the time it is then.
pub(crate) fn wait_until(ns: u64, waiting: Waiting) -> u64 {
    if waiting == Waiting::Sleep {
        sleep_until(ns);
        return now_ns();
    }
    loop {
        let now = now_ns();
        if now >= ns {
            return now;
        }
        std::hint::spin_loop();
    }
}

/// Lets this thread's sleeps end when they should: the kernel may stretch them by 50 us otherwise.
pub(crate) fn wake_on_time() {
    // A kernel that refuses leaves its own slack, and calls carry how late they started.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}
