//! Replays of a run's cells on models of devices: planned, computed, kept beside what was measured.
//!
//! ```text
//! cell (events of its traced twin, else its calls) --> Activity --+
//! devices x governors x levers ----------------------------------+--> replay, replay_metric, replay_front
//! calibration: a recorded run of known length on a device -------+        --> replay_statistic
//! ```
//! A replay is known by the SHA-256 of everything that goes into it: the cell's logs, the device's profile, the
//! governor, the levers. What is there already is not computed again; what nothing asks for any more goes.

pub mod flash;
pub(crate) mod recorded;
pub mod setting;
pub(crate) mod store;
mod validation;
pub(crate) mod work;

use crate::model::LeftOut;
use crate::store::{Store, StoredCell};
use crate::study::{Calibration, Choice, ReplaySpec, Study};
use pocketstone_core::{Error, Result};
use pocketstone_replay::activity::{Activity, Segment};
use pocketstone_replay::device::Device;
use setting::Setting;
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use work::Job;

/// Version of the models: goes up when the same input gives other numbers, so that kept ones are made again.
const MODELS: u32 = 1;

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

/// The devices that a study names, from the profiles in `folder`, or, where there is none of that name, from the
/// results.
///
/// # Errors
/// When one is not there, or its profile is wrong; the study's line is named.
pub fn devices(study: &Study, folder: &Path, store: Option<&Store>) -> Result<Devices> {
    let mut found = Devices::new();
    let named = study.replays.iter().flat_map(|r| &r.devices).chain(study.flash_energies.iter().map(|f| &f.device));
    let named = named.chain(study.validations.iter().map(|v| &v.device));
    for name in named {
        let kept = store.map(|s| s.fact(&fact(name.get_ref()))).transpose()?.flatten();
        let device = match kept {
            Some(text) if !folder.join(format!("{}.toml", name.get_ref())).exists() => {
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
/// The first that does not; its line is named.
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
    let name = setting.value("cluster");
    device.cluster((name != "default").then_some(name))
}

/// Brings the results' replays and modelled energies up to date with the study, the cells and the profiles.
///
/// `tell` hears how many of how many replays are done, and may end it with an error.
///
/// # Errors
/// When a condition of the study is no SQL, or the results cannot be read or written. What one cell or device
/// cannot give is left out of the run with the reason.
pub fn refresh(
    store: &mut Store,
    study: &Study,
    devices: &Devices,
    tell: &mut dyn FnMut(usize, usize) -> Result<()>,
) -> Result<()> {
    for (name, device) in devices {
        store.set_facts([(fact(name).as_str(), device.text.as_str())])?;
    }
    validation::refresh(store, study, devices, validation::folder().as_deref())?;
    if flash::refresh(store, study, devices)? {
        crate::summarize::summarize(store, study)?;
    }
    let had = store::inputs(store)?;
    let mut wanted = BTreeSet::new();
    let mut jobs: BTreeMap<i64, Vec<Job>> = BTreeMap::new();
    for replay in &study.replays {
        let mut references = References::of(store, study, replay)?;
        for cell in cells(store, study, replay)? {
            for device in replay.devices.iter().map(|name| &devices[name.get_ref()]) {
                plan(store, replay, &cell, device, &had, &mut references, &mut wanted, &mut jobs)?;
            }
        }
    }
    let total = jobs.values().flatten().map(|j| j.governors.len()).sum();
    let mut done = 0;
    let mut rows = Vec::new();
    for (cell, jobs) in jobs {
        tell(done, total)?;
        done += jobs.iter().map(|j| j.governors.len()).sum::<usize>();
        for (job, result) in jobs.iter().zip(work::on_all_cores(&jobs)) {
            match result {
                Ok(made) => rows.extend(made),
                Err(error) => store.leave_out(&LeftOut {
                    what: format!("replays `{}` on {} (cell {cell})", job.name, job.device.name),
                    why: error.chain(),
                    cure: error.cure().unwrap_or_default().to_owned(),
                })?,
            }
        }
    }
    if !rows.is_empty() || had != wanted {
        store::put(store, &rows, &wanted)?;
    }
    tell(done, total)
}

/// The cells that are replayed: of each point the traced twins that have events, where there are any, else the
/// plain cells; what is held against each other is of one kind.
pub(crate) fn cells(store: &Store, study: &Study, replay: &ReplaySpec) -> Result<Vec<StoredCell>> {
    let only = replay.only.as_ref().map_or("1", |only| only.get_ref().as_str());
    let sql = format!("SELECT id FROM cells WHERE experiment = ?1 AND status = 'done' AND ({only})");
    let found: Vec<i64> = store.rows(&sql, [&replay.experiment], |r| r.get(0)).map_err(|e| match &replay.only {
        Some(only) => study.error_at(only.span(), Error::user("this is no condition on cells").because(e)),
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
    let has_twins = |point: &crate::factor::Point| all.iter().any(|c| c.point == *point && traced(c));
    Ok(all.iter().filter(|c| if has_twins(&c.point) { traced(c) } else { !c.traced }).cloned().collect())
}

/// Cells that calibrations may refer to.
struct References {
    cells: Vec<StoredCell>,
    /// Mean cycles of such cells on a device, once they are known.
    cycles: BTreeMap<(String, Vec<i64>), f64>,
}

impl References {
    /// Calibrations may be runs that are not replayed.
    fn of(store: &Store, study: &Study, replay: &ReplaySpec) -> Result<Self> {
        let cells = cells(store, study, &ReplaySpec { only: None, ..replay.clone() })?;
        Ok(References { cells, cycles: BTreeMap::new() })
    }
}

/// What the cycles of a cell are multiplied by on a device, as the study's first replay of its experiment there
/// says; 1 without one.
pub(crate) fn calibrated(store: &Store, study: &Study, cell: &StoredCell, device: &Device) -> Result<f64> {
    let there =
        |r: &&ReplaySpec| r.experiment == cell.experiment && r.devices.iter().any(|d| *d.get_ref() == device.name);
    let Some(replay) = study.replays.iter().find(there) else { return Ok(1.0) };
    cycles_scale(store, replay, &mut References::of(store, study, replay)?, cell, device)
}

fn cycles_scale(
    store: &Store,
    replay: &ReplaySpec,
    references: &mut References,
    cell: &StoredCell,
    device: &Device,
) -> Result<f64> {
    let own = replay.calibrate.get(&Some(device.name.clone())).or_else(|| replay.calibrate.get(&None));
    own.map_or(Ok(1.0), |calibration| scale(store, references, calibration, cell, device))
}

/// Adds the jobs of a cell on a device to those to do.
#[allow(clippy::too_many_arguments)]
fn plan(
    store: &Store,
    replay: &ReplaySpec,
    cell: &StoredCell,
    device: &Device,
    had: &BTreeSet<String>,
    references: &mut References,
    wanted: &mut BTreeSet<String>,
    jobs: &mut BTreeMap<i64, Vec<Job>>,
) -> Result<()> {
    let leave_out = |error: Error| {
        let what = format!("replays `{}` on {}", replay.name, device.name);
        let cure = error.cure().unwrap_or_default().to_owned();
        store.leave_out(&LeftOut { what, why: error.chain(), cure })
    };
    let cycles_scale = match cycles_scale(store, replay, references, cell, device) {
        Ok(scale) => scale,
        Err(error) => return leave_out(error),
    };
    let profile = profile_digest(device);
    let mut activity: Option<(Activity, &'static str)> = None;
    for setting in &replay.settings {
        // The bound is part of every regret: with it, the others are other replays than without it.
        let bound = replay.governors.iter().any(|g| *g.get_ref() == Choice::Bound);
        let input = |governor: &Choice| {
            let levers = setting.0.join("\n");
            let words = format!(
                "{MODELS}\n{}\n{}\n{}\n{governor}\n{bound}\n{levers}\n{}\n{profile}\n{:016x}",
                replay.name,
                cell.id,
                cell.digest.as_deref().unwrap_or_default(),
                cell.seed,
                cycles_scale.to_bits()
            );
            format!("{:x}", Sha256::digest(words))
        };
        let mut governors = Vec::new();
        for governor in &replay.governors {
            let input = input(governor.get_ref());
            if wanted.insert(input.clone()) && !had.contains(&input) {
                governors.push((governor.get_ref().clone(), input));
            }
        }
        if governors.is_empty() {
            continue;
        }
        if activity.is_none() {
            match recorded::activity(store, cell, device) {
                Ok(found) => activity = Some(found),
                Err(error) => return leave_out(error),
            }
        }
        let Some((activity, source)) = activity.clone() else { continue };
        jobs.entry(cell.id).or_default().push(Job {
            name: replay.name.clone(),
            cell: cell.id,
            seed: cell.seed,
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
    Ok(())
}

/// What a device's cycles are multiplied by so that the calibration's run takes its time on a core at the
/// highest frequency: of recorded runs that differ from the cell in workload, delay and seed alone, the mean.
fn scale(
    store: &Store,
    references: &mut References,
    calibration: &Calibration,
    cell: &StoredCell,
    device: &Device,
) -> Result<f64> {
    let delay = calibration.delay.parse::<pocketstone_core::database::Delay>()?.to_string();
    let like = |name: &str, value: &serde_json::Value, point: &crate::factor::Point| match name {
        "workload" => *value == calibration.workload,
        "delay" => *value == delay,
        "engine" if calibration.engine.is_some() => calibration.engine.as_deref() == value.as_str(),
        "workload_file" => true,
        _ => point.get(name) == Some(value),
    };
    let found = |c: &&StoredCell| c.point.iter().all(|(name, value)| like(name, value, &cell.point));
    let reference: Vec<StoredCell> = references.cells.iter().filter(found).cloned().collect();
    let khz = highest_khz(device)?;
    let key = (device.name.clone(), reference.iter().map(|c| c.id).collect());
    let cycles = match references.cycles.get(&key) {
        Some(cycles) => *cycles,
        None => {
            let mut cycles = 0.0;
            for cell in &reference {
                cycles += compute_cycles(&recorded::activity(store, cell, device)?.0) / reference.len() as f64;
            }
            references.cycles.insert(key, cycles);
            cycles
        }
    };
    if cycles <= 0.0 {
        let (workload, delay) = (&calibration.workload, &calibration.delay);
        return Err(Error::user(format!(
            "the run that it is calibrated with is not there: experiment `{}`, workload {workload}, delay {delay}",
            cell.experiment
        ))
        .hint("add that workload and delay to the experiment, or measure its cells too (--only leaves them out)"));
    }
    Ok(calibration.on_core_s * f64::from(khz) * 1000.0 / cycles)
}

/// The highest frequency of the cluster that runs are replayed on, in kHz.
fn highest_khz(device: &Device) -> Result<u32> {
    let point = device.clusters.first().and_then(|c| c.points.last());
    point.map(|p| p.khz).ok_or_else(|| Error::user(format!("the device {} has no operating point", device.name)))
}

fn compute_cycles(activity: &Activity) -> f64 {
    let segments = activity.threads.iter().filter(|t| !t.background).flat_map(|t| &t.operations);
    let cycles = segments.flat_map(|o| &o.segments).map(|s| match s {
        Segment::Compute { cycles } => *cycles as f64,
        _ => 0.0,
    });
    cycles.sum()
}

#[cfg(test)]
mod tests;
