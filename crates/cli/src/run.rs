//! `pocketstone run`.

use crate::arguments::RunArguments;
use crate::boards::{devices, surroundings};
use crate::{is_boards, progress, read_study, study_of, summary, write_report};
use pocketstone_board::{Board, Profile, ProfileKind, Surroundings, TRACES, VirtualBoard};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_study::Study;
use pocketstone_study::model::{LeftOut, Verdict};
use pocketstone_study::run::{Request, dry_run, run as run_cells, select_cells};
use pocketstone_study::store::Store;
use pocketstone_study::traces::Traces;
use std::path::{Path, PathBuf};

/// Runs a study.
///
/// # Errors
/// When it cannot be run at all; failed cells are in the summary and make the status 4.
pub fn run(arguments: &RunArguments) -> Result<u8> {
    let mut store = arguments.resume.as_deref().map(|folder| Store::open(folder, true)).transpose()?;
    let study = study(arguments, store.as_ref())?;
    pocketstone_study::summarize::check_queries(&study)?;
    let stored_board = match &store {
        Some(store) => store.fact("board.file")?.or(store.fact("board")?),
        None => None,
    };
    let forced = arguments.board.clone().or(stored_board);
    let name = forced.clone().unwrap_or_else(|| study.board.clone());
    let directory = arguments.directory.as_deref().map(std::path::absolute).transpose();
    let directory = directory.user(|| "cannot resolve --directory".into())?;
    let request = Request { study: &study, only: arguments.only.as_deref(), directory: directory.as_deref() };
    let profile = Profile::load(&devices(), &name)?;
    let base = study_base(arguments, store.as_ref())?;
    if arguments.dry_run {
        let folder = tempfile::tempdir().user(|| "cannot create a temporary folder".into())?;
        let mut traces = Traces::new(folder.path(), &base);
        let (cells, _) = select_cells(&request, kind(&profile), None, &mut traces)?;
        dry_run(&cells).iter().for_each(|line| say!("{line}"));
        say!("{} cells on the board {name}", cells.len());
        return Ok(0);
    }

    // What replays need is checked before anything is measured.
    let models = pocketstone_study::replay::devices(&study, &devices(), store.as_ref())?;
    pocketstone_study::replay::check(&study, &models)?;
    let surroundings = surroundings()?;
    let mut traces = Traces::new(&surroundings.cache.folder(TRACES)?, &base);
    let mut left_out = Vec::new();
    let (profile, board) = match open(&profile, arguments.cold, &surroundings) {
        Ok(board) => (profile, board),
        // Without the board that the study is meant for, this machine still has something to say.
        Err(error) if forced.is_none() && is_boards(&error) && name != "host" => {
            surroundings.check()?;
            let cure = error.cure().unwrap_or_default().to_owned();
            left_out.push(LeftOut { what: format!("the board {name}"), why: error.chain(), cure });
            let host = Profile::load(&devices(), "host")?;
            let board = open(&host, false, &surroundings)?;
            (host, board)
        }
        Err(error) => return Err(error),
    };
    if let Some(store) = &store {
        refuse_another_board(store, board.as_ref())?;
    }
    let selected = select_cells(&request, kind(&profile), Some(board.as_ref()), &mut traces);
    let (cells, unavailable) = selected.map_err(|error| match left_out.first() {
        // Why it is not the board that the study is meant for matters more than what this one lacks.
        Some(l) if is_boards(&error) => {
            Error::board(format!("{}; {} is left out: {}", error.message(), l.what, l.why)).hint(l.cure.clone())
        }
        _ => error,
    })?;
    left_out.extend(unavailable);

    let store = match &mut store {
        Some(store) => store,
        None => store.insert(new_store(arguments, &study, &base, &profile, board.as_ref())?),
    };
    store.clear_left_out()?;
    left_out.iter().try_for_each(|l| store.leave_out(l))?;
    let mut progress = progress::RunProgress::default();
    let result = run_cells(&study, &cells, board.as_ref(), store, &traces, &surroundings, &mut progress);
    let result =
        result.and_then(|()| pocketstone_study::run::replay(&study, &devices(), store, &surroundings, &mut progress));
    progress::clear();
    if result.is_err() && surroundings.check().is_err() {
        let folder = store.folder().display();
        return Err(Error::new(ErrorKind::Interrupted, "interrupted")
            .hint(format!("finished cells are kept; go on with: pocketstone run --resume {folder}")));
    }
    result?;
    let report = write_report(store, &study)?;
    let model = pocketstone_study::report_model::model(store, &study)?;
    match arguments.json {
        true => say!("{}", summary::json(store, &model, &report)?),
        false => summary::print(store, &study, &model, &report)?,
    }
    let missed = model.claims.iter().any(|c| c.required && c.verdict == Verdict::Fails);
    // Failures of earlier parts of a resumed run are failures too.
    Ok(match (model.failures.len(), missed) {
        (1.., _) => 4,
        (0, true) => 3,
        (0, false) => 0,
    })
}

fn kind(profile: &Profile) -> &'static str {
    match profile.kind {
        ProfileKind::Host(_) => "host",
        ProfileKind::Virtual(_) => "virtual",
    }
}

fn open(profile: &Profile, cold: bool, surroundings: &Surroundings) -> Result<Box<dyn Board>> {
    match &profile.kind {
        ProfileKind::Virtual(machine) if cold => {
            Ok(Box::new(VirtualBoard::open(&profile.name, machine, surroundings)?.cold()))
        }
        _ => pocketstone_board::open(profile, surroundings),
    }
}

fn study(arguments: &RunArguments, store: Option<&Store>) -> Result<Study> {
    let Some(store) = store else {
        let file = arguments.study.as_deref().ok_or_else(|| Error::user("no study is named"))?;
        return read_study(file);
    };
    let stored = study_of(store)?;
    if let Some(file) = &arguments.study {
        if read_study(file)?.text != stored.text {
            let folder = store.folder().display();
            return Err(Error::user(format!("{} is not the study that {folder} was run with", file.display()))
                .hint("leave the file out to go on with the stored study, or start a new run"));
        }
    }
    Ok(stored)
}

/// The folder that paths in the study count from: its file's, also when its text comes from the results.
fn study_base(arguments: &RunArguments, store: Option<&Store>) -> Result<PathBuf> {
    if let Some(folder) = store.map(|s| s.fact("study.folder")).transpose()?.flatten() {
        return Ok(folder.into());
    }
    let folder = arguments.study.as_deref().map_or(Path::new(""), crate::study_folder);
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    std::path::absolute(folder).user(|| "cannot resolve the study's folder".into())
}

/// Results of different machines must not meet in one table.
fn refuse_another_board(store: &Store, board: &dyn Board) -> Result<()> {
    let facts = board.facts();
    for name in ["image.digest", "kernel.release", "machine", "qemu.version", "qemu.arguments"] {
        let (before, now) = (store.fact(&format!("fact.{name}"))?, facts.get(name).cloned());
        if before != now {
            let text = |v: Option<String>| v.unwrap_or_else(|| "unavailable".into());
            return Err(Error::user(format!(
                "the board is not what it was when {} began: {name} was {}, is {}",
                store.folder().display(),
                text(before),
                text(now)
            ))
            .hint("start a new run; the old results stay as they are"));
        }
    }
    Ok(())
}

fn new_store(
    arguments: &RunArguments,
    study: &Study,
    base: &Path,
    profile: &Profile,
    board: &dyn Board,
) -> Result<Store> {
    let folder = match &arguments.output {
        Some(folder) => folder.clone(),
        None => free_folder(&study.name),
    };
    let store = Store::create(&folder)?;
    std::fs::write(folder.join("study.toml"), &study.text).user(|| format!("cannot write to {}", folder.display()))?;
    let words: Vec<String> = std::env::args().map(|word| quote(&word)).collect();
    store.set_facts([
        ("study", study.text.as_str()),
        ("study.name", &study.name),
        ("study.title", &study.title),
        ("study.folder", base.to_string_lossy().as_ref()),
        ("board", &profile.name),
        ("board.kind", kind(profile)),
        ("board.profile", &profile.text),
        ("board.repeats_to_the_bit", if board.deterministic() { "yes" } else { "no" }),
        ("command", &words.join(" ")),
        ("started_utc", &utc("%Y-%m-%d %H:%M:%S")),
        ("pocketstone.version", env!("CARGO_PKG_VERSION")),
        ("git.revision", env!("POCKETSTONE_REVISION")),
        ("host.kernel", &rustix::system::uname().release().to_string_lossy()),
        ("host.machine", &rustix::system::uname().machine().to_string_lossy()),
    ])?;
    if let Some(file) = arguments.board.as_deref().filter(|b| b.ends_with(".toml")) {
        let file = std::path::absolute(file).user(|| "cannot resolve --board".into())?;
        store.set_facts([("board.file", file.to_string_lossy().as_ref())])?;
    }
    let facts = board.facts();
    let names: Vec<String> = facts.keys().map(|name| format!("fact.{name}")).collect();
    store.set_facts(names.iter().map(String::as_str).zip(facts.values().map(String::as_str)))?;
    Ok(store)
}

/// A folder for a new run's results that does not exist yet.
fn free_folder(study: &str) -> PathBuf {
    let name = format!("{study}-{}", utc("%Y%m%d-%H%M%S"));
    let taken = |folder: &PathBuf| folder.exists();
    let numbered = (2..).map(|n| Path::new("results").join(format!("{name}-{n}")));
    std::iter::once(Path::new("results").join(&name)).chain(numbered).find(|f| !taken(f)).unwrap_or_default()
}

/// The time now in UTC, by `date`'s format.
fn utc(format: &str) -> String {
    let output = std::process::Command::new("date").args(["-u", &format!("+{format}")]).output();
    output.map_or_else(|_| "unavailable".into(), |o| String::from_utf8_lossy(&o.stdout).trim().to_owned())
}

/// A word as a shell needs it.
fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn quoted_words_mean_themselves() {
        for word in ["plain", "two words", "it's", "", "a'b'c", "$HOME"] {
            let script = format!("printf %s {}", super::quote(word));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
