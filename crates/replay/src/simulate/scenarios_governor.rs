//! What governors are told and when what they decide holds, computed by hand.

use super::simulate_with;
use super::testing::{FAST, MIDDLE, SLOW, activity, compute, device, governed, io, one_core, operation, pinned, to};
use crate::activity::IoKind;
use crate::device::Device;
use crate::governor::{CoreTimes, Decision, Domain, Governor, Moment, Others, TimerRequest};
use crate::levers::Levers;
use crate::outcome::{FrequencyChange, Residency};
use pocketstone_core::ErrorKind;
use pocketstone_core::hint::Hint;
use std::cell::RefCell;
use std::rc::Rc;

fn slow_clock() -> Device {
    let mut device = device();
    (device.clusters[0].transition_latency_ns, device.clusters[0].transition_stall_ns) = (300, 100);
    device
}

fn at(at_ns: u64, deferrable: bool) -> TimerRequest {
    TimerRequest::At { at_ns, deferrable, tick_ns: 1 }
}

fn change(time_ns: u64, khz: u32) -> FrequencyChange {
    FrequencyChange { time_ns, domain: 0, khz }
}

#[test]
fn a_change_comes_after_its_latency_and_the_core_stands_still_at_its_end() {
    // Decided at 1000: 1200 cycles by 1200, nothing until 1300, the other 3800 in 1900 ns.
    let run = activity(&[&[operation(0, &[compute(5_000)])]]);
    let faster = |moment, _: &Domain<'_>| to(FAST, moment == Moment::Tick { core: 0 });
    let (replayed, told) = governed(&run, &slow_clock(), &one_core(), Some(1_000), faster);
    assert_eq!((replayed.run_ns, replayed.busy_ns, replayed.transitions), (3_200, 3_200, 1));
    assert_eq!(replayed.frequencies, [change(0, SLOW), change(1_300, FAST)]);
    let residency = |khz, ns| Residency { khz, busy_ns: ns, total_ns: ns };
    assert_eq!(replayed.residency, [residency(SLOW, 1_300), residency(FAST, 1_900)]);
    let ticks: Vec<u64> = told.iter().filter(|t| t.1 == Moment::Tick { core: 0 }).map(|t| t.0).collect();
    assert_eq!(ticks, [1_000, 2_000, 3_000]);
}

#[test]
fn a_stall_longer_than_the_latency_is_the_latency() {
    let mut device = slow_clock();
    device.clusters[0].transition_latency_ns = 0;
    let run = activity(&[&[operation(0, &[compute(1_000)])]]);
    let faster = |moment, _: &Domain<'_>| to(FAST, matches!(moment, Moment::IdleExit { .. }));
    let (replayed, _) = governed(&run, &device, &one_core(), None, faster);
    assert_eq!((replayed.run_ns, &replayed.frequencies[1]), (600, &change(100, FAST)));
}

#[test]
fn a_decision_during_a_change_is_carried_out_after_it_and_only_the_newest() {
    let run = activity(&[&[operation(0, &[compute(50_000)])]]);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let script = {
        let seen = Rc::clone(&seen);
        move |moment: Moment, domain: &Domain<'_>| {
            let (khz, next_ns) = match (moment, domain.now_ns) {
                (Moment::Start, _) => (None, Some(1_000)),
                (Moment::Timer, 1_000) => (Some(FAST), Some(1_050)),
                (Moment::Timer, 1_050) => (Some(SLOW), Some(1_100)),
                (Moment::Timer, 1_100) => (Some(MIDDLE), Some(1_150)),
                _ => (None, None),
            };
            if moment == Moment::Timer {
                seen.borrow_mut().push(domain.khz);
            }
            Decision { khz, timer: next_ns.map_or(TimerRequest::Keep, |ns| at(ns, false)) }
        }
    };
    let (replayed, _) = governed(&run, &slow_clock(), &one_core(), None, script);
    assert_eq!(replayed.frequencies, [change(0, SLOW), change(1_300, FAST), change(1_600, MIDDLE)]);
    assert_eq!(*seen.borrow(), [SLOW, FAST, SLOW, MIDDLE]);
}

#[test]
fn the_starts_decision_holds_at_once_and_is_no_transition() {
    let run = activity(&[&[operation(0, &[compute(1_000)])]]);
    let replayed = pinned(&run, &slow_clock(), &one_core(), FAST);
    assert_eq!((replayed.run_ns, replayed.transitions), (500, 0));
}

fn timer_moments(deferrable: bool) -> Vec<(u64, Moment)> {
    let run = activity(&[&[operation(5_000, &[compute(10)])]]);
    let script = move |moment, _: &Domain<'_>| match moment {
        Moment::Start => Decision { khz: None, timer: at(1_000, deferrable) },
        _ => Decision::default(),
    };
    governed(&run, &device(), &one_core(), None, script).1
}

#[test]
fn a_deferrable_timer_waits_for_a_busy_core_and_another_one_does_not() {
    let exit = Moment::IdleExit { core: 0, from_io: false };
    let starts = Moment::Hint { core: 0, hint: Hint::OperationStarts { following: 0 } };
    let ends = Hint::OperationEnds { transaction_ended: false, next_in_ns: None };
    let ends = (5_010, Moment::Hint { core: 0, hint: ends });
    let start = (0, Moment::Start);
    assert_eq!(timer_moments(true), [start, (5_000, exit), (5_000, starts), (5_000, Moment::Timer), ends]);
    assert_eq!(timer_moments(false), [start, (1_000, Moment::Timer), (5_000, exit), (5_000, starts), ends]);
}

#[test]
fn governors_of_other_domains_tell_their_load_and_frequency() {
    let mut device = device();
    (device.clusters[0].cores, device.clusters[0].clock_per_core) = (4, true);
    let one = [operation(0, &[compute(1_000)])];
    let seen = Rc::new(RefCell::new(Vec::new()));
    let script = {
        let seen = Rc::clone(&seen);
        move |moment, domain: &Domain<'_>| {
            seen.borrow_mut().push(domain.others);
            to(FAST, moment == Moment::Start)
        }
    };
    governed(&activity(&[&one, &one]), &device, &Levers { cores: Some(3), ..Levers::default() }, None, script);
    // Three cores on-line, two with a thread; at the first domain's start the second one is at its lowest still.
    let others = |khz| Others { cores: 2, load: 77, khz };
    assert_eq!(seen.borrow()[..3], [others(SLOW), others(FAST), others(FAST)]);
    seen.borrow_mut().clear();
    let script = {
        let seen = Rc::clone(&seen);
        move |_, domain: &Domain<'_>| {
            seen.borrow_mut().push(domain.others);
            Decision::default()
        }
    };
    device.clusters[0].clock_per_core = false;
    governed(&activity(&[&one, &one]), &device, &Levers::default(), None, script);
    assert!(seen.borrow().iter().all(|o| *o == Others::default()), "all cores are the domain's");
}

#[test]
fn a_deferrable_timer_of_ticks_runs_at_the_first_tick_on_which_a_core_is_busy() {
    // Busy from 5,000 to 5,010 without a tick of 4,000 in it, then from 7,000 to 9,000 over the one at 8,000.
    let run = activity(&[&[operation(5_000, &[compute(10)]), operation(1_990, &[compute(2_000)])]]);
    let script = |moment, _: &Domain<'_>| match moment {
        Moment::Start => {
            Decision { khz: None, timer: TimerRequest::At { at_ns: 4_000, deferrable: true, tick_ns: 4_000 } }
        }
        _ => Decision::default(),
    };
    let (_, told) = governed(&run, &device(), &one_core(), None, script);
    let timers: Vec<u64> = told.iter().filter(|t| t.1 == Moment::Timer).map(|t| t.0).collect();
    assert_eq!(timers, [8_000]);
}

#[test]
fn a_timer_can_be_asked_for_now_moved_and_put_off() {
    let run = activity(&[&[operation(0, &[compute(1_000)])]]);
    let mut timers = 0;
    let script = move |moment: Moment, domain: &Domain<'_>| {
        let timer = match moment {
            Moment::IdleExit { .. } => at(domain.now_ns, false),
            Moment::Timer => {
                timers += 1;
                match timers {
                    1 => at(0, true),
                    2 => at(500, true),
                    _ => TimerRequest::Keep,
                }
            }
            Moment::Tick { .. } => TimerRequest::Off,
            _ => TimerRequest::Keep,
        };
        Decision { khz: None, timer }
    };
    let timers =
        |told: &[(u64, Moment)]| -> Vec<u64> { told.iter().filter(|t| t.1 == Moment::Timer).map(|t| t.0).collect() };
    let (_, told) = governed(&run, &device(), &one_core(), None, script);
    assert_eq!(timers(&told), [0, 1, 500]);
    let mut first = true;
    let script = move |moment: Moment, _: &Domain<'_>| match moment {
        Moment::Start => Decision { khz: None, timer: at(500, false) },
        Moment::Tick { .. } if std::mem::take(&mut first) => Decision { khz: None, timer: TimerRequest::Off },
        _ => Decision::default(),
    };
    let (_, told) = governed(&run, &device(), &one_core(), Some(400), script);
    assert_eq!(timers(&told), [0; 0]);
}

#[test]
fn a_core_waits_for_a_device_as_iowait_and_wakes_from_it() {
    let run = activity(&[&[
        operation(0, &[compute(100), io(50_000, IoKind::Sync), compute(100)]),
        operation(1_000, &[compute(50)]),
    ]]);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let script = {
        let seen = Rc::clone(&seen);
        move |_, domain: &Domain<'_>| {
            seen.borrow_mut().push(domain.cores[0]);
            Decision::default()
        }
    };
    let (_, told) = governed(&run, &device(), &one_core(), None, script);
    let hint = |hint| Moment::Hint { core: 0, hint };
    let ends = hint(Hint::OperationEnds { transaction_ended: false, next_in_ns: None });
    let starts = hint(Hint::OperationStarts { following: 0 });
    let idle = Moment::IdleEntry { core: 0 };
    let exit = |from_io| Moment::IdleExit { core: 0, from_io };
    let expected = [
        (0, Moment::Start),
        (0, exit(false)),
        (0, starts),
        (100, hint(Hint::Blocks)),
        (100, idle),
        (50_100, exit(true)),
        (50_100, hint(Hint::Resumes)),
        (50_200, ends),
        (50_200, idle),
        (51_200, exit(false)),
        (51_200, starts),
        (51_250, ends),
    ];
    assert_eq!(told, expected);
    let times = |busy_ns, iowait_ns, busy| CoreTimes { busy_ns, iowait_ns, busy };
    let seen = seen.borrow();
    assert_eq!(seen[4..7], [times(100, 0, false), times(100, 50_000, true), times(100, 50_000, true)]);
    assert_eq!(seen[11], times(250, 50_000, true));
}

#[test]
fn hints_tell_of_the_rest_of_a_batch_and_of_transactions() {
    let mut operations: Vec<_> = [0, 0, 0].map(|ns| operation(ns, &[compute(5)])).to_vec();
    operations[1].transaction = true;
    let levers = Levers { batch: 2, ..one_core() };
    let (_, told) = governed(&activity(&[&operations]), &device(), &levers, None, |_, _| Decision::default());
    let hints: Vec<Hint> =
        told.iter().filter_map(|t| if let Moment::Hint { hint, .. } = t.1 { Some(hint) } else { None }).collect();
    let starts = |following| Hint::OperationStarts { following };
    let ends = |transaction_ended, next_in_ns| Hint::OperationEnds { transaction_ended, next_in_ns };
    let expected = [starts(1), ends(false, Some(0)), starts(0), ends(true, None), starts(0), ends(false, None)];
    assert_eq!(hints, expected);
}

#[test]
fn a_thread_that_wakes_on_a_busy_core_is_told_of() {
    let run = activity(&[&[operation(0, &[compute(2_000)])], &[operation(0, &[io(300, IoKind::Read)])]]);
    let (_, told) = governed(&run, &device(), &one_core(), None, |_, _| Decision::default());
    // The second thread gets the core, and asks for its read, only after the first one: nobody is there then.
    assert!(!told.iter().any(|t| matches!(t.1, Moment::Wakeup { .. })));
    let run = activity(&[&[operation(0, &[io(300, IoKind::Read)])], &[operation(0, &[compute(2_000)])]]);
    let (_, told) = governed(&run, &device(), &one_core(), None, |_, _| Decision::default());
    assert!(told.contains(&(300, Moment::Wakeup { core: 0, from_io: true })), "{told:?}");
}

#[test]
fn cores_with_clocks_of_their_own_have_governors_of_their_own() {
    let mut device = device();
    device.clusters[0].clock_per_core = true;
    let late = [operation(1_000, &[compute(1_000)])];
    let run = activity(&[&[operation(0, &[compute(3_000)])], &late]);
    let faster = |moment, domain: &Domain<'_>| {
        assert_eq!(domain.cores.len(), 1);
        to(FAST, matches!(moment, Moment::IdleExit { .. }) && domain.now_ns > 0)
    };
    let (replayed, _) = governed(&run, &device, &Levers::default(), None, faster);
    let expected = [
        change(0, SLOW),
        FrequencyChange { time_ns: 0, domain: 1, khz: SLOW },
        FrequencyChange { time_ns: 1_000, domain: 1, khz: FAST },
    ];
    assert_eq!(replayed.frequencies, expected);
    assert_eq!(replayed.operations.iter().map(|o| o.latency_ns).collect::<Vec<_>>(), [3_000, 500]);
    let total: u64 = replayed.residency.iter().map(|r| r.total_ns).sum();
    assert_eq!(total, 2 * replayed.run_ns);
}

#[test]
fn a_frequency_that_there_is_not_is_a_fault() {
    struct Wrong;
    impl Governor for Wrong {
        fn decide(&mut self, _: Moment, _: &Domain<'_>) -> Decision {
            to(SLOW + 1, true)
        }
    }
    let run = activity(&[&[operation(0, &[compute(1)])]]);
    let error = simulate_with(&run, &device(), &mut |_| Ok(Box::new(Wrong)), &Levers::default()).unwrap_err();
    assert!(error.kind() == ErrorKind::Bug && error.chain().contains("1000001 kHz"), "{}", error.chain());
}
