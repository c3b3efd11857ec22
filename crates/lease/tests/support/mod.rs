//! What the models' tests share: a model holds, or a fault breaks it.

mod explore;
mod programs;

use crate::model::{FEWEST_STATES, Fault, Invariant, Model};
pub use explore::{Explored, explore};
pub use programs::{Programs, settled};

/// The first process, as a bit.
pub const FIRST: u8 = 1;

/// Whatever happens, all holds.
#[track_caller]
pub fn holds(model: &Model) {
    let Explored { states, broken } = explore(model);
    assert!(states > FEWEST_STATES, "{states} states: nothing happens");
    assert!(broken.is_none(), "after {states} states: {broken:#?}");
}

/// With the fault, this does not hold; without it, all does.
#[track_caller]
pub fn breaks(fault: Fault, invariant: Invariant, model: Model) {
    holds(&model);
    let broken = explore(&Model { fault, ..model }).broken;
    assert_eq!(broken.as_ref().map(|broken| broken.0), Some(invariant), "{fault:?}: {broken:#?}");
}
