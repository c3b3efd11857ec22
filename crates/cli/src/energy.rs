//! `pocketstone energy`: the energy of a run's cells by a bench meter.

use crate::arguments::EnergyArguments;
use crate::studies::{study_of, write_report};
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_core::units::format_ns;
use pocketstone_probe::bench_meter::{Alignment, MeterFile};
use pocketstone_study::results::energy::{add, in_words};
use pocketstone_study::results::store::Store;

/// Adds a meter's file to a run's results, and writes its report again.
///
/// # Errors
/// `ErrorKind::User` if the file is not a meter's, or does not hold the run; the message includes file and line, the
/// hint the fix.
pub fn energy(arguments: &EnergyArguments) -> Result<u8> {
    let mut store = Store::open(&arguments.folder, true)?;
    let study = study_of(&store)?;
    let path = &arguments.meter;
    let bytes = std::fs::read(path).user(|| format!("cannot read {}", path.display()))?;
    let file = MeterFile::parse(&path.display().to_string(), &bytes)?;
    let how = match (arguments.offset, &file.pulses) {
        (Some(first_ns), _) => Alignment::Offset { first_ns: i64::try_from(first_ns).unwrap_or(i64::MAX) },
        (None, Some(_)) => Alignment::Trigger,
        (None, None) => Alignment::Pattern,
    };
    let added = add(&mut store, &study, &file, how)?;
    let time = |ns: i64| format_ns(ns as f64);
    let (count, length, period) = (file.samples.len(), time(file.end_ns()), time(file.period_ns));
    say!("{}: {count} samples in {length}, one per {period}; read from {}", file.name, file.columns);
    say!("found {}", in_words(&added.aligned));
    for cell in &added.cells {
        let (energy, run) = (cell.energy_uj / 1e3, format_ns(cell.run_ns as f64));
        let rest = match (cell.active_uj(), cell.idle_mw) {
            (Some(active), Some(idle)) => format!("{:.3} mJ above idle at {idle:.1} mW", active / 1e3),
            _ => "idle power unavailable (energy = true in the study adds a rest before each run)".into(),
        };
        say!("{}: {energy:.3} mJ in {run}, {rest}", cell.cell);
    }
    say!("{}", write_report(&store, &study)?.display());
    Ok(0)
}
