//! Misses of data TLBs on a virtual board, counted by a plugin of QEMU.

use pocketstone_board::{Board, Measured};
use pocketstone_core::database::Conditions;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;
use pocketstone_study::results::store::log_digest;
use pocketstone_testing::{amount, or_skip};
use pocketstone_tests::{measure, plan, virtual_board};
use pocketstone_workload::{CommandSpec, Workload};
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
    // The plugin may have to be compiled first.
    cell(&board, false, Some("cortex-a15"));
    let begin = Instant::now();
    cell(&board, false, None);
    let plain_s = begin.elapsed().as_secs_f64();
    let begin = Instant::now();
    let counted = cell(&board, false, Some("cortex-a15"));
    let (counted_s, tlb) = (begin.elapsed().as_secs_f64(), counted.tlb.clone().expect("counts"));
    assert_eq!(log_digest(&counted), log_digest(&plain));
    assert!(counted_s < 20.0 * plain_s, "{plain_s} s, {counted_s} s");
    for run in 0..amount(2, 20) {
        assert_eq!(cell(&board, false, Some("cortex-a15")).tlb, Some(tlb.clone()), "run {run}");
    }
}

/// The kernel's events of a traced twin say which thread had the processor: every switch among them is a switch of the
/// machine, and what its threads missed adds up to what was counted.
#[test]
fn misses_are_split_among_threads_by_the_kernels_switches() {
    let board = or_skip!(virtual_board());
    let mut plan = plan(FileSystem::Jffs2, Pattern::Random, 1, 128 << 10, 1);
    plan.workload = Workload::Command(CommandSpec {
        line: "seq 1000 | sort -n | tail -n 1; for n in 1 2 3; do dd if=/dev/zero of=f$n bs=64k count=4; sync; done"
            .into(),
        files: None,
        cold: false,
        conditions: Conditions::default(),
    });
    plan.trace = true;
    plan.tlb = Some("cortex-a15".into());
    let measured = measure(&board, &plan);
    let (tlb, events) = (measured.tlb.expect("counts"), measured.events.expect("events"));
    let of_command = measured.outcome.command.expect("a command").threads;
    let (own, others) = tlb.by_thread(&of_command, &events).unwrap();
    let mut sum = others;
    own.iter().for_each(|counts| sum.add(counts));
    assert_eq!(sum, tlb.run);
    assert!(own.len() > 3 && own.iter().all(|counts| counts.walks > 0) && others.walks > 0, "{own:?}, {others:?}");
}
