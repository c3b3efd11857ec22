use super::costs::Costs;
use super::*;
use crate::activity::{IoKind, Operation, Segment, Thread};
use crate::device::{Cluster, IdleState, OperatingPoint, Storage};
use proptest::prelude::*;

const MS: u64 = 1_000_000;

/// A device with one cluster whose cores sleep at once when idle for `deep_ns`, drawing 2 mW, else 10 mW.
fn device(points: &[(u32, f64)], cores: u32, awake_mw: f64, deep_ns: u64) -> Device {
    let state = |name: &str, power_mw, exit_ns, least_ns| IdleState { name: name.into(), power_mw, exit_ns, least_ns };
    let cluster = Cluster {
        name: "only".into(),
        cores,
        clock_per_core: true,
        points: points.iter().map(|(khz, power_mw)| OperatingPoint { khz: *khz, power_mw: *power_mw }).collect(),
        idle: vec![state("wait", 10.0, 0, 0), state("off", 2.0, 50_000, deep_ns)],
        shared_mw: 5.0,
        ..Cluster::default()
    };
    Device {
        name: "test".into(),
        clusters: vec![cluster],
        awake_mw,
        asleep_mw: 1.0,
        memory_mw: 7.0,
        storage: Storage { read_mw: 30.0, write_mw: 40.0, sync_mw: 50.0, times: None },
        cycles_per_recorded_ns: 1.0,
        ..Device::default()
    }
}

fn operation(delay_ns: u64, segments: &[Segment]) -> Operation {
    Operation { delay_ns, segments: segments.to_vec(), ..Operation::default() }
}

fn run(operations: Vec<Operation>) -> Activity {
    Activity { threads: vec![Thread { operations, background: false }] }
}

fn close(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1e-9)
}

/// 1 GHz: 1 ms at 100 + 60 + 5 + 7 = 172 mW; 500 MHz: 2 ms at 30 + 72 = 102 mW. The delay of 10 ms: off, 2 + 1 mW,
/// and 50 us of waking up, 10 + 65 mW; the read of 0.1 ms: waiting, 10 + 65 + 30 mW.
#[test]
fn one_operation_costs_what_a_hand_makes_it() {
    let device = device(&[(500_000, 30.0), (1_000_000, 100.0)], 1, 60.0, MS);
    let read = Segment::Io { ns: 100_000, kind: IoKind::Read };
    let activity = run(vec![operation(10 * MS, &[Segment::Compute { cycles: 1_000_000 }, read])]);
    let front = front(&activity, &device, &Levers::default()).unwrap();
    let rest_mj = 0.003 * 10.0 + 0.075 * 0.05 + 0.105 * 0.1;
    let points: Vec<(u64, f64)> = front.points.iter().map(|p| (p.total_latency_ns, p.energy_mj)).collect();
    assert_eq!(points.len(), 1, "twice the time at 102 mW is dearer than once at 172 mW");
    assert!(points[0].0 == 1_100_000 && close(points[0].1, 0.172 + rest_mj), "{points:?}");
    assert_eq!((front.error_mj, front.exact, front.corners.len()), (0.0, true, 1));
    assert_eq!(front.least_energy(1.09e6), None);
    assert!(close(front.least_energy(9e9).unwrap(), 0.172 + rest_mj));
    assert!(close(front.regret(2e6, 2.0 * (0.172 + rest_mj)).unwrap(), 1.0));
}

/// Without anything awake, 500 MHz takes 2 ms x 42 mW = 0.084 mJ and 1 GHz 0.112 mJ. Half of the cycles at each
/// is what the line between them is: 1.5 ms and 0.098 mJ. No single point of an operation reaches it.
#[test]
fn between_two_corners_the_bound_mixes_them_within_an_operation() {
    let device = device(&[(500_000, 30.0), (1_000_000, 100.0)], 1, 0.0, MS);
    let activity = run(vec![operation(0, &[Segment::Compute { cycles: 1_000_000 }])]);
    let front = front(&activity, &device, &Levers::default()).unwrap();
    assert!(close(front.least_energy(1.5e6).unwrap(), 0.098));
    assert!(close(front.best(1.5e6).unwrap().energy_mj, 0.112));
    assert_eq!(front.corners.iter().map(|c| c.khz).collect::<Vec<_>>(), [1_000_000, 500_000]);
    assert_eq!(front.best(0.5e6), None);
}

/// A delay of 2 ms spent on the core takes 2 ms x 42 mW at the lower point, whatever the operation's point is.
#[test]
fn a_delay_spent_on_the_core_is_spent_at_the_least_power() {
    let device = device(&[(500_000, 30.0), (1_000_000, 100.0)], 1, 0.0, MS);
    let activity = run(vec![operation(2 * MS, &[Segment::Compute { cycles: 1_000_000 }])]);
    let levers = Levers { busy_waiting: true, ..Levers::default() };
    let front = front(&activity, &device, &levers).unwrap();
    let points: Vec<(u64, f64)> = front.points.iter().map(|p| (p.total_latency_ns, p.energy_mj)).collect();
    assert!(points.len() == 2 && points[0].0 == MS && points[1].0 == 2 * MS);
    assert!(close(points[0].1, 0.084 + 0.112) && close(points[1].1, 0.084 + 0.084), "{points:?}");
}

/// Two threads on two cores, 1 ms at 1 GHz each, at the same time: 2 x 100 mW + 60 + 5 + 7 for 1 ms, 0.272 mJ.
/// One after the other would take more. The bound may not be above, and charges each thread half of the rest.
#[test]
fn with_two_threads_the_bound_is_below_what_both_together_take() {
    let device = device(&[(1_000_000, 100.0)], 2, 60.0, 0);
    let one = || operation(0, &[Segment::Compute { cycles: 1_000_000 }]);
    let mut activity = run(vec![one()]);
    activity.threads.push(activity.threads[0].clone());
    let front = front(&activity, &device, &Levers::default()).unwrap();
    assert!(!front.exact);
    assert!(close(front.points[0].energy_mj, 0.272), "{:?}", front.points);
}

#[test]
fn what_cannot_be_is_refused_with_what_there_is() {
    let device = device(&[(500_000, 30.0)], 1, 0.0, MS);
    let activity = run(vec![operation(0, &[Segment::Compute { cycles: 1 }])]);
    let levers = Levers { cluster: Some("big".into()), ..Levers::default() };
    let error = front(&activity, &device, &levers).unwrap_err();
    assert!(error.chain().contains("no cluster `big`") && error.cure().unwrap().contains("only"));
    let error = front(&run(Vec::new()), &device, &Levers::default()).unwrap_err();
    assert!(error.chain().contains("no foreground operation"));
    assert!(of_schedule(&activity, &device, &Levers::default(), &[0, 0]).is_err());
}

/// Uneven operations as a look-up's are: 0.5 to 1.5 million cycles, every tenth one with a read.
fn look_ups(count: u64) -> Activity {
    let cycles = |n: u64| 500_000 + n.wrapping_mul(0x9E37_79B9_7F4A_7C15) % 1_000_000;
    let one = |n: u64| {
        let mut segments = vec![Segment::Compute { cycles: cycles(n) }];
        if n % 10 == 0 {
            segments.extend([Segment::Io { ns: 200_000, kind: IoKind::Read }, Segment::Compute { cycles: 50_000 }]);
        }
        operation(6 * MS, &segments)
    };
    run((0..count).map(one).collect())
}

/// Voltage squared times frequency, with a static part: 18 points.
fn convex() -> Vec<(u32, f64)> {
    let power = |f: f64| 40.0 + 330.0 * f * (0.7 + 0.18 * f).powi(2);
    (0..18u32).map(|n| (300_000 + n * 138_000, power(0.3 + 0.138 * f64::from(n)))).collect()
}

#[test]
fn a_long_run_is_thinned_and_says_by_how_much_that_may_be_wrong() {
    let device = device(&convex(), 4, 100.0, MS);
    for count in [1_800, 100_000] {
        let front = front(&look_ups(count), &device, &Levers::default()).unwrap();
        assert!(front.points.len() <= 2 * MOST_POINTS && front.points.len() > 100, "{}", front.points.len());
        let range_mj = front.points[0].energy_mj - front.points.last().unwrap().energy_mj;
        assert!(front.error_mj > 0.0 && front.error_mj < range_mj / 400.0, "{} {range_mj}", front.error_mj);
        for point in &front.points {
            let mean_ns = point.total_latency_ns as f64 / count as f64;
            let least = front.least_energy(mean_ns).unwrap();
            // A stretch's time is rounded up to a nanosecond, of 0.2 ms at least.
            assert!(
                point.energy_mj >= least * (1.0 - 1e-12) && point.energy_mj <= least + front.error_mj + 1e-5 * least
            );
        }
    }
}

prop_compose! {
    fn segment()(kind in 0..6, cycles in 1..3_000_000u64, ns in 1..2_000_000u64) -> Segment {
        match kind {
            0..=2 => Segment::Compute { cycles },
            3 => Segment::Stall { ns },
            4 => Segment::Io { ns, kind: IoKind::Sync },
            _ => Segment::Sleep { ns },
        }
    }
}

prop_compose! {
    fn small()(
        parts in prop::collection::vec((0..8_000_000u64, prop::collection::vec(segment(), 1..4)), 1..4),
    ) -> Activity {
        // The first delay is long enough for the deepest idle state.
        let mut operations: Vec<Operation> = parts.iter().map(|(delay, s)| operation(*delay, s)).collect();
        operations[0].delay_ns += MS;
        run(operations)
    }
}

prop_compose! {
    fn some_device()(
        power in prop::collection::vec(1..900u32, 1..5),
        cores in 1..4u32,
        awake in 0..200u32,
    ) -> Device {
        let points: Vec<(u32, f64)> =
            power.iter().enumerate().map(|(n, p)| (300_000 + 377_000 * n as u32, f64::from(*p))).collect();
        device(&points, cores, f64::from(awake), MS)
    }
}

/// Every schedule's cost, walked through one by one.
fn all(activity: &Activity, device: &Device, levers: &Levers) -> Vec<(u64, f64)> {
    let (length, points) = (stretches(activity, levers), device.clusters[0].points.len());
    let schedule = |n: usize| -> Vec<usize> { (0..length).map(|at| n / points.pow(at as u32) % points).collect() };
    let cost = |n| of_schedule(activity, device, levers, &schedule(n)).unwrap();
    (0..points.pow(length as u32)).map(cost).map(|s| (s.total_latency_ns, s.energy.total_mj())).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn the_front_is_what_trying_every_schedule_finds(
        activity in small(), device in some_device(), busy_waiting: bool,
    ) {
        let levers = Levers { busy_waiting, ..Levers::default() };
        let all = all(&activity, &device, &levers);
        let front = front(&activity, &device, &levers).unwrap();
        prop_assert_eq!(front.error_mj, 0.0);
        for (latency_ns, energy_mj) in &all {
            let best = front.points.iter().rfind(|p| p.total_latency_ns <= *latency_ns).unwrap();
            prop_assert!(best.energy_mj <= energy_mj * (1.0 + 1e-9), "{best:?} {energy_mj}");
            // The bound for every governor is below.
            let least = front.least_energy(*latency_ns as f64 / front.operations as f64).unwrap();
            prop_assert!(least <= energy_mj * (1.0 + 1e-9));
        }
        for point in &front.points {
            let same = |(ns, mj): &(u64, f64)| *ns == point.total_latency_ns && close(*mj, point.energy_mj);
            prop_assert!(all.iter().any(same), "no schedule is {point:?}");
        }
    }

    #[test]
    fn every_vertex_of_the_hull_is_on_the_front_and_the_error_between_them_is_a_step(
        activity in small(), device in some_device(),
    ) {
        let costs = Costs::new(&activity, &device, &Levers::default()).unwrap();
        let (exact, hull) = (merge::exact(&costs).unwrap(), merge::hull(&costs));
        prop_assert!(hull.iter().all(|v| exact.contains(v)));
        prop_assert_eq!((hull[0], hull.last()), (exact[0], exact.last()));
        let step = hull.windows(2).map(|w| w[0].energy - w[1].energy).max().unwrap_or(0);
        for entry in exact {
            let best = hull.iter().rfind(|v| v.latency_ns <= entry.latency_ns).unwrap();
            prop_assert!(best.energy - entry.energy <= step);
        }
    }

    /// The envelope holds at every price of a nanosecond: what a schedule costs with it, no corner exceeds.
    #[test]
    fn at_every_price_of_time_a_corner_is_the_cheapest(
        activity in small(), device in some_device(), price_mw in 0.0..2_000.0f64,
    ) {
        let levers = Levers::default();
        let front = front(&activity, &device, &levers).unwrap();
        let priced = |latency_ns: f64, energy_mj: f64| energy_mj + price_mw * latency_ns / 1e9;
        let corners = front.corners.iter().map(|c| priced(c.total_latency_ns, c.energy_mj));
        let schedules = all(&activity, &device, &levers).into_iter().map(|(ns, mj)| priced(ns as f64, mj));
        let (corner, schedule) = (corners.fold(f64::INFINITY, f64::min), schedules.fold(f64::INFINITY, f64::min));
        prop_assert!(corner <= schedule * (1.0 + 1e-9));
    }
}

/// A step of the first run saves 6 mJ for 10 ns of its mean latency, one of the second 4 mJ for 20 ns.
#[test]
fn several_runs_share_latency_where_it_saves_most() {
    let front = |operations, corners: [(f64, f64); 2]| {
        let corner = |(total_latency_ns, energy_mj)| Corner { khz: 1, total_latency_ns, energy_mj };
        Front { operations, points: Vec::new(), error_mj: 0.0, corners: corners.map(corner).to_vec(), exact: true }
    };
    let runs = [front(1, [(10.0, 8.0), (20.0, 2.0)]), front(2, [(40.0, 10.0), (80.0, 6.0)])];
    let expected = [(14.9, None), (15.0, Some(9.0)), (17.5, Some(7.5)), (25.0, Some(5.0)), (99.0, Some(4.0))];
    for (mean_latency_ns, least_mj) in expected {
        let found = least_mean_energy(&runs, mean_latency_ns);
        let same = found.zip(least_mj).map_or(found == least_mj, |(found, least)| close(found, least));
        assert!(same, "{mean_latency_ns} ns: {found:?}");
    }
    assert_eq!([least_mean_energy(&[], 1.0), least_mean_energy(&runs, f64::NAN)], [None, None]);
}
