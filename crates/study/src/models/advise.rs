//! Ranking of governors for a recorded run on a device: `pocketstone advise governor`.

use crate::models::replay::{self, ActivitySource, recorded};
use crate::results::store::{Store, StoredCell};
use crate::specification::factor::{Point, describe};
use crate::specification::recordings::Recorded;
use crate::specification::setting::{Lever, Setting};
use crate::specification::study::Study;
use pocketstone_core::events::EventLog;
use pocketstone_core::words::Word;
use pocketstone_core::{Error, Result};
use pocketstone_replay::activity::Activity;
use pocketstone_replay::advise::{self, Advice, Budget};
use pocketstone_replay::device::Device;
use pocketstone_replay::governor::Spec;
use pocketstone_replay::recorded::from_phone;
use pocketstone_workload::table::{Name, WORKLOAD};
use serde::Serialize;
use std::path::Path;

/// The question.
#[derive(Debug)]
pub struct Question<'a> {
    /// SQL condition on the view `cells` that selects the run; the trials of the first point that fits are taken.
    pub only: &'a str,
    /// The device.
    pub device: &'a Device,
    /// Folder of the devices' profiles, for those that the study calibrates with.
    pub devices: &'a Path,
    /// Levers as `name=value`.
    pub levers: &'a [String],
    /// How much mean latency is allowed.
    pub budget: Budget,
    /// Governors to rank besides the usual ones.
    pub governors: &'a [Spec],
    /// Frequency in kHz that a phone's log was recorded at, where it does not say: by default the device's highest.
    pub recorded_khz: Option<u32>,
}

/// The answer, all of it modelled.
#[derive(Debug, Clone, Serialize)]
pub struct Answer {
    /// Factors of the run; none of a log.
    pub point: Point,
    /// What the log is of.
    pub log: Option<Recorded>,
    /// Frequency in kHz that time on a core was taken at where the log has none; `None` if it always has one.
    pub assumed_khz: Option<u32>,
    /// The time on a core that was taken so, in ns.
    pub assumed_ns: u64,
    /// Number of its trials.
    pub trials: usize,
    /// The device.
    pub device: String,
    /// Levers that are not as by default.
    pub levers: Vec<String>,
    /// What cycles were multiplied by: 1, or as the study calibrates its replays on this device.
    pub cycles_scale: f64,
    /// What time on a core was taken from.
    pub source: ActivitySource,
    /// The ranking.
    pub advice: Advice,
}

impl Answer {
    /// The run in words.
    pub fn run(&self) -> String {
        if let Some(log) = &self.log {
            let known = [&log.workload, &log.engine, &log.delay, &log.governor].into_iter().flatten();
            return known.map(String::as_str).collect::<Vec<_>>().join(" ");
        }
        describe(&self.point, &["workload", "workload_file", "engine", "delay", "file_system"])
    }
}

/// Ranks governors for a run of the results.
///
/// # Errors
/// `ErrorKind::User` if no measured cell matches, a lever is invalid, or the run cannot be replayed on the device.
pub fn governor(store: &Store, study: &Study, question: &Question<'_>) -> Result<Answer> {
    let setting = setting(question.levers)?;
    let cells = fitting(store, study, question.only)?;
    let workload = cells[0].point.get(WORKLOAD.name()).and_then(|word| word.as_str());
    if workload.and_then(Name::of_word) == Some(Name::Command) {
        return Err(Error::user(
            "governors are ranked for runs of databases and of files, and this one is of a program",
        )
        .hint("a program's time on a core and its pauses are in its report"));
    }
    let device = setting.scaled(question.device)?;
    let devices = replay::loaded(study, replay::calibrating(study), question.devices, Some(store))?;
    let cycles_scale = replay::cycles_scale(store, study, &cells[0], question.device, &devices)?;
    let trials = cells.iter().map(|cell| recorded::activity(store, cell, &device)).collect::<Result<Vec<_>>>()?;
    let (activities, sources): (Vec<_>, Vec<_>) = trials.into_iter().unzip();
    let source = ActivitySource::of_trials(sources);
    let answer = ranked(question, &setting, &device, &activities, (cells[0].seed, cycles_scale), source)?;
    Ok(Answer { point: cells[0].point.clone(), ..answer })
}

/// Ranks governors for the longest run of a phone's log. Where the log has no frequencies, its time on a core is taken
/// at `question.recorded_khz`. `question.devices` is not used.
///
/// # Errors
/// `ErrorKind::User` if the log has no run, a lever is invalid, or the run cannot be replayed on the device.
pub fn of_log(log: &EventLog, of: Recorded, question: &Question<'_>) -> Result<Answer> {
    let setting = setting(question.levers)?;
    let device = setting.scaled(question.device)?;
    let khz = match question.recorded_khz {
        Some(khz) => khz,
        None => device.highest_khz()?,
    };
    // What a recording's nanosecond is worth on this device is of the lab's machine, not of a phone.
    let (activity, assumed_ns) = from_phone(log, f64::from(khz) / 1e6)?;
    let answer = ranked(question, &setting, &device, &[activity], (1, 1.0), ActivitySource::Events)?;
    Ok(Answer { log: Some(of), assumed_khz: (assumed_ns > 0).then_some(khz), assumed_ns, ..answer })
}

/// The answer but for what the run is; `seed_scale`: seed of the levers, and what cycles are multiplied by.
fn ranked(
    question: &Question<'_>,
    setting: &Setting,
    device: &Device,
    activities: &[Activity],
    seed_scale: (u64, f64),
    source: ActivitySource,
) -> Result<Answer> {
    let (seed, cycles_scale) = seed_scale;
    let levers = setting.levers(seed, cycles_scale)?;
    let mut governors = advise::candidates(device, replay::cluster(device, setting)?)?;
    governors.extend(question.governors.iter().filter(|g| !governors.contains(g)).cloned().collect::<Vec<_>>());
    let advice = advise::rank(activities, device, &levers, &governors, question.budget)?;
    Ok(Answer {
        point: Point::default(),
        log: None,
        assumed_khz: None,
        assumed_ns: 0,
        trials: activities.len(),
        device: device.name.clone(),
        levers: setting.changes().collect(),
        cycles_scale,
        source,
        advice,
    })
}

fn setting(levers: &[String]) -> Result<Setting> {
    let mut setting = Setting::default();
    for text in levers {
        let names = || Lever::WORDS.join(", ");
        let wrong =
            || Error::user(format!("`{text}` is not a lever")).hint(format!("write NAME=VALUE; levers: {}", names()));
        let (name, value) = text.split_once('=').ok_or_else(wrong)?;
        let lever = Lever::of_word(name).ok_or_else(wrong)?;
        setting = setting.with(lever, &lever.read(&toml::Value::String(value.into()))?);
    }
    Ok(setting)
}

/// The cells of the first point that an SQL condition on the view `cells` selects, as a replay takes them: one for each
/// trial.
pub(crate) fn fitting(store: &Store, study: &Study, only: &str) -> Result<Vec<StoredCell>> {
    let sql = format!("SELECT id FROM cells WHERE status = 'done' AND ({only}) ORDER BY id");
    let ids: Vec<i64> = store
        .asked(only, &sql, [], |r| r.get(0))
        .map_err(|e| Error::user(format!("`{only}` is not a valid condition on cells")).because(e))?;
    for id in ids {
        let Some(first) = store.cells()?.into_iter().find(|c| c.id == id) else { continue };
        let fits = |c: &StoredCell| c.experiment == first.experiment && c.point == first.point && c.digest.is_some();
        let cells = replay::replayable(store, fits)?;
        if !cells.is_empty() {
            return Ok(cells);
        }
    }
    let hint = "the view `cells` has the factors and the experiment: docs/results.md";
    Err(Error::user(format!("no measured cell of {} matches `{only}`", study.name)).hint(hint))
}
