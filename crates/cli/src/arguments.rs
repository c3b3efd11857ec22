//! The command line; help, man pages and completions come from these definitions.

use clap::{Args, Parser, Subcommand};
use pocketstone_cli::LONG_VERSION;
use std::path::PathBuf;

const EXIT_STATUS: &str = "Exit status: 0 ok; 1 wrong input or configuration; 2 wrong usage; 3 a required claim does \
    not hold, or a regression; 4 the board or machine cannot; 70 a fault of pocketstone; 130 interrupted.";

/// A storage lab for small Linux machines: boots a board, runs a workload on its real software stack,
/// and shows where every microsecond and flash operation went.
#[derive(Debug, Parser)]
#[command(name = "pocketstone", version, long_version = LONG_VERSION, max_term_width = 100, after_help = EXIT_STATUS)]
pub struct Arguments {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run a study and write its results and report to results/<study>-<time>/
    Run(RunArguments),
    /// Make the report of a run again from its results
    Report {
        /// The run's folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Hold two runs against each other, cell by cell and in words
    Compare(CompareArguments),
    /// Work on study files
    #[command(subcommand)]
    Study(StudyCommand),
    /// Work with boards
    #[command(subcommand)]
    Board(BoardCommand),
    /// Count the raw NAND operations that a command causes on this machine (needs root)
    Flashmon(FlashmonArguments),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write man pages
    Man {
        /// The folder to write them to
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The study's TOML file (not needed with --resume)
    #[arg(value_name = "STUDY.toml", required_unless_present = "resume")]
    pub study: Option<PathBuf>,
    /// Board to run on, instead of the study's: a name in devices/ or a profile's file
    #[arg(long, value_name = "NAME")]
    pub board: Option<String>,
    /// Go on with an earlier run: only cells that are missing or failed are measured
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    /// Print what would be run, and run nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Print the outcome as JSON
    #[arg(long)]
    pub json: bool,
    /// Run only cells that fulfil an SQL condition, such as "pattern = 'random' AND requests <= 64"
    #[arg(long, value_name = "EXPR")]
    pub only: Option<String>,
    /// Boot the virtual board anew for every cell instead of starting from a saved state
    #[arg(long)]
    pub cold: bool,
    /// Directory that the host board's files are written to
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Folder for the results, instead of results/<study>-<time>
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub output: Option<PathBuf>,
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// The run to start from
    #[arg(value_name = "DIR_A")]
    pub a: PathBuf,
    /// The run to hold against it
    #[arg(value_name = "DIR_B")]
    pub b: PathBuf,
    /// Compare runs of different studies, boards or kernels too
    #[arg(long)]
    pub force: bool,
    /// Fail (exit status 3) when a median time is clearly larger by more than this many per cent
    #[arg(long, value_name = "PERCENT")]
    pub max_regression: Option<f64>,
}

/// Commands on studies.
#[derive(Debug, Subcommand)]
pub enum StudyCommand {
    /// Check a study file without running it
    Check {
        /// The study's TOML file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
}

/// Commands on boards.
#[derive(Debug, Subcommand)]
pub enum BoardCommand {
    /// List the boards
    List,
    /// Build what a virtual board needs: kernel, runner, initramfs, saved state
    Build {
        /// The board
        name: String,
    },
    /// Boot a virtual board from cold and show its console until it is ready
    Start {
        /// The board
        name: String,
    },
    /// Open a shell on a virtual board
    Shell {
        /// The board
        name: String,
    },
    /// Run a command on a freshly started virtual board
    Exec {
        /// The board
        name: String,
        /// Program and arguments
        #[arg(required = true, trailing_var_arg = true, allow_hyphen_values = true)]
        command: Vec<String>,
    },
}

/// Arguments of `flashmon`.
#[derive(Debug, Args)]
pub struct FlashmonArguments {
    /// File for the classic summary: a line `reads writes erases` for each block
    #[arg(long, value_name = "FILE")]
    pub summary: Option<PathBuf>,
    /// File for the classic log: lines of `sec.nsec;R|W|E;address;task`
    #[arg(long, value_name = "FILE")]
    pub log: Option<PathBuf>,
    /// Program and arguments
    #[arg(required = true, last = true)]
    pub command: Vec<String>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_sound() {
        super::Arguments::command().debug_assert();
    }
}
