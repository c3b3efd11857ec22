//! What the simulated chip's operations cost in board time.

use pocketstone_board::Board;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;
use pocketstone_testing::{Skip, or_skip};
use pocketstone_tests::{measure, plan, virtual_board_with};

#[track_caller]
fn board(delays: bool) -> Result<Board, Skip> {
    virtual_board_with(|profile| profile.nand.as_mut().expect("a chip").delays = delays)
}

/// The paper's data sheet: 130 us to read a page of 2048 bytes, its transfer included.
fn assert_130_microseconds(with_delays_ns: u64, without_delays_ns: u64, loads: u64) {
    let cost_us = (with_delays_ns - without_delays_ns) as f64 / loads as f64 / 1000.0;
    assert!((cost_us - 130.0).abs() <= 0.02 * 130.0, "{cost_us:.2} us for each of {loads}");
}

/// Board time of a command that reads whole pages from the chip, and its page senses by flashmon. The time is the
/// median of three, since work of the kernel's own may fall into one of them on one board and not on the other.
fn raw_read(board: &Board) -> (u64, u64) {
    const SCRIPT: &str = "read_pages() { dd if=/dev/mtd0 of=/dev/null bs=2048 count=512 2>/dev/null; }
        clock() { sed -n 's/^now at \\([0-9]*\\) nsecs/\\1/p' /proc/timer_list | head -1; }
        for i in 1 2 3; do a=$(clock); read_pages; b=$(clock); echo $((b - a)); done
        pocketstone-runner flashmon -- dd if=/dev/mtd0 of=/dev/null bs=2048 count=512 2>/dev/null";
    let argv = ["sh", "-c", SCRIPT].map(str::to_owned);
    let (output, status) = board.exec(&argv).map_err(|f| f.error.chain()).expect("the script runs");
    let text = String::from_utf8(output).expect("text");
    assert_eq!(status, 0, "{text}");
    let mut times: Vec<u64> = text.lines().take(3).filter_map(|l| l.parse().ok()).collect();
    times.sort_unstable();
    let time = times.get(1).copied();
    let dd = text.lines().find_map(|l| l.strip_prefix("dd ")).and_then(|l| l.split_whitespace().next()?.parse().ok());
    time.zip(dd).unwrap_or_else(|| panic!("not understood: {text}"))
}

#[test]
fn a_page_sense_costs_130_microseconds() {
    let (slow, fast) = (or_skip!(board(true)), or_skip!(board(false)));
    let ((with_delays, senses), (without, the_same)) = (raw_read(&slow), raw_read(&fast));
    assert_eq!((senses, the_same), (512, 512));
    assert_130_microseconds(with_delays, without, senses);
}

/// With software ECC a short read moves to the ECC bytes by a column change, which nandsim charges
/// like a sense: together they are all of the chip's time.
#[test]
fn senses_and_column_changes_are_all_of_the_chips_time() {
    let measured = |board: &Board| {
        let mut plan = plan(FileSystem::Jffs2, Pattern::Sequential, 64, 0, 1);
        let total: u64 = measure(board, &plan).calls.iter().map(|c| c.latency_ns).sum();
        plan.trace = true;
        let flash = measure(board, &plan).outcome.flash.expect("the cell is traced").workload;
        (total, flash.page_senses, flash.column_changes)
    };
    let (slow, fast) = (or_skip!(board(true)), or_skip!(board(false)));
    let ((with_delays, senses, changes), (without, ..)) = (measured(&slow), measured(&fast));
    assert!(changes > 0);
    assert_130_microseconds(with_delays, without, senses + changes);
}
