//! A study on several machines: `study plan`, what is particular about `run --shard`, and `merge`.

use crate::again::{self, Options, quote};
use crate::arguments::{MergeArguments, RunArguments, SharesArguments, StudyPlanArguments};
use crate::boards::context;
use crate::studies::{most_cells, read_study, study_base, study_of, write_report};
use crate::{boards, progress, summary};
use pocketstone_board::{Board, BoardContext, Profile, TRACES};
use pocketstone_core::error::Context;
use pocketstone_core::words::counted;
use pocketstone_core::{Error, Result};
use pocketstone_engine::database::sync_folder;
use pocketstone_study::Study;
use pocketstone_study::results::merge::{Part, Parts, merge as put_together};
use pocketstone_study::results::store::Store;
use pocketstone_study::run::costs::Costs;
use pocketstone_study::run::{Request, select_cells};
use pocketstone_study::specification::cell::Cell;
use pocketstone_study::specification::shares::{Asked, FACT, Share, Shares};
use pocketstone_study::specification::traces::{self, Traces};
use pocketstone_study::views::model::Model;
use rustix::fs::FlockOperation;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// The share that a run has: of the arguments, or of the results that it goes on with.
///
/// # Errors
/// `ErrorKind::User` if the results are a shard's and the arguments ask for other cells.
pub fn asked(arguments: &RunArguments, store: Option<&Store>) -> Result<Option<Asked>> {
    let verify_fraction = arguments.verify_fraction.unwrap_or(0.0);
    let Some(store) = store else {
        return Ok(arguments.shard.map(|shard| Asked { shard, verify_fraction }));
    };
    let share = store.share()?;
    if let (Some(share), Some(_)) = (&share, &arguments.only) {
        let (folder, shard) = (store.folder().display(), share.asked.shard);
        return Err(Error::user(format!("{folder} is shard {shard}, whose cells are fixed")).hint("omit --only"));
    }
    Ok(share.map(|share| share.asked))
}

/// Refuses a share that is not the one that the results were begun with, and one whose repeated cells would only show
/// how a machine varies.
pub fn check(share: &Share, store: Option<&Store>, board: &Board) -> Result<()> {
    if share.asked.verify_fraction > 0.0 && !board.capabilities().deterministic {
        return Err(Error::user(format!("the board {} does not repeat a cell to the bit", board.name()))
            .hint("omit --verify-fraction: repeated cells say something on virtual boards alone"));
    }
    match store {
        Some(store) if store.share()?.is_some_and(|begun| begun.plan != share.plan) => {
            Err(Error::user(format!("the study's cells have changed since {} began", store.folder().display())).hint(
                "files that the study names have changed, or pocketstone has: run the shard again in a new folder",
            ))
        }
        _ => Ok(()),
    }
}

/// The fact that says which share results are.
pub fn fact(share: &Share) -> Result<(&'static str, String)> {
    let text = serde_json::to_string(share).map_err(|e| Error::bug("a share is not valid JSON").because(e))?;
    Ok((FACT, text))
}

/// Says how a shard ended: there are no verdicts before all cells are there.
pub fn end(store: &Store, share: &Share, model: &Model, json: bool) -> Result<u8> {
    let (folder, shard) = (store.folder(), share.asked.shard);
    if json {
        pocketstone_cli::print_json(&serde_json::json!({
            "format": 1, "folder": folder, "shard": shard.index, "shards": shard.of, "cells": share.cells,
            "failures": model.failures, "left_out": model.left_out,
        }))?;
    } else {
        summary::left_out_and_failed(model);
        say!("shard {shard}: {}, {} of them failed", counted(share.cells, "cell"), model.failures.len());
        say!("results: {}", folder.display());
        say!("when all shards are there: {} merge DIR... -o DIR", again::this_command());
    }
    Ok(if model.failures.is_empty() { 0 } else { 4 })
}

/// A study that is shared out.
pub struct Plan {
    pub study: Study,
    pub profile: Profile,
    /// Its cells, of all shares.
    pub cells: Vec<Cell>,
    pub shares: Shares,
}

impl Plan {
    /// Shares out what the arguments name.
    ///
    /// # Errors
    /// `ErrorKind::User` for an invalid study or condition.
    pub fn of(arguments: &SharesArguments, context: &BoardContext) -> Result<Self> {
        let study = read_study(&arguments.study)?;
        let profile = boards::profile(arguments.board.as_deref().unwrap_or(&study.board))?;
        let request = Request {
            study: &study,
            only: arguments.only.as_deref(),
            directory: None,
            chip_bytes: profile.chip_bytes(),
            most_cells: most_cells(arguments.many_cells),
            asked: None,
        };
        let mut traces = Traces::new(&context.cache.folder(TRACES)?, &study_base(&arguments.study)?);
        let cells = select_cells(&request, profile.kind().name, None, &mut traces)?.cells;
        let shares = Shares::of(&study, &cells, arguments.shards, arguments.verify_fraction.unwrap_or(0.0))?;
        Ok(Plan { study, profile, cells, shares })
    }

    /// The cells of a share.
    fn cells_of(&self, index: u32) -> Vec<Cell> {
        self.cells.iter().filter(|cell| self.shares.has(index, cell)).cloned().collect()
    }
}

/// The words after `pocketstone` that run a share of it, all but which one.
pub fn run_words(arguments: &SharesArguments, study: &Path) -> Vec<String> {
    let mut words = vec!["run".into(), quote(&study.to_string_lossy())];
    for (option, value) in [("--board", &arguments.board), ("--only", &arguments.only)] {
        words.extend(value.iter().flat_map(|value| [option.to_owned(), quote(value)]));
    }
    words.extend(arguments.many_cells.then(|| "--many-cells".to_owned()));
    words.extend(arguments.verify_fraction.iter().flat_map(|f| ["--verify-fraction".into(), f.to_string()]));
    words
}

/// Number of states that cells start from.
fn states(cells: &[Cell]) -> usize {
    let states = cells.iter().map(|cell| cell.plan.steps()).filter(|steps| !steps.is_empty());
    states.map(|steps| format!("{steps:?}")).collect::<BTreeSet<_>>().len()
}

/// `study plan`.
///
/// # Errors
/// As [`Plan::of`].
pub fn plan(arguments: &StudyPlanArguments) -> Result<u8> {
    let context = context()?;
    let plan = Plan::of(&arguments.shares, &context)?;
    let Plan { study, profile, cells, shares } = &plan;
    let of = arguments.shares.shards;
    let costs = boards::costs_file(&context.cache).map(|file| Costs::load(&file)).unwrap_or_default();
    let parallel = profile.at_once(boards::cores());
    let shards: Vec<(u32, Vec<Cell>)> = (1..=of).map(|index| (index, plan.cells_of(index))).collect();
    if arguments.json {
        let shard = |(index, cells): &(u32, Vec<Cell>)| {
            let repeated: Vec<u64> = cells.iter().filter(|c| shares.repeats(*index, c)).map(|c| c.number).collect();
            serde_json::json!({
                "shard": index, "states": states(cells), "cells": cells.iter().map(|c| c.number).collect::<Vec<_>>(),
                "repeated": repeated, "expected_s": costs.expect(&profile.name, cells, parallel).0.as_secs_f64(),
            })
        };
        pocketstone_cli::print_json(&serde_json::json!({
            "format": 1, "study": study.name, "board": profile.name, "number": cells.len(), "plan": shares.digest,
            "shards": shards.iter().map(shard).collect::<Vec<_>>(),
        }))?;
        return Ok(0);
    }
    let mut guessed = false;
    for (index, cells) in &shards {
        let (time, known) = costs.expect(&profile.name, cells, parallel);
        guessed |= !known;
        let repeated = cells.iter().filter(|cell| shares.repeats(*index, cell)).count();
        let repeated = if repeated > 0 { format!(" ({repeated} of another shard)") } else { String::new() };
        let (number, states) = (counted(cells.len(), "cell"), counted(states(cells), "state"));
        say!("shard {index}: {number}{repeated} from {states}, about {}", progress::in_words(time));
    }
    let guess = if guessed { " (times are guesses: no similar cells were measured here yet)" } else { "" };
    say!("{} on the board {}{guess}", counted(cells.len(), "cell"), profile.name);
    let (command, words) = (again::this_command(), run_words(&arguments.shares, &arguments.shares.study).join(" "));
    say!("each, with I from 1 to {of}: {command} {words} --shard I/{of} --output shard-I");
    say!("then: {command} merge shard-* -o DIR");
    Ok(0)
}

/// `merge`.
///
/// # Errors
/// `ErrorKind::User` if shards are missing, unfinished or of other runs, if a repeated cell differs, or if the results
/// cannot be written; the folder is not there then.
pub fn merge(arguments: &MergeArguments) -> Result<u8> {
    let target = target(&arguments.output)?;
    Store::refuse_taken(&target).map_err(|e| Error::user(e.message()).hint("choose an empty or new folder"))?;
    let parts = Parts::open(&arguments.folders)?;
    refuse_within(&target, &arguments.folders)?;
    refuse_missing(&parts)?;
    let context = context()?;
    let begun = Begun::of(&target)?;
    let done = build(&parts, &begun.path, &context);
    progress::clear();
    let verified = done.inspect_err(|_| {
        // Of no use to anybody; where it cannot be removed, the next one does.
        let _ = fs::remove_dir_all(&begun.path);
    })?;
    begun.finish(&target)?;
    again::link_latest(&target);
    if verified > 0 && !arguments.json {
        let were = if verified == 1 { "was" } else { "were" };
        say!("{} {were} measured by two shards, with identical logs\n", counted(verified, "cell"));
    }
    tell(&arguments.output, arguments.json)
}

/// The folder that gets results by a rename, which does not follow a link.
fn target(output: &Path) -> Result<PathBuf> {
    let path = std::path::absolute(output).user(|| "cannot resolve --output".into())?;
    // Without a slash at its end, which would lead behind a link.
    let path: PathBuf = path.components().collect();
    if !path.is_symlink() {
        return Ok(path);
    }
    fs::canonicalize(&path)
        .user(|| format!("{} is a link that leads nowhere", output.display()))
        .map_err(|e| e.hint("remove it, or choose another --output"))
}

/// Refuses to write into what is only read.
fn refuse_within(target: &Path, folders: &[PathBuf]) -> Result<()> {
    let there = target.ancestors().find_map(|path| fs::canonicalize(path).ok()).unwrap_or_default();
    let holds = |folder: &&PathBuf| fs::canonicalize(folder).is_ok_and(|folder| there.starts_with(folder));
    match folders.iter().find(holds) {
        None => Ok(()),
        Some(folder) => Err(Error::user(format!("{} is in the shard {}", target.display(), folder.display()))
            .hint("shards are only read: choose a folder elsewhere")),
    }
}

/// Prints what whole results say, and returns the run's exit status.
///
/// # Errors
/// `ErrorKind::User` if they cannot be read.
pub fn tell(folder: &Path, json: bool) -> Result<u8> {
    let store = Store::open(folder, false)?;
    let study = study_of(&store)?;
    let model = pocketstone_study::views::report_model::model(&store, &study)?;
    let report = folder.join("report.html");
    match json {
        true => say!("{}", summary::json(&store, &model, &report)?),
        false => summary::print(&store, &study, &model, &report)?,
    }
    Ok(summary::status(&model))
}

/// A folder that results are made in before they are there: beside the target, so that a rename makes them it.
struct Begun {
    path: PathBuf,
    /// Locked as long as somebody is at it.
    _lock: File,
}

impl Begun {
    fn of(target: &Path) -> Result<Self> {
        let name = target.file_name().ok_or_else(|| Error::user("--output is no folder's name"))?.to_string_lossy();
        let path = target.with_file_name(format!(".{name}.merging"));
        let failed = || format!("cannot create {}", path.display());
        fs::create_dir_all(&path).user(failed)?;
        let lock = File::open(&path).user(failed)?;
        let other = || Error::user(format!("another process merges into {}", target.display()));
        rustix::fs::flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|e| other().because(e))?;
        // Who had it before may have finished, and then it has the target's name.
        let ino = lock.metadata().user(failed)?.ino();
        if !fs::metadata(&path).is_ok_and(|there| there.ino() == ino) {
            return Err(other());
        }
        // One that was killed may have left something.
        for entry in fs::read_dir(&path).user(failed)? {
            let left = entry.user(failed)?.path();
            if left.is_dir() { fs::remove_dir_all(&left) } else { fs::remove_file(&left) }.user(failed)?;
        }
        Ok(Begun { path, _lock: lock })
    }

    /// Gives it the target's name, once all of it would outlive a power cut.
    fn finish(self, target: &Path) -> Result<()> {
        let failed = || format!("cannot write {}", target.display());
        sync_folder(&self.path).user(failed)?;
        fs::rename(&self.path, target).user(failed)?;
        let parent = target.parent().unwrap_or(Path::new("/"));
        File::open(parent).and_then(|folder| folder.sync_all()).user(failed)
    }
}

/// Makes the results of the whole in a folder, and returns how many cells two shards have measured.
fn build(parts: &Parts, folder: &Path, context: &BoardContext) -> Result<usize> {
    let first = &parts.all()[0].store;
    let study = study_of(first)?;
    let facts = parts.facts()?;
    let mut store = Store::create(folder, facts.iter().map(|(name, value)| (name.as_str(), value.as_str())))?;
    (context.progress)("merging");
    let merged = put_together(parts, &mut store)?;
    context.check()?;
    if let Some(options) = Options::of(first)? {
        Options { asked: None, ..options }.keep(&store)?;
    }
    fs::write(folder.join("study.toml"), &study.text).user(|| format!("cannot write to {}", folder.display()))?;
    let folders: Vec<&Path> = parts.all().iter().map(|part| part.store.folder()).collect();
    copy_workloads(&folders, folder)?;
    store.keep_statements()?;
    store.summarize(&study)?;
    let mut progress = progress::RunProgress::default();
    boards::replay(&study, &mut store, context, &mut progress)?;
    write_report(&store, &study)?;
    Ok(merged.verified)
}

/// Copies prepared workloads, whose names are their digests, from the first folder that has each as it was made.
fn copy_workloads(folders: &[&Path], to: &Path) -> Result<()> {
    let to = to.join("workloads");
    let mut damaged = BTreeMap::new();
    for folder in folders {
        let from = folder.join("workloads");
        if !from.is_dir() {
            continue;
        }
        let failed = || format!("cannot copy {} to {}", from.display(), to.display());
        fs::create_dir_all(&to).user(failed)?;
        for entry in fs::read_dir(&from).user(failed)? {
            let entry = entry.user(failed)?;
            let target = to.join(entry.file_name());
            // What a killed run was just writing has another name.
            if target.exists() || !traces::is_kept(&entry.path()) {
                continue;
            }
            if !traces::intact(&entry.path()) {
                damaged.entry(target).or_insert((*folder, entry.path()));
                continue;
            }
            fs::copy(entry.path(), target).user(failed)?;
        }
    }
    match damaged.into_iter().find(|(target, _)| !target.exists()) {
        None => Ok(()),
        Some((_, (folder, file))) => Err(Error::user(format!("{} is damaged", file.display()))
            .hint(format!("this writes it again: {}", go_on(folder)))),
    }
}

/// The folder of shards and a shard's name there, where results are a copy that the shard's script replaces.
fn copied(results: &Path) -> Option<(PathBuf, String)> {
    let results = fs::canonicalize(results).ok()?;
    let (shards, name) = (results.parent()?, results.file_name()?.to_str()?);
    shards.join(format!(".owner-{name}")).exists().then(|| (shards.to_owned(), name.to_owned()))
}

/// What goes on with a shard.
fn go_on(results: &Path) -> String {
    let Some((shards, name)) = copied(results) else { return again::resume(results, None) };
    match shards.join("shard.sh") {
        script if script.is_file() => format!("{} {name}", quote(&script.to_string_lossy())),
        _ => format!("start the job of shard {name} again"),
    }
}

/// Refuses to add to a copy of a shard's results: its script, which may still run on another machine, puts another one
/// in its place.
///
/// # Errors
/// `ErrorKind::User` with what goes on with that shard.
pub fn refuse_copy(results: &Path) -> Result<()> {
    if copied(results).is_none() {
        return Ok(());
    }
    let what = "is a copy that the shard's script replaces while it runs";
    Err(Error::user(format!("{} {what}", results.display())).hint(format!("go on with the shard: {}", go_on(results))))
}

/// Refuses to merge before all shards are there with all their cells.
fn refuse_missing(parts: &Parts) -> Result<()> {
    let mut wanting = Vec::new();
    let mut commands = Vec::new();
    for part in parts.all() {
        let (ended, Share { asked, cells, .. }) = (part.ended()?, &part.share);
        if ended < *cells {
            let folder = part.store.folder();
            wanting.push(format!("{} ({}) has {ended} of {cells} cells", asked.shard, folder.display()));
            commands.push(go_on(folder));
        }
    }
    let missing = parts.missing();
    if let [first, ..] = missing[..] {
        let of = parts.all()[0].share.asked.shard.of;
        let names: Vec<String> = missing.iter().map(|index| format!("{index}/{of}")).collect();
        wanting.push(format!("{} {} missing", names.join(", "), if missing.len() > 1 { "are" } else { "is" }));
        commands.push(command_of(&parts.all()[0], first)?);
    }
    if wanting.is_empty() {
        return Ok(());
    }
    let shards = if wanting.len() + missing.len() > 2 { "shards" } else { "shard" };
    Err(Error::user(format!("the run is not whole: {shards} {}", wanting.join("; "))).hint(commands.join("; then: ")))
}

/// The command that runs another shard of the same run.
fn command_of(part: &Part, index: u32) -> Result<String> {
    let Some(mut options) = Options::of(&part.store)? else {
        return Ok(format!("{} run STUDY --shard {index}/{}", again::this_command(), part.share.asked.shard.of));
    };
    if let Some(asked) = &mut options.asked {
        asked.shard.index = index;
    }
    options.command()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name of a file that holds `abc`.
    const ABC: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad.tar";

    #[test]
    fn a_damaged_workload_is_taken_from_another_shard_or_refused() {
        let home = tempfile::tempdir().unwrap();
        let folder = |name: &str, text: &str| {
            let folder = home.path().join(name);
            fs::create_dir_all(folder.join("workloads")).unwrap();
            fs::write(folder.join("workloads").join(ABC), text).unwrap();
            fs::write(folder.join("workloads/x.new"), "half").unwrap();
            folder
        };
        let (damaged, whole) = (folder("1", "ab"), folder("2", "abc"));
        let to = home.path().join("merged");
        let error = copy_workloads(&[&damaged], &to).unwrap_err();
        assert!(error.message().ends_with(&format!("1/workloads/{ABC} is damaged")), "{error}");
        assert!(error.cure().unwrap().contains("run --resume"));
        copy_workloads(&[&damaged, &whole], &to).unwrap();
        assert_eq!(fs::read_to_string(to.join("workloads").join(ABC)).unwrap(), "abc");
        assert_eq!(fs::read_dir(to.join("workloads")).unwrap().count(), 1);
    }

    #[test]
    fn a_copy_that_a_script_replaces_is_gone_on_with_by_the_script() {
        let home = tempfile::tempdir().unwrap();
        let shard = home.path().join("1");
        fs::create_dir(&shard).unwrap();
        refuse_copy(&shard).unwrap();
        fs::write(home.path().join(".owner-1"), "somewhere-7-1").unwrap();
        assert_eq!(
            refuse_copy(&shard).unwrap_err().cure(),
            Some("go on with the shard: start the job of shard 1 again")
        );
        fs::write(home.path().join("shard.sh"), "").unwrap();
        assert!(refuse_copy(&shard).unwrap_err().cure().unwrap().ends_with("/shard.sh 1"));
    }
}
