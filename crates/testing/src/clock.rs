//! What a clock costs: a bar in its readings means the same on any processor. And how coarse the one of files is.

use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;
use std::time::{Duration, Instant, SystemTime};

/// Nanoseconds that a reading of the monotonic clock takes here.
pub fn reading_ns() -> f64 {
    const READINGS: u32 = 100_000;
    let begin = Instant::now();
    for _ in 0..READINGS {
        black_box(Instant::now());
    }
    begin.elapsed().as_nanos() as f64 / f64::from(READINGS)
}

/// The time that a file written now would get: the kernel moves it on with its ticks.
pub fn of_files() -> SystemTime {
    let now = clock_gettime(ClockId::RealtimeCoarse);
    SystemTime::UNIX_EPOCH + Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// Waits until the clock of files is past every time that a file has got so far, whichever clock its time is from. A
/// busy machine's ticks may come late, so that no pause is long enough for it.
pub fn tick() {
    let now = SystemTime::now();
    crate::wait::until("the clock of files moves on", || of_files() > now);
}

/// As [`tick`], for a file system that keeps whole seconds.
pub fn next_second() {
    let second = |time: SystemTime| time.duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let now = second(SystemTime::now());
    crate::wait::until("the clock of files comes to the next second", || second(of_files()) > now);
}
