//! Power meters that a machine has itself: RAPL (powercap), hwmon and IIO sensors, the rails of Pixel phones
//! (ODPM), the battery.
//!
//! Some count energy and are read at start and end; others tell power, which a thread samples and integrates.

mod battery;
mod hwmon;
mod iio;
mod rapl;
mod run;
#[cfg(test)]
mod tests;

pub use run::{Metered, PERIOD, REST, Resting};

use pocketstone_core::error::Context;
use pocketstone_core::outcome::{Scope, Unavailable};
use pocketstone_core::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};

/// What a meter says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// Energy since some time before the first reading, in uJ.
    TotalUj(f64),
    /// Power now, in uW.
    PowerUw(f64),
}

/// A power meter. One of them gives either kind of reading, always the same.
pub trait Meter: Send {
    /// Its name, `SOURCE:WHICH`, such as `rapl:package-0`.
    fn name(&self) -> &str;
    /// What it measures.
    fn scope(&self) -> Scope;
    /// How good its numbers are.
    fn note(&self) -> &str;
    /// Reads it.
    ///
    /// # Errors
    /// When the kernel does not give the value.
    fn read(&mut self) -> Result<Reading>;
}

/// What was found on a machine.
#[derive(Default)]
pub struct Found {
    /// Its meters that can be read.
    pub meters: Vec<Box<dyn Meter>>,
    /// Why each other kind of meter cannot be had.
    pub missing: Vec<Missing>,
}

/// A kind of meter that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Why.
    pub why: String,
    /// What would give it; empty where nothing would.
    pub cure: String,
}

/// What every machine can do.
const ELSE: &str = "measure at the supply with a bench meter: pocketstone energy RUN --meter FILE.csv";

impl Found {
    /// Every meter of the machine whose `sys` is in `root`.
    pub fn on(root: &Path) -> Found {
        let mut found = Found::default();
        rapl::find(root, &mut found);
        hwmon::find(root, &mut found);
        iio::find(root, &mut found);
        battery::find(root, &mut found);
        found
    }

    /// Adds a meter that can be read now, or why it cannot.
    fn try_add(&mut self, mut meter: impl Meter + 'static) {
        match meter.read() {
            Ok(_) => self.meters.push(Box::new(meter)),
            Err(error) => {
                let cure = error.cure().unwrap_or_default().to_owned();
                self.missing.push(Missing { why: error.chain(), cure });
            }
        }
    }

    fn lacks(&mut self, why: impl Into<String>) {
        self.missing.push(Missing { why: why.into(), cure: String::new() });
    }

    /// Why energy is unavailable, in one entry; `None` where there is a meter.
    pub fn unavailable(&self) -> Option<Unavailable> {
        if !self.meters.is_empty() {
            return None;
        }
        let why: Vec<&str> = self.missing.iter().map(|m| m.why.as_str()).collect();
        let mut cures: Vec<&str> = self.missing.iter().map(|m| m.cure.as_str()).filter(|c| !c.is_empty()).collect();
        cures.push(ELSE);
        cures.dedup();
        Some(Unavailable {
            what: "energy".into(),
            why: format!("no power meter of this machine can be read: {}", why.join("; ")),
            cure: cures.join("; or "),
        })
    }
}

/// Folders in a folder whose names begin so, sorted.
fn folders(folder: &Path, prefix: &str) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = |e: &fs::DirEntry| e.file_name().to_str().is_some_and(|n| n.starts_with(prefix));
    let mut all: Vec<PathBuf> = entries.filter(named).map(|e| e.path()).collect();
    all.sort();
    all
}

/// Names of a folder's files, sorted.
fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<String> = entries.filter_map(|e| e.file_name().into_string().ok()).collect();
    all.sort();
    all
}

/// A file's text without white space around it; `None` where there is none.
fn text(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned()).filter(|t| !t.is_empty())
}

/// The number in a file.
fn number(file: &Path) -> Result<f64> {
    let read = fs::read_to_string(file);
    if let Err(error) = &read {
        if error.kind() == std::io::ErrorKind::PermissionDenied {
            return Err(Error::board(format!("{} may not be read", file.display())).hint("run as root"));
        }
    }
    let text = read.board(|| format!("cannot read {}", file.display()))?;
    let value: f64 = text.trim().parse().board(|| format!("{} holds no number: `{}`", file.display(), text.trim()))?;
    match value.is_finite() {
        true => Ok(value),
        false => Err(Error::board(format!("{} holds no number: `{}`", file.display(), text.trim()))),
    }
}

/// The last part of a path.
fn last(path: &Path) -> String {
    path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned()
}
