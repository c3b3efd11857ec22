//! The numbers of what stands beside a run: a model of its accesses, cuts of the power.

use pocketstone_board::Measured;
use pocketstone_core::chip::{Cut, Verdict};
use pocketstone_core::faults::{FaultCounts, Worn};
use pocketstone_core::median::median;
use pocketstone_workload::metrics::Values;

/// Misses of the modelled data TLB from the first call's start to the last one's end. Of a traced twin, whose tracing
/// has accesses of its own, only what its events tell: those of the program's threads.
pub(super) fn of_tlb(traced: bool, measured: &Measured) -> Values {
    let Some(tlb) = &measured.tlb else { return Values::new() };
    let run = tlb.run;
    // Where the events are not the switches of the machine, only what all did is known.
    let own = measured.events.as_ref().zip(measured.outcome.process()).and_then(|(events, process)| {
        let (own, _) = tlb.by_thread(process.threads, events).ok()?;
        Some(own.iter().map(|counts| counts.walks as f64).sum())
    });
    if traced {
        return vec![("tlb_own_walks", own)];
    }
    vec![
        ("tlb_accesses", Some(run.accesses as f64)),
        ("tlb_first_level_misses", Some(run.first_level_misses as f64)),
        ("tlb_walks", Some(run.walks as f64)),
        ("tlb_own_walks", own),
        ("tlb_walk_loads", Some(run.walk_loads as f64)),
    ]
}

/// What cuts of the power left, over all cuts of a cell.
pub(super) fn of_cuts(cuts: &[Cut]) -> Values {
    if cuts.is_empty() {
        return Values::new();
    }
    let count = |of: &dyn Fn(&Cut) -> bool| Some(cuts.iter().filter(|cut| of(cut)).count() as f64);
    let sum = |of: &dyn Fn(&Cut) -> u64| Some(cuts.iter().map(of).sum::<u64>() as f64);
    let mounted = |cut: &&Cut| cut.found.refused.is_none();
    let mounts: Vec<f64> = cuts.iter().filter(mounted).map(|cut| cut.found.mount_ns as f64).collect();
    vec![
        ("power_cuts", Some(cuts.len() as f64)),
        ("refused_mounts", count(&|cut| cut.found.refused.is_some())),
        ("read_only_mounts", count(&|cut| cut.found.unwritable.is_some())),
        ("cuts_with_broken_promises", count(&Cut::broke_a_promise)),
        ("promises", sum(&|cut| cut.promised)),
        ("lost_promises", sum(&|cut| cut.verdict.lost_promises)),
        ("lost_unpromised", sum(&|cut| cut.verdict.lost_unpromised)),
        ("mixed_contents", sum(&|cut| cut.verdict.mixed)),
        ("damaged_contents", sum(&|cut| cut.verdict.damaged)),
        ("remount_median_ns", median(mounts)),
    ]
}

/// What a chip with faults did to a run and to what it left: both are read from it.
pub(super) fn of_worn(worn: &Worn) -> Values {
    let sum = |of: fn(&FaultCounts) -> u64| Some((of(&worn.run) + of(&worn.look)) as f64);
    let once = |whether: bool| Some(f64::from(u8::from(whether)));
    let wrong =
        |verdict: &Verdict| (verdict.lost_promises + verdict.lost_unpromised + verdict.mixed + verdict.damaged) as f64;
    vec![
        ("flipped_bits", sum(|counts| counts.flipped_bits)),
        ("unread_pages", sum(|counts| counts.unread_pages)),
        ("unprogrammed_pages", sum(|counts| counts.unprogrammed_pages)),
        ("unerased_blocks", sum(|counts| counts.unerased_blocks)),
        ("corrected_bits", sum(|counts| counts.corrected_bits)),
        ("failed_corrections", sum(|counts| counts.failed_corrections)),
        ("grown_bad_blocks", sum(|counts| counts.bad_blocks)),
        ("worn_refused_mounts", once(worn.found.refused.is_some())),
        ("worn_read_only_mounts", once(worn.found.unwritable.is_some())),
        ("worn_wrong_contents", worn.verdict.as_ref().map(wrong)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::chip::Found;
    use pocketstone_core::outcome::Failure;

    #[test]
    fn cuts_are_counted_and_what_they_lost_is_summed() {
        let cut = |mount_ns, refused: bool, lost_promises, damaged| {
            let refused = refused.then(|| Failure { message: "no".into(), hint: None });
            Cut {
                change: 1,
                time_ns: 0,
                kind: "program".into(),
                left: "part".into(),
                returned: 9,
                promised: 5,
                found: Found { mount_ns, refused, unwritable: None, database: None },
                verdict: Verdict { lost_promises, lost_unpromised: 1, mixed: 2, damaged, first: None },
            }
        };
        assert!(of_cuts(&[]).is_empty());
        let found = of_cuts(&[cut(10, false, 0, 0), cut(99, true, 5, 1), cut(30, false, 2, 0), cut(20, false, 0, 0)]);
        let of = |name: &str| found.iter().find(|(n, _)| *n == name).and_then(|(_, value)| *value);
        assert_eq!((of("power_cuts"), of("refused_mounts"), of("read_only_mounts")), (Some(4.0), Some(1.0), Some(0.0)));
        assert_eq!((of("cuts_with_broken_promises"), of("promises")), (Some(2.0), Some(20.0)));
        assert_eq!((of("lost_promises"), of("lost_unpromised")), (Some(7.0), Some(4.0)));
        assert_eq!((of("mixed_contents"), of("damaged_contents")), (Some(8.0), Some(1.0)));
        assert_eq!(of("remount_median_ns"), Some(20.0), "of those that were mounted");
    }
}
