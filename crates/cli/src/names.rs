//! The names that a shell completes: of boards, devices, studies and workloads. Where one cannot be read there are
//! none: a shell that completes has no place for an error.

use crate::{boards, studies};
use clap_complete::engine::{CompletionCandidate, PathCompleter, ValueCompleter};
use pocketstone_board::Profile;
use pocketstone_core::words::Word;
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

fn candidate(name: &str, about: &str) -> CompletionCandidate {
    CompletionCandidate::new(name).help(Some(about.to_owned().into()))
}
