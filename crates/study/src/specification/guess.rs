//! What a cell takes where nothing like it was measured: the same on every machine.

use crate::specification::cell::Cell;
use pocketstone_core::database::Delay;
use pocketstone_workload::Workload;

/// A cell's time in milliseconds, guessed: a second, and its pauses.
pub fn guess_ms(cell: &Cell) -> f64 {
    1000.0 + pauses_ms(cell)
}

/// Time in which a cell does nothing but wait, in milliseconds: its pauses, on a board whose time is this machine's.
fn pauses_ms(cell: &Cell) -> f64 {
    let ns = match &cell.plan.workload {
        Workload::Read(spec) => spec.requests.saturating_mul(spec.inter_arrival_ns),
        Workload::Files(spec) => spec.requests.saturating_mul(spec.inter_arrival_ns),
        Workload::Database(spec) => {
            let mean = match spec.recipe.delay {
                Some(Delay::Fixed { ns }) => ns,
                Some(Delay::Lognormal { mean_ns, .. }) => mean_ns,
                // round(ln i) ms: from 0 to 8 over the 1800 operations of a published file.
                Some(Delay::PublishedLog) => 6_000_000,
                Some(Delay::None) | None => 0,
            };
            spec.recipe.operations.saturating_mul(mean)
        }
        _ => 0,
    };
    ns as f64 / 1e6
}
