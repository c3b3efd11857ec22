//! The same seed gives the same log, to the bit, whatever the host does.

use pocketstone_board::Board;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;
use pocketstone_study::results::store::log_digest;
use pocketstone_testing::{amount, or_skip};
use pocketstone_tests::{HostLoad, cold_virtual_board, measure, plan, virtual_board};

/// Digest of a traced cell's logs: every call's start and latency, every flash operation.
fn log(board: &Board, seed: u64) -> String {
    let mut plan = plan(FileSystem::Jffs2, Pattern::Random, 16, 128 << 10, seed);
    plan.trace = true;
    let measured = measure(board, &plan);
    let operations = measured.flash.as_ref().map_or(0, |f| f.ops.len());
    assert!(measured.calls.len() == 16 && operations > 16, "the logs are not empty");
    log_digest(&measured)
}

#[test]
fn runs_from_a_saved_state_and_one_from_a_cold_boot_agree() {
    let board = or_skip!(virtual_board());
    let expected = log(&board, 1);
    for run in 0..amount(4, 10) {
        assert_eq!(log(&board, 1), expected, "run {run} on an idle host");
    }
    {
        let _load = HostLoad::on_every_core();
        std::thread::scope(|scope| {
            let two: Vec<_> =
                (0..2).map(|_| scope.spawn(|| (0..amount(2, 5)).map(|_| log(&board, 1)).collect::<Vec<_>>())).collect();
            for runs in two {
                for (run, got) in runs.join().expect("the runs").into_iter().enumerate() {
                    assert_eq!(got, expected, "run {run} on a loaded host, two machines at once");
                }
            }
        });
    }
    assert_ne!(log(&board, 2), expected, "another seed is another run");
    assert_eq!(log(&or_skip!(cold_virtual_board()), 1), expected, "a cold boot of the same image");
}
