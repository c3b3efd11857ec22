use super::*;
use crate::device::{IdleState, OperatingPoint};
use crate::governor::{CoreTimes, Others};
use pocketstone_core::hint::clamp_of;

/// Decides what it is told to, as schedutil would from utilisation.
struct Script(u32);

impl Governor for Script {
    fn decide(&mut self, _: Moment, _: &Domain<'_>) -> Decision {
        Decision { khz: Some(self.0), ..Decision::default() }
    }
}

/// Four points of the Nexus 6 (voltage times current, published per bin), and 100 mW that is awake with a core.
fn nexus() -> (Device, Cluster) {
    let points = [(300_000, 60.04), (1_267_200, 322.14), (1_497_600, 402.32), (2_649_600, 1001.18)];
    let cluster = Cluster {
        name: "krait".into(),
        cores: 4,
        clock_per_core: true,
        points: points.map(|(khz, power_mw)| OperatingPoint { khz, power_mw }).to_vec(),
        idle: vec![IdleState { name: "off".into(), power_mw: 0.0, exit_ns: 0, least_ns: 0 }],
        transition_latency_ns: 100_000,
        ..Cluster::default()
    };
    let device = Device {
        name: "nexus".into(),
        clusters: vec![cluster.clone()],
        awake_mw: 100.0,
        cycles_per_recorded_ns: 1.0,
        ..Device::default()
    };
    (device, cluster)
}

fn governor(set: &[(&str, &str)], schedutil_khz: u32) -> DatabaseInformed {
    let (device, cluster) = nexus();
    let tunables = set.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect();
    DatabaseInformed::new(&device, &cluster, &tunables, Box::new(Script(schedutil_khz))).unwrap()
}

/// What a governor does at moments `(time, moment, busy)`, each decision being in force at once.
fn follow(governor: &mut DatabaseInformed, moments: &[(u64, Moment, bool)]) -> Vec<Option<u32>> {
    let frequencies_khz: Vec<u32> = nexus().1.points.iter().map(|p| p.khz).collect();
    let mut khz = 300_000;
    let answers = moments.iter().map(|(now_us, moment, busy)| {
        let cores = [CoreTimes { busy: *busy, ..CoreTimes::default() }];
        let domain = Domain {
            now_ns: now_us * 1_000,
            khz,
            frequencies_khz: &frequencies_khz,
            cores: &cores,
            others: Others::default(),
        };
        let decision = governor.decide(*moment, &domain);
        khz = decision.khz.unwrap_or(khz);
        decision.khz
    });
    answers.collect()
}

fn hint(hint: Hint) -> Moment {
    Moment::Hint { core: 0, hint }
}

const STARTS: Hint = Hint::OperationStarts { following: 0 };
const ENDS: Hint = Hint::OperationEnds { transaction_ended: true, next_in_ns: Some(6_000_000) };
const WAKES: Moment = Moment::IdleExit { core: 0, from_io: false };
const SLEEPS: Moment = Moment::IdleEntry { core: 0 };
const TICK: Moment = Moment::Tick { core: 0 };

/// nJ a cycle with 100 mW awake, by hand: 0.5335, 0.3331, 0.3354, 0.4156. A tenth of the busy power at 1267.2 MHz
/// is 42.2 mW; with n of them: n = 1: 0.674, 0.3664, 0.3636; n = 9: .., 0.6329, 0.5891, 0.5590.
#[test]
fn a_lone_operation_runs_near_the_least_energy_and_a_batch_faster() {
    let frugal = governor(&[("waiting_percent", "0")], 300_000);
    assert_eq!([0, 8].map(|n| frugal.point_khz(n)), [1_267_200, 1_267_200]);
    let default = governor(&[], 300_000);
    assert_eq!([0, 8, 5000].map(|n| default.point_khz(n)), [1_497_600, 2_649_600, 2_649_600]);
    let few = governor(&[("most_waiting", "0")], 300_000);
    assert_eq!(few.point_khz(5000), 1_497_600);
}

#[test]
fn the_first_operation_sets_the_speed_and_the_next_ones_find_it_set() {
    let operation =
        |at| [(at, WAKES, true), (at, hint(STARTS), true), (at + 900, hint(ENDS), true), (at + 900, SLEEPS, false)];
    let moments = [&[(0, Moment::Start, false)][..], &operation(6_000), &operation(13_000)].concat();
    let answers = follow(&mut governor(&[], 300_000), &moments);
    // The thread's clamp is in force again as it wakes, whatever schedutil makes of its utilisation.
    let expected = [None, None, Some(1_497_600), None, None, None, None, None, None];
    assert_eq!(answers, expected);
}

#[test]
fn a_thread_that_keeps_its_core_busy_is_not_made_faster_by_schedutil() {
    let moments = [(0, WAKES, true), (3_000, hint(STARTS), true), (6_000, TICK, true), (10_000, hint(ENDS), true)];
    let mut governor = governor(&[], 2_649_600);
    // Before the first hint, schedutil alone decides.
    assert_eq!(follow(&mut governor, &moments), [Some(2_649_600), Some(1_497_600), None, None]);
}

#[test]
fn while_the_thread_waits_for_a_device_schedutil_decides_for_what_else_runs() {
    let moments = [
        (0, hint(STARTS), true),
        (1_000, hint(Hint::Blocks), true),
        (1_000, SLEEPS, false),
        (2_000, Moment::IdleExit { core: 0, from_io: false }, true),
        (5_000, hint(Hint::Resumes), true),
    ];
    let answers = follow(&mut governor(&[], 300_000), &moments);
    // It has no choice of its own before the first moment that it hears of.
    assert_eq!(answers, [Some(1_497_600), None, None, Some(300_000), Some(1_497_600)]);
}

#[test]
fn a_thread_that_the_device_has_answered_wakes_at_its_own_speed() {
    let moments = [
        (0, TICK, true),
        (0, hint(STARTS), true),
        (1_000, hint(Hint::Blocks), true),
        (1_000, SLEEPS, false),
        (3_000, Moment::IdleExit { core: 0, from_io: true }, true),
        (3_000, hint(Hint::Resumes), true),
    ];
    let answers = follow(&mut governor(&[], 300_000), &moments);
    assert_eq!(answers, [None, Some(1_497_600), None, None, None, None]);
}

#[test]
fn a_change_within_the_rate_limit_waits_for_the_next_tick() {
    let batch = hint(Hint::OperationStarts { following: 8 });
    let moments = [(0, hint(STARTS), true), (100, batch, true), (140, TICK, true), (150, TICK, true)];
    // 1.5 x 100 us.
    assert_eq!(follow(&mut governor(&[], 300_000), &moments), [Some(1_497_600), None, None, Some(2_649_600)]);
    let moments = [(0, hint(STARTS), true), (100, batch, true)];
    let answers = follow(&mut governor(&[("rate_limit_us", "50")], 300_000), &moments);
    assert_eq!(answers, [Some(1_497_600), Some(2_649_600)]);
}

/// The frequencies that userspace of a Nexus 6 sees.
#[test]
fn every_operating_point_is_the_one_that_schedutil_takes_for_its_clamp() {
    let all = [
        300_000, 422_400, 652_800, 729_600, 883_200, 960_000, 1_036_800, 1_190_400, 1_267_200, 1_497_600, 1_574_400,
        1_728_000, 1_958_400, 2_265_600, 2_457_600, 2_496_000, 2_572_800, 2_649_600,
    ];
    for khz in all {
        let clamp = u64::from(clamp_of(khz, 2_649_600));
        // Schedutil's rule, 1.25 x highest x utilisation / 1024, in whole kHz.
        assert_eq!(at_least(&all, clamp * 2_649_600 * 5 / 4 / 1024), khz);
    }
    // 1497600 / 2649600 x 1024 / 1.25 = 463.02.
    assert_eq!(clamp_of(1_497_600, 2_649_600), 463);
}

/// Each power number off by a fifth, alone: what the governor loses against the best point of the true numbers.
#[test]
fn wrong_power_numbers_cost_little() {
    let (device, cluster) = nexus();
    let cost = |points: &[OperatingPoint], awake_mw: f64, khz: u32| {
        let point = points.iter().find(|p| p.khz == khz).unwrap();
        (point.power_mw + awake_mw) / f64::from(khz)
    };
    let chosen = governor(&[("waiting_percent", "0")], 300_000).point_khz(0);
    for wrong in 0..=cluster.points.len() {
        for factor in [0.8, 1.2] {
            let (mut points, mut awake_mw) = (cluster.points.clone(), device.awake_mw);
            match points.get_mut(wrong) {
                Some(point) => point.power_mw *= factor,
                None => awake_mw *= factor,
            }
            let best = points.iter().map(|p| cost(&points, awake_mw, p.khz)).fold(f64::INFINITY, f64::min);
            // A point that is dearer by a fifth than thought makes a cycle at most a fifth dearer than the next best.
            assert!(cost(&points, awake_mw, chosen) <= 1.2 * best, "{wrong} {factor}");
        }
    }
}

#[test]
fn a_tunable_that_is_not_known_or_no_number_is_refused_with_what_there_is() {
    let (device, cluster) = nexus();
    let refused = |name: &str, text: &str| {
        let tunables = BTreeMap::from([(name.to_owned(), text.to_owned())]);
        let error = DatabaseInformed::new(&device, &cluster, &tunables, Box::new(Script(0))).err().unwrap();
        (error.chain(), error.cure().unwrap().to_owned())
    };
    assert!(refused("boost", "1").1.contains("waiting_percent, most_waiting, rate_limit_us"));
    assert!(refused("waiting_percent", "-1").0.contains("`-1` is not a valid waiting_percent"));
    assert!(refused("rate_limit_us", "NaN").1.contains("from 0 to"));
}
