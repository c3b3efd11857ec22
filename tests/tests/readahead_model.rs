//! The model of read-ahead against the kernel: page senses to the page on JFFS2, senses and time within 3% beside it.

use pocketstone_board::{Board, Measured};
use pocketstone_core::log::FlashKind;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::FileSystem;
use pocketstone_replay::read_ahead::{Medium, PageCosts, PlanWork, Rules};
use pocketstone_testing::{amount, or_skip};
use pocketstone_tests::{jffs2, measure, plan, virtual_board};
use pocketstone_workload::plan::*;
use pocketstone_workload::*;

const PATTERNS: [Pattern; 2] = [Pattern::Sequential, Pattern::Random];
const NAND: [FileSystem; 2] = [FileSystem::Jffs2, FileSystem::Ubifs];

/// What is claimed beside exactness: senses and time within so much.
const WITHIN: f64 = 0.03;

fn spec(plan: &Plan) -> &ReadSpec {
    match &plan.workload {
        Workload::Read(spec) => spec,
        other => panic!("{other:?} is no read workload"),
    }
}

fn changed(mut plan: Plan, change: impl FnOnce(&mut ReadSpec)) -> Plan {
    let Workload::Read(spec) = &mut plan.workload else { panic!("it reads") };
    change(spec);
    plan
}

fn traced(plan: &Plan) -> Plan {
    Plan { trace: true, ..plan.clone() }
}

/// What the model says that a run did which was measured.
fn modelled(plan: &Plan, measured: &Measured) -> PlanWork {
    let medium = Medium::of(plan.volume.file_system).expect("the model is of it");
    let setting = medium.setting(&measured.outcome.read_ahead).expect("read-ahead is known");
    medium.work(spec(plan), plan.seed, Rules::Linux6_1, setting)
}

/// Cells of every kind that the model covers, beside those of tests/page_senses.rs.
fn cells(file_system: FileSystem) -> Vec<Plan> {
    const KIB: u64 = 1 << 10;
    let mut plans = Vec::new();
    for pattern in PATTERNS {
        for (requests, request_kib, window_kib) in
            [(64, 4, 128), (1024, 4, 128), (64, 2, 128), (256, 8, 32), (256, 32, 8)]
        {
            let plan = plan(file_system, pattern, requests, window_kib * KIB, 1);
            plans.push(changed(plan, |spec| spec.request_bytes = request_kib * KIB));
        }
        let by_file = Some(ReadAhead { by: ReadAheadBy::File, bytes: 0 });
        plans.push(Plan { read_ahead: by_file, ..plan(file_system, pattern, 256, 0, 1) });
        for window in [128 * KIB, 0] {
            plans.push(changed(plan(file_system, pattern, 256, window, 1), |spec| spec.access = ReadAccess::Mmap));
        }
    }
    for (prefetch, window) in [
        (Prefetch::Readahead, 128 * KIB),
        (Prefetch::Willneed, 128 * KIB),
        (Prefetch::Madvise, 128 * KIB),
        (Prefetch::Readahead, 0),
        (Prefetch::Willneed, 0),
        (Prefetch::Madvise, 0),
    ] {
        let plan = plan(file_system, Pattern::Sequential, 64, window, 1);
        plans.push(changed(plan, |spec| spec.prefetch = prefetch));
    }
    plans
}

/// A plan in a few words.
fn words(plan: &Plan) -> String {
    let ReadSpec { pattern, requests, request_bytes, access, prefetch, .. } = spec(plan);
    let file_system = plan.volume.file_system.name();
    let read_ahead = plan.read_ahead;
    format!("{file_system} {pattern:?} {requests} x {request_bytes} {access:?} {prefetch:?} {read_ahead:?}")
}

#[test]
fn every_page_that_jffs2_reads_is_foretold() {
    let board = or_skip!(virtual_board());
    let mut measured = Vec::new();
    let (mut first, mut last) = (u64::MAX, 0);
    // The long tests have them all.
    for plan in cells(FileSystem::Jffs2).into_iter().step_by(amount(5, 1) as usize) {
        let found = measure(&board, &traced(&plan));
        let chip = found.outcome.chip.expect("the board has a chip");
        for op in found.flash.iter().flat_map(|log| &log.ops).filter(|op| op.kind == FlashKind::Sense) {
            let block = u64::from(op.page / chip.block_pages());
            (first, last) = (first.min(block), last.max(block));
        }
        measured.push((plan, found));
    }
    let chip = measured[0].1.outcome.chip.expect("the board has a chip");
    let (nodes, owner) = jffs2::target_on(&board, &measured[0].0.steps(), chip, first..=last);
    let mut wrong = Vec::new();
    for (plan, found) in &measured {
        let flash = found.outcome.flash.clone().expect("the cell is traced");
        assert_eq!(flash.background.page_senses, 0, "something else used the chip");
        let work = modelled(plan, found);
        let of = |page: &u64| jffs2::senses_of_page(&nodes, &owner, *page as usize, u64::from(chip.page_bytes));
        let expected: u64 = work.pages.iter().map(of).sum();
        if flash.workload.page_senses != expected {
            let counted = flash.workload.page_senses;
            wrong.push(format!("{}: {counted} senses counted, {expected} foretold", words(plan)));
        }
        if let Some(prefetched) = found.outcome.prefetched {
            assert_eq!(prefetched.resident_pages, Some(work.prefetch.pages), "{}", words(plan));
        }
    }
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), measured.len(), wrong.join("\n"));
}

/// Costs on a file system, from runs without read-ahead: of time from plain ones, of senses from traced ones.
fn costs(board: &Board, file_system: FileSystem) -> (PageCosts, PageCosts) {
    let (mut times, mut senses) = (Vec::new(), Vec::new());
    for pattern in PATTERNS {
        let plan = plan(file_system, pattern, 1024, 0, 1);
        let plain = measure(board, &plan);
        let work = modelled(&plan, &plain);
        times.extend(work.observed(plain.calls.iter().map(|c| c.latency_ns as f64)));
        let twin = measure(board, &traced(&plan));
        let log = twin.flash.expect("the cell is traced");
        let within = |call: &pocketstone_core::log::Call| {
            let during = call.start_ns..=call.start_ns + call.latency_ns;
            log.ops.iter().filter(|op| op.kind == FlashKind::Sense && during.contains(&op.time_ns)).count() as f64
        };
        senses.extend(work.observed(twin.calls.iter().map(within)));
    }
    [times, senses].map(|calls| PageCosts::from_calls(&calls).expect("pages were read")).into()
}

#[test]
fn senses_and_time_are_foretold_within_three_per_cent() {
    let board = or_skip!(virtual_board());
    let (mut wrong, mut count) = (Vec::new(), 0);
    for file_system in NAND {
        let (time, sense) = costs(&board, file_system);
        // Each needs two runs, and the long tests have them all.
        for plan in cells(file_system).into_iter().step_by(amount(5, 1) as usize) {
            let plain = measure(&board, &plan);
            let work = modelled(&plan, &plain);
            let total_ns: u64 = plain.calls.iter().map(|c| c.latency_ns).sum();
            let counted = measure(&board, &traced(&plan)).outcome.flash.expect("the cell is traced");
            let foretold = [time.of(work.in_calls(), work.pages_in_calls()), sense.of(work.total(), &work.pages)];
            let found = [total_ns as f64, counted.workload.page_senses as f64];
            count += 1;
            for (what, (foretold, found)) in ["ns", "senses"].iter().zip(foretold.into_iter().zip(found)) {
                let error = foretold / found - 1.0;
                if error.abs() > WITHIN {
                    wrong.push(format!(
                        "{}: {what} {found}, foretold {foretold:.0}, {:+.1}%",
                        words(&plan),
                        100.0 * error
                    ));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "of {count} cells:\n{}", wrong.join("\n"));
}
