//! File systems by FUSE on the virtual board: what they cost, that read-ahead is theirs, and that two runs agree.

use pocketstone_board::{Board, Measured};
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;
use pocketstone_study::results::store::log_digest;
use pocketstone_testing::or_skip;
use pocketstone_tests::{measure, plan, virtual_board, virtual_board_with};

fn cell(board: &Board, file_system: FileSystem, requests: u64, window: u64, trace: bool) -> Measured {
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
    let board = or_skip!(virtual_board());
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
    let board = or_skip!(virtual_board());
    let without = cell(&board, FileSystem::Null, 64, 0, false);
    assert_eq!(without.outcome.read_ahead.bytes, Some(0));
    assert!(without.outcome.read_ahead.bdi.as_deref().is_some_and(|name| name.starts_with("0:")), "FUSE's own");
    // Without a window each page is a request to the server and back: far from free, and alike.
    let mut times = latencies_us(&without);
    times.sort_by(f64::total_cmp);
    let median = times[times.len() / 2];
    assert!((5.0..500.0).contains(&median), "{median} us");
    let with = cell(&board, FileSystem::Null, 64, 128 << 10, false);
    assert_eq!(with.outcome.read_ahead.default_bytes, Some(128 << 10), "as the mount negotiates");
    let sum = |m: &Measured| latencies_us(m).iter().sum::<f64>();
    assert!(sum(&with) < sum(&without), "fewer requests of more pages: {} {}", sum(&with), sum(&without));
    assert_eq!(log_digest(&cell(&board, FileSystem::Null, 64, 128 << 10, false)), log_digest(&with));
}

/// Page senses of the workload and of everything else.
fn senses(measured: &Measured) -> (u64, u64) {
    let flash = measured.outcome.flash.as_ref().expect("it is traced");
    (flash.workload.page_senses, flash.background.page_senses)
}

#[test]
fn yaffs2_reads_two_pages_for_4_kib_and_prefetch_inside_the_read() {
    let board = or_skip!(virtual_board());
    // By Linux' rule (mm/readahead.c) windows of 4, 8, 16 and 32 pages begin at the reads of pages 0, 1, 4 and 12:
    // 60 pages of memory for 16 requests. A chunk is 2 KiB, and a header's place is known from the open.
    for (window, expected) in [(0, 2 * 16), (128 << 10, 2 * 60)] {
        let traced = cell(&board, FileSystem::Yaffs2, 16, window, true);
        assert_eq!(senses(&traced), (expected, 0), "read-ahead {window}");
    }
    let without = cell(&board, FileSystem::Yaffs2, 16, 0, false);
    let with = cell(&board, FileSystem::Yaffs2, 16, 128 << 10, false);
    let (without, with) = (latencies_us(&without), latencies_us(&with));
    // The chip takes 129 us for a page (docs/boards.md): nothing is read faster.
    assert!(without.iter().all(|&us| us > 2.0 * 129.0), "{without:?}");
    for (read, pages) in [(0, 4), (1, 8), (4, 16), (12, 32)] {
        assert!(with[read] > f64::from(2 * pages) * 129.0, "read {read} waits for {pages} pages: {with:?}");
    }
    let rest: Vec<f64> = (0..16).filter(|n| ![0, 1, 4, 12].contains(n)).map(|n| with[n]).collect();
    assert!(rest.iter().all(|&us| us < 20.0), "in the page cache: {with:?}");
    // The paper's finding: read-ahead costs more than it saves.
    let (without, with) = (without.iter().sum::<f64>(), with.iter().sum::<f64>());
    assert!(without < 0.6 * with, "{without} us without, {with} us with read-ahead");
}

#[test]
fn two_yaffs2_cells_agree_to_the_bit() {
    let board = or_skip!(virtual_board());
    let log = |board: &Board| log_digest(&cell(board, FileSystem::Yaffs2, 64, 128 << 10, true));
    let expected = log(&board);
    for run in 0..3 {
        assert_eq!(log(&board), expected, "run {run}");
    }
}
