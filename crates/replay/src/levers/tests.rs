use super::*;
use crate::device::StorageTimes;
use crate::simulate::testing::{activity, compute, device, io, operation};

fn delays_of(activity: &Activity, thread: usize) -> Vec<(u64, u64)> {
    activity.threads[thread].operations.iter().map(|o| (o.delay_ns, o.held_ns)).collect()
}

#[test]
fn the_default_changes_nothing() {
    let mut run = activity(&[&[operation(7, &[compute((1 << 43) + 1), io(5, IoKind::Sync)])]]);
    run.threads[0].operations[0].held_ns = 3;
    assert_eq!(Levers::default().apply(&run, &device()).unwrap(), run);
    assert_eq!(serde_json::from_str::<Levers>("{}").unwrap(), Levers::default());
}

#[test]
fn a_share_of_the_time_at_the_highest_frequency_becomes_a_stall() {
    // 1000 cycles at 2 GHz are 500 ns.
    let run = activity(&[&[operation(0, &[compute(1_000), io(5, IoKind::Read)])]]);
    let levers = Levers { memory_share: Some(0.3), ..Levers::default() };
    let split = levers.apply(&run, &device()).unwrap();
    assert_eq!(
        split.threads[0].operations[0].segments,
        [compute(700), Segment::Stall { ns: 150 }, io(5, IoKind::Read)]
    );
    // The device's own share, for a run that does not know its own.
    let mut shared = device();
    shared.memory_share = 0.3;
    assert_eq!(Levers::default().apply(&run, &shared).unwrap(), split);
    assert_eq!(Levers::default().apply(&split, &shared).unwrap(), split);
    let scaled = Levers { cycles_scale: 2.5, ..Levers::default() }.apply(&run, &device()).unwrap();
    assert_eq!(scaled.threads[0].operations[0].segments[0], compute(2_500));
}

#[test]
fn delays_are_dealt_out_as_operations_are() {
    let run = [operation(9, &[compute(1)]), operation(9, &[compute(1)]), operation(9, &[compute(1)])];
    let mut two = activity(&[&run, &run[..2], &run]);
    two.threads[1].background = true;
    let levers = Levers { delay: Some(Delay::PublishedLog), ..Levers::default() };
    let paced = levers.apply(&two, &device()).unwrap();
    // Operations 0, 2, 4 and 1, 3, 5: round(ln n) ms, none before operation 0.
    assert_eq!(delays_of(&paced, 0), [(0, 0), (1_000_000, 0), (1_000_000, 0)]);
    assert_eq!(delays_of(&paced, 1), [(9, 0), (9, 0)]);
    assert_eq!(delays_of(&paced, 2), [(0, 0), (1_000_000, 0), (2_000_000, 0)]);
    let random = Levers { delay: Some(Delay::Lognormal { mean_ns: 6_000_000, sigma: 1.0 }), ..Levers::default() };
    let of = |seed| delays_of(&Levers { seed, ..random.clone() }.apply(&two, &device()).unwrap(), 2);
    assert!(of(1) == of(1) && of(1) != of(2));
}

#[test]
fn a_batchs_delays_come_before_its_first_operation() {
    let run: Vec<_> = [10, 20, 30, 40, 50].map(|ns| operation(ns, &[compute(1)])).to_vec();
    let batched = Levers { batch: 3, ..Levers::default() }.apply(&activity(&[&run]), &device()).unwrap();
    assert_eq!(delays_of(&batched, 0), [(60, 50), (0, 30), (0, 0), (90, 50), (0, 0)]);
}

#[test]
fn the_devices_storage_replaces_recorded_times() {
    let run = activity(&[&[operation(0, &[io(1, IoKind::Read), io(2, IoKind::Write), io(3, IoKind::Sync)])]]);
    let levers = Levers { device_storage: true, ..Levers::default() };
    let mut device = device();
    let error = levers.apply(&run, &device).unwrap_err();
    assert!(error.cure().is_some_and(|c| c.contains("storage.times")));
    device.storage.times = Some(StorageTimes { read_ns: 100, write_ns: 200, sync_ns: 300 });
    let replaced = levers.apply(&run, &device).unwrap();
    let expected = [io(100, IoKind::Read), io(200, IoKind::Write), io(300, IoKind::Sync)];
    assert_eq!(replaced.threads[0].operations[0].segments, expected);
}

#[test]
fn values_out_of_range_are_refused_with_a_cure() {
    let run = activity(&[&[operation(0, &[compute(1)])]]);
    let wrong = [
        Levers { batch: 0, ..Levers::default() },
        Levers { cycles_scale: 0.0, ..Levers::default() },
        Levers { cycles_scale: f64::NAN, ..Levers::default() },
        Levers { cycles_scale: 1e300, ..Levers::default() },
        Levers { memory_share: Some(1.1), ..Levers::default() },
        Levers { cluster: Some("big".into()), ..Levers::default() },
    ];
    for levers in wrong {
        let error = levers.apply(&run, &device()).unwrap_err();
        assert!(error.cure().is_some(), "{levers:?}: {}", error.chain());
    }
    for cores in [0, 3] {
        let levers = Levers { cores: Some(cores), ..Levers::default() };
        let error = levers.cores_of(&device().clusters[0]).unwrap_err();
        assert!(error.cure().is_some_and(|c| c == "cores must be from 1 to 2"));
    }
}
