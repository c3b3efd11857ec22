//! Random operations on a volume and on the model: the same answers, the same trees.

use crate::support::run::Run;
use crate::support::shape::Shape;
use crate::support::{amount, say, seed};
use pocketstone_fstest::drive::{Long, short};
use pocketstone_fstest::{Pair, Word};
use proptest::collection::vec;
use proptest::prelude::*;

fn long_run(shape: &Shape, seed: u64, steps: u64) -> u64 {
    let long = Long { seed, steps, compare_every: 16, restart_one_in: 100 };
    let run = long.run(&shape.describe(), &shape.decoder(), Run::new(shape, seed));
    let refused = run.refused;
    run.finish().unwrap_or_else(|what| panic!("seed {seed}, at the end: {what}"));
    refused
}

#[test]
fn volume_and_model_agree() {
    let first = seed(1);
    for (number, shape) in Shape::all().iter().enumerate() {
        let refused: u64 = (first..first + amount(6, 1000)).map(|seed| long_run(shape, seed, 3000)).sum();
        say(&format!("shape {number}: {refused} operations found no space"));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: amount(100, 5_000) as u32,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn short_sequences(words in vec(any::<Word>(), 1..60), tight in any::<bool>()) {
        let shape = if tight { Shape::new(16, 8, 528) } else { Shape::new(64, 16, 2048) };
        let result = short(&words, &shape.decoder(), Run::new(&shape, 1));
        prop_assert!(result.is_ok(), "{}", result.unwrap_err());
    }
}
