//! Replays of a run's cells on models of devices: planned, computed, kept beside what was measured.
//!
//! ```text
//! cell (events of its traced twin, else its calls) --> Activity --+
//! longest run of a phone's log ---------------------> Activity --+
//! devices x governors x levers ----------------------------------+--> replay, replay_metric, replay_front
//! calibration: a recorded run of known length on a device -------+        --> replay_statistic
//! ```
//! A replay is known by the SHA-256 of everything that goes into it: the cell's logs, the device's profile, the
//! governor, the levers. What is there already is not computed again; what nothing asks for any more goes.

mod calibration;
pub mod flash;
mod logs;
pub(crate) mod recorded;
pub(crate) mod store;
pub(super) mod validation;
pub(crate) mod work;

use crate::results::left_out::LeftOut;
use crate::results::store::{Store, StoredCell};
use crate::specification::setting::{Lever, Setting};
use crate::specification::study::{Choice, ReplaySpec, Study};
pub(crate) use calibration::{References, compute_cycles, cycles_scale, of_cell};
use pocketstone_core::{Error, Result};
use pocketstone_replay::activity::Activity;
use pocketstone_replay::device::Device;
pub use recorded::ActivitySource;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use toml::Spanned;
pub use validation::REFERENCE;
use work::Job;

/// Version of the models: goes up when the same input gives other numbers, so that kept ones are made again.
const MODELS: u32 = 4;

/// Devices by name.
pub type Devices = BTreeMap<String, Device>;

/// Name of the fact that holds a device's profile.
pub(crate) fn fact(device: &str) -> String {
    format!("device.{device}")
}

/// SHA-256 of a profile's text, in hexadecimal.
pub(crate) fn profile_digest(device: &Device) -> String {
    format!("{:x}", Sha256::digest(&device.text))
}

/// The devices of a study, from the profiles in `folder`, falling back to the results.
///
/// # Errors
/// `ErrorKind::User` for an unknown device or an invalid profile, at the study's line.
pub fn devices(study: &Study, folder: &Path, store: Option<&Store>) -> Result<Devices> {
    let named = study.replays.iter().flat_map(|r| &r.devices).chain(study.flash_energies.iter().map(|f| &f.device));
    let named = named.chain(calibrating(study)).chain(study.validations.iter().map(|v| &v.device));
    loaded(study, named, folder, store)
}

/// The devices whose published times calibrate the study's replays.
pub(crate) fn calibrating(study: &Study) -> impl Iterator<Item = &Spanned<String>> {
    study.replays.iter().flat_map(|r| &r.calibrate).filter_map(|c| c.device.as_ref())
}

/// These devices, as [`devices`] has them.
pub(crate) fn loaded<'a>(
    study: &Study,
    named: impl Iterator<Item = &'a Spanned<String>>,
    folder: &Path,
    store: Option<&Store>,
) -> Result<Devices> {
    let mut found = Devices::new();
    for name in named {
        let kept = store.map(|s| s.fact(&fact(name.get_ref()))).transpose()?.flatten();
        let device = match kept {
            Some(text) if !folder.join(format!("{}.toml", Device::profile_of(name.get_ref()))).exists() => {
                Device::parse(name.get_ref(), &text)
            }
            _ => Device::load(folder, name.get_ref()),
        };
        found.insert(name.get_ref().clone(), device.map_err(|e| study.error_at(name.span(), e))?);
    }
    Ok(found)
}

/// Checks that governors and clusters exist on the devices of their replays.
///
/// # Errors
/// `ErrorKind::User` for the first invalid one, at its line.
pub fn check(study: &Study, devices: &Devices) -> Result<()> {
    for validation in &study.validations {
        let device = &devices[validation.device.get_ref()];
        let governor = validation.governor.get_ref().build(device, device.cluster(None)?);
        governor.map_err(|e| study.error_at(validation.governor.span(), e))?;
    }
    for replay in &study.replays {
        for name in &replay.devices {
            let device = &devices[name.get_ref()];
            for setting in &replay.settings {
                let cluster = cluster(device, setting).map_err(|e| study.error_at(name.span(), e))?;
                for governor in &replay.governors {
                    let Choice::Governor(spec) = governor.get_ref() else { continue };
                    spec.build(device, cluster).map_err(|e| study.error_at(governor.span(), e))?;
                }
            }
        }
    }
    Ok(())
}

/// The cluster that a setting means.
pub(crate) fn cluster<'a>(device: &'a Device, setting: &Setting) -> Result<&'a pocketstone_replay::device::Cluster> {
    device.cluster(setting.chosen(Lever::Cluster))
}

/// Brings the results' replays up to date with the study, the cells and the profiles.
///
/// `tables` is the folder of published tables, in which logs are sought that the study's folder does not have. `tell`
/// hears how many of how many replays are done, and may end it with an error.
///
/// # Errors
/// `ErrorKind::User` for an invalid SQL condition in the study, or if the results cannot be read or written.
pub(super) fn refresh(
    store: &mut Store,
    study: &Study,
    devices: &Devices,
    tables: Option<&Path>,
    tell: &mut dyn FnMut(usize, usize) -> Result<()>,
) -> Result<()> {
    let mut inputs = Inputs::of(store::inputs(store)?);
    let mut jobs: BTreeMap<i64, Vec<Job>> = BTreeMap::new();
    let mut of_logs: Vec<(String, Vec<Job>)> = Vec::new();
    let beside = store.fact("study.folder")?;
    let folders: Vec<&Path> = beside.iter().map(Path::new).chain(tables).collect();
    for replay in &study.replays {
        let on: Vec<&Device> = replay.devices.iter().map(|name| &devices[name.get_ref()]).collect();
        of_logs.extend(logs::plan_all(store, replay, &on, &folders, &mut inputs)?);
        let mut references = References::of(store, study, replay, devices)?;
        for cell in cells(store, study, replay)? {
            for device in &on {
                let planned = plan(store, replay, &cell, device, &mut references, &mut inputs)?;
                if !planned.is_empty() {
                    jobs.entry(cell.id).or_default().extend(planned);
                }
            }
        }
    }
    let of_cells = jobs.into_iter().map(|(cell, jobs)| (format!("cell {cell}"), jobs));
    let jobs: Vec<(String, Vec<Job>)> = of_cells.chain(of_logs).collect();
    let total = jobs.iter().flat_map(|(_, jobs)| jobs).map(|j| j.governors.len()).sum();
    let mut done = 0;
    let mut rows = Vec::new();
    for (run, jobs) in jobs {
        tell(done, total)?;
        done += jobs.iter().map(|j| j.governors.len()).sum::<usize>();
        for (job, result) in jobs.iter().zip(work::on_all_cores(&jobs)) {
            match result {
                Ok(made) => rows.extend(made),
                Err(error) => store.leave_out(&LeftOut::new(
                    format!("replays `{}` on {} ({run})", job.name, job.device.name),
                    &error,
                ))?,
            }
        }
    }
    if !rows.is_empty() || inputs.had != inputs.wanted {
        store::put(store, &rows, &inputs.wanted)?;
    }
    tell(done, total)
}

/// The cells that are replayed: of each point the traced twins that have events, where there are any, else the
/// plain cells; what is held against each other is of one kind.
pub(crate) fn cells(store: &Store, study: &Study, replay: &ReplaySpec) -> Result<Vec<StoredCell>> {
    let only = replay.only.as_ref().map_or("1", |only| only.get_ref().as_str());
    let sql = format!("SELECT id FROM cells WHERE experiment = ?1 AND status = 'done' AND ({only})");
    let found: Vec<i64> =
        store.asked(only, &sql, [&replay.experiment], |r| r.get(0)).map_err(|e| match &replay.only {
            Some(only) => study.error_at(only.span(), Error::user("invalid condition on cells").because(e)),
            None => e,
        })?;
    let found: BTreeSet<i64> = found.into_iter().collect();
    replayable(store, |c| found.contains(&c.id))
}

/// Of the cells that `fits`, those that replays take.
pub(crate) fn replayable(store: &Store, fits: impl Fn(&StoredCell) -> bool) -> Result<Vec<StoredCell>> {
    let with_events: BTreeSet<i64> = store.rows("SELECT cell FROM event_log", [], |r| r.get(0))?.into_iter().collect();
    let all: Vec<StoredCell> = store.cells()?.into_iter().filter(fits).collect();
    let traced = |c: &StoredCell| c.traced && with_events.contains(&c.id);
    let has_twins = |point: &crate::specification::factor::Point| all.iter().any(|c| c.point == *point && traced(c));
    Ok(all.iter().filter(|c| if has_twins(&c.point) { traced(c) } else { !c.traced }).cloned().collect())
}

/// What replays are known by: those that the results have, and those that the study asks for.
struct Inputs {
    had: BTreeSet<String>,
    wanted: BTreeSet<String>,
    /// The device that has asked first, by the replay and the device's profile.
    first: BTreeMap<(String, String), String>,
}

impl Inputs {
    fn of(had: BTreeSet<String>) -> Inputs {
        Inputs { had, wanted: BTreeSet::new(), first: BTreeMap::new() }
    }

    /// What a device is known by: its profile, and its name where another one of the replay's has the same.
    fn device(&mut self, replay: &ReplaySpec, device: &Device, profile: &str) -> String {
        let first = self.first.entry((replay.name.clone(), profile.to_owned())).or_insert_with(|| device.name.clone());
        if *first == device.name { profile.to_owned() } else { format!("{profile}\n{}", device.name) }
    }

    /// Notes that a replay is asked for; whether it is yet to be computed.
    fn want(&mut self, input: &str) -> bool {
        self.wanted.insert(input.to_owned()) && !self.had.contains(input)
    }
}

/// The jobs of a cell on a device that are yet to be done.
fn plan(
    store: &Store,
    replay: &ReplaySpec,
    cell: &StoredCell,
    device: &Device,
    references: &mut References<'_>,
    inputs: &mut Inputs,
) -> Result<Vec<Job>> {
    let planned = references.cycles_scale(store, &replay.calibrate, cell, device).and_then(|cycles_scale| {
        let digest = cell.digest.as_deref().unwrap_or_default();
        let run = Run { cell: Some(cell.id), seed: cell.seed, identity: format!("{}\n{digest}", cell.id) };
        plan_run(replay, &run, (device, cycles_scale), inputs, &mut || {
            recorded::activity(store, cell, device).map(|(activity, source)| Work { activity, source, recorded: None })
        })
    });
    planned.or_else(|error| {
        let what = format!("replays `{}` on {}", replay.name, device.name);
        store.leave_out(&LeftOut::new(what, &error)).map(|()| Vec::new())
    })
}

/// A run that is replayed.
struct Run {
    /// The cell, if it is one.
    cell: Option<i64>,
    /// The seed of random delays.
    seed: u64,
    /// What tells it from others, in the input of its replays.
    identity: String,
}

/// What a run did.
#[derive(Clone)]
struct Work {
    activity: Activity,
    /// What it was taken from.
    source: ActivitySource,
    /// What is known of a run that is no cell, as JSON.
    recorded: Option<String>,
}

/// The jobs of a run that are yet to be done, on a device and with what its cycles are scaled by; `work` is asked if
/// there are some.
///
/// # Errors
/// The `Error` of `work`, whatever its kind.
fn plan_run(
    replay: &ReplaySpec,
    run: &Run,
    (device, cycles_scale): (&Device, f64),
    inputs: &mut Inputs,
    work: &mut dyn FnMut() -> Result<Work>,
) -> Result<Vec<Job>> {
    let mut jobs = Vec::new();
    let profile = profile_digest(device);
    let of_device = inputs.device(replay, device, &profile);
    let mut known: Option<Work> = None;
    for setting in &replay.settings {
        // The bound is part of every regret: with it, the others are other replays than without it.
        let bound = replay.governors.iter().any(|g| *g.get_ref() == Choice::Bound);
        let input = |governor: &Choice| {
            let levers = setting.0.join("\n");
            let words = format!(
                "{MODELS}\n{}\n{}\n{governor}\n{bound}\n{levers}\n{}\n{of_device}\n{:016x}",
                replay.name,
                run.identity,
                run.seed,
                cycles_scale.to_bits()
            );
            format!("{:x}", Sha256::digest(words))
        };
        let mut governors = Vec::new();
        for governor in &replay.governors {
            let input = input(governor.get_ref());
            if inputs.want(&input) {
                governors.push((governor.get_ref().clone(), input));
            }
        }
        if governors.is_empty() {
            continue;
        }
        let Work { activity, source, recorded } = match &known {
            Some(known) => known.clone(),
            None => known.insert(work()?).clone(),
        };
        jobs.push(Job {
            name: replay.name.clone(),
            cell: run.cell,
            recorded,
            seed: run.seed,
            device: device.clone(),
            profile: profile.clone(),
            setting: setting.clone(),
            cycles_scale,
            activity,
            source,
            bound,
            governors,
        });
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests;
