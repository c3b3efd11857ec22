//! Time to prepare a workload of a million operations: made, encoded, digested.
//!
//! Prints the median of a few repetitions; the bar is in steps of this processor.

use pocketstone_core::database::{DatabaseWorkload, Delay, Recipe};
use pocketstone_core::pattern::Pattern;
use pocketstone_testing::bench::step_ns;
use pocketstone_workload::database::{Trace, prepare};
use std::io::Write;
use std::time::Instant;

const REPETITIONS: usize = 5;
const OPERATIONS: u32 = 1_000_000;
/// What an operation takes at most.
const STEPS: f64 = 250.0;

fn main() {
    let mut out = std::io::stdout().lock();
    let step_ns = step_ns();
    for workload in [DatabaseWorkload::YcsbA, DatabaseWorkload::YcsbC, DatabaseWorkload::YcsbE] {
        let recipe = Recipe {
            workload,
            file: None,
            records: 1000,
            operations: OPERATIONS.into(),
            fields: 10,
            field_bytes: 100,
            scan_records: 100,
            pattern: Pattern::Random,
            delay: Some(Delay::Lognormal { mean_ns: 6_000_000, sigma: 1.0 }),
        };
        let (mut seconds, mut bytes, mut digest) = (Vec::new(), 0, String::new());
        for _ in 0..REPETITIONS {
            let begin = Instant::now();
            let trace = prepare(&recipe, 1).expect("the recipe is right");
            let made = begin.elapsed().as_secs_f64();
            let file = trace.encode();
            digest = Trace::digest(&file);
            seconds.push((begin.elapsed().as_secs_f64(), made));
            bytes = file.len();
        }
        seconds.sort_by(|a, b| a.0.total_cmp(&b.0));
        let (median, made) = seconds[REPETITIONS / 2];
        let (low, high) = (seconds[0].0, seconds[REPETITIONS - 1].0);
        let steps = median * 1e9 / f64::from(OPERATIONS) / step_ns;
        let word = if steps <= STEPS { "met" } else { "NOT met" };
        writeln!(
            out,
            "{workload:?}, a million operations: {median:.3} s ({low:.3} to {high:.3}), of which {made:.3} s before \
             encoding; {} MB, {}...; an operation takes {steps:.0} steps of {step_ns:.2} ns; bar {STEPS}: {word}",
            bytes / 1_000_000,
            &digest[..16]
        )
        .expect("output");
    }
}
