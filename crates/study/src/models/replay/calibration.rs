//! What cycles are multiplied by so that a recorded run takes the time that was published for it.

use super::{Devices, cells, recorded};
use crate::results::store::{Store, StoredCell};
use crate::specification::factor::{Point, Value};
use crate::specification::study::{Calibration, OWN, ReplaySpec, Study};
use pocketstone_core::database::Delay;
use pocketstone_core::{Error, Result};
use pocketstone_replay::activity::{Activity, Segment};
use pocketstone_replay::device::Device;
use std::collections::BTreeMap;

/// Cells that calibrations may refer to.
pub(crate) struct References<'a> {
    devices: &'a Devices,
    cells: Vec<StoredCell>,
    /// Mean cycles of such cells on a device, once they are known.
    cycles: BTreeMap<(String, Vec<i64>), f64>,
}

/// What the cycles of a cell are multiplied by on a device, as the study's first replay of its experiment there, or
/// of its experiment at all, says; 1 without one.
pub(crate) fn cycles_scale(
    store: &Store,
    study: &Study,
    cell: &StoredCell,
    device: &Device,
    devices: &Devices,
) -> Result<f64> {
    let of_cell = || study.replays.iter().filter(|r| r.experiment == cell.experiment);
    let there = of_cell().find(|r| r.devices.iter().any(|d| *d.get_ref() == device.name));
    let Some(replay) = there.or_else(|| of_cell().find(|r| r.calibrate.iter().any(|c| c.device.is_some()))) else {
        return Ok(1.0);
    };
    References::of(store, study, replay, devices)?.cycles_scale(store, &replay.calibrate, cell, device)
}

/// The calibration of the cell's workload, else the first.
pub(crate) fn of_cell<'c>(calibrations: &'c [Calibration], cell: &StoredCell) -> Option<&'c Calibration> {
    let own = |c: &&Calibration| cell.point.get("workload").is_some_and(|w| *w == c.workload);
    calibrations.iter().find(own).or(calibrations.first())
}

impl<'a> References<'a> {
    /// Calibrations may be runs that are not replayed.
    pub fn of(store: &Store, study: &Study, replay: &ReplaySpec, devices: &'a Devices) -> Result<Self> {
        let cells = cells(store, study, &ReplaySpec { only: None, ..replay.clone() })?;
        Ok(References { devices, cells, cycles: BTreeMap::new() })
    }

    /// The factor on a cell's cycles on a device: 1 where nothing calibrates it.
    pub fn cycles_scale(
        &mut self,
        store: &Store,
        calibrations: &[Calibration],
        cell: &StoredCell,
        device: &Device,
    ) -> Result<f64> {
        let Some(calibration) = of_cell(calibrations, cell) else { return Ok(1.0) };
        let measured = calibration.device.as_ref().and_then(|d| self.devices.get(d.get_ref())).unwrap_or(device);
        self.scale(store, calibration, cell, measured)
    }

    /// What a device's cycles are multiplied by so that the calibration's run takes its time on a core at the
    /// highest frequency: of recorded runs that differ from the cell in workload, delay (unless it is the cell's own)
    /// and seed alone, the mean.
    fn scale(&mut self, store: &Store, calibration: &Calibration, cell: &StoredCell, device: &Device) -> Result<f64> {
        let delay = match calibration.delay.as_str() {
            OWN => None,
            other => Some(other.parse::<Delay>()?.to_string()),
        };
        let like = |name: &str, value: &Value, point: &Point| match name {
            "workload" => *value == calibration.workload,
            "delay" => delay.as_ref().map_or(point.get(name) == Some(value), |delay| *value == *delay),
            "engine" if calibration.engine.is_some() => calibration.engine.as_deref() == value.as_str(),
            "workload_file" => true,
            _ => point.get(name) == Some(value),
        };
        let found = |c: &&StoredCell| c.point.iter().all(|(name, value)| like(name, value, &cell.point));
        let reference: Vec<StoredCell> = self.cells.iter().filter(found).cloned().collect();
        let khz = device.highest_khz()?;
        let key = (device.name.clone(), reference.iter().map(|c| c.id).collect());
        let cycles = match self.cycles.get(&key) {
            Some(cycles) => *cycles,
            None => {
                let mut cycles = 0.0;
                for cell in &reference {
                    cycles += compute_cycles(&recorded::activity(store, cell, device)?.0) / reference.len() as f64;
                }
                self.cycles.insert(key, cycles);
                cycles
            }
        };
        if cycles <= 0.0 {
            let (workload, delay) = (&calibration.workload, &calibration.delay);
            return Err(Error::user(format!(
                "the calibration run is missing: experiment `{}`, workload {workload}, delay {delay}",
                cell.experiment
            ))
            .hint("add that workload and delay to the experiment, or measure its cells, too (--only excludes them)"));
        }
        Ok(calibration.on_core_s * f64::from(khz) * 1000.0 / cycles)
    }
}

/// The cycles that an activity's own threads compute.
pub(crate) fn compute_cycles(activity: &Activity) -> f64 {
    let segments = activity.threads.iter().filter(|t| !t.background).flat_map(|t| &t.operations);
    let cycles = segments.flat_map(|o| &o.segments).map(|s| match s {
        Segment::Compute { cycles } => *cycles as f64,
        _ => 0.0,
    });
    cycles.sum()
}
