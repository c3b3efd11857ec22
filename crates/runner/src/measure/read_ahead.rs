//! Read-ahead of the volume under test, set for one cell.

use crate::volume;
use pocketstone_core::board::BoardDescription;
use pocketstone_core::outcome::{Quantity, ReadAheadInForce, Unavailable};
use pocketstone_core::{Error, Result};
use pocketstone_probe::Settings;
use pocketstone_probe::read_ahead::Bdi;
use pocketstone_workload::plan::{Plan, ReadAhead, ReadAheadBy};
use std::path::Path;

/// The window that Linux gives a disk by default (VM_READAHEAD_PAGES).
const DISK_WINDOW_BYTES: u64 = 128 * 1024;

/// Sets what the plan asks for, for the volume that `target` is on, and says what is in force. Files opened
/// from then on have it.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be set.
pub fn set(
    plan: &Plan,
    board: &BoardDescription,
    target: &Path,
    settings: &mut Settings,
    unavailable: &mut Vec<Unavailable>,
) -> Result<ReadAheadInForce> {
    let bdi = match volume::bdi(&plan.volume, board) {
        Some(name) => Bdi::named(&name),
        None => Bdi::of(target),
    };
    let mut in_force = ReadAheadInForce {
        bdi: bdi.as_ref().ok().map(|b| b.name().to_owned()),
        default_bytes: bdi.as_ref().ok().and_then(|b| b.bytes().ok()),
        advice: "none".to_owned(),
        ..ReadAheadInForce::default()
    };
    let window = match plan.read_ahead {
        Some(ReadAhead { by: ReadAheadBy::Mount, bytes }) => Some(bytes),
        // Raw NAND has no window by default: without one there is nothing that advice could change.
        Some(ReadAhead { by: ReadAheadBy::File, .. }) if volume::bdi(&plan.volume, board).is_some() => {
            Some(DISK_WINDOW_BYTES)
        }
        _ => None,
    };
    match (window, &bdi) {
        (Some(bytes), Ok(bdi)) => {
            bdi.set_in(settings, bytes)?;
        }
        (Some(_), Err(error)) => return Err(Error::board(error.chain())),
        (None, _) => {}
    }
    in_force.bytes = bdi.as_ref().ok().and_then(|b| b.bytes().ok());
    if let Err(error) = &bdi {
        unavailable.push(Unavailable { what: Quantity::ReadAhead, why: error.chain(), cure: String::new() });
    }
    Ok(in_force)
}
