//! Page senses counted by flashmon against those that the file's place on the chip demands.

use pocketstone_core::log::FlashKind;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;
use pocketstone_replay::read_ahead::{Advice, Medium, Rules, Setting};
use pocketstone_testing::or_skip;
use pocketstone_tests::{jffs2, measure, plan, virtual_board};
use pocketstone_workload::plan::Plan;
use pocketstone_workload::{Data, FileOperation, FilesSpec, Sync, Workload};

const FILE_BYTES: usize = 5 << 20;
const WINDOW_BYTES: u64 = 128 << 10;

/// File pages in the page cache after `requests` sequential reads of one page from the start on, with
/// windows of at most `most` pages: Linux's rules since 3.13 (mm/readahead.c), for this pattern only.
fn pages_cached(requests: u64, most: u64, file_pages: u64) -> u64 {
    if most == 0 {
        return requests;
    }
    // The first window: 4 pages for a request of one, since 1 <= most/32. Its marker is behind the
    // request. Each next window starts where the last one ends, once the reader meets the marker,
    // which is then the window's first page.
    let (mut end, mut size, mut marker) = (4, 4, 1);
    while marker < requests {
        size = if size < most / 16 { size * 4 } else { (size * 2).min(most) };
        marker = end;
        end += size;
    }
    end.min(file_pages)
}

#[test]
fn the_rule_by_hand() {
    // Windows 4, 8, 16, 32, 32 ...; requests 0, 1, 4, 12, 28, 60 ... meet markers.
    for (requests, expected) in [(1, 4), (2, 12), (4, 12), (5, 28), (12, 28), (13, 60), (28, 60), (29, 92), (61, 124)] {
        assert_eq!(pages_cached(requests, 32, 1280), expected, "{requests} requests");
    }
    assert_eq!(pages_cached(1280, 32, 1280), 1280);
    assert_eq!(pages_cached(7, 0, 1280), 7);
}

#[test]
fn every_sense_is_accounted_for() {
    let board = or_skip!(virtual_board());
    let mut counted = Vec::new();
    let (mut first_block, mut last_block, mut chip) = (u64::MAX, 0, None);
    for requests in [8, 16, 32, 64, 128, 256, 512, 1024] {
        for window in [WINDOW_BYTES, 0] {
            let mut plan = plan(FileSystem::Jffs2, Pattern::Sequential, requests, window, 1);
            plan.trace = true;
            let measured = measure(&board, &plan);
            let geometry = measured.outcome.chip.expect("the board has a chip");
            let flash = measured.outcome.flash.expect("the cell is traced");
            let log = measured.flash.expect("the cell is traced");
            for op in log.ops.iter().filter(|op| op.kind == FlashKind::Sense) {
                let block = u64::from(op.page / geometry.block_pages());
                (first_block, last_block) = (first_block.min(block), last_block.max(block));
            }
            assert_eq!(flash.background.page_senses, 0, "something else used the chip");
            chip = Some(geometry);
            counted.push((requests, window, flash.workload.page_senses));
        }
    }
    let steps = plan(FileSystem::Jffs2, Pattern::Sequential, 8, 0, 1).steps();
    let (nodes, owner) = jffs2::target_on(&board, &steps, chip.expect("it was measured"), first_block..=last_block);
    let page_bytes = u64::from(chip.expect("it was measured").page_bytes);
    for (requests, window, senses) in counted {
        let pages = pages_cached(requests, window / 4096, (FILE_BYTES / 4096) as u64);
        let expected: u64 = (0..pages as usize).map(|p| jffs2::senses_of_page(&nodes, &owner, p, page_bytes)).sum();
        assert_eq!(senses, expected, "{requests} requests, window {window}: counted and computed differ");
        // The model knows the same of this pattern.
        let Workload::Read(spec) = plan(FileSystem::Jffs2, Pattern::Sequential, requests, window, 1).workload else {
            panic!("it reads");
        };
        let medium = Medium::of(FileSystem::Jffs2).expect("the model is of JFFS2");
        let setting = Setting::raw_nand(window, Advice::Normal);
        let modelled = medium.work(&spec, 1, Rules::Linux6_1, setting).pages;
        let of = |page: &u64| jffs2::senses_of_page(&nodes, &owner, *page as usize, page_bytes);
        assert_eq!(senses, modelled.iter().map(of).sum::<u64>(), "{requests} requests, window {window}: the model");
    }
    assert!(board.capabilities().deterministic);
}

/// Whoever of the workload's threads does it: what makes a write durable is not the background's.
#[test]
fn what_several_threads_do_to_the_chip_is_the_workloads() {
    let board = or_skip!(virtual_board());
    for threads in [1, 4] {
        let base = plan(FileSystem::Jffs2, Pattern::Random, 1, 0, 1);
        let files = FilesSpec {
            operation: FileOperation::Write,
            pattern: Pattern::Random,
            requests: 16,
            request_bytes: 4096,
            files: 4,
            file_bytes: 16384,
            inter_arrival_ns: 0,
            data: Data::Random,
            sync: Sync::Each,
            threads,
        };
        let plan = Plan { workload: Workload::Files(files), read_ahead: None, trace: true, ..base };
        let measured = measure(&board, &plan);
        let flash = measured.outcome.flash.expect("the cell is traced");
        // Random bytes do not become smaller: each request is two pages of the chip, and more with its header.
        assert!(flash.workload.programs >= 2 * 16, "{threads} threads: {flash:?}");
        assert_eq!(flash.background.programs, 0, "{threads} threads: {flash:?}");
    }
}
