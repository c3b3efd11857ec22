//! All that models give of a run, up to date with it.

use super::read_ahead;
use super::replay::{self, Devices, fact, flash, validation};
use crate::results::store::Store;
use crate::specification::study::Study;
use pocketstone_core::Result;
use std::path::Path;

/// Updates the results' replays and modelled energies for the study, the cells and the profiles, and the validations
/// and the replays of published logs if `tables` is the folder of those.
///
/// `tell` hears how many of how many replays are done, and may end it with an error.
///
/// # Errors
/// `ErrorKind::User` for an invalid SQL condition in the study, or if the results cannot be read or written. What one
/// cell or device cannot provide is skipped and reported with the reason.
pub fn refresh(
    store: &mut Store,
    study: &Study,
    devices: &Devices,
    tables: Option<&Path>,
    tell: &mut dyn FnMut(usize, usize) -> Result<()>,
) -> Result<()> {
    for (name, device) in devices {
        store.set_facts([(fact(name).as_str(), device.text.as_str())])?;
    }
    validation::refresh(store, study, devices, tables)?;
    read_ahead::refresh(store, study)?;
    if flash::refresh(store, study, devices)? {
        store.summarize(study)?;
    }
    replay::refresh(store, study, devices, tables, tell)
}
