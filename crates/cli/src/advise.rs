//! `pocketstone advise`: which setting suits a recorded run.

use crate::arguments::{AdviseGovernorArguments, AdviseReadaheadArguments};
use crate::studies::study_of;
use crate::{boards, screen};
use pocketstone_core::units::format_ns;
use pocketstone_core::{Error, Result};
use pocketstone_replay::device::Device;
use pocketstone_study::models::advise::{self, Answer, Question};
use pocketstone_study::models::read_ahead::advise as read_ahead_advice;
use pocketstone_study::models::replay::ActivitySource;
use pocketstone_study::results::store::Store;
use pocketstone_study::specification::phone_logs;
use std::path::Path;

/// Ranks governors for a run.
///
/// # Errors
/// `ErrorKind::User` if there is no such run or device, or the run cannot be replayed on it.
pub fn governor(arguments: &AdviseGovernorArguments) -> Result<u8> {
    let device = device(&arguments.device)?;
    let question = Question {
        only: arguments.only.as_deref().unwrap_or("1"),
        device: &device,
        devices: &boards::devices()?,
        levers: &arguments.levers,
        budget: arguments.budget,
        governors: &arguments.governors,
        recorded_khz: arguments.recorded_khz,
    };
    let is_log = arguments.folder.as_os_str() == "-" || arguments.folder.is_file();
    let answer = match is_log {
        false => {
            if arguments.recorded_khz.is_some() {
                return Err(Error::user("--recorded-khz is for a phone's log, and this is a run")
                    .hint("leave it out: a run's frequencies were recorded with it"));
            }
            let store = Store::open(&arguments.folder, false)?;
            advise::governor(&store, &study_of(&store)?, &question)?
        }
        true => {
            if arguments.only.is_some() {
                return Err(Error::user("--only selects cells of a run, and this is a log")
                    .hint("leave it out: the longest run of a log is taken"));
            }
            let (log, of) = phone_logs::log(&arguments.folder)?;
            advise::of_log(&log, of, &question)
                .map_err(|e| Error::user(format!("{} cannot be replayed", arguments.folder.display())).because(e))?
        }
    };
    match arguments.json {
        true => print_json(&answer)?,
        false => print(&answer, arguments.top),
    }
    Ok(0)
}

/// Ranks read-ahead settings for a run.
///
/// # Errors
/// `ErrorKind::User` if there is no such run, or the model does not support it.
pub fn read_ahead(arguments: &AdviseReadaheadArguments) -> Result<u8> {
    let store = Store::open(&arguments.folder, false)?;
    let study = study_of(&store)?;
    let only = match &arguments.experiment {
        Some(name) => format!("experiment = '{}' AND ({})", name.replace('\'', "''"), arguments.only),
        None => arguments.only.clone(),
    };
    let answer = read_ahead_advice::read_ahead(&store, &study, &only)?;
    match arguments.json {
        true => print_json(&answer)?,
        false => print_read_ahead(&answer, arguments.top),
    }
    Ok(0)
}

fn print_json(answer: &impl serde::Serialize) -> Result<()> {
    let text = serde_json::to_string_pretty(answer).map_err(|e| Error::bug("no JSON").because(e))?;
    say!("{text}");
    Ok(())
}

fn print_read_ahead(answer: &read_ahead_advice::Answer, top: usize) {
    let trials = if answer.trials == 1 { "trial" } else { "trials" };
    say!("{} ({} {trials}, {} reads)", answer.run(), answer.trials, answer.reads);
    let (measured, modelled) = (format_ns(answer.measured_ns), format_ns(answer.modelled_ns));
    say!("time in calls: measured {measured}; modelled with the same read-ahead {modelled}");
    say!("\nmodelled, not measured:");
    let head = ["read-ahead", "time in the calls", "over the best", "file pages read"].map(str::to_owned);
    let mut rows = Vec::new();
    let shown = if top == 0 { answer.ranked.len() } else { top.min(answer.ranked.len()) };
    for candidate in &answer.ranked[..shown] {
        let over = format!("{:+.1} %", 100.0 * candidate.over_best);
        let pages = format!("{:.0}", candidate.page_reads);
        rows.push(vec![candidate.name(), format_ns(candidate.total_ns), over, pages]);
    }
    say!("{}", screen::table(&head, &rows, 3, false));
    say!("{} settings tried; {shown} shown (--top 0 shows all)", answer.ranked.len());
}

/// A device of the project, or a profile's file.
fn device(name: &str) -> Result<Device> {
    let path = Path::new(name);
    match path.extension().is_some_and(|e| e == "toml") {
        true => {
            let stem = path.file_stem().unwrap_or_default().to_string_lossy();
            Device::load(path.parent().unwrap_or(Path::new("")), &stem)
        }
        false => Device::load(&boards::devices()?, name),
    }
}

fn print(answer: &Answer, top: usize) {
    let advice = &answer.advice;
    let trials = if answer.trials == 1 { "trial" } else { "trials" };
    say!("{} on {} ({} {trials}); modelled, not measured", answer.run(), answer.device, answer.trials);
    if !answer.levers.is_empty() {
        say!("with {}", answer.levers.join(", "));
    }
    if answer.cycles_scale != 1.0 {
        say!("cycles scaled by {:.3}, as calibrated by the study", answer.cycles_scale);
    }
    if answer.source == ActivitySource::Calls {
        say!("note: no kernel events were recorded, so each call counts entirely as time on a core");
    }
    if let Some(khz) = answer.assumed_khz {
        let ns = format_ns(answer.assumed_ns as f64);
        say!("note: for {ns} on a core the log has no frequency; it counts as at {khz} kHz (--recorded-khz)");
    }
    say!("\nlatency budget (mean): {}", format_ns(advice.budget_ns));
    match advice.bound_mj {
        Some(bound) => say!("bound: no policy uses less than {bound:.1} mJ at that latency"),
        None => say!("bound: no policy is that fast on this device"),
    }
    let head = ["governor", "energy, mJ", "over bound", "mean latency", "p99", ""].map(str::to_owned);
    let mut rows = Vec::new();
    let shown = if top == 0 { advice.ranked.len() } else { top.min(advice.ranked.len()) };
    for a in &advice.ranked[..shown] {
        let over = a.over_bound.map_or("unavailable".to_owned(), |o| format!("{:+.1} %", 100.0 * o));
        rows.push(vec![
            a.governor.to_string(),
            format!("{:.1}", a.energy_mj),
            over,
            format_ns(a.mean_latency_ns),
            format_ns(a.p99_latency_ns),
            if a.within { "" } else { "too slow" }.to_owned(),
        ]);
    }
    say!("{}", screen::table(&head, &rows, 5, false));
    let kept = advice.ranked.iter().filter(|a| a.within).count();
    say!("{} governors tried, {kept} keep the budget; {shown} shown (--top 0 shows all)", advice.ranked.len());
    say!("over bound: relative to the least energy any policy could use at the same mean latency");
}
