//! The command `pocketstone`.

// The one room that prints.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate pocketstone_cli;

mod advise;
mod again;
mod arguments;
mod boards;
mod boards_add;
mod boards_exchange;
mod calls;
mod cluster;
mod columns;
mod compare;
mod energy;
mod history;
mod huge_pages;
mod junit;
mod logs;
mod names;
mod own_program;
mod prebuild;
mod progress;
mod run;
mod screen;
mod shards;
mod studies;
mod study_new;
mod summary;
mod tables;
mod tlb;
mod traces;
mod workloads;

use arguments::{AdviseCommand, Arguments, BoardCommand, Command, ExportArguments, StudyCommand};
use clap::{CommandFactory, Parser};
use pocketstone_board::{Cache, HOST, KINDS};
use pocketstone_core::words::counted;
use pocketstone_core::{Error, Result};
use pocketstone_study::results::store::Store;
use pocketstone_study::run::costs::Costs;
use pocketstone_study::run::{Request, select_cells};
use pocketstone_study::specification::traces::Traces;
use pocketstone_study::views::model::LeftOut;
use std::path::Path;
use std::process::ExitCode;
use studies::{read_study, study_folder, study_of, write_report};

fn main() -> ExitCode {
    pocketstone_cli::complete(Arguments::command);
    pocketstone_cli::finish(dispatch(Arguments::parse().command))
}

fn dispatch(command: Command) -> Result<u8> {
    match command {
        Command::Run(mut arguments) => {
            arguments.study = arguments.study.map(|study| studies::find(&study)).transpose()?;
            run::run(&arguments)
        }
        Command::Merge(arguments) => shards::merge(&arguments),
        Command::Report { folder, junit } => {
            let study = study_of(&Store::open(&folder, false)?)?;
            let models = study.has_models();
            let mut store = Store::open(&folder, models)?;
            if models {
                // Profiles may have changed since.
                let mut progress = progress::RunProgress::default();
                let done = boards::replay(&study, &mut store, &boards::context()?, &mut progress);
                progress::clear();
                done?;
            }
            say!("{}", write_report(&store, &study)?.display());
            if let Some(file) = junit {
                let model = pocketstone_study::views::report_model::model(&store, &study)?;
                junit::write(&model, &study.name, &file)?;
            }
            Ok(0)
        }
        Command::Energy(arguments) => energy::energy(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::History(arguments) => history::history(&arguments),
        Command::Import(arguments) => workloads::import(&arguments),
        Command::Workload(command) => workloads::workload(&command),
        Command::Export(arguments) => export(&arguments),
        Command::Trace { file, output, json } => logs::show(&file, output.as_deref(), json),
        Command::Advise(AdviseCommand::Governor(arguments)) => advise::governor(&arguments),
        Command::Advise(AdviseCommand::Readahead(arguments)) => advise::read_ahead(&arguments),
        Command::Advise(AdviseCommand::HugePages(arguments)) => huge_pages::advise(&arguments),
        Command::Study(StudyCommand::New(arguments)) => {
            study_new::new(&arguments)?;
            // A study of which no cell can be made is none to begin with.
            check(&arguments.file, false).inspect_err(|_| _ = std::fs::remove_file(&arguments.file))
        }
        Command::Study(StudyCommand::Check { file, many_cells }) => check(&studies::find(&file)?, many_cells),
        Command::Study(StudyCommand::Plan(mut arguments)) => {
            arguments.shares.study = studies::find(&arguments.shares.study)?;
            shards::plan(&arguments)
        }
        Command::Study(StudyCommand::List) => studies::list(),
        Command::Cluster(command) => cluster::run(command),
        Command::Board(command) => match command {
            BoardCommand::List => boards::list(),
            BoardCommand::Add(arguments) => boards_add::add(&arguments),
            BoardCommand::Doctor { name } => boards_add::doctor(&boards::profile(&name)?),
            BoardCommand::Build { name } => boards::build(&name),
            BoardCommand::Start { name } => boards::start(&name),
            BoardCommand::Shell { name } => boards::shell(&name),
            BoardCommand::Exec { name, command } => boards::exec(&name, &command),
            BoardCommand::Export { name, file } => boards_exchange::export(&name, &file),
            BoardCommand::Import { file } => boards_exchange::import(&file),
        },
        Command::Flashmon(a) => {
            let options = pocketstone_probe::command::Options { summary: a.summary, log: a.log, command: a.command };
            let (report, status) = pocketstone_probe::command::run(&options)?;
            say!("{}", report.trim_end());
            Ok(status)
        }
        Command::Tlb(arguments) => tlb::tlb(&arguments),
        Command::Completions { shell } => {
            pocketstone_cli::completions(&Arguments::command(), shell)?;
            Ok(0)
        }
        Command::Prebuild { folder } => prebuild::prebuild(&folder),
        Command::Man { folder } => {
            say!("{}", pocketstone_cli::man(Arguments::command(), &folder)?.display());
            Ok(0)
        }
    }
}

fn check(file: &Path, many_cells: bool) -> Result<u8> {
    let study = read_study(file)?;
    let own = boards::profile(&study.board);
    let own = own.map_err(|e| study.error_at(study.board_place.clone(), e))?;
    let cache = Cache::of_user().ok();
    let costs = cache.and_then(|c| boards::costs_file(&c)).map(|file| Costs::load(&file)).unwrap_or_default();
    for kind in &KINDS {
        let is_own = own.kind() == kind;
        let request = Request {
            study: &study,
            only: None,
            directory: None,
            chip_bytes: own.chip_bytes().filter(|_| is_own),
            most_cells: studies::most_cells(many_cells),
            asked: None,
        };
        let selected = select_cells(&request, kind.name, None, &mut Traces::checked(study_folder(file)))?;
        let (cells, unable) = (selected.cells, selected.left_out);
        if is_own {
            for LeftOut { what, why, cure } in unable {
                say!("{}", screen::lines(&format!("{}: left out: {what}; why: {why}; fix: {cure}", file.display()), 2));
            }
        }
        let (name, parallel) = match is_own {
            true => (&*own.name, own.at_once(boards::cores())),
            false => (kind.usual, if kind.one_at_a_time { 1 } else { boards::cores() }),
        };
        let (time, known) = costs.expect(name, &cells, parallel);
        let guess = if known { "" } else { " (a guess: no similar cells were measured here yet)" };
        let (file, number, time) = (file.display(), counted(cells.len(), "cell"), progress::in_words(time));
        let not_here = if *kind == HOST { studies::not_here(&cells) } else { String::new() };
        let line = format!("{file}: {number} on a {} board, about {time}{guess}{not_here}", kind.name);
        say!("{}", screen::lines(&line, 2));
    }
    pocketstone_study::views::check::check_queries(&study)?;
    let devices = pocketstone_study::models::replay::devices(&study, &boards::devices()?, None)?;
    pocketstone_study::models::replay::check(&study, &devices)?;
    let (figures, claims) = (counted(study.figures.len(), "figure"), counted(study.claims.len(), "claim"));
    say!("{}: ok, {figures}, {claims}", file.display());
    Ok(0)
}

/// Writes what of a run the arguments name.
fn export(arguments: &ExportArguments) -> Result<u8> {
    let tables = [
        (&arguments.csv, tables::Form::Csv),
        (&arguments.json, tables::Form::Json),
        (&arguments.parquet, tables::Form::Parquet),
    ];
    if let Some(file) = &arguments.perfetto {
        return traces::export(arguments, file);
    }
    if let Some(file) = &arguments.calls {
        return calls::export(arguments, file);
    }
    match tables.into_iter().find_map(|(folder, form)| Some((folder.as_ref()?, form))) {
        Some((folder, form)) => {
            let own = || arguments.folder.join("tables");
            tables::export(&arguments.folder, form, &folder.clone().unwrap_or_else(own))
        }
        None => {
            Err(Error::user("nothing to export to").hint("--perfetto FILE, --calls FILE, --csv, --json or --parquet"))
        }
    }
}
