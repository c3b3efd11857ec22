//! The generic cases of xfstests, written anew from what each is about, on a mount of SCMFS and, to show that the
//! case is right, on ext4. `tests/suites/xfstests.toml` has all numbers, and why some do not run.
//!
//! Needs root and FUSE, and loop devices for ext4. `GENERIC=28,35` runs these numbers alone.

// A case may end with the last thing that it asserts.
#![allow(clippy::unit_arg)]

mod attributes;
mod content;
mod copies;
mod crash;
mod crash_names;
mod ground;
mod groups;
mod heavy;
mod holes;
mod listing;
mod locks;
mod mapped;
mod model;
mod mounts;
mod names;
mod queue;
mod queued;
mod rename;
mod rights;
mod space;
mod system;
mod table;
mod times;

use groups::{Group, run};
use pocketstone_tests::suites::tell;
use std::collections::{BTreeMap, BTreeSet};
use table::{Outcome, Status};

/// What runs in `make test`.
const QUICK: &[Group] = &[
    Group::of("names", names::CASES),
    Group::of("rename", rename::CASES),
    Group::of("listing", listing::CASES),
    Group::of("rights", rights::CASES),
    Group::of("times", times::CASES),
    Group::of("attributes", attributes::CASES),
    Group::of("holes", holes::CASES),
    Group::of("content", content::CASES),
    Group::of("mapped", mapped::CASES),
    Group::of("locks", locks::CASES),
    Group::of("copies", copies::CASES),
    Group::of("queued", queued::CASES),
    Group::of("mounts", mounts::CASES),
    Group::of("model", model::CASES),
    Group::small("space", space::CASES),
    Group::crash("crash", crash::DATA),
    Group::crash("crash-names", crash_names::CASES),
];

/// What runs in `make torture`.
const HEAVY: &[Group] = &[Group::of("heavy", heavy::CASES), Group::small("heavy-space", heavy::SPACE)];

fn numbers(groups: &[Group]) -> Vec<u32> {
    groups.iter().flat_map(Group::numbers).collect()
}

fn judge(groups: &'static [Group]) {
    let table = table::shipped();
    let chosen: Option<BTreeSet<u32>> =
        std::env::var("GENERIC").ok().map(|list| list.split(',').filter_map(|word| word.parse().ok()).collect());
    let wanted = |number: u32| chosen.as_ref().is_none_or(|chosen| chosen.contains(&number));
    let no_reference: BTreeSet<u32> =
        table.iter().filter(|(_, line)| line.no_reference.is_some()).map(|(number, _)| *number).collect();
    // A group is a thread with mounts of its own; two of them keep a small machine busy.
    let next = std::sync::Mutex::new(groups.iter());
    let outcomes = std::sync::Mutex::new(BTreeMap::<u32, Outcome>::new());
    let faults = std::sync::Mutex::new(Vec::new());
    let at_once = std::thread::available_parallelism().map_or(2, usize::from).clamp(2, 4);
    std::thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(group) = { next.lock().expect("the lock").next() } {
                    // Mounts belong to a thread, so every group has a new one.
                    let ran = std::thread::scope(|scope| scope.spawn(|| run(group, &wanted, &no_reference)).join());
                    match ran {
                        Ok((ran, wrong)) => {
                            outcomes.lock().expect("the lock").extend(ran);
                            faults.lock().expect("the lock").extend(wrong);
                        }
                        Err(_) => faults.lock().expect("the lock").push(format!("the group {} panicked", group.name)),
                    }
                }
            });
        }
    });
    let outcomes = outcomes.into_inner().expect("the lock");
    let mut faults = faults.into_inner().expect("the lock");
    faults.extend(outcomes.iter().filter_map(|(number, ran)| table::wrong(*number, table.get(number), ran)));
    let all = std::env::var_os("GENERIC_TABLE").is_some();
    tell(&table::report(&table, &outcomes, all));
    assert!(faults.is_empty(), "{} faults:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn generic_cases() {
    judge(QUICK);
}

#[test]
#[ignore = "takes minutes: make torture"]
fn generic_cases_that_take_long() {
    judge(HEAVY);
}

#[test]
fn the_table_and_the_cases_agree() {
    let table = table::shipped();
    let mut written = numbers(QUICK);
    written.extend(numbers(HEAVY));
    let distinct: BTreeSet<u32> = written.iter().copied().collect();
    let twice: Vec<_> = distinct.iter().filter(|n| written.iter().filter(|m| m == n).count() > 1).collect();
    assert!(twice.is_empty(), "written twice: {twice:?}");
    let runs = |line: &table::Line| !matches!(line.status, Status::NotApplicable(_));
    let to_run: BTreeSet<u32> = table.iter().filter(|(_, line)| runs(line)).map(|(number, _)| *number).collect();
    assert_eq!(to_run, distinct, "the numbers that run, in the table and in the sources");
    assert!(numbers(QUICK).len() >= 150, "only {} run", numbers(QUICK).len());
}

#[test]
fn a_table_is_judged() {
    use ground::Fault;
    let text = "cases = [{ number = 1, title = \"a\", status = \"run\" },\n\
        { number = 2, title = \"b\", status = \"fails\", reason = \"c\" }]";
    let table = table::parse(text).expect("a table");
    let judged = |number: u32, ok: bool| {
        let scmfs = Some(if ok { Ok(()) } else { Err(Fault::Failed("why".into())) });
        table::wrong(number, table.get(&number), &Outcome { scmfs, ..Outcome::default() })
    };
    assert_eq!((judged(1, true), judged(2, false)), (None, None));
    assert_eq!(judged(1, false).as_deref(), Some("1 fails: why"));
    assert_eq!(judged(2, true).as_deref(), Some("2 passes: take it off the table's failures"));
    assert_eq!(judged(3, true).as_deref(), Some("3 is not in the table"));
    let wrong = Outcome { scmfs: Some(Ok(())), reference: Some(Err(Fault::Failed("why".into()))), took_ms: 0 };
    assert!(table::wrong(1, table.get(&1), &wrong).is_some());
    assert!(table::parse("cases = [{ number = 1, title = \"a\", status = \"fails\" }]").is_err());
}
