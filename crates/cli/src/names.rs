//! The names that a shell completes: of boards, devices, processors, studies, workloads, volumes, factors and metrics.
//! Where one cannot be read there are none: a shell that completes has no place for an error.

use crate::{boards, studies};
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use pocketstone_board::Profile;
use pocketstone_core::volume::Volume;
use pocketstone_core::words::Word;
use pocketstone_study::specification::factor::{self, Kind};
use pocketstone_study::specification::metric;
use pocketstone_workload::table::Name;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// Boards, those of the user among them.
pub fn boards() -> Vec<CompletionCandidate> {
    let folders = [boards::devices().ok(), boards::own_boards()];
    let found = folders.into_iter().flatten().filter_map(|folder| pocketstone_board::list(&folder).ok());
    found.flatten().flatten().map(|Profile { name, description, .. }| candidate(&name, &description)).collect()
}

/// Devices to replay on.
pub fn devices() -> Vec<CompletionCandidate> {
    let found = boards::devices().and_then(|folder| pocketstone_replay::device::list(&folder)).unwrap_or_default();
    found.iter().map(|device| candidate(&device.name, &device.description)).collect()
}

/// Workloads of studies.
pub fn workloads() -> Vec<CompletionCandidate> {
    Name::WORDS.iter().map(CompletionCandidate::new).collect()
}

/// The studies that came with the command, and the user's files and folders, which `current` may be the beginning of.
pub fn studies(current: &OsStr) -> Vec<CompletionCandidate> {
    let study = |path: &Path| path.is_dir() || path.extension().is_some_and(|extension| extension == "toml");
    let mut all = PathCompleter::any().filter(study).complete(current);
    let shipped: Vec<PathBuf> = studies::shipped().unwrap_or_default();
    let names = shipped.iter().filter_map(|path| path.file_stem()?.to_str());
    let begun = current.to_string_lossy();
    all.extend(names.filter(|name| name.starts_with(&*begun)).map(CompletionCandidate::new));
    all
}

/// Processors whose TLBs are modelled.
pub fn processors() -> Vec<CompletionCandidate> {
    let found = boards::devices().map(|folder| pocketstone_tlb::list(&folder).unwrap_or_default()).unwrap_or_default();
    found.iter().map(|processor| candidate(&processor.name, &processor.description)).collect()
}

/// Metrics of results.
pub fn metrics() -> Vec<CompletionCandidate> {
    metric::all().map(|metric| candidate(metric.name, &metric.label_with_unit())).collect()
}

/// Names of volumes separated by commas, of which the last one is being written.
pub fn volumes(current: &OsStr) -> Vec<CompletionCandidate> {
    listed(&current.to_string_lossy(), volume_names())
}

/// A factor, or its values separated by commas, as far as they are words.
pub fn settings(current: &OsStr) -> Vec<CompletionCandidate> {
    let begun = current.to_string_lossy();
    let Some((name, _)) = begun.split_once('=') else {
        let fitting = factor::FACTORS.iter().filter(|factor| factor.name.starts_with(&*begun));
        return fitting.map(|factor| candidate(&format!("{}=", factor.name), factor.about)).collect();
    };
    let Ok(factor) = factor::named(name) else { return Vec::new() };
    let mut values = match factor.kind {
        Kind::Word(words) => words.iter().map(|word| (*word).to_owned()).collect(),
        Kind::Volume => volume_names(),
        Kind::Flag => vec!["true".to_owned(), "false".to_owned()],
        _ => Vec::new(),
    };
    values.extend(factor.or_default.then(|| "default".to_owned()));
    listed(&begun, values)
}

fn volume_names() -> Vec<String> {
    Volume::all().iter().map(Volume::name).collect()
}

/// What a word can become whose last part, behind a comma or an equals sign, is the beginning of a value.
fn listed(begun: &str, values: Vec<String>) -> Vec<CompletionCandidate> {
    let (before, last) = begun.split_at(begun.rfind([',', '=']).map_or(0, |at| at + 1));
    let fitting = values.into_iter().filter(|value| value.starts_with(last));
    fitting.map(|value| CompletionCandidate::new(format!("{before}{value}"))).collect()
}

fn candidate(name: &str, about: &str) -> CompletionCandidate {
    CompletionCandidate::new(name).help(Some(about.to_owned().into()))
}
