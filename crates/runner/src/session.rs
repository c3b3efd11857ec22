//! The measured part of a cell whose workload is a program's work on many files.

use crate::cell::record;
use crate::settings::guarded_settings;
use crate::{read_ahead, volume};
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Outcome;
use pocketstone_core::plan::{FILES_FOLDER, Plan, Population, Workload};
use pocketstone_core::{Error, Result};
use pocketstone_engine::{PosixDirectory, Session};
use pocketstone_probe::Settings;
use pocketstone_workload::{Operation, file_name, population_files};
use std::fs;
use std::path::Path;

/// Measures a cell; the logs go to `folder`.
///
/// # Errors
/// When any part of it fails; nothing is measured in part.
pub fn measure(plan: &Plan, folder: &Path) -> Result<Outcome> {
    let (population, created, request_bytes) = match &plan.workload {
        Workload::Postmark(spec) => {
            spec.check()?;
            (spec.population(plan.seed), spec.transactions, spec.request_bytes)
        }
        Workload::AppStart(spec) => {
            spec.check()?;
            (spec.population(plan.seed), 0, spec.request_bytes)
        }
        _ => return Err(Error::bug("a plan for many files has none")),
    };
    let place = volume::folder(&plan.volume)?.join(FILES_FOLDER);
    let operations: Vec<Operation> = pocketstone_workload::operations(&plan.workload, plan.seed).collect();
    let mut unavailable = Vec::new();
    let thrown_away = plan.volume.file_system.of_board();
    let mut settings = match plan.read_ahead.is_none() || thrown_away {
        true => Settings::unguarded(),
        false => guarded_settings()?,
    };
    let in_force = read_ahead::set(plan, &place, &mut settings, &mut unavailable)?;
    let there = population_files(&population).into_iter().map(|file| file.name);
    // New files have the numbers behind those that are there, as many as there can be.
    let new = (population.files..population.files + created).map(|number| file_name(number as u32));
    let directory = PosixDirectory::open(&place)?;
    let mut engine = Session::new(directory, there.chain(new), request_bytes, population.data, plan.seed)?;
    chill(plan, &population, &place)?;
    let recorded = record(plan, &mut engine, &operations, folder, &mut unavailable)?;
    Ok(recorded.outcome(in_force, unavailable))
}

/// Empties the caches of pages, names and inodes on a board that is ours, and the files' part of the page cache
/// elsewhere.
fn chill(plan: &Plan, population: &Population, place: &Path) -> Result<()> {
    if plan.volume.file_system.of_board() {
        return fs::write("/proc/sys/vm/drop_caches", "3").board(|| "cannot drop the kernel's caches".into());
    }
    population_files(population).iter().try_for_each(|file| pocketstone_engine::evict(&place.join(&file.name)))
}
