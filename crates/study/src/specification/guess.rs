//! What a cell takes where nothing like it was measured: the same on every machine.

use crate::specification::cell::Cell;
use pocketstone_core::database::{DatabaseSpec, Delay};

/// A cell's time in milliseconds, guessed: a second, and its pauses.
pub fn guess_ms(cell: &Cell) -> f64 {
    1000.0 + pauses_ms(cell)
}

/// Time in which a cell does nothing but wait, in milliseconds: its pauses, on a board whose time is this machine's.
/// What a command waits for, nobody knows.
fn pauses_ms(cell: &Cell) -> f64 {
    let workload = &cell.plan.workload;
    let on_files = workload.on_files().map(|workload| workload.pauses_ns());
    on_files.or_else(|| workload.database().map(database_pauses_ns)).unwrap_or(0) as f64 / 1e6
}

fn database_pauses_ns(spec: &DatabaseSpec) -> u64 {
    let mean = match spec.recipe.delay {
        Some(Delay::Fixed { ns }) => ns,
        Some(Delay::Lognormal { mean_ns, .. }) => mean_ns,
        // round(ln i) ms: from 0 to 8 over the 1800 operations of a published file.
        Some(Delay::PublishedLog) => 6_000_000,
        Some(Delay::None) | None => 0,
    };
    spec.recipe.operations.saturating_mul(mean)
}
