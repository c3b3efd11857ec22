//! The command `pocketstone`.

// The one room that prints.
#![allow(clippy::print_stdout, clippy::print_stderr)]

#[macro_use]
extern crate pocketstone_cli;

mod advise;
mod arguments;
mod boards;
mod compare;
mod energy;
mod progress;
mod run;
mod summary;
mod traces;
mod workloads;

use arguments::{AdviseCommand, Arguments, BoardCommand, Command, StudyCommand};
use clap::{CommandFactory, Parser};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_study::Study;
use pocketstone_study::store::Store;
use pocketstone_study::traces::Traces;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

fn main() -> ExitCode {
    pocketstone_cli::finish(dispatch(Arguments::parse().command))
}

fn dispatch(command: Command) -> Result<u8> {
    match command {
        Command::Run(arguments) => run::run(&arguments),
        Command::Report { folder } => {
            let study = study_of(&Store::open(&folder, false)?)?;
            let models = study.has_models();
            let mut store = Store::open(&folder, models)?;
            if models {
                // Profiles may have changed since.
                let devices = boards::devices();
                let mut progress = progress::RunProgress::default();
                let done = pocketstone_study::run::replay(
                    &study,
                    &devices,
                    &mut store,
                    &boards::surroundings()?,
                    &mut progress,
                );
                progress::clear();
                done?;
            }
            say!("{}", write_report(&store, &study)?.display());
            Ok(0)
        }
        Command::Energy(arguments) => energy::energy(&arguments),
        Command::Compare(arguments) => compare::compare(&arguments),
        Command::Import(arguments) => workloads::import(&arguments),
        Command::Workload(command) => workloads::workload(&command),
        Command::Export(arguments) => traces::export(&arguments),
        Command::Trace { file, json } => traces::show(&file, json),
        Command::Advise(AdviseCommand::Governor(arguments)) => advise::governor(&arguments),
        Command::Advise(AdviseCommand::Readahead(arguments)) => advise::read_ahead(&arguments),
        Command::Study(StudyCommand::Check { file }) => check(&file),
        Command::Board(command) => match command {
            BoardCommand::List => boards::list(),
            BoardCommand::Build { name } => boards::build(&name),
            BoardCommand::Start { name } => boards::start(&name),
            BoardCommand::Shell { name } => boards::shell(&name),
            BoardCommand::Exec { name, command } => boards::exec(&name, &command),
        },
        Command::Flashmon(a) => {
            let options = pocketstone_probe::command::Options { summary: a.summary, log: a.log, command: a.command };
            let (report, status) = pocketstone_probe::command::run(&options)?;
            say!("{}", report.trim_end());
            Ok(status)
        }
        Command::Completions { shell } => {
            pocketstone_cli::completions(Arguments::command(), shell);
            Ok(0)
        }
        Command::Man { folder } => {
            say!("{}", pocketstone_cli::man(Arguments::command(), &folder)?.display());
            Ok(0)
        }
    }
}

fn check(file: &Path) -> Result<u8> {
    let study = read_study(file)?;
    pocketstone_study::summarize::check_queries(&study)?;
    let devices = pocketstone_study::replay::devices(&study, &boards::devices(), None)?;
    pocketstone_study::replay::check(&study, &devices)?;
    for kind in ["virtual", "host"] {
        let request = pocketstone_study::run::Request { study: &study, only: None, directory: None };
        let folder = tempfile::tempdir().user(|| "cannot create a temporary folder".into())?;
        let mut traces = Traces::new(folder.path(), study_folder(file));
        let (cells, _) = pocketstone_study::run::select_cells(&request, kind, None, &mut traces)?;
        say!("{}: {} cells on a {kind} board", file.display(), cells.len());
    }
    say!("{}: ok, {} figures, {} claims", file.display(), study.figures.len(), study.claims.len());
    Ok(0)
}

/// The folder that paths in a study count from.
fn study_folder(file: &Path) -> &Path {
    file.parent().unwrap_or(Path::new(""))
}

/// Reads a study's file.
fn read_study(file: &Path) -> Result<Study> {
    let text = std::fs::read_to_string(file).user(|| format!("cannot read the study {}", file.display()))?;
    Study::parse(&file.display().to_string(), &text)
}

/// The study that a run's results hold.
fn study_of(store: &Store) -> Result<Study> {
    let fact = |name: &str| {
        let missing = || Error::user(format!("the results in {} have no {name}", store.folder().display()));
        store.fact(name)?.ok_or_else(missing)
    };
    Study::parse(&format!("{}.toml", fact("study.name")?), &fact("study")?)
}

/// Writes a run's report and returns its path.
fn write_report(store: &Store, study: &Study) -> Result<PathBuf> {
    let mut model = pocketstone_study::report_model::model(store, study)?;
    if !study.replays.is_empty() {
        let tell = progress::stage_line();
        let module = || pocketstone_study::explorer::module(&pocketstone_board::Cache::of_user()?, &*tell);
        pocketstone_study::explorer::add(&mut model, store, study, &boards::devices(), module);
        progress::clear();
    }
    let path = store.folder().join("report.html");
    let html = pocketstone_report::html(&model)?;
    let temporary = path.with_extension("html.new");
    std::fs::write(&temporary, html).user(|| format!("cannot write {}", temporary.display()))?;
    std::fs::rename(&temporary, &path).user(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

/// Whether an error is the board's, so that another board may do.
fn is_boards(error: &Error) -> bool {
    error.kind() == ErrorKind::Board
}
