//! Power meters that a machine has itself: RAPL (powercap), hwmon and IIO sensors, the rails of Pixel phones
//! (ODPM), by the kernel's files or by Perfetto, the battery.
//!
//! Some count energy and are read at start and end; others tell power, which a thread samples and integrates.

mod battery;
mod hwmon;
mod iio;
mod rails;
mod rapl;
mod run;
#[cfg(test)]
mod tests;

pub use run::{Ended, Metered, PERIOD, REST, Resting};

use pocketstone_core::outcome::{Quantity, Scope, Unavailable};
use pocketstone_core::{Error, Result};
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// What a meter says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// Energy since some time before the first reading, in uJ.
    TotalUj(f64),
    /// The same of a gauge whose steps are larger than what a machine takes in a rest.
    SteppedUj(f64),
    /// Power now, in uW.
    PowerUw(f64),
}

/// A power meter. One of them gives either kind of reading, always the same.
pub struct Meter {
    /// Its name, `SOURCE:WHICH`, such as `rapl:package-0`.
    pub name: String,
    /// What it measures.
    pub scope: Scope,
    /// How good its numbers are.
    pub note: &'static str,
    read: Box<dyn FnMut() -> Result<Reading> + Send>,
}

impl Meter {
    /// Reads it.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel does not give the value.
    pub fn read(&mut self) -> Result<Reading> {
        (self.read)()
    }
}

/// What was found on a machine.
#[derive(Default)]
pub struct Found {
    /// Its meters that can be read.
    pub meters: Vec<Meter>,
    /// Why each other kind of meter cannot be had.
    pub missing: Vec<Missing>,
    /// Whether a phone's power rails may be had by Perfetto.
    rails: bool,
}

/// A kind of meter that cannot be had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Missing {
    /// Why.
    pub why: String,
    /// What would give it; empty where nothing would.
    pub cure: String,
}

impl Missing {
    fn of(error: &Error) -> Missing {
        Missing { why: error.chain(), cure: error.cure().unwrap_or_default().to_owned() }
    }
}

/// How good a sensor is that tells power.
const SAMPLED_POWER: &str = "sampled power, integrated";
/// How good one is that tells voltage and current.
const SAMPLED_PRODUCT: &str = "sampled voltage times current, integrated";

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
        found.rails = !found.meters.iter().any(|meter| meter.name.starts_with("odpm:")) && rails::may_be_had(root);
        found
    }

    /// Tries the power rails that may be had: from then on it is known whether they can, and if not why.
    pub fn try_rails(&mut self) {
        if let Some(Err(error)) = self.rails.then(rails::Rails::attempt) {
            self.rails = false;
            self.failed(&error);
        }
    }

    /// Adds a meter that can be read now, or why it cannot.
    fn try_add(
        &mut self,
        name: String,
        scope: Scope,
        note: &'static str,
        mut read: impl FnMut() -> Result<Reading> + Send + 'static,
    ) {
        match read() {
            Ok(_) => self.meters.push(Meter { name, scope, note, read: Box::new(read) }),
            Err(error) => self.failed(&error),
        }
    }

    /// Notes that a folder has no such meter, or that nobody may look.
    fn lacks(&mut self, folder: &Path, why: String) {
        match fs::read_dir(folder) {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => self.failed(&unread(folder, error)),
            _ => self.missing.push(Missing { why, cure: String::new() }),
        }
    }

    /// Notes why a meter cannot be had.
    fn failed(&mut self, error: &Error) {
        self.missing.push(Missing::of(error));
    }

    /// Why energy is unavailable, in one entry. Where there is a meter, only what has a cure is said: no machine
    /// has meters of every kind. `None` where nothing is to be said.
    pub fn unavailable(&self) -> Option<Unavailable> {
        let none = self.meters.is_empty() && !self.rails;
        let those = || self.missing.iter().filter(|m| none || !m.cure.is_empty());
        let why = joined(those().map(|m| m.why.as_str()), "; ");
        if !none {
            let cure = joined(those().map(|m| m.cure.as_str()), "; or ");
            return (!why.is_empty()).then_some(Unavailable { what: Quantity::EnergyOfSomeMeters, why, cure });
        }
        Some(Unavailable {
            what: Quantity::Energy,
            why: format!("no readable power meter on this machine: {why}"),
            cure: joined(those().map(|m| m.cure.as_str()).chain([ELSE]), "; or "),
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
    let text = read(file)?;
    let number = text.trim().parse().ok().filter(|n: &f64| n.is_finite());
    number.ok_or_else(|| Error::board(format!("{} does not contain a number: `{}`", file.display(), text.trim())))
}

/// A file's text.
fn read(file: &Path) -> Result<String> {
    fs::read_to_string(file).map_err(|error| unread(file, error))
}

/// What cannot be read, and the cure where rights are missing.
fn unread(path: &Path, error: std::io::Error) -> Error {
    let denied = error.kind() == ErrorKind::PermissionDenied;
    let error = Error::board(format!("cannot read {}", path.display())).because(error);
    if denied { error.hint("run as root") } else { error }
}

/// Different texts that are not empty, joined.
fn joined<'a>(texts: impl Iterator<Item = &'a str>, between: &str) -> String {
    let mut all: Vec<&str> = Vec::new();
    for text in texts.filter(|t| !t.is_empty()) {
        if !all.contains(&text) {
            all.push(text);
        }
    }
    all.join(between)
}

/// The last part of a path.
fn last(path: &Path) -> String {
    path.file_name().and_then(|n| n.to_str()).unwrap_or_default().to_owned()
}
