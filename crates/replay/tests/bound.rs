//! The bound and the database-informed governor against the replay, on every shipped device: the same run costs the
//! same by both accounts, nothing is below the bound, and what the governor saves does not hang on exact powers.

use pocketstone_core::database::Delay;
use pocketstone_replay::activity::{Activity, IoKind, Operation, Segment, Thread};
use pocketstone_replay::bound;
use pocketstone_replay::device::{self, Device};
use pocketstone_replay::governor::database::DatabaseInformed;
use pocketstone_replay::governor::{Governor, Spec};
use pocketstone_replay::levers::Levers;
use pocketstone_replay::outcome::Replayed;
use pocketstone_replay::simulate::{simulate, simulate_with};
use std::collections::BTreeMap;
use std::path::Path;

fn devices() -> Vec<Device> {
    device::list(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices")).unwrap()
}

/// Look-ups of 0.5 to 1.5 million cycles, one in `writes` of which ends with a sync of 2 ms.
fn look_ups(count: u64, writes: u64) -> Activity {
    let operation = |n: u64| {
        let cycles = 500_000 + n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000;
        let mut segments = vec![Segment::Compute { cycles }];
        let transaction = writes > 0 && n % writes == 0;
        if transaction {
            let sync = Segment::Io { ns: 2_000_000, kind: IoKind::Sync };
            segments.extend([sync, Segment::Compute { cycles: 50_000 }]);
        }
        Operation { delay_ns: if n == 0 { 0 } else { 6_000_000 }, segments, transaction, ..Operation::default() }
    };
    Activity { threads: vec![Thread { operations: (0..count).map(operation).collect(), background: false }] }
}

/// Workloads C and B below saturation, as PocketData has them.
fn below_saturation() -> [(Activity, Levers); 2] {
    let delay = Some(Delay::Lognormal { mean_ns: 6_000_000, sigma: 1.0 });
    [0, 20].map(|writes| (look_ups(1800, writes), Levers { delay, seed: 3, ..Levers::default() }))
}

fn mean(replayed: &Replayed) -> f64 {
    replayed.mean_latency_ns().unwrap()
}

#[test]
fn a_pinned_run_costs_what_its_schedule_does() {
    let activity = look_ups(300, 7);
    let levers = Levers { memory_share: Some(0.0), ..Levers::default() };
    let stretches = bound::stretches(&activity, &levers);
    let mut checked = 0;
    for device in devices() {
        for (number, point) in device.clusters[0].points.iter().enumerate() {
            let pinned: Spec = format!("fixed:{}kHz", point.khz).parse().unwrap();
            let replayed = simulate(&activity, &device, &pinned, &levers).unwrap();
            let schedule = bound::of_schedule(&activity, &device, &levers, &vec![number; stretches]).unwrap();
            let latency_ns: u64 = replayed.operations.iter().map(|o| o.latency_ns).sum();
            assert_eq!(latency_ns, schedule.total_latency_ns, "{} {}", device.name, point.khz);
            let (a, b) = (replayed.energy.total_mj(), schedule.energy.total_mj());
            assert!((a / b - 1.0).abs() < 1e-9, "{} {}: {a} {b}", device.name, point.khz);
            checked += 1;
        }
    }
    assert!(checked > 100, "{checked}");
}

#[test]
fn no_governor_is_below_the_bound() {
    let governors =
        ["performance", "powersave", "fixed:50", "ondemand", "ondemand-legacy", "conservative", "interactive"];
    for device in devices() {
        for (activity, levers) in below_saturation() {
            let front = bound::front(&activity, &device, &levers).unwrap();
            for governor in governors.iter().chain(&["schedutil", "database"]) {
                let replayed = simulate(&activity, &device, &governor.parse().unwrap(), &levers).unwrap();
                let least = front.least_energy(mean(&replayed)).unwrap();
                let energy = replayed.energy.total_mj();
                assert!(energy >= least * (1.0 - 1e-9), "{} {governor}: {energy} {least}", device.name);
            }
        }
    }
}

/// The device with one kind of power times `factor`.
fn scaled(device: &Device, factor: f64, kind: usize) -> Device {
    let mut device = device.clone();
    let clusters = &mut device.clusters;
    match kind {
        0 => device.awake_mw *= factor,
        1 => clusters.iter_mut().flat_map(|c| &mut c.points).for_each(|p| p.power_mw *= factor),
        2 => clusters.iter_mut().for_each(|c| c.shared_mw *= factor),
        3 => clusters.iter_mut().flat_map(|c| &mut c.idle).for_each(|i| i.power_mw *= factor),
        4 => device.asleep_mw *= factor,
        _ => device.memory_mw *= factor,
    }
    device
}

/// The database-informed governor that goes by one profile, on a device that has another.
fn informed(activity: &Activity, levers: &Levers, believed: &Device, real: &Device) -> Replayed {
    let below: Spec = "schedutil".parse().unwrap();
    let mut make = |cluster: &device::Cluster| {
        let of = believed.cluster(Some(&cluster.name))?;
        let governor = DatabaseInformed::new(believed, of, &BTreeMap::new(), below.build(real, cluster)?)?;
        Ok(Box::new(governor) as Box<dyn Governor>)
    };
    simulate_with(activity, real, &mut make, levers).unwrap()
}

/// At least 20 % less energy than interactive with at most 5 % more latency, on B and C below saturation, with
/// every kind of power 20 % lower or higher than the governor believes: on at least two devices.
#[test]
fn what_the_informed_governor_saves_does_not_hang_on_exact_powers() {
    let mut saved = BTreeMap::new();
    for device in devices() {
        let (mut least_saved, mut most_added) = (f64::INFINITY, f64::NEG_INFINITY);
        for (activity, levers) in below_saturation() {
            let sweep = (0..6).flat_map(|kind| [0.8, 1.2].map(|factor| scaled(&device, factor, kind)));
            for real in sweep.chain([device.clone()]) {
                let beside = simulate(&activity, &real, &"interactive".parse().unwrap(), &levers).unwrap();
                let ours = informed(&activity, &levers, &device, &real);
                least_saved = f64::min(least_saved, 1.0 - ours.energy.total_mj() / beside.energy.total_mj());
                most_added = f64::max(most_added, mean(&ours) / mean(&beside) - 1.0);
            }
        }
        assert!(most_added <= 0.05, "{}: {most_added}", device.name);
        saved.insert(device.name, least_saved);
    }
    let enough = saved.values().filter(|s| **s >= 0.2).count();
    assert!(enough >= 2, "{saved:?}");
    assert!(saved.values().all(|s| *s > 0.0), "{saved:?}");
}
