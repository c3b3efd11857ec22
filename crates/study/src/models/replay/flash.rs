//! Energy of runs on raw NAND: `E = t (P_cpu + P_mem)`, the model of Olivier, Boukhobza and Senn (EWiLi'14,
//! section 4.2), with the constants of their tables 2 and 3 from a device's profile.
//!
//! `t` is the time in calls: the powers are above idle, so that pauses add nothing. The results are metrics of the
//! cells, so that statistics, comparisons and figures have them as they have what was measured; their names say
//! that they are modelled.

use super::Devices;
use crate::results::left_out::LeftOut;
use crate::results::store::{Store, StoredCell};
use crate::specification::study::Study;
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Outcome;
use pocketstone_core::{Error, Result};
use pocketstone_replay::device::{Device, FlashEnergy};
use rusqlite::params;
use std::collections::BTreeMap;

/// Metrics that are modelled so. Energies are above idle.
pub const METRICS: [&str; 4] = ["modelled_energy_mj", "modelled_cpu_mj", "modelled_memory_mj", "modelled_power_mw"];

/// Brings these metrics up to date, and says whether any changed.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read or written.
pub(in crate::models) fn refresh(store: &mut Store, study: &Study, devices: &Devices) -> Result<bool> {
    let mut wanted: BTreeMap<(i64, String), f64> = BTreeMap::new();
    for spec in &study.flash_energies {
        let device = &devices[spec.device.get_ref()];
        let done = |c: &StoredCell| c.experiment == *spec.experiment.get_ref() && !c.traced && c.digest.is_some();
        for cell in store.cells()?.into_iter().filter(done) {
            match of_cell(store, &cell, device) {
                Ok(values) => wanted.extend(METRICS.iter().zip(values).map(|(m, v)| ((cell.id, (*m).to_owned()), v))),
                Err(error) => {
                    store.leave_out(&LeftOut::new(format!("modelled energy on {}", file_system(&cell)), &error))?
                }
            }
        }
    }
    let names = METRICS.map(|m| format!("'{m}'")).join(", ");
    let sql = format!("SELECT cell, name, value FROM metric WHERE name IN ({names})");
    let had = store.rows(&sql, [], |r| Ok(((r.get(0)?, r.get(1)?), r.get(2)?)))?;
    let had: BTreeMap<(i64, String), f64> = had.into_iter().collect();
    if had == wanted {
        return Ok(false);
    }
    let folder = store.folder().display().to_string();
    let failed = || format!("cannot write the modelled energies of {folder}");
    let transaction = store.db.transaction().user(failed)?;
    transaction.execute(&format!("DELETE FROM main.metric WHERE name IN ({names})"), []).user(failed)?;
    for ((cell, name), value) in &wanted {
        transaction.execute("INSERT INTO main.metric VALUES (?1, ?2, ?3)", params![cell, name, value]).user(failed)?;
    }
    transaction.commit().user(failed)?;
    Ok(true)
}

fn file_system(cell: &StoredCell) -> &str {
    cell.point.get("file_system").and_then(|v| v.as_str()).unwrap_or_default()
}

/// The values of [`METRICS`] for a cell.
fn of_cell(store: &Store, cell: &StoredCell, device: &Device) -> Result<[f64; 4]> {
    let outcome: Outcome = store.json(cell.id, "outcome")?;
    let of = constants(device, cell, &outcome)?;
    let calls = store.calls(cell.id)?;
    // Milliwatts for nanoseconds are picojoules.
    let mj = |mw: f64| calls.iter().map(|c| c.latency_ns as f64).sum::<f64>() * mw / 1e9;
    let power_mw = of.cpu_mw + of.memory_mw;
    Ok([mj(power_mw), mj(of.cpu_mw), mj(of.memory_mw), power_mw])
}

/// The constants that a cell's file system, workload, pattern and read-ahead in force have.
fn constants<'a>(device: &'a Device, cell: &StoredCell, outcome: &Outcome) -> Result<&'a FlashEnergy> {
    let text = |factor: &str| cell.point.get(factor).and_then(|v| v.as_str());
    let file_system = file_system(cell);
    let workload = match text("workload") {
        Some("read") => "read",
        Some("contacts") => "sqlite",
        other => {
            let other = other.unwrap_or_default();
            return Err(Error::user(format!("there are constants for reads and row lookups, none for {other}"))
                .hint("use [[flash_energy]] only in experiments with the workloads read or contacts"));
        }
    };
    let known = || device.flash_energy.iter().filter(|f| f.file_system == file_system && f.workload == workload);
    if known().next().is_none() {
        let mut there: Vec<&str> = device.flash_energy.iter().map(|f| f.file_system.as_str()).collect();
        there.sort_unstable();
        there.dedup();
        return Err(Error::user(format!(
            "the profile {} has no constants for {file_system}, only for {}",
            device.name,
            if there.is_empty() { "no file system".to_owned() } else { there.join(", ") }
        )));
    }
    let read_ahead = match (outcome.read_ahead.advice.as_str(), outcome.read_ahead.bytes) {
        ("random", _) => false,
        (_, Some(bytes)) => bytes > 0,
        (_, None) => return Err(Error::user("it is unknown whether read-ahead was on")),
    };
    let pattern = text("pattern");
    let fits =
        |f: &&FlashEnergy| f.read_ahead == read_ahead && (f.pattern.is_none() || f.pattern.as_deref() == pattern);
    known().find(fits).ok_or_else(|| {
        Error::user(format!(
            "the profile {} has no constants for {workload} on {file_system}, pattern {}, read-ahead {}",
            device.name,
            pattern.unwrap_or("unknown"),
            if read_ahead { "on" } else { "off" }
        ))
    })
}
