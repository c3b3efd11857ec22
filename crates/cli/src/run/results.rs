//! The folder of a run's results, as it begins.

use super::chosen::Chosen;
use super::intent::Intent;
use crate::arguments::RunArguments;
use crate::shards;
use pocketstone_board::Board;
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_study::results::resumed;
use pocketstone_study::results::store::Store;
use pocketstone_study::specification::shares::Share;
use std::path::{Path, PathBuf};

/// Keeps what the board says of itself with the results.
fn set_board_facts(store: &Store, board: &Board) -> Result<()> {
    let facts = board.facts();
    let names: Vec<String> = facts.keys().map(|name| format!("fact.{name}")).collect();
    store.set_facts(names.iter().map(String::as_str).zip(facts.values().map(String::as_str)))
}

/// Results of different machines must not meet in one table.
pub(super) fn check_begun(store: &Store, board: &Board) -> Result<()> {
    // Every board says what machine it is. A run that was killed before it did has measured nothing yet.
    match store.fact("fact.machine")? {
        None => set_board_facts(store, board),
        Some(_) => resumed::check_machine(store, board.facts()),
    }
}

/// Makes the folder, with what is known of the run before it begins.
///
/// # Errors
/// `ErrorKind::User` if it cannot be made.
pub(super) fn new_store(
    arguments: &RunArguments,
    intent: &Intent,
    chosen: &Chosen,
    share: Option<&Share>,
) -> Result<Store> {
    let (study, Chosen { profile, board, .. }) = (&intent.study, chosen);
    let folder = match (&arguments.output, share.map(|share| share.asked.shard)) {
        (Some(folder), _) => folder.clone(),
        (None, None) => free_folder(&study.name),
        (None, Some(shard)) => free_folder(&format!("{}-shard-{}-of-{}", study.name, shard.index, shard.of)),
    };
    let share = share.map(shards::fact).transpose()?;
    let file = arguments.board.as_deref().filter(|b| b.ends_with(".toml"));
    let file = file.map(std::path::absolute).transpose().user(|| "cannot resolve --board".into())?;
    let file = file.as_ref().map(|path| path.to_string_lossy());
    let (base, host) = (intent.base.to_string_lossy(), rustix::system::uname());
    let facts = [
        ("study", study.text.as_str()),
        ("study.name", &study.name),
        ("study.title", &study.title),
        ("study.folder", &base),
        ("board", &profile.name),
        ("board.kind", profile.kind().name),
        ("board.profile", &profile.text),
        ("board.repeats_to_the_bit", if board.capabilities().deterministic { "yes" } else { "no" }),
        ("started_utc", &utc("%Y-%m-%d %H:%M:%S")),
        ("pocketstone.version", env!("CARGO_PKG_VERSION")),
        ("git.revision", env!("POCKETSTONE_REVISION")),
        ("host.kernel", &host.release().to_string_lossy()),
        ("host.machine", &host.machine().to_string_lossy()),
    ];
    let board_file = file.as_deref().map(|file| ("board.file", file));
    let share = share.as_ref().map(|(name, text)| (*name, text.as_str()));
    let store = Store::create(&folder, facts.into_iter().chain(board_file).chain(share))?;
    std::fs::write(folder.join("study.toml"), &study.text).user(|| format!("cannot write to {}", folder.display()))?;
    set_board_facts(&store, board)?;
    Ok(store)
}

/// A folder for a new run's results that does not exist yet.
fn free_folder(study: &str) -> PathBuf {
    let name = format!("{study}-{}", utc("%Y%m%d-%H%M%S"));
    let taken = |folder: &PathBuf| folder.exists();
    let numbered = (2..).map(|n| Path::new("results").join(format!("{name}-{n}")));
    std::iter::once(Path::new("results").join(&name)).chain(numbered).find(|f| !taken(f)).unwrap_or_default()
}

/// The time now in UTC, by the format of strftime(3).
fn utc(format: &str) -> String {
    jiff::Timestamp::now().strftime(format).to_string()
}
