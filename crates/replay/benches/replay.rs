//! Time to replay: of one operation as runs grow, and of a grid of governors, workloads and delays.
//!
//! Prints medians of a few repetitions. The bars: time per operation within a factor of 2 from 10^4 to 10^6
//! operations; the grid on two threads in at most so many steps of this processor for each replayed operation.

use pocketstone_core::database::Delay;
use pocketstone_core::median::median;
use pocketstone_core::random::Random;
use pocketstone_replay::activity::{Activity, IoKind, Operation, Segment, Thread};
use pocketstone_replay::device::{Cluster, Device, IdleState, OperatingPoint, Storage};
use pocketstone_replay::governor::Spec;
use pocketstone_replay::levers::Levers;
use pocketstone_replay::simulate::simulate;
use pocketstone_testing::bench::step_ns;
use std::io::Write;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

const REPETITIONS: usize = 5;
const GOVERNORS: [&str; 7] =
    ["performance", "powersave", "fixed:50", "ondemand", "conservative", "interactive", "schedutil"];
const DELAYS: [Delay; 3] =
    [Delay::None, Delay::Fixed { ns: 1_000_000 }, Delay::Lognormal { mean_ns: 6_000_000, sigma: 1.0 }];
/// Operations of a PocketData workload.
const OPERATIONS: usize = 1800;
/// What an operation of the grid takes at most.
const STEPS: f64 = 400.0;

/// Four cores with 18 operating points: the shape of a phone's, with power that grows as the square of the frequency.
fn device() -> Device {
    let point = |n: u32| OperatingPoint { khz: 300_000 + n * 138_000, power_mw: 60.0 + f64::from(n * n) * 3.3 };
    let idle = |name: &str, power_mw, exit_ns, least_ns| IdleState { name: name.into(), power_mw, exit_ns, least_ns };
    Device {
        name: "bench".into(),
        clusters: vec![Cluster {
            name: "cpu".into(),
            cores: 4,
            clock_per_core: true,
            points: (0..18).map(point).collect(),
            idle: vec![idle("wfi", 15.0, 2_000, 0), idle("off", 2.0, 100_000, 1_000_000)],
            shared_mw: 20.0,
            transition_latency_ns: 100_000,
            transition_stall_ns: 20_000,
        }],
        awake_mw: 100.0,
        asleep_mw: 10.0,
        memory_mw: 50.0,
        storage: Storage { read_mw: 100.0, write_mw: 150.0, sync_mw: 150.0, times: None },
        memory_share: 0.2,
        cycles_per_recorded_ns: 1.0,
        ..Device::default()
    }
}

/// A share of the operations writes and syncs; the others compute only.
fn workload(operations: usize, writes_per_cent: u64, cycles: u64) -> Activity {
    let mut random = Random::labelled(writes_per_cent, "bench");
    let operation = |_| {
        let compute = Segment::Compute { cycles: cycles / 2 + random.below(cycles) };
        let transaction = random.below(100) < writes_per_cent;
        let mut segments = vec![compute];
        if transaction {
            segments.push(Segment::Io { ns: 100_000, kind: IoKind::Write });
            segments.push(compute);
            segments.push(Segment::Io { ns: 2_000_000, kind: IoKind::Sync });
        }
        Operation { segments, transaction, ..Operation::default() }
    };
    Activity { threads: vec![Thread { operations: (0..operations).map(operation).collect(), background: false }] }
}

fn median_seconds(mut of: impl FnMut()) -> f64 {
    let once = |_| {
        let begin = Instant::now();
        of();
        begin.elapsed().as_secs_f64()
    };
    median((0..REPETITIONS).map(once).collect::<Vec<_>>()).expect("repetitions")
}

fn grid(device: &Device, governors: &[Spec], workloads: &[Activity], threads: usize) {
    let next = AtomicUsize::new(0);
    let replays = governors.len() * workloads.len() * DELAYS.len();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= replays {
                        return;
                    }
                    let delay = Some(DELAYS[n % DELAYS.len()]);
                    let activity = &workloads[n / DELAYS.len() % workloads.len()];
                    let governor = &governors[n / DELAYS.len() / workloads.len()];
                    let levers = Levers { delay, seed: 1, ..Levers::default() };
                    simulate(activity, device, governor, &levers).expect("the activity is right");
                }
            });
        }
    });
}

fn main() {
    let mut out = std::io::stdout().lock();
    let device = device();
    let spec = |text: &str| text.parse::<Spec>().expect("a governor");
    let interactive = spec("interactive");
    let levers = Levers { delay: Some(Delay::Fixed { ns: 1_000_000 }), ..Levers::default() };
    let mut each_ns = Vec::new();
    for operations in [10_000, 100_000, 1_000_000] {
        let activity = workload(operations, 5, 1_000_000);
        let seconds = median_seconds(|| {
            simulate(&activity, &device, &interactive, &levers).expect("the activity is right");
        });
        each_ns.push(seconds * 1e9 / operations as f64);
        writeln!(out, "{operations} operations: {seconds:.4} s, {:.0} ns each", each_ns[each_ns.len() - 1])
            .expect("output");
    }
    let (low, high) = each_ns.iter().fold((f64::MAX, 0.0f64), |(l, h), ns| (l.min(*ns), h.max(*ns)));
    let word = if high <= 2.0 * low { "met" } else { "NOT met" };
    writeln!(out, "time per operation, highest to lowest: {:.2}; bar 2: {word}", high / low).expect("output");

    let governors: Vec<Spec> = GOVERNORS.into_iter().map(spec).collect();
    let kinds = [(50, 2_000_000), (5, 1_500_000), (0, 1_500_000), (5, 4_000_000)];
    let workloads: Vec<Activity> = kinds.into_iter().map(|(w, cycles)| workload(OPERATIONS, w, cycles)).collect();
    let (step_ns, operations) = (step_ns(), governors.len() * workloads.len() * DELAYS.len() * OPERATIONS);
    for threads in [1, 2] {
        let seconds = median_seconds(|| grid(&device, &governors, &workloads, threads));
        let steps = seconds * 1e9 / operations as f64 / step_ns;
        let word = if threads == 1 || steps <= STEPS { "met" } else { "NOT met" };
        writeln!(
            out,
            "7 governors x 4 workloads x 3 delays, {threads} threads: {seconds:.3} s, {steps:.0} steps of {step_ns:.2} \
             ns for each of {operations} operations; bar {STEPS} on two threads: {word}"
        )
        .expect("output");
    }
}
