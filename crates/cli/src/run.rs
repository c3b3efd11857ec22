//! `pocketstone run`.

mod chosen;
mod intent;
mod results;

use self::chosen::Chosen;
use self::intent::Intent;
use crate::again::{self, Options};
use crate::arguments::RunArguments;
use crate::boards::{context, devices};
use crate::studies::write_report;
use crate::{boards, own_program, progress, shards, summary};
use pocketstone_board::{BoardContext, Profile, TRACES};
use pocketstone_core::words::counted;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_study::Study;
use pocketstone_study::models::replay as models;
use pocketstone_study::results::resumed;
use pocketstone_study::results::store::Store;
use pocketstone_study::run::costs::Costs;
use pocketstone_study::run::{Selected, run as run_cells, select_cells};
use pocketstone_study::specification::cell::Cell;
use pocketstone_study::specification::traces::Traces;
use pocketstone_study::views::model::Model;
use pocketstone_study::views::report_model;

/// Runs a study.
///
/// # Errors
/// `ErrorKind::User` for an invalid study, board or folder; `ErrorKind::Board` if the board cannot run it;
/// `ErrorKind::Interrupted` if the user interrupts. Failed cells are in the summary and make the status 4.
pub fn run(arguments: &RunArguments) -> Result<u8> {
    arguments.resume.as_deref().map_or(Ok(()), shards::refuse_copy)?;
    let mut store = arguments.resume.as_deref().map(|folder| Store::open(folder, true)).transpose()?;
    let intent = Intent::of(arguments, store.as_ref())?;
    let profile = intent.profile()?;
    arguments.output.as_deref().map_or(Ok(()), Store::refuse_taken)?;
    if arguments.dry_run {
        return dry_run(&intent, &profile, arguments.json);
    }
    // What replays need is checked before anything is measured.
    models::check(&intent.study, &models::devices(&intent.study, &devices()?, store.as_ref())?)?;
    let context = context()?;
    let mut traces = Traces::new(&context.cache.folder(TRACES)?, &intent.base);
    let chosen = Chosen::open(&intent, profile.clone(), &context)?;
    if let Some(store) = &store {
        results::check_begun(store, &chosen.board)?;
    }
    let Selected { cells, left_out, share } = chosen.select(&intent, &profile, &mut traces)?;
    if let Some(share) = &share {
        shards::check(share, store.as_ref(), &chosen.board)?;
    }
    if let Some(store) = &store {
        resumed::check_plans(store, &cells)?;
        resumed::note_revision(store, &cells, env!("POCKETSTONE_REVISION"))?;
    }
    let options = intent.options(arguments, chosen.name(&intent)?)?;
    let store = match &mut store {
        Some(store) => store,
        None => store.insert(results::new_store(arguments, &intent, &chosen, share.as_ref())?),
    };
    options.keep(store)?;
    again::link_latest(store.folder());
    store.clear_left_out()?;
    chosen.instead_of().into_iter().chain(&left_out).try_for_each(|l| store.leave_out(l))?;
    let measured = measure(&intent.study, &cells, &chosen, store, &traces, &context, share.is_none());
    progress::clear();
    // The cells of a shard are what they are.
    let only = options.only.as_deref().filter(|_| share.is_none());
    measured.map_err(|error| to_resume(error, store, only, &context))?;
    let model = report_model::model(store, &intent.study)?;
    match &share {
        Some(share) => shards::end(store, share, &model, arguments.json),
        None => say_result(store, &intent.study, &model, &options, arguments.json),
    }
}

/// Measures the cells that the results lack, and, of a whole run, replays the models.
fn measure(
    study: &Study,
    cells: &[Cell],
    chosen: &Chosen,
    store: &mut Store,
    traces: &Traces,
    context: &BoardContext,
    whole: bool,
) -> Result<()> {
    let mut progress = progress::RunProgress::default();
    let costs_file = boards::costs_file(&context.cache);
    let mut costs = costs_file.as_deref().map(Costs::load).unwrap_or_default();
    let result = run_cells(study, cells, &chosen.board, store, traces, context, &mut costs, &mut progress);
    if let Some(file) = costs_file {
        costs.save(&file);
    }
    result?;
    if whole { boards::replay(study, store, context, &mut progress) } else { Ok(()) }
}

/// An error that ended a run, with the command that goes on.
fn to_resume(error: Error, store: &Store, only: Option<&str>, context: &BoardContext) -> Error {
    let resume = format!("finished cells are kept; resume with: {}", again::resume(store.folder(), only));
    match error.kind() {
        _ if context.check().is_err() => Error::new(ErrorKind::Interrupted, "interrupted").hint(resume),
        ErrorKind::Board => Error::board("the run has ended early").because(error).hint(resume),
        _ => error,
    }
}

/// Writes the report, and says what was found.
fn say_result(store: &Store, study: &Study, model: &Model, options: &Options, json: bool) -> Result<u8> {
    let report = write_report(store, study)?;
    if json {
        say!("{}", summary::json(store, model, &report)?);
        return Ok(summary::status(model));
    }
    if options.program.is_some() {
        summary::tables(model, &own_program::TABLES);
    }
    summary::print(store, study, model, &report)?;
    Ok(summary::status(model))
}

/// Says what would be run, a line for each cell or as JSON.
fn dry_run(intent: &Intent, profile: &Profile, json: bool) -> Result<u8> {
    // A share depends on what the workloads are.
    let mut traces = match intent.asked {
        Some(_) => Traces::new(&context()?.cache.folder(TRACES)?, &intent.base),
        None => Traces::checked(&intent.base),
    };
    let cells = select_cells(&intent.request(profile), profile.kind().name, None, &mut traces)?.cells;
    if json {
        let cell = |c: &Cell| {
            serde_json::json!({
                "experiment": c.experiment, "point": c.point, "repetition": c.repetition, "seed": c.plan.seed,
                "traced": c.traced,
            })
        };
        let all: Vec<serde_json::Value> = cells.iter().map(cell).collect();
        pocketstone_cli::print_json(&serde_json::json!({
            "format": 1, "study": intent.study.name, "board": intent.board(), "number": all.len(), "cells": all,
        }))?;
        return Ok(0);
    }
    cells.iter().for_each(|cell| say!("{}", cell.describe()));
    say!("{} on the board {}", counted(cells.len(), "cell"), intent.board());
    Ok(0)
}
