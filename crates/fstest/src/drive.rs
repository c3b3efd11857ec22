//! Drives a volume and its model, from a fuzzer's bytes or from a seed; and a directory of this machine and the model.

use crate::decode::{Decoder, Word};
use crate::host::Host;
use crate::model::Model;
use crate::op::Op;
use crate::tree::differences;
use pocketstone_random::Random;
use std::cell::Cell;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// A volume and its model, side by side.
pub trait Pair: Sized {
    /// Executes an operation on both.
    ///
    /// # Errors
    /// A `String` that says how the answers differ.
    fn step(&mut self, op: &Op) -> Result<(), String>;

    /// Looks at everything that there is.
    ///
    /// # Errors
    /// A `String` with the differences, or with what cannot be read.
    fn compare(&mut self) -> Result<(), String>;

    /// Leaves the volume in one of the ways that there are, opens it again and compares.
    ///
    /// # Errors
    /// A `String` with what fails, or with the differences.
    fn restart(self, way: u8) -> Result<Self, String>;

    /// Compares, closes the volume, and checks it.
    ///
    /// # Errors
    /// A `String` with what fails, or with the differences.
    fn finish(self) -> Result<(), String>;
}

/// Operations out of bytes, eight each; what is left over is no operation. Words that begin with 252 and more are
/// restarts.
///
/// # Panics
/// Where volume and model differ.
pub fn fuzz<P: Pair>(bytes: &[u8], decoder: &Decoder, make: impl FnOnce() -> P) {
    let mut pair = make();
    for word in words(bytes) {
        if word[0] >= 252 {
            pair = pair.restart(word[1]).unwrap_or_else(|what| panic!("{what}"));
        } else {
            pair.step(&decoder.decode(word)).unwrap_or_else(|what| panic!("{what}"));
        }
    }
    pair.finish().unwrap_or_else(|what| panic!("{what}"));
}

fn words(bytes: &[u8]) -> impl Iterator<Item = Word> {
    bytes.chunks_exact(8).map(|word| word.try_into().expect("chunks of 8 bytes"))
}

/// Operations out of bytes, and then random ones.
pub fn then_random<'a>(bytes: &'a [u8], decoder: &'a Decoder) -> impl Fn(&mut Random) -> Op + 'a {
    let at = Cell::new(0);
    move |random| match words(bytes).nth(at.replace(at.get() + 1)) {
        Some(word) => decoder.decode(word),
        None => decoder.random(random),
    }
}

/// A short sequence, compared after each operation.
///
/// # Errors
/// A `String` with the operations so far, and what fails or how volume and model differ.
pub fn short<P: Pair>(words: &[Word], decoder: &Decoder, mut pair: P) -> Result<(), String> {
    let mut done = Vec::new();
    for word in words {
        let op = decoder.decode(*word);
        let result = pair.step(&op).and_then(|()| pair.compare());
        done.push(op);
        result.map_err(|what| format!("{done:#?}: {what}"))?;
    }
    pair.finish().map_err(|what| format!("{done:#?}: {what}"))
}

/// A long random run.
#[derive(Debug, Clone, Copy)]
pub struct Long {
    /// Of the run.
    pub seed: u64,
    /// How many operations.
    pub steps: u64,
    /// Everything is compared every so many steps.
    pub compare_every: u64,
    /// A restart before one in so many steps.
    pub restart_one_in: u64,
}

impl Long {
    /// Runs, and gives the pair back, to be finished.
    ///
    /// # Panics
    /// Where volume and model differ.
    pub fn run<P: Pair>(&self, what: &str, decoder: &Decoder, mut pair: P) -> P {
        let Long { seed, steps, compare_every, restart_one_in } = *self;
        let mut random = Random::labelled(seed, "model");
        for step in 0..steps {
            let fail = |why: String| -> ! { panic!("{what}, seed {seed}, step {step}: {why}") };
            if random.below(restart_one_in) == 0 {
                let way = random.below(256) as u8;
                pair = pair.restart(way).unwrap_or_else(|why| fail(format!("restart: {why}")));
            }
            let op = decoder.random(&mut random);
            pair.step(&op).unwrap_or_else(|why| fail(why));
            if step % compare_every == 0 {
                pair.compare().unwrap_or_else(|why| fail(format!("after {op:?}: {why}")));
            }
        }
        pair
    }
}

/// Random operations by the kernel in a directory; how many were compared, and how many left out, since something here
/// cannot do them.
///
/// # Panics
/// Where the kernel and the model differ.
pub fn by_kernel(base: &Path, model: &mut Model, decoder: &Decoder, seed: u64, steps: u64) -> (u64, u64) {
    // A file of another owner than root could not be read whatever its permissions.
    let is_root = base.metadata().is_ok_and(|meta| meta.uid() == 0);
    let (mut host, mut random) = (Host::new(base), Random::labelled(seed, "host"));
    let (mut compared, mut left_out) = (0, 0);
    for step in 0..steps {
        let mut op = decoder.random(&mut random);
        if let (Op::Create(_, _, permissions, _), false) = (&mut op, is_root) {
            *permissions |= 0o600;
        }
        let Some(got) = host.apply(&op) else {
            left_out += 1;
            continue;
        };
        let want = model.apply(&op);
        assert_eq!(got, want, "seed {seed}, step {step}: {op:?}: the kernel on the left, the model on the right");
        compared += 1;
        if step % 50 == 0 {
            let lines = differences(&host.tree().expect("the directory can be read"), &model.tree());
            assert!(lines.is_empty(), "seed {seed}, step {step}, after {op:?}:\n{}", lines.join("\n"));
        }
    }
    (compared, left_out)
}
