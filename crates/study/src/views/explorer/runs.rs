//! What a study's results offer to try out: the cells that its replays use, as activities with their levers.

use super::{Choices, Recorded, governors};
use crate::models::replay::recorded::Recording;
use crate::models::replay::{Devices, References, cells, compute_cycles, of_cell};
use crate::results::store::{Store, StoredCell};
use crate::specification::factor::describe;
use crate::specification::points::varying;
use crate::specification::setting::Lever;
use crate::specification::study::{Calibration, Choice, ReplaySpec, Study};
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_replay::device::Device;
use pocketstone_replay::levers::Levers;
use serde_json::Value;
use std::collections::BTreeMap;

/// Runs that a page offers at most.
const MOST_RUNS: usize = 8;

/// Delays that are computed beforehand at most.
const GRID_DELAYS: usize = 4;

/// Delays that every page with the module offers.
const DELAYS: [&str; 4] = ["recorded", "none", "1ms", "lognormal:6ms"];

/// Above, numbers are not exact in a browser's JSON.
const MOST_SEED: u64 = 1 << 53;

/// What can be chosen from a study's results; `None` where it replays nothing. Of each point of a replayed
/// experiment there is the first cell. `named` are the devices of the study's replays, `others` follow them.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read.
pub fn recorded(store: &Store, study: &Study, named: &Devices, others: &[Device]) -> Result<Option<Choices>> {
    let mut devices: Vec<Device> = Vec::new();
    let in_order = study.replays.iter().flat_map(|r| &r.devices).filter_map(|name| named.get(name.get_ref()));
    for device in in_order.chain(others) {
        if !devices.iter().any(|d| d.name == device.name) {
            devices.push(device.clone());
        }
    }
    let before = devices.iter().filter(|d| named.contains_key(&d.name)).count();
    let mut uses: Vec<Use<'_>> = Vec::new();
    for spec in &study.replays {
        let cells = cells(store, study, spec)?;
        uses.push(Use { spec, cells, references: References::of(store, study, spec, named)? });
    }
    let mut chosen: Vec<StoredCell> = Vec::new();
    for cell in uses.iter().flat_map(|u| &u.cells).filter(|c| c.seed < MOST_SEED) {
        let there = |c: &StoredCell| c.experiment == cell.experiment && c.point == cell.point;
        if chosen.len() < MOST_RUNS && !chosen.iter().any(there) {
            chosen.push(cell.clone());
        }
    }
    let Some(base) = devices.first().filter(|_| !chosen.is_empty()) else { return Ok(None) };
    let mut delays: Vec<String> = Vec::new();
    for setting in study.replays.iter().flat_map(|r| &r.settings) {
        delays.push(setting.value(Lever::Delay).to_owned());
    }
    let first = distinct(&mut delays).min(GRID_DELAYS);
    delays.extend(DELAYS.map(str::to_owned));
    distinct(&mut delays);
    let names = names(&chosen);
    let mut runs = Vec::new();
    for (cell, name) in chosen.iter().zip(names) {
        let recording = Recording::of(store, cell)?;
        let activity = recording.activity(base)?;
        let cycles = compute_cycles(&activity);
        // The name has some of it already.
        let new = |factor: &&str| cell.point.get(*factor).and_then(|v| v.as_str()).is_none_or(|v| !name.contains(v));
        let words: Vec<&str> = ["workload", "engine", "delay", "operations"].into_iter().filter(new).collect();
        let words = describe(&cell.point, &words);
        let workload = format!("{words}, seed {}, from {}", cell.seed, recording.source().name());
        let (mut levers, mut notes) = (BTreeMap::new(), BTreeMap::new());
        for device in &devices {
            let (own, note) = on_device(store, &mut uses, (cell, &recording), device, cycles)?;
            levers.insert(device.name.clone(), own);
            notes.insert(device.name.clone(), note);
        }
        runs.push(Recorded { name, workload, activity, levers, notes });
    }
    let asked = study.replays.iter().flat_map(|r| &r.governors).filter_map(|g| match g.get_ref() {
        Choice::Governor(spec) => Some(spec.clone()),
        Choice::Bound => None,
    });
    Ok(Some(Choices { devices, runs, delays, grid: [before, first], governors: governors(asked) }))
}

/// A replay with its cells.
struct Use<'a> {
    spec: &'a ReplaySpec,
    cells: Vec<StoredCell>,
    references: References<'a>,
}

/// The levers that a cell's replays have on a device, and what they are in words. As the study has them where it
/// replays the cell on that device; else cycles are as in a replay without calibration. `shown` is how many cycles the
/// page's activity has.
fn on_device(
    store: &Store,
    uses: &mut [Use<'_>],
    (cell, recording): (&StoredCell, &Recording),
    device: &Device,
    shown: f64,
) -> Result<(Value, String)> {
    let has = |u: &Use<'_>| u.cells.iter().any(|c| c.id == cell.id);
    let own = |u: &Use<'_>| has(u) && u.spec.devices.iter().any(|d| *d.get_ref() == device.name);
    let own_at = uses.iter().position(own);
    let at = own_at.or_else(|| uses.iter().position(has)).unwrap_or(0);
    let (spec, references) = (uses[at].spec, &mut uses[at].references);
    // What was measured on one device serves every device.
    let calibration = of_cell(&spec.calibrate, cell).filter(|c| own_at.is_some() || c.device.is_some());
    let scale = match calibration {
        Some(_) => references.cycles_scale(store, &spec.calibrate, cell, device)?,
        None => 1.0,
    };
    // The activity is in the first device's cycles; those known by the recording's frequencies are every device's.
    let cycles = compute_cycles(&recording.activity(device)?);
    let ratio = if shown > 0.0 { cycles / shown } else { 1.0 };
    let setting = spec.settings.first().cloned().unwrap_or_default();
    let mut levers: Levers = setting.levers(cell.seed, scale * ratio)?;
    levers.device_storage &= device.storage.times.is_some();
    levers.cluster = levers.cluster.filter(|_| own_at.is_some());
    let storage = if levers.device_storage { "the device's" } else { "those recorded" };
    let mut value = serde_json::to_value(&levers).user(|| "levers are not valid JSON".into())?;
    if let Value::Object(fields) = &mut value {
        // These are the reader's.
        fields.retain(|name, v| !["delay", "cores", "busy_waiting", "batch"].contains(&name.as_str()) && !v.is_null());
    }
    let cycles = match calibration {
        Some(c) => calibrated(c),
        None => {
            let known = match recording.has_frequencies() {
                true => "the recording machine's own, by its frequencies; where it has none, ",
                false => "",
            };
            let rate = device.cycles_per_recorded_ns;
            format!("{known}{rate} per nanosecond of the recording, as assumed by the profile (not calibrated)")
        }
    };
    Ok((value, format!("Cycles: {cycles}. Waits for storage: {storage}.")))
}

/// What a calibration does to cycles; the time as it was published, with every digit.
fn calibrated(to: &Calibration) -> String {
    let measured = to.device.as_ref().map_or_else(String::new, |d| format!(" of {}", d.get_ref()));
    let Calibration { workload, on_core_s, .. } = to;
    format!("scaled so that {workload} takes {on_core_s} s on a core at the maximum frequency{measured}")
}

/// A name for each cell: what sets it apart.
fn names(cells: &[StoredCell]) -> Vec<String> {
    let varying = varying(&cells.iter().map(|c| &c.point).collect::<Vec<_>>());
    let short = |cell: &StoredCell| {
        let of = if varying.is_empty() { &["workload"][..] } else { &varying };
        match of.iter().all(|n| ["workload", "engine"].contains(n)) {
            true => of.iter().filter_map(|n| cell.point.get(*n)?.as_str()).collect::<Vec<_>>().join(" "),
            false => describe(&cell.point, of),
        }
    };
    let mut names: Vec<String> = cells.iter().map(short).collect();
    for at in 0..names.len() {
        // Two experiments may have the same point.
        if names[at].is_empty() || names[..at].contains(&names[at]) {
            names[at] = format!("{}: {}", cells[at].experiment, names[at]).trim_end_matches(": ").to_owned();
        }
    }
    names
}

/// Drops what is there before, and says how many are left.
fn distinct(list: &mut Vec<String>) -> usize {
    let mut seen = std::collections::BTreeSet::new();
    list.retain(|item| seen.insert(item.clone()));
    list.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_time_has_all_its_digits() {
        let text = "workload = 'a'\ndevice = 'nexus-5'\non_core_s = 1.164073\nsource = 's'\n";
        let said = calibrated(&toml::from_str(text).unwrap());
        assert_eq!(said, "scaled so that a takes 1.164073 s on a core at the maximum frequency of nexus-5");
    }
}
