//! A device of round numbers and governors for tests.

use crate::activity::{Activity, IoKind, Operation, Segment, Thread};
use crate::device::{Cluster, Device, IdleState, OperatingPoint, Storage};
use crate::governor::{Decision, Domain, Governor, Moment};
use crate::levers::Levers;
use crate::outcome::Replayed;
use std::cell::RefCell;
use std::rc::Rc;

/// 1 cycle a nanosecond.
pub(crate) const SLOW: u32 = 1_000_000;
/// 1.5 cycles.
pub(crate) const MIDDLE: u32 = 1_500_000;
/// 2 cycles.
pub(crate) const FAST: u32 = 2_000_000;

/// Two cores with one clock.
pub(crate) fn device() -> Device {
    let point = |khz, power_mw| OperatingPoint { khz, power_mw };
    let idle = |name: &str, power_mw, exit_ns, least_ns| IdleState { name: name.into(), power_mw, exit_ns, least_ns };
    let cluster = Cluster {
        name: "cpu".into(),
        cores: 2,
        points: vec![point(SLOW, 100.0), point(MIDDLE, 180.0), point(FAST, 300.0)],
        idle: vec![idle("wfi", 10.0, 0, 0), idle("off", 1.0, 2_000, 100_000)],
        shared_mw: 7.0,
        ..Cluster::default()
    };
    Device {
        name: "test".into(),
        clusters: vec![cluster],
        awake_mw: 50.0,
        asleep_mw: 5.0,
        memory_mw: 20.0,
        storage: Storage { read_mw: 30.0, write_mw: 40.0, sync_mw: 60.0, times: None },
        cycles_per_recorded_ns: 1.0,
        ..Device::default()
    }
}

pub(crate) fn compute(cycles: u64) -> Segment {
    Segment::Compute { cycles }
}

pub(crate) fn io(ns: u64, kind: IoKind) -> Segment {
    Segment::Io { ns, kind }
}

pub(crate) fn operation(delay_ns: u64, segments: &[Segment]) -> Operation {
    Operation { delay_ns, segments: segments.to_vec(), ..Operation::default() }
}

/// Threads that count.
pub(crate) fn activity(threads: &[&[Operation]]) -> Activity {
    let thread = |o: &&[Operation]| Thread { operations: o.to_vec(), background: false };
    Activity { threads: threads.iter().map(thread).collect() }
}

pub(crate) fn one_core() -> Levers {
    Levers { cores: Some(1), ..Levers::default() }
}

type Answer = dyn FnMut(Moment, &Domain<'_>) -> Decision;

/// Answers as a test wants, and writes down what it was told, and when.
struct Scripted {
    answer: Rc<RefCell<Answer>>,
    told: Rc<RefCell<Vec<(u64, Moment)>>>,
    tick_ns: Option<u64>,
}

impl Governor for Scripted {
    fn decide(&mut self, moment: Moment, domain: &Domain<'_>) -> Decision {
        self.told.borrow_mut().push((domain.now_ns, moment));
        (self.answer.borrow_mut())(moment, domain)
    }

    fn tick_ns(&self) -> Option<u64> {
        self.tick_ns
    }

    fn load(&self) -> u64 {
        77
    }
}

/// Replays under a governor; gives also what it was told.
pub(crate) fn governed(
    activity: &Activity,
    device: &Device,
    levers: &Levers,
    tick_ns: Option<u64>,
    answer: impl FnMut(Moment, &Domain<'_>) -> Decision + 'static,
) -> (Replayed, Vec<(u64, Moment)>) {
    let answer: Rc<RefCell<Answer>> = Rc::new(RefCell::new(answer));
    let told = Rc::new(RefCell::new(Vec::new()));
    let mut build = |_: &Cluster| -> pocketstone_core::Result<Box<dyn Governor>> {
        Ok(Box::new(Scripted { answer: Rc::clone(&answer), told: Rc::clone(&told), tick_ns }))
    };
    let replayed = super::simulate_with(activity, device, &mut build, levers).unwrap();
    let told = told.borrow().clone();
    (replayed, told)
}

/// Replays at one frequency.
pub(crate) fn pinned(activity: &Activity, device: &Device, levers: &Levers, khz: u32) -> Replayed {
    governed(activity, device, levers, None, move |moment, _| to(khz, moment == Moment::Start)).0
}

/// Goes to a frequency, if it is time.
pub(crate) fn to(khz: u32, now: bool) -> Decision {
    Decision { khz: now.then_some(khz), ..Decision::default() }
}

/// Whether two energies are the same but for the rounding of a few sums.
pub(crate) fn near(left_mj: f64, right_mj: f64) -> bool {
    (left_mj - right_mj).abs() <= 1e-12 * left_mj.abs().max(right_mj.abs())
}
