//! What benchmarks share.

use pocketstone_random::mix;
use rustix::time::{ClockId, clock_gettime};
use std::time::{Duration, Instant};

/// Time that this thread has had of a processor.
pub fn cpu() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.unsigned_abs(), now.tv_nsec as u32)
}

/// How long this processor takes for one step of SplitMix64 that the next step depends on, in nanoseconds (the least of
/// a few attempts): some ten instructions, two multiplications among them, none on memory. A bar in such steps means
/// about the same on any processor.
pub fn step_ns() -> f64 {
    const STEPS: u32 = 2_000_000;
    let attempt = || {
        let (mut state, begin) = (1u64, Instant::now());
        for _ in 0..STEPS {
            state = mix(state.wrapping_add(0x9e37_79b9_7f4a_7c15));
        }
        std::hint::black_box(state);
        begin.elapsed().as_nanos() as f64 / f64::from(STEPS)
    };
    (0..7).map(|_| attempt()).fold(f64::INFINITY, f64::min)
}
