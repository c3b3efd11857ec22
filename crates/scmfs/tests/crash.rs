//! A crash at any moment of any operation, and in the recovery from it, leaves the state before or after.

mod support;

use pocketstone_core::random::Random;
use support::decode::Decoder;
use support::explore::{Case, Effort, Start, explore_all};
use support::{amount, say, seed, starts};

const EFFORT: Effort = Effort { lines: 2, states_per_fence: 40, recrash_every: 40 };

fn expect_no_failure(what: &str, cases: &[Case<'_>], effort: &Effort) {
    let (count, failures) = explore_all(cases, effort, &|| {});
    say(&format!("{what}: {count:?}"));
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    // Otherwise nothing was tested: each operation has at least the states before and after it.
    assert!(count.states.into_inner() >= 2 * cases.len() as u64, "hardly any crash states");
}

#[test]
fn every_operation_once() {
    let starts = starts::all();
    let mut cases = Vec::new();
    for start in &starts {
        for (i, op) in starts::alphabet(start).into_iter().enumerate() {
            cases.push(Case { start, ops: vec![op], close: i % 8 == 0, seed: i as u64 });
        }
    }
    expect_no_failure("one operation", &cases, &EFFORT);
}

fn random_cases(starts: &[Start], seed: u64, number: u64, operations: usize) -> Vec<Case<'_>> {
    let mut random = Random::labelled(seed, "crash");
    (0..number)
        .map(|i| {
            let start = &starts[random.below(starts.len() as u64) as usize];
            let decoder = Decoder::new(&start.shape);
            // Operations that fail write nothing, so they are replaced.
            let (mut model, mut ops) = (start.model.clone(), Vec::new());
            start.prelude.iter().for_each(|op| drop(model.apply(op)));
            while ops.len() < operations {
                let op = decoder.random(&mut random);
                let mut after = model.clone();
                after.apply(&op);
                if after.tree() != model.tree() {
                    model = after;
                    ops.push(op);
                }
            }
            Case { start, ops, close: i % 8 == 0, seed: seed.wrapping_add(i) }
        })
        .collect()
}

#[test]
fn two_operations_in_a_row() {
    let (starts, seed) = (starts::all(), seed(1));
    let cases = random_cases(&starts, seed, amount(300, 10_000), 2);
    expect_no_failure(&format!("two operations, seed {seed}"), &cases, &EFFORT);
}

#[test]
#[ignore = "long: 10,000 sequences of two and 2,000 of six operations, looked at more closely"]
fn torture_sequences() {
    let (starts, seed) = (starts::all(), seed(2));
    let effort = Effort { lines: 3, states_per_fence: 200, recrash_every: 10 };
    let cases = random_cases(&starts, seed, 10_000, 2);
    expect_no_failure(&format!("two operations, seed {seed}"), &cases, &effort);
    let cases = random_cases(&starts, seed, 2_000, 6);
    expect_no_failure(&format!("six operations, seed {seed}"), &cases, &effort);
}
