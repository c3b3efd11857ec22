//! `pocketstone run`.

use crate::again::{self, Options, Program};
use crate::arguments::RunArguments;
use crate::boards::{context, devices};
use crate::studies::{self, is_boards, most_cells, read_study, study_of, write_report};
use crate::{boards, own_program, progress, shards, summary};
use pocketstone_board::{Board, KINDS, Profile, TRACES};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_study::Study;
use pocketstone_study::results::resumed;
use pocketstone_study::results::store::Store;
use pocketstone_study::run::costs::Costs;
use pocketstone_study::run::{Request, run as run_cells, select_cells};
use pocketstone_study::specification::cell::Cell;
use pocketstone_study::specification::shares::Share;
use pocketstone_study::specification::traces::Traces;
use pocketstone_study::views::model::LeftOut;
use std::path::{Path, PathBuf};

/// Runs a study.
///
/// # Errors
/// `ErrorKind::User` for an invalid study, board or folder; `ErrorKind::Board` if the board cannot run it;
/// `ErrorKind::Interrupted` if the user interrupts. Failed cells are in the summary and make the status 4.
pub fn run(arguments: &RunArguments) -> Result<u8> {
    arguments.resume.as_deref().map_or(Ok(()), shards::refuse_copy)?;
    let mut store = arguments.resume.as_deref().map(|folder| Store::open(folder, true)).transpose()?;
    let study = study(arguments, store.as_ref())?;
    pocketstone_study::views::check::check_queries(&study)?;
    let stored_board = match &store {
        Some(store) => store.fact("board.file")?.or(store.fact("board")?),
        None => None,
    };
    let begun = store.as_ref().map(Options::of).transpose()?.flatten();
    let forced = arguments.board.clone().or(stored_board);
    let name = forced.clone().unwrap_or_else(|| study.board.clone());
    let directory = arguments.directory.as_deref().map(std::path::absolute).transpose();
    let directory = directory.user(|| "cannot resolve --directory".into())?;
    // A run that goes on does so where it began.
    let directory = directory.or_else(|| begun.as_ref()?.directory.clone());
    let cold = arguments.cold || begun.as_ref().is_some_and(|b| b.cold);
    let asked = shards::asked(arguments, store.as_ref())?;
    // The cells of a shard are what they are.
    let only = match (&begun, asked) {
        (Some(begun), Some(_)) => begun.only.clone(),
        _ => arguments.only.clone(),
    };
    let profile = boards::profile(&name).map_err(|e| match forced {
        Some(_) => e,
        None => study.error_at(study.board_place.clone(), e),
    })?;
    let request = Request {
        study: &study,
        only: only.as_deref(),
        directory: directory.as_deref(),
        chip_bytes: profile.chip_bytes(),
        most_cells: most_cells(arguments.many_cells || begun.as_ref().is_some_and(|b| b.many_cells)),
        asked,
    };
    if let Some(folder) = &arguments.output {
        Store::refuse_taken(folder)?;
    }
    let base = study_base(arguments, store.as_ref())?;
    if arguments.dry_run {
        // A share depends on what the workloads are.
        let mut traces = match asked {
            Some(_) => Traces::new(&context()?.cache.folder(TRACES)?, &base),
            None => Traces::checked(&base),
        };
        let selected = select_cells(&request, profile.kind().name, None, &mut traces)?;
        return dry_run(&study, &name, &selected.cells, arguments.json);
    }

    // What replays need is checked before anything is measured.
    let models = pocketstone_study::models::replay::devices(&study, &devices()?, store.as_ref())?;
    pocketstone_study::models::replay::check(&study, &models)?;
    let context = context()?;
    let mut traces = Traces::new(&context.cache.folder(TRACES)?, &base);
    let mut left_out = Vec::new();
    let own_kind = profile.kind().name;
    let (profile, board) = match pocketstone_board::open(&profile, cold, &context) {
        Ok(board) => (profile, board),
        // Without the board that the study is meant for, this machine still has something to say.
        Err(error) if forced.is_none() && asked.is_none() && is_boards(&error) && !profile.kind().everywhere => {
            context.check()?;
            left_out.push(LeftOut::new(format!("the board {name}"), &error));
            let host = KINDS.iter().find(|kind| kind.everywhere).map_or("", |kind| kind.usual);
            let host = Profile::load(&devices()?, host)?;
            let board = pocketstone_board::open(&host, false, &context)?;
            (host, board)
        }
        Err(error) => return Err(error),
    };
    // The study's own board was wanting, and this machine took its place.
    let replaced = !left_out.is_empty();
    if let Some(store) = &store {
        check_begun(store, &board)?;
    }
    let selected = select_cells(&request, profile.kind().name, Some(&board), &mut traces);
    let selected = selected.map_err(|error| match left_out.first() {
        // Why it is not the board that the study is meant for matters more than what this one lacks, or that a
        // condition selects none of the cells that it would measure.
        Some(l) if is_boards(&error) || select_cells(&request, own_kind, None, &mut traces).is_ok() => {
            Error::board(format!("{}; skipping {}: {}", error.message(), l.what, l.why)).hint(l.cure.clone())
        }
        _ => error,
    })?;
    left_out.extend(selected.left_out);
    let (cells, share) = (selected.cells, selected.share);
    if let Some(share) = &share {
        shards::check(share, store.as_ref(), &board)?;
    }

    if let Some(store) = &store {
        resumed::check_plans(store, &cells)?;
        resumed::note_revision(store, &cells, env!("POCKETSTONE_REVISION"))?;
    }
    // The board that it runs on, which may be this machine for want of the study's own.
    let board_name = match name.ends_with(".toml") && !replaced {
        true => std::path::absolute(&name).user(|| format!("cannot resolve {name}"))?.to_string_lossy().into_owned(),
        false => profile.name.clone(),
    };
    let options = match begun {
        Some(begun) => begun.and(arguments),
        None => Options {
            study: study_file(arguments, &study, &base),
            board: board_name,
            // Of what an earlier version began it is not known what was asked.
            only: arguments.only.clone().filter(|_| arguments.resume.is_none()),
            cold,
            directory: directory.clone(),
            many_cells: arguments.many_cells,
            asked,
            program: Program::of(arguments)?,
        },
    };
    let store = match &mut store {
        Some(store) => store,
        None => store.insert(new_store(arguments, &study, &base, &profile, &board, share.as_ref())?),
    };
    options.keep(store)?;
    again::link_latest(store.folder());
    store.clear_left_out()?;
    left_out.iter().try_for_each(|l| store.leave_out(l))?;
    let mut progress = progress::RunProgress::default();
    let costs_file = boards::costs_file(&context.cache);
    let mut costs = costs_file.as_deref().map(Costs::load).unwrap_or_default();
    let result = run_cells(&study, &cells, &board, store, &traces, &context, &mut costs, &mut progress);
    if let Some(file) = costs_file {
        costs.save(&file);
    }
    let result = match &share {
        // Models are of the whole.
        Some(_) => result,
        None => result.and_then(|()| boards::replay(&study, store, &context, &mut progress)),
    };
    progress::clear();
    if let Err(error) = result {
        // The cells of a shard are what they are.
        let only = options.only.as_deref().filter(|_| share.is_none());
        let resume = format!("finished cells are kept; resume with: {}", again::resume(store.folder(), only));
        return Err(match error.kind() {
            _ if context.check().is_err() => Error::new(ErrorKind::Interrupted, "interrupted").hint(resume),
            ErrorKind::Board => Error::board("the run has ended early").because(error).hint(resume),
            _ => error,
        });
    }
    let model = pocketstone_study::views::report_model::model(store, &study)?;
    if let Some(share) = &share {
        return shards::end(store, share, &model, arguments.json);
    }
    let report = write_report(store, &study)?;
    match arguments.json {
        true => say!("{}", summary::json(store, &model, &report)?),
        false => {
            if options.program.is_some() {
                summary::tables(&model, &own_program::TABLES);
            }
            summary::print(store, &study, &model, &report)?;
        }
    }
    Ok(summary::status(&model))
}

/// What would be run, a line for each cell or as JSON.
fn dry_run(study: &Study, board: &str, cells: &[Cell], json: bool) -> Result<u8> {
    if json {
        let cell = |c: &Cell| {
            serde_json::json!({
                "experiment": c.experiment, "point": c.point, "repetition": c.repetition, "seed": c.plan.seed,
                "traced": c.traced,
            })
        };
        let all: Vec<serde_json::Value> = cells.iter().map(cell).collect();
        pocketstone_cli::print_json(&serde_json::json!({
            "format": 1, "study": study.name, "board": board, "number": all.len(), "cells": all,
        }))?;
        return Ok(0);
    }
    cells.iter().for_each(|cell| say!("{}", cell.describe()));
    say!("{} cells on the board {board}", cells.len());
    Ok(0)
}

/// The study's file, from the root.
fn study_file(arguments: &RunArguments, study: &Study, base: &Path) -> PathBuf {
    let named = arguments.study.as_deref().and_then(Path::file_name);
    base.join(named.unwrap_or(format!("{}.toml", study.name).as_ref()))
}

fn study(arguments: &RunArguments, store: Option<&Store>) -> Result<Study> {
    let Some(store) = store else {
        if !arguments.program.is_empty() {
            return own_program::study(arguments);
        }
        let file = arguments.study.as_deref().ok_or_else(|| Error::user("no study given"))?;
        return read_study(file);
    };
    let stored = study_of(store)?;
    if let Some(file) = &arguments.study {
        if read_study(file)?.text != stored.text {
            let folder = store.folder().display();
            return Err(Error::user(format!("{} is not the study that {folder} was run with", file.display()))
                .hint("omit the file to resume with the stored study, or start a new run"));
        }
    }
    Ok(stored)
}

/// The folder that paths in the study count from: its file's, also when its text comes from the results.
fn study_base(arguments: &RunArguments, store: Option<&Store>) -> Result<PathBuf> {
    if let Some(folder) = store.map(|s| s.fact("study.folder")).transpose()?.flatten() {
        return Ok(folder.into());
    }
    studies::study_base(arguments.study.as_deref().unwrap_or(Path::new("")))
}

/// Keeps what the board says of itself with the results.
fn set_board_facts(store: &Store, board: &Board) -> Result<()> {
    let facts = board.facts();
    let names: Vec<String> = facts.keys().map(|name| format!("fact.{name}")).collect();
    store.set_facts(names.iter().map(String::as_str).zip(facts.values().map(String::as_str)))
}

/// Results of different machines must not meet in one table.
fn check_begun(store: &Store, board: &Board) -> Result<()> {
    // Every board says what machine it is. A run that was killed before it did has measured nothing yet.
    match store.fact("fact.machine")? {
        None => set_board_facts(store, board),
        Some(_) => resumed::check_machine(store, board.facts()),
    }
}

fn new_store(
    arguments: &RunArguments,
    study: &Study,
    base: &Path,
    profile: &Profile,
    board: &Board,
    share: Option<&Share>,
) -> Result<Store> {
    let folder = match (&arguments.output, share.map(|share| share.asked.shard)) {
        (Some(folder), _) => folder.clone(),
        (None, None) => free_folder(&study.name),
        (None, Some(shard)) => free_folder(&format!("{}-shard-{}-of-{}", study.name, shard.index, shard.of)),
    };
    let share = share.map(shards::fact).transpose()?;
    let file = arguments.board.as_deref().filter(|b| b.ends_with(".toml"));
    let file = file.map(std::path::absolute).transpose().user(|| "cannot resolve --board".into())?;
    let file = file.as_ref().map(|path| path.to_string_lossy());
    let (base, host) = (base.to_string_lossy(), rustix::system::uname());
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
