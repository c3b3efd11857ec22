//! What holds for every run.

use super::testing::{FAST, MIDDLE, SLOW, device, governed, near, pinned};
use crate::activity::{Activity, IoKind, Operation, Segment, Thread};
use crate::device::Device;
use crate::governor::{Decision, Domain, Moment, TimerRequest};
use crate::levers::Levers;
use crate::outcome::{Energy, Replayed};
use pocketstone_core::random::Random;
use proptest::prelude::*;

const KHZ: [u32; 3] = [SLOW, MIDDLE, FAST];

fn segment() -> impl Strategy<Value = Segment> {
    let kind = prop_oneof![Just(IoKind::Read), Just(IoKind::Write), Just(IoKind::Sync)];
    prop_oneof![
        4 => (0..8_000_000u64).prop_map(|cycles| Segment::Compute { cycles }),
        1 => (0..500_000u64).prop_map(|ns| Segment::Stall { ns }),
        2 => (0..3_000_000u64, kind).prop_map(|(ns, kind)| Segment::Io { ns, kind }),
        1 => (0..300_000u64).prop_map(|ns| Segment::Sleep { ns }),
    ]
}

fn operations() -> impl Strategy<Value = Vec<Operation>> {
    let operation = (prop_oneof![Just(0), 0..4_000_000u64], prop::collection::vec(segment(), 0..5), any::<bool>());
    let operation = operation.prop_map(|(delay_ns, segments, transaction)| Operation {
        delay_ns,
        segments,
        transaction,
        ..Operation::default()
    });
    prop::collection::vec(operation, 1..8)
}

fn thread(operations: Vec<Operation>) -> Thread {
    Thread { operations, background: false }
}

prop_compose! {
    fn activity()(threads in prop::collection::vec(operations(), 1..4), other in operations(), background: bool)
        -> Activity
    {
        let mut threads: Vec<Thread> = threads.into_iter().map(thread).collect();
        if background {
            let pause = Operation { delay_ns: 1_000_000, ..Operation::default() };
            let operations = [vec![pause], other].concat();
            threads.push(Thread { operations, background });
        }
        Activity { threads }
    }
}

fn some_device(latency_ns: u64, stall_ns: u64, clock_per_core: bool) -> Device {
    let mut device = device();
    let cluster = &mut device.clusters[0];
    (cluster.transition_latency_ns, cluster.transition_stall_ns) = (latency_ns, stall_ns);
    cluster.clock_per_core = clock_per_core;
    device
}

/// A governor that does anything at any time.
fn wild(run: &Activity, device: &Device, levers: &Levers, seed: u64) -> Replayed {
    let mut random = Random::new(seed);
    let answer = move |_: Moment, domain: &Domain<'_>| {
        let timer = match random.below(4) {
            0 => TimerRequest::At {
                at_ns: domain.now_ns + random.below(2_000_000),
                deferrable: random.below(2) == 0,
                tick_ns: 1 + random.below(2) * 999_999,
            },
            1 => TimerRequest::Off,
            _ => TimerRequest::Keep,
        };
        let khz = (random.below(2) == 0).then(|| KHZ[random.below(3) as usize]);
        Decision { khz, timer }
    };
    governed(run, device, levers, (seed % 2 == 0).then_some(1_000_000), answer).0
}

fn parts(energy: &Energy) -> [f64; 5] {
    [energy.active_mj, energy.idle_mj, energy.awake_mj, energy.memory_mj, energy.flash_mj]
}

proptest! {
    #[test]
    fn energy_is_never_negative_residency_is_the_run_and_a_rerun_is_the_same(
        run in activity(),
        seed: u64,
        latency_ns in 0..400_000u64,
        stall_ns in 0..100_000u64,
        per_core: bool,
        cores in 1..3u32,
        busy_waiting: bool,
        batch in 1..4u32,
    ) {
        let device = some_device(latency_ns, stall_ns, per_core);
        let levers = Levers { cores: Some(cores), busy_waiting, batch, ..Levers::default() };
        let replayed = wild(&run, &device, &levers, seed);
        prop_assert_eq!(&replayed, &wild(&run, &device, &levers, seed));
        prop_assert!(parts(&replayed.energy).iter().all(|mj| *mj >= 0.0));
        let domains = if per_core { (cores as usize).min(run.threads.len()) as u64 } else { 1 };
        let total: u64 = replayed.residency.iter().map(|r| r.total_ns).sum();
        prop_assert_eq!(total, domains * replayed.run_ns);
        prop_assert!(replayed.residency.iter().all(|r| r.busy_ns <= r.total_ns));
        prop_assert_eq!(replayed.transitions + domains, replayed.frequencies.len() as u64);
        prop_assert!(replayed.frequencies.is_sorted_by_key(|c| c.time_ns));
        let counted: usize = run.threads.iter().filter(|t| !t.background).map(|t| t.operations.len()).sum();
        prop_assert_eq!(replayed.operations.len(), counted);
        prop_assert!(replayed.operations.iter().all(|o| o.response_ns >= o.latency_ns));
        let last = replayed.operations.iter().map(|o| o.start_ns + o.latency_ns).max();
        prop_assert_eq!(last, Some(replayed.run_ns));
    }

    #[test]
    fn no_work_is_lost(run in operations(), second in operations(), seed: u64, latency_ns in 0..400_000u64) {
        // On one core, without standing still, what is executed follows from the residency alone.
        let run = Activity { threads: vec![thread(run), thread(second)] };
        let levers = Levers { cores: Some(1), ..Levers::default() };
        let replayed = wild(&run, &some_device(latency_ns, 0, false), &levers, seed);
        let executed: u128 = replayed.residency.iter().map(|r| u128::from(r.khz) * u128::from(r.busy_ns)).sum();
        let (mut work, mut segments, mut stalls_ns) = (0u128, 0u128, 0u128);
        for segment in run.threads.iter().flat_map(|t| &t.operations).flat_map(|o| &o.segments) {
            match *segment {
                Segment::Compute { cycles } => {
                    (work, segments) = (work + u128::from(cycles) * 1_000_000, segments + 1);
                }
                Segment::Stall { ns } => stalls_ns += u128::from(ns),
                _ => {}
            }
        }
        prop_assert!(executed >= work + stalls_ns * u128::from(SLOW));
        prop_assert!(executed <= work + (stalls_ns + segments) * u128::from(FAST));
    }

    #[test]
    fn at_a_fixed_frequency_latencies_are_a_formula(run in operations(), point in 0..3usize) {
        let khz = KHZ[point];
        let mut device = device();
        device.clusters[0].idle[1].exit_ns = 0;
        let levers = Levers { cores: Some(1), ..Levers::default() };
        let replayed = pinned(&Activity { threads: vec![thread(run.clone())] }, &device, &levers, khz);
        let (mut at_ns, mut busy_ns) = (0, 0);
        for (operation, times) in run.iter().zip(&replayed.operations) {
            let start_ns = at_ns + operation.delay_ns;
            let mut latency_ns = 0;
            for segment in &operation.segments {
                latency_ns += match *segment {
                    Segment::Compute { cycles } => (cycles * 1_000_000).div_ceil(u64::from(khz)),
                    Segment::Stall { ns } | Segment::Io { ns, .. } | Segment::Sleep { ns } => ns,
                };
                if let Segment::Compute { .. } | Segment::Stall { .. } = segment {
                    busy_ns += match *segment {
                        Segment::Compute { cycles } => (cycles * 1_000_000).div_ceil(u64::from(khz)),
                        Segment::Stall { ns } => ns,
                        _ => 0,
                    };
                }
            }
            prop_assert_eq!((times.start_ns, times.latency_ns, times.response_ns), (start_ns, latency_ns, latency_ns));
            at_ns = start_ns + latency_ns;
        }
        prop_assert_eq!((replayed.run_ns, replayed.busy_ns), (at_ns, busy_ns));
        prop_assert!(near(replayed.energy.active_mj, [100.0, 180.0, 300.0][point] * busy_ns as f64 * 1e-9));
        prop_assert!(near(replayed.energy.memory_mj, 20.0 * busy_ns as f64 * 1e-9));
    }

    #[test]
    fn one_run_after_the_other_uses_the_energy_of_both(first in operations(), second in operations()) {
        let energy = |operations: Vec<Operation>| {
            let levers = Levers { cores: Some(1), ..Levers::default() };
            pinned(&Activity { threads: vec![thread(operations)] }, &device(), &levers, MIDDLE).energy
        };
        let both = energy([first.clone(), second.clone()].concat());
        let (first, second) = (energy(first), energy(second));
        for ((both, first), second) in parts(&both).into_iter().zip(parts(&first)).zip(parts(&second)) {
            prop_assert!(near(both, first + second), "{} {} {}", both, first, second);
        }
        prop_assert_eq!(both.total_mj(), parts(&both).iter().sum::<f64>());
    }
}
