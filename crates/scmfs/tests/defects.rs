//! Whether the crash tests can find anything: each seeded defect makes one of them fail.
#![cfg(feature = "defects")]

use crate::support::explore::{Case, Effort, explore_all};
use crate::support::{say, starts};
use pocketstone_scmfs::defects;

/// Defects that the crash tests may miss, of all there are.
const MAY_MISS: usize = 1;

#[test]
fn crash_tests_find_seeded_defects() {
    let starts = starts::all();
    let mut cases = Vec::new();
    for start in &starts {
        for (i, op) in starts::alphabet(start).into_iter().enumerate() {
            cases.push(Case { start, ops: vec![op], close: i % 4 == 0, seed: i as u64 });
        }
    }
    let checked = starts::with_checksums();
    for start in &checked {
        for (i, op) in starts::content_alphabet(start).into_iter().enumerate() {
            cases.push(Case { start, ops: vec![op], close: false, seed: i as u64 });
        }
    }
    // Neighbours in the list are of one kind; a stride over all finds each kind early.
    let stride = 37;
    let mut mixed: Vec<Case<'_>> = Vec::with_capacity(cases.len());
    let mut groups: Vec<Vec<Case<'_>>> = (0..stride).map(|_| Vec::new()).collect();
    cases.into_iter().enumerate().for_each(|(i, case)| groups[i % stride].push(case));
    groups.into_iter().for_each(|group| mixed.extend(group));

    let effort = Effort { lines: 2, states_per_fence: 60, recrash_every: 10 };
    // Without a defect there is nothing to find: else "caught" would mean nothing.
    let (_, failures) = explore_all(&mixed[..mixed.len() / 4], &effort, &|| defects::set(None));
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));

    // A panic of a defective volume counts as found; its message would only hide the table.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut missed = Vec::new();
    for (number, what) in defects::ALL {
        let (count, failures) = explore_all(&mixed, &effort, &|| defects::set(Some(*number)));
        let states = count.states.into_inner();
        let verdict = if failures.is_empty() { "NOT CAUGHT" } else { "caught" };
        say(&format!("{number:>3}  {verdict:<10}  {states:>8} states  {what}"));
        if failures.is_empty() {
            missed.push(what);
        }
    }
    std::panic::set_hook(hook);
    assert!(defects::ALL.len() >= 20, "only {} defects", defects::ALL.len());
    assert!(missed.len() <= MAY_MISS, "not caught: {missed:#?}");
}
