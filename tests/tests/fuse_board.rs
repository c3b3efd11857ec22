//! File systems by FUSE on the virtual board: what they cost, that read-ahead is theirs, and that two runs agree.

use pocketstone_board::{Board, Measured};
use pocketstone_core::plan::{FileSystem, Pattern};
use pocketstone_study::store::log_digest;
use pocketstone_tests::{measure, plan, virtual_board, virtual_board_with};

fn cell(board: &dyn Board, file_system: FileSystem, requests: u64, window: u64, trace: bool) -> Measured {
    let mut plan = plan(file_system, Pattern::Sequential, requests, window, 1);
    plan.trace = trace;
    measure(board, &plan)
}

/// Latency of each call in microseconds.
fn latencies_us(measured: &Measured) -> Vec<f64> {
    measured.calls.iter().map(|call| call.latency_ns as f64 / 1e3).collect()
}

#[test]
fn the_chip_s_free_out_of_band_bytes_hold_the_tags() {
    let Some(board) = virtual_board() else { return };
    let argv = ["cat", "/sys/class/mtd/mtd0/oobsize", "/sys/class/mtd/mtd0/oobavail"].map(str::to_owned);
    let Ok((output, 0)) = board.exec(&argv) else { panic!("cat fails") };
    // Hamming codes take 24 of 64 bytes (3 for each 256 of 2048) and the bad block's mark 2: 38 are left, and
    // YAFFS2's tags with their own error correction take 28.
    assert_eq!(String::from_utf8_lossy(&output), "64\n38\n");
    // A code of 8 bits for each 512 bytes takes 4 x 13 bytes: 10 are left.
    let board = virtual_board_with(|machine| {
        machine.modules.parameters.insert("nandsim".into(), "bch=8".into());
    });
    let Ok((output, 0)) = board.expect("the board").exec(&argv) else { panic!("cat fails") };
    assert_eq!(String::from_utf8_lossy(&output), "64\n10\n");
}

#[test]
fn the_null_file_system_shows_what_fuse_alone_takes_and_two_cells_agree() {
    let Some(board) = virtual_board() else { return };
    let without = cell(&board, FileSystem::NullFuse, 64, 0, false);
    assert_eq!(without.outcome.read_ahead.bytes, Some(0));
    assert!(without.outcome.read_ahead.bdi.as_deref().is_some_and(|name| name.starts_with("0:")), "FUSE's own");
    // Without a window each page is a request to the server and back: far from free, and alike.
    let mut times = latencies_us(&without);
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    assert!((5.0..500.0).contains(&median), "{median} us");
    let with = cell(&board, FileSystem::NullFuse, 64, 128 << 10, false);
    assert_eq!(with.outcome.read_ahead.default_bytes, Some(128 << 10), "as the mount negotiates");
    let sum = |m: &Measured| latencies_us(m).iter().sum::<f64>();
    assert!(sum(&with) < sum(&without), "fewer requests of more pages: {} {}", sum(&with), sum(&without));
    assert_eq!(log_digest(&cell(&board, FileSystem::NullFuse, 64, 128 << 10, false)), log_digest(&with));
}
