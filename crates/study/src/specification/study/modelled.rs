//! What a study says of models over its runs: replays, and the energy of flash.

use super::{Experiment, Locator};
use crate::specification::setting::{Lever, Setting};
use pocketstone_core::database::Delay;
use pocketstone_core::{Error, Result};
use pocketstone_replay::governor::Spec;
use pocketstone_replay::read_ahead::Rules;
use serde::Deserialize;
use toml::Spanned;

/// The word among governors that stands for the offline optimum.
pub const BOUND: &str = "bound";

/// Runs of an experiment that are replayed on devices, under governors and with levers.
#[derive(Debug, Clone)]
pub struct ReplaySpec {
    /// Its name, unique in the study.
    pub name: String,
    /// The experiment whose cells are replayed; empty where logs are.
    pub experiment: String,
    /// Phones' logs, or folders of them, whose longest runs are replayed.
    pub logs: Vec<Spanned<String>>,
    /// The frequency in kHz that a log was recorded at, where it does not say.
    pub recorded_khz: Option<u32>,
    /// An SQL condition on the view `cells`.
    pub only: Option<Spanned<String>>,
    /// Names of devices' profiles.
    pub devices: Vec<Spanned<String>>,
    /// Governors.
    pub governors: Vec<Spanned<Choice>>,
    /// Every combination of levers.
    pub settings: Vec<Setting>,
    /// What scales cycles: the one of a cell's workload, else the first.
    pub calibrate: Vec<Calibration>,
}

/// A governor of a study.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Choice {
    /// One that decides as the run goes.
    Governor(Spec),
    /// The offline optimum.
    Bound,
}

impl std::fmt::Display for Choice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Choice::Governor(spec) => write!(f, "{spec}"),
            Choice::Bound => f.write_str(BOUND),
        }
    }
}

/// A published time on a core that scales the cycles of recorded runs.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    /// Workload of the recorded run that is held against it.
    pub workload: String,
    /// Its delay; [`OWN`] for the delay of the cell that is replayed.
    #[serde(default = "none")]
    pub delay: String,
    /// Its engine; without it, the engine of the cell that is replayed.
    pub engine: Option<String>,
    /// The device that was measured, whose factor then serves every device: it stands for the software of the run.
    /// Without it, each device that is replayed takes this time itself.
    pub device: Option<Spanned<String>>,
    /// Time on a core that this run takes at that device's highest frequency, in seconds.
    pub on_core_s: f64,
    /// Where the number is from.
    pub source: String,
}

/// A calibration's delay that is the one of the cell that is replayed.
pub const OWN: &str = "own";

fn none() -> String {
    "none".into()
}

/// Cells whose energy is that of `E = t (P_cpu + P_mem)`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashEnergySpec {
    /// Device whose profile has the constants.
    pub device: Spanned<String>,
    /// The experiment; it has one such section.
    pub experiment: Spanned<String>,
}

/// A published table that the model is held against.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ValidationSpec {
    /// Its name, unique in the study.
    pub name: Spanned<String>,
    /// The file, in the folder that POCKETSTONE_REFERENCE names.
    pub table: Spanned<String>,
    /// Profile of the device that was measured.
    pub device: Spanned<String>,
    /// That device's own governor.
    pub governor: Spanned<Spec>,
    /// The experiment that records a table's databases without delays.
    pub recordings: Option<Spanned<String>>,
}

/// Cells whose reads are worked out under rules of read-ahead.
#[derive(Debug, Clone)]
pub struct ReadAheadModelSpec {
    /// Its name, unique in the study.
    pub name: Spanned<String>,
    /// The experiment.
    pub experiment: Spanned<String>,
    /// An SQL condition on the view `cells`.
    pub only: Option<Spanned<String>>,
    /// The rules; all there are where the study names none.
    pub rules: Vec<Rules>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReadAheadModel {
    name: Spanned<String>,
    experiment: Spanned<String>,
    only: Option<Spanned<String>>,
    rules: Option<Spanned<Vec<String>>>,
}

/// Reads the study's models of read-ahead.
pub(super) fn read_ahead(
    at: &Locator<'_>,
    raw: Vec<RawReadAheadModel>,
    experiments: &[Experiment],
) -> Result<Vec<ReadAheadModelSpec>> {
    let mut found: Vec<ReadAheadModelSpec> = Vec::new();
    for r in raw {
        known(at, &r.experiment, experiments)?;
        if found.iter().any(|f| f.name.get_ref() == r.name.get_ref()) {
            let error = Error::user(format!("duplicate read-ahead model `{}`", r.name.get_ref()));
            return Err(at.error(r.name.span(), error));
        }
        let one = |name: &String| Rules::ALL.into_iter().find(|rules| rules.name() == name);
        let rules = match &r.rules {
            None => Rules::ALL.to_vec(),
            Some(names) => names.get_ref().iter().map(one).collect::<Option<Vec<_>>>().ok_or_else(|| {
                let hint = format!("rules: {}", Rules::ALL.map(Rules::name).join(", "));
                at.error(names.span(), Error::user("unknown read-ahead rules").hint(hint))
            })?,
        };
        found.push(ReadAheadModelSpec { name: r.name, experiment: r.experiment, only: r.only, rules });
    }
    Ok(found)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawReplay {
    name: Spanned<String>,
    experiment: Option<Spanned<String>>,
    #[serde(default)]
    logs: Vec<Spanned<String>>,
    recorded_khz: Option<Spanned<u32>>,
    only: Option<Spanned<String>>,
    devices: Vec<Spanned<String>>,
    governors: Vec<Spanned<String>>,
    #[serde(default)]
    calibrate: Vec<Spanned<Calibration>>,
    cluster: Option<Spanned<toml::Value>>,
    delay: Option<Spanned<toml::Value>>,
    cores: Option<Spanned<toml::Value>>,
    waiting: Option<Spanned<toml::Value>>,
    batch: Option<Spanned<toml::Value>>,
    storage: Option<Spanned<toml::Value>>,
    memory_share: Option<Spanned<toml::Value>>,
    power_scale: Option<Spanned<toml::Value>>,
}

/// Reads the study's replays.
pub(super) fn replays(at: &Locator<'_>, raw: Vec<RawReplay>, experiments: &[Experiment]) -> Result<Vec<ReplaySpec>> {
    let mut found: Vec<ReplaySpec> = Vec::new();
    for r in raw {
        let name = r.name.get_ref().clone();
        if found.iter().any(|f| f.name == name) {
            return Err(at.error(r.name.span(), Error::user(format!("duplicate replay `{name}`"))));
        }
        found.push(replay(at, r, experiments)?);
    }
    Ok(found)
}

fn replay(at: &Locator<'_>, raw: RawReplay, experiments: &[Experiment]) -> Result<ReplaySpec> {
    let name = raw.name.get_ref().clone();
    source(at, &raw, experiments)?;
    for (list, what) in [(raw.devices.is_empty(), "devices"), (raw.governors.is_empty(), "governors")] {
        if list {
            return Err(at.error(raw.name.span(), Error::user(format!("replay `{name}` has no {what}"))));
        }
    }
    let governor = |g: &Spanned<String>| match g.get_ref().as_str() {
        BOUND => Ok(Spanned::new(g.span(), Choice::Bound)),
        text => match text.parse() {
            Ok(spec) => Ok(Spanned::new(g.span(), Choice::Governor(spec))),
            Err(error) => Err(at.error(g.span(), error)),
        },
    };
    let governors = raw.governors.iter().map(governor).collect::<Result<_>>()?;
    let mut settings = vec![Setting::default()];
    for lever in Lever::ALL {
        let Some(values) = given(&raw, lever) else { continue };
        let list = match values.get_ref() {
            toml::Value::Array(list) => list.clone(),
            single => vec![single.clone()],
        };
        let read: Result<Vec<String>> = list.iter().map(|v| lever.read(v)).collect();
        let read = read.map_err(|e| at.error(values.span(), e))?;
        if read.is_empty() {
            return Err(at.error(values.span(), Error::user(format!("`{}` has no values", lever.name()))));
        }
        settings = settings.iter().flat_map(|s| read.iter().map(|v| s.with(lever, v)).collect::<Vec<_>>()).collect();
    }
    settings.dedup();
    let calibrate = raw.calibrate.into_iter().map(|c| calibration(at, c)).collect::<Result<_>>()?;
    let experiment = raw.experiment.map_or_else(String::new, Spanned::into_inner);
    let recorded_khz = raw.recorded_khz.map(Spanned::into_inner);
    let RawReplay { logs, only, devices, .. } = raw;
    Ok(ReplaySpec { name, experiment, logs, recorded_khz, only, devices, governors, settings, calibrate })
}

/// The values that a study gives a lever.
fn given(raw: &RawReplay, lever: Lever) -> Option<&Spanned<toml::Value>> {
    let values = match lever {
        Lever::Cluster => &raw.cluster,
        Lever::Delay => &raw.delay,
        Lever::Cores => &raw.cores,
        Lever::Waiting => &raw.waiting,
        Lever::Batch => &raw.batch,
        Lever::Storage => &raw.storage,
        Lever::MemoryShare => &raw.memory_share,
        Lever::PowerScale => &raw.power_scale,
    };
    values.as_ref()
}

/// Checks that a replay has runs to replay: an experiment's cells, or logs and nothing that is of cells.
fn source(at: &Locator<'_>, raw: &RawReplay, experiments: &[Experiment]) -> Result<()> {
    let name = raw.name.get_ref();
    let wrong = |span, what: String, hint: &str| Err(at.error(span, Error::user(what).hint(hint)));
    match (&raw.experiment, raw.logs.first()) {
        (Some(experiment), None) => known(at, experiment, experiments)?,
        (None, Some(log)) => {
            if let Some(only) = &raw.only {
                return wrong(
                    only.span(),
                    format!("`only` of replay `{name}` is for cells, and it has logs"),
                    "leave it out",
                );
            }
            if !raw.calibrate.is_empty() {
                let hint = "leave it out: a phone's log has a phone's cycles";
                return wrong(log.span(), format!("replay `{name}` calibrates a log"), hint);
            }
        }
        (experiment, log) => {
            let span = experiment.as_ref().or(log).map_or_else(|| raw.name.span(), Spanned::span);
            let hint = "specify `experiment`, whose cells are replayed, or `logs`, a list of phones' logs";
            return wrong(span, format!("replay `{name}` needs exactly one source of runs"), hint);
        }
    }
    match &raw.recorded_khz {
        Some(khz) if raw.logs.is_empty() || *khz.get_ref() == 0 => {
            let hint = "it is what a phone's log was recorded at where it does not say, more than 0";
            wrong(khz.span(), format!("`recorded_khz` of replay `{name}` is not usable"), hint)
        }
        _ => Ok(()),
    }
}

fn calibration(at: &Locator<'_>, raw: Spanned<Calibration>) -> Result<Calibration> {
    let span = raw.span();
    let found = raw.into_inner();
    if !(found.on_core_s.is_finite() && found.on_core_s > 0.0) {
        let error = Error::user(format!("on_core_s = {} is not a valid time on a core", found.on_core_s))
            .hint("specify the run's time in seconds, more than 0");
        return Err(at.error(span, error));
    }
    if found.delay != OWN {
        found.delay.parse::<Delay>().map_err(|e| at.error(span, e))?;
    }
    Ok(found)
}

fn known(at: &Locator<'_>, experiment: &Spanned<String>, experiments: &[Experiment]) -> Result<()> {
    let name = experiment.get_ref();
    match experiments.iter().any(|e| e.name == *name) {
        true => Ok(()),
        false => Err(at.error(experiment.span(), Error::user(format!("unknown experiment `{name}`")))),
    }
}

/// Checks the sections on validation.
pub(super) fn validations(at: &Locator<'_>, specs: &[ValidationSpec], experiments: &[Experiment]) -> Result<()> {
    for (number, spec) in specs.iter().enumerate() {
        if let Some(experiment) = &spec.recordings {
            known(at, experiment, experiments)?;
        }
        if specs[..number].iter().any(|s| s.name.get_ref() == spec.name.get_ref()) {
            let error = Error::user(format!("duplicate validation `{}`", spec.name.get_ref()));
            return Err(at.error(spec.name.span(), error));
        }
    }
    Ok(())
}

/// Checks the sections on flash.
pub(super) fn flash(at: &Locator<'_>, specs: &[FlashEnergySpec], experiments: &[Experiment]) -> Result<()> {
    for (number, spec) in specs.iter().enumerate() {
        known(at, &spec.experiment, experiments)?;
        if specs[..number].iter().any(|s| s.experiment.get_ref() == spec.experiment.get_ref()) {
            let error = Error::user(format!("experiment `{}` has two [[flash_energy]]", spec.experiment.get_ref()))
                .hint("a cell has one modelled energy: keep one device per experiment");
            return Err(at.error(spec.experiment.span(), error));
        }
    }
    Ok(())
}
