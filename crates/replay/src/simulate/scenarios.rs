//! Small runs whose times and energies were computed by hand.

use super::testing::{FAST, MIDDLE, SLOW, activity, compute, device, io, near, one_core, operation, pinned};
use crate::activity::{IoKind, Segment};
use crate::levers::Levers;
use crate::outcome::{FrequencyChange, OperationTimes, Residency};

fn times(start_ns: u64, latency_ns: u64, response_ns: u64) -> OperationTimes {
    OperationTimes { start_ns, latency_ns, response_ns }
}

#[test]
fn computing_waiting_and_two_idle_states_at_a_fixed_frequency() {
    // 500 ns, wait 50 us in wfi, 3 cycles in 1.5 ns: 2; delay 200 us in off, 2 us to wake, 500 ns.
    let first = operation(0, &[compute(1000), io(50_000, IoKind::Read), compute(3)]);
    let run = activity(&[&[first, operation(200_000, &[compute(1000)])]]);
    let replayed = pinned(&run, &device(), &one_core(), FAST);
    assert_eq!(replayed.operations, [times(0, 50_502, 50_502), times(252_502, 500, 2_500)]);
    assert_eq!((replayed.run_ns, replayed.busy_ns, replayed.transitions), (253_002, 1_002, 0));
    assert_eq!(replayed.frequencies, [FrequencyChange { time_ns: 0, domain: 0, khz: FAST }]);
    assert_eq!(replayed.residency, [Residency { khz: FAST, busy_ns: 1_002, total_ns: 253_002 }]);
    let energy = replayed.energy;
    assert!(near(energy.active_mj, 300.0 * 1_002e-9), "{energy:?}");
    assert!(near(energy.idle_mj, 10.0 * (50_000e-9 + 2_000e-9) + 1.0 * 200_000e-9), "{energy:?}");
    assert!(near(energy.awake_mj, 57.0 * 53_002e-9 + 5.0 * 200_000e-9), "{energy:?}");
    assert!(near(energy.memory_mj, 20.0 * 1_002e-9), "{energy:?}");
    assert!(near(energy.flash_mj, 30.0 * 50_000e-9), "{energy:?}");
}

#[test]
fn a_core_without_threads_is_in_the_deepest_state_and_one_that_is_off_line_uses_nothing() {
    let run = activity(&[&[operation(0, &[compute(1000)])]]);
    let both = pinned(&run, &device(), &Levers::default(), SLOW).energy;
    let one = pinned(&run, &device(), &one_core(), SLOW).energy;
    assert!(near(both.idle_mj, 1.0 * 1_000e-9) && one.idle_mj == 0.0);
    assert!(both.active_mj == one.active_mj && both.awake_mj == one.awake_mj);
}

#[test]
fn the_only_idle_state_lets_the_device_sleep() {
    let mut device = device();
    device.clusters[0].idle.truncate(1);
    let run = activity(&[&[operation(1_000, &[compute(1000)])]]);
    let energy = pinned(&run, &device, &one_core(), SLOW).energy;
    assert!(near(energy.awake_mj, 57.0 * 1_000e-9 + 5.0 * 1_000e-9), "{energy:?}");
}

#[test]
fn waiting_for_memory_takes_the_same_time_at_every_frequency() {
    let run = activity(&[&[operation(0, &[Segment::Stall { ns: 1_000 }, compute(1_000)])]]);
    assert_eq!(pinned(&run, &device(), &one_core(), SLOW).run_ns, 2_000);
    assert_eq!(pinned(&run, &device(), &one_core(), FAST).run_ns, 1_500);
    // 1000 cycles are 500 ns at the highest frequency: 40% of them are 200 ns, 600 cycles are left.
    let run = activity(&[&[operation(0, &[compute(1_000)])]]);
    let levers = Levers { memory_share: Some(0.4), ..one_core() };
    assert_eq!(pinned(&run, &device(), &levers, FAST).run_ns, 500);
    assert_eq!(pinned(&run, &device(), &levers, SLOW).run_ns, 800);
}

#[test]
fn two_threads_on_one_core_take_turns_of_three_milliseconds() {
    let four = [operation(0, &[compute(4_000_000)])];
    let replayed = pinned(&activity(&[&four, &four]), &device(), &one_core(), SLOW);
    assert_eq!(replayed.operations, [times(0, 7_000_000, 7_000_000), times(3_000_000, 5_000_000, 8_000_000)]);
    assert_eq!((replayed.busy_ns, replayed.energy.idle_mj), (8_000_000, 0.0));
}

#[test]
fn who_had_its_slice_gives_way_at_once() {
    let long = [operation(0, &[compute(10_000_000)])];
    let late = [operation(5_000_000, &[compute(1_000_000)])];
    let replayed = pinned(&activity(&[&long, &late]), &device(), &one_core(), SLOW);
    assert_eq!(replayed.operations, [times(0, 11_000_000, 11_000_000), times(5_000_000, 1_000_000, 1_000_000)]);
    let early = [operation(1_000_000, &[compute(1_000_000)])];
    let replayed = pinned(&activity(&[&long, &early]), &device(), &one_core(), SLOW);
    assert_eq!(replayed.operations[1], times(3_000_000, 1_000_000, 3_000_000));
}

#[test]
fn two_cores_run_side_by_side() {
    let four = [operation(0, &[compute(4_000_000)])];
    let two = [operation(0, &[compute(2_000_000)])];
    let replayed = pinned(&activity(&[&four, &two]), &device(), &Levers::default(), FAST);
    assert_eq!((replayed.run_ns, replayed.busy_ns), (2_000_000, 3_000_000));
    assert_eq!(replayed.residency, [Residency { khz: FAST, busy_ns: 2_000_000, total_ns: 2_000_000 }]);
    // The second core is off for its last millisecond; cluster and memory are paid once.
    assert!(near(replayed.energy.active_mj, 300.0 * 3e-3) && near(replayed.energy.idle_mj, 1.0 * 1e-3));
    assert!(near(replayed.energy.awake_mj, 57.0 * 2e-3) && near(replayed.energy.memory_mj, 20.0 * 2e-3));
}

#[test]
fn storage_that_two_threads_wait_for_uses_the_larger_power_once() {
    let read = [operation(0, &[io(1_000, IoKind::Read)])];
    let sync = [operation(0, &[io(600, IoKind::Sync)])];
    let energy = pinned(&activity(&[&read, &sync]), &device(), &Levers::default(), SLOW).energy;
    assert!(near(energy.flash_mj, 60.0 * 600e-9 + 30.0 * 400e-9), "{energy:?}");
}

#[test]
fn busy_waiting_spends_delays_on_the_core() {
    let run = activity(&[&[operation(500, &[compute(100)]), operation(10_000, &[compute(100)])]]);
    let levers = Levers { busy_waiting: true, ..one_core() };
    let replayed = pinned(&run, &device(), &levers, SLOW);
    assert_eq!(replayed.operations, [times(500, 100, 100), times(10_600, 100, 100)]);
    assert_eq!((replayed.run_ns, replayed.busy_ns), (10_700, 10_700));
    assert!(near(replayed.energy.active_mj, 100.0 * 10_700e-9) && replayed.energy.idle_mj == 0.0);
}

#[test]
fn a_batch_waits_for_its_last_operation_and_runs_in_one_go() {
    let operations: Vec<_> = [10, 20, 30, 40, 50].map(|ns| operation(ns, &[compute(5)])).to_vec();
    let levers = Levers { batch: 4, ..one_core() };
    let replayed = pinned(&activity(&[&operations]), &device(), &levers, SLOW);
    // Wanted at 10, 30, 60, 100; the batch starts at 100. The fifth is a batch of its own: 120 + 50.
    let expected = [times(100, 5, 95), times(105, 5, 80), times(110, 5, 55), times(115, 5, 20), times(170, 5, 5)];
    assert_eq!(replayed.operations, expected);
}

#[test]
fn other_work_is_repeated_and_counts_in_energy_alone() {
    let mut run = activity(&[&[operation(0, &[compute(1_000)])], &[operation(100, &[compute(200)])]]);
    run.threads[1].background = true;
    let levers = Levers { busy_waiting: true, batch: 3, ..Levers::default() };
    let replayed = pinned(&run, &device(), &levers, SLOW);
    assert_eq!((replayed.operations.len(), replayed.run_ns, replayed.busy_ns), (1, 1_000, 1_000));
    // On its own core: 100 ns idle, 200 busy, three times; then 100 idle.
    assert!(near(replayed.energy.active_mj, 100.0 * 1_600e-9) && near(replayed.energy.idle_mj, 10.0 * 400e-9));
}

#[test]
fn an_operation_ends_when_its_thread_is_back_from_the_device() {
    let run = activity(&[&[operation(0, &[io(200_000, IoKind::Sync)])]]);
    assert_eq!(pinned(&run, &device(), &one_core(), MIDDLE).operations, [times(0, 202_000, 202_000)]);
}

#[test]
fn an_operation_that_does_nothing_takes_no_time() {
    let run = activity(&[&[operation(0, &[]), operation(0, &[io(0, IoKind::Read), compute(0)])], &[]]);
    let replayed = pinned(&run, &device(), &Levers::default(), SLOW);
    assert_eq!((replayed.operations, replayed.run_ns), (vec![times(0, 0, 0); 2], 0));
    assert_eq!(replayed.energy.total_mj(), 0.0);
}
