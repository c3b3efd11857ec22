//! What a cell costs the host beyond the guest's work, and how soon a saved state is ready.
//!
//! A guest that does nothing stands for the overhead: QEMU's start, loading the state, the order and
//! its reply. Bars: 0.5 s from reset to ready, 1 s of host time per cell.

use pocketstone_core::median::median;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;
use pocketstone_testing::or_skip;
use pocketstone_tests::{plan, virtual_board};
use std::io::Write;
use std::time::Instant;

const RUNS: usize = 21;

fn main() {
    let board = or_skip!(virtual_board());
    let steps = plan(FileSystem::Jffs2, Pattern::Sequential, 16, 0, 1).steps();
    let nothing = ["true".to_owned()];
    let mut seconds: Vec<f64> = (0..=RUNS)
        .map(|_| {
            let begin = Instant::now();
            board.exec_after(&steps, &nothing).map_err(|f| f.error.chain()).expect("the board runs");
            begin.elapsed().as_secs_f64()
        })
        .skip(1)
        .collect();
    let median = median(&mut seconds).expect("there are runs");
    let worst = seconds[RUNS - 1];
    let word = if worst <= 0.5 { "met" } else { "NOT met" };
    let _ = writeln!(
        std::io::stdout(),
        "a cell that does nothing, from reset to its reply: median {median:.2} s, worst {worst:.2} s of {RUNS}; \
         bars 0.5 s to ready and 1 s per cell: {word}"
    );
}
