//! What a clock costs: a bar in its readings means the same on any processor.

use std::hint::black_box;
use std::time::Instant;

/// Nanoseconds that a reading of the monotonic clock takes here.
pub fn reading_ns() -> f64 {
    const READINGS: u32 = 100_000;
    let begin = Instant::now();
    for _ in 0..READINGS {
        black_box(Instant::now());
    }
    begin.elapsed().as_nanos() as f64 / f64::from(READINGS)
}
