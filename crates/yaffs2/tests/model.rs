//! Random operations on a volume and on a plain model: answers and trees are equal.

mod support;

use pocketstone_core::random::Random;
use support::op::Decoder;
use support::run::{Restart, Run};
use support::shape::Shape;
use support::{amount, say, seed};

fn run(shape: &Shape, seed: u64, operations: u64) -> u64 {
    let mut run = Run::new(shape, seed);
    let (decoder, mut random) = (Decoder::new(shape), Random::labelled(seed, "model"));
    let fail =
        |number: u64, what: String| -> ! { panic!("seed {seed}, operation {number}, {}: {what}", shape.describe()) };
    for number in 0..operations {
        if random.below(100) == 0 {
            let how = [Restart::Unmount, Restart::Scan, Restart::Drop][random.below(3) as usize];
            run = run.restart(how).unwrap_or_else(|what| fail(number, what));
        }
        let op = decoder.random(&mut random);
        run.step(&op).unwrap_or_else(|what| fail(number, what));
        if number % 16 == 0 {
            run.compare().unwrap_or_else(|what| fail(number, format!("after {op:?}: {what}")));
        }
    }
    let refused = run.refused;
    run.restart(Restart::Unmount).unwrap_or_else(|what| fail(operations, what));
    refused
}

#[test]
fn volume_and_model_agree() {
    let first = seed(1);
    for (number, shape) in Shape::all().iter().enumerate() {
        let refused: u64 = (first..first + amount(10, 1000)).map(|seed| run(shape, seed, 3000)).sum();
        say(&format!("shape {number}: {refused} operations found no space"));
    }
}
