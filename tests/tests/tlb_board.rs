//! Misses of data TLBs on a virtual board, counted by a plugin of QEMU.

use pocketstone_board::{Board, Measured};
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;
use pocketstone_study::results::store::log_digest;
use pocketstone_testing::{amount, or_skip};
use pocketstone_tests::{measure, plan, virtual_board};
use std::time::Instant;

fn cell(board: &Board, trace: bool, processor: Option<&str>) -> Measured {
    let mut plan = plan(FileSystem::Jffs2, Pattern::Random, 16, 128 << 10, 1);
    plan.trace = trace;
    plan.tlb = processor.map(str::to_owned);
    measure(board, &plan)
}

/// The twin with the plugin has the times of the one without, to the bit; its counts are the same each time, and every
/// call's times have their place among the machine's instructions.
#[test]
fn counting_changes_no_time_and_gives_the_same_counts_each_time() {
    let board = or_skip!(virtual_board());
    let plain = cell(&board, false, None);
    assert!(plain.tlb.is_none());
    let begin = Instant::now();
    cell(&board, false, None);
    let plain_s = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let counted = cell(&board, false, Some("cortex-a15"));
    let (counted_s, tlb) = (begin.elapsed().as_secs_f64(), counted.tlb.clone().expect("counts"));
    println!("{plain_s:.2} s without, {counted_s:.2} s with the plugin; {:?}, {} switches", tlb.run, tlb.switches);
    println!("{:?}", tlb.calls);
    assert_eq!(log_digest(&counted), log_digest(&plain));
    assert!(counted_s < 20.0 * plain_s, "{plain_s} s, {counted_s} s");
    for run in 0..amount(2, 20) {
        assert_eq!(cell(&board, false, Some("cortex-a15")).tlb, Some(tlb.clone()), "run {run}");
    }
}
