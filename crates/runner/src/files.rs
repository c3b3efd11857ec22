//! The measured part of a cell with a `files` workload.

use crate::cell::record;
use crate::in_memory::{InMemory, Place};
use crate::volume;
use pocketstone_core::error::Context;
use pocketstone_core::outcome::{Outcome, ReadAheadInForce};
use pocketstone_core::plan::{FILES_FOLDER, FilesSpec, Plan, Population, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_engine::{Directory, Files, PosixDirectory, ScmfsDirectory, populate};
use pocketstone_workload::Operation;
use std::fs;
use std::path::Path;
use std::sync::Arc;

/// Writes the files that a workload starts with into an empty folder, and waits until the board is quiet.
///
/// # Errors
/// When the file system refuses or the board does not come to rest.
pub fn prepare(asked: &Volume, population: &Population) -> Result<()> {
    let folder = volume::folder(asked)?.join(FILES_FOLDER);
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir(&folder).board(|| format!("cannot create {}", folder.display()))?;
    populate(&PosixDirectory::open(&folder)?, population)?;
    // Where files differ in size, programs find them as after the machine's start.
    if population.sizes.is_same() { volume::settle(asked) } else { volume::restart(asked) }
}

/// Measures a cell; the logs go to `folder`.
///
/// # Errors
/// When any part of it fails; nothing is measured in part.
pub fn measure(plan: &Plan, spec: &FilesSpec, folder: &Path) -> Result<Outcome> {
    spec.check()?;
    if !plan.volume.file_system.in_memory() {
        let directory = PosixDirectory::open(&volume::folder(&plan.volume)?.join(FILES_FOLDER))?;
        return run(plan, spec, folder, directory);
    }
    let mut made = InMemory::make(&plan.volume, folder)?;
    let population = spec.population(plan.seed);
    let mut outcome = match made.take_place() {
        Some(Place::Directory(path)) => {
            let directory = PosixDirectory::open(&path)?;
            populate(&directory, &population)?;
            run(plan, spec, folder, directory)
        }
        Some(Place::Volume(volume)) => {
            let volume = Arc::new(volume);
            populate(&ScmfsDirectory::new(volume.clone()), &population)?;
            run(plan, spec, folder, ScmfsDirectory::new(volume))
        }
        None => Err(Error::bug("a file system in memory is taken twice")),
    }?;
    outcome.facts.extend(made.facts());
    Ok(outcome)
}

fn run<D: Directory>(plan: &Plan, spec: &FilesSpec, folder: &Path, directory: D) -> Result<Outcome> {
    let operations: Vec<Operation> = pocketstone_workload::operations(&plan.workload, plan.seed).collect();
    let mut unavailable = Vec::new();
    let mut engine = Files::new(directory, spec, plan.seed)?;
    let recorded = record(plan, &mut engine, &operations, folder, &mut unavailable)?;
    Ok(recorded.outcome(ReadAheadInForce::default(), unavailable))
}
