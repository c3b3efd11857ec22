//! The command line; help, man pages and completions come from these definitions.

mod boards;
mod machines;

pub use boards::*;
pub use machines::*;

use crate::names;
use clap::{Args, Parser, Subcommand};
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use pocketstone_cli::LONG_VERSION;
use pocketstone_core::database::{DatabaseWorkload, Delay};
use pocketstone_core::units::parse_bytes;
use pocketstone_replay::advise::Budget;
use pocketstone_replay::governor::Spec;
use pocketstone_study::specification::shares::Shard;
use std::path::PathBuf;

const EXIT_STATUS: &str = "Exit status: 0 success; 1 invalid input or configuration; 2 usage error; 3 a required \
    claim does not hold, or a regression; 4 the board or machine lacks something required; 70 internal error; 130 \
    interrupted.";

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
    /// Make one run of the results of all shards of a study
    Merge(MergeArguments),
    /// Regenerate a run's report from its results
    Report {
        /// The run's folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
        /// Also write the claims and failed cells as a JUnit file, for CI
        #[arg(long, value_name = "FILE.xml")]
        junit: Option<PathBuf>,
    },
    /// Add a bench meter's recording to a run: the energy of each cell
    Energy(EnergyArguments),
    /// Compare two runs cell by cell and summarize the differences
    Compare(CompareArguments),
    /// Show how a study's values developed over its runs, and where they changed
    History(HistoryArguments),
    /// Convert your database and statements to a prepared workload
    Import(ImportArguments),
    /// Work with prepared workloads
    #[command(subcommand)]
    Workload(WorkloadCommand),
    /// Export a traced cell of a run for a trace viewer, or all tables for other programs
    Export(ExportArguments),
    /// Summarize kernel traces (ftrace text or Perfetto's, as of a phone): the runs between NAME_START and NAME_END
    Trace {
        /// Text of the kernel's `trace` file or a Perfetto trace, plain or compressed by gzip; `-` is standard input.
        /// Of a folder, a table of all logs in it (*.log, *.log.gz, *.pftrace, *.txt), which traces.toml there may
        /// describe
        #[arg(value_name = "FILE|DIR")]
        file: PathBuf,
        /// Also write the runs of a folder as a page of figures
        #[arg(long, short, value_name = "FILE.html")]
        output: Option<PathBuf>,
        /// Print as JSON
        #[arg(long)]
        json: bool,
    },
    /// Recommend settings for a recorded run
    #[command(subcommand)]
    Advise(AdviseCommand),
    /// Work on study files
    #[command(subcommand)]
    Study(StudyCommand),
    /// Run a study on many machines
    #[command(subcommand)]
    Cluster(ClusterCommand),
    /// Work with boards
    #[command(subcommand)]
    Board(BoardCommand),
    /// Count the raw NAND operations that a command causes on this machine (requires root)
    Flashmon(FlashmonArguments),
    /// Count the misses of a processor's data TLB while a command runs on a virtual board, by a model of every access
    Tlb(TlbArguments),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: pocketstone_cli::Shell,
    },
    /// Compile what packages carry for other processors: the runners of boards, and the replay for browsers
    #[command(hide = true)]
    Prebuild {
        /// Destination folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
    /// Write man pages
    Man {
        /// Destination folder
        #[arg(value_name = "DIR")]
        folder: PathBuf,
    },
}

/// Arguments of `run`.
#[derive(Debug, Args)]
pub struct RunArguments {
    /// The study's TOML file, or the name of one that came with pocketstone (not needed with --resume, nor with a
    /// program)
    #[arg(value_name = "STUDY", required_unless_present_any = ["resume", "program"],
        add = ArgValueCompleter::new(names::studies))]
    pub study: Option<PathBuf>,
    /// Board to run on, instead of the study's: a name in devices/ or a profile file
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(names::boards))]
    pub board: Option<String>,
    /// Resume an earlier run: measure only cells that are missing or failed
    #[arg(long, value_name = "DIR")]
    pub resume: Option<PathBuf>,
    /// Print what would be run without running it
    #[arg(long)]
    pub dry_run: bool,
    /// Print the outcome as JSON; with --dry-run, the cells
    #[arg(long)]
    pub json: bool,
    /// Allow a study with more than 100,000 cells
    #[arg(long)]
    pub many_cells: bool,
    /// Run only cells that match an SQL condition, such as "pattern = 'random' AND requests <= 64"
    #[arg(long, value_name = "EXPR")]
    pub only: Option<String>,
    /// Boot the virtual board for every cell instead of starting from a saved state
    #[arg(long)]
    pub cold: bool,
    /// Directory for the host board's files
    #[arg(long, value_name = "DIR")]
    pub directory: Option<PathBuf>,
    /// Folder for the results, instead of results/<study>-<time>
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    pub output: Option<PathBuf>,
    /// Run only the I-th of N shares of the cells, such as 1/3: other machines run the others, and `pocketstone merge`
    /// makes one run of them
    #[arg(long, value_name = "I/N", conflicts_with_all = ["program", "resume"])]
    pub shard: Option<Shard>,
    /// With --shard: have this part of all cells measured by a second shard, too; `pocketstone merge` compares both
    #[arg(long, value_name = "F", requires = "shard", value_parser = machines::parse_fraction)]
    pub verify_fraction: Option<f64>,
    /// With a program: files to put beside it on the volume before each run, a folder or a tar file. Without it, a
    /// program that is named by its path is put there itself
    #[arg(long, value_name = "PATH", requires = "program", conflicts_with = "study")]
    pub files: Option<PathBuf>,
    /// With a program: a factor of docs/studies.md and its values, such as file_system=jffs2,ubifs or page_cache=cold;
    /// repeatable
    #[arg(long, value_name = "FACTOR=VALUE,...", requires = "program", conflicts_with = "study",
        add = ArgValueCompleter::new(names::settings))]
    pub set: Vec<String>,
    /// With a program: number of runs of each combination, each with its seed in POCKETSTONE_SEED [default: 5]
    #[arg(long, value_name = "N", requires = "program", conflicts_with = "study")]
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: Option<u32>,
    /// Measure this program instead of a study: `pocketstone run --board virt-nand -- ./app ARGUMENTS`. It runs on the
    /// board, in an empty folder of the volume
    #[arg(last = true, value_name = "PROGRAM", conflicts_with_all = ["study", "resume"])]
    pub program: Vec<String>,
}

/// Arguments of `energy`.
#[derive(Debug, Args)]
pub struct EnergyArguments {
    /// The run's folder
    #[arg(value_name = "RUN")]
    pub folder: PathBuf,
    /// The meter's CSV, with a header line that names time, power (or current and voltage) and optionally a trigger,
    /// with units
    #[arg(long, value_name = "FILE.csv")]
    pub meter: PathBuf,
    /// Time from the first sample to the start of the run's first cell, such as 12.5s. By default cells are located by
    /// the trigger, or else by their pattern in the power
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    pub offset: Option<u64>,
}

/// Refuses a number alone: in studies that is nanoseconds, which nobody means here.
fn with_unit(time: &str) -> Result<(), String> {
    match time != "0" && time.parse::<f64>().is_ok() {
        true => Err(format!("add a unit, such as {time}s or {time}ms")),
        false => Ok(()),
    }
}

fn parse_time(text: &str) -> Result<u64, String> {
    with_unit(text)?;
    pocketstone_core::units::parse_ns(text).map_err(|e| e.chain())
}

fn parse_delay(text: &str) -> Result<Delay, String> {
    let time = text.strip_prefix("lognormal:").unwrap_or(text);
    with_unit(time.split(':').next().unwrap_or(time))?;
    text.parse::<Delay>().map_err(explained)
}

fn parse_budget(text: &str) -> Result<Budget, String> {
    with_unit(text)?;
    text.parse::<Budget>().map_err(explained)
}

/// An error of a word, as clap shows it.
fn explained(error: pocketstone_core::Error) -> String {
    [error.chain()].into_iter().chain(error.cure().map(str::to_owned)).collect::<Vec<_>>().join("; ")
}

fn parse_percent(text: &str) -> Result<f64, String> {
    let percent = text.parse::<f64>().ok().filter(|percent| percent.is_finite() && *percent >= 0.0);
    percent.ok_or_else(|| "use a number of per cent, 0 or more".to_owned())
}

/// Arguments of `compare`.
#[derive(Debug, Args)]
pub struct CompareArguments {
    /// The baseline run
    #[arg(value_name = "DIR_A")]
    pub a: PathBuf,
    /// The run to compare with it
    #[arg(value_name = "DIR_B")]
    pub b: PathBuf,
    /// Compare runs of different studies, boards or kernels, too
    #[arg(long)]
    pub force: bool,
    /// Fail (exit status 3) if a judged metric of the study is clearly worse by more than this many per cent, if the
    /// second run lacks a cell or a judged metric of the first one, or if nothing can be judged
    #[arg(long, value_name = "PERCENT", value_parser = parse_percent)]
    pub max_regression: Option<f64>,
    /// Print as JSON, unchanged metrics included
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print as Markdown, for the summary of a CI job
    #[arg(long)]
    pub markdown: bool,
}

/// Arguments of `history`.
#[derive(Debug, Args)]
pub struct HistoryArguments {
    /// Folders of runs, or folders with such folders in them
    #[arg(value_name = "DIR", required = true)]
    pub folders: Vec<PathBuf>,
    /// The study, if there are runs of several
    #[arg(long, value_name = "NAME")]
    pub study: Option<String>,
    /// The board, if there are runs on several
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(names::boards))]
    pub board: Option<String>,
    /// A metric (docs/results.md); repeatable [default: those that the study judges]
    #[arg(long = "metric", value_name = "NAME", add = ArgValueCandidates::new(names::metrics))]
    pub metrics: Vec<String>,
    /// Also write it as a page
    #[arg(long, short, value_name = "FILE.html")]
    pub output: Option<PathBuf>,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `import`.
#[derive(Debug, Args)]
pub struct ImportArguments {
    /// SQLite database with the initial state; without it the workload starts empty
    #[arg(long, value_name = "FILE")]
    pub db: Option<PathBuf>,
    /// SQL statements, each on one or more lines; lines may begin with timestamps, whose gaps become the delays. Or a
    /// log of SQLite's trace, the shell's .trace, or Android's SQLiteStatements
    #[arg(long, value_name = "FILE")]
    pub queries: PathBuf,
    /// Delay between statements: none, 1ms, lognormal:6ms, lognormal:6ms:SHAPE, published-log
    #[arg(long, value_name = "DELAY", value_parser = parse_delay)]
    pub delay: Option<Delay>,
    /// Seed of random delays
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// The prepared workload; defaults to the name of the queries with .trace
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Also write a study that runs it; an existing one is not replaced
    #[arg(long, value_name = "FILE.toml")]
    pub study: Option<PathBuf>,
    /// Skip and list lines that cannot be parsed, and statements that SQLite cannot execute
    #[arg(long)]
    pub skip_errors: bool,
}

/// Commands on prepared workloads.
#[derive(Debug, Subcommand)]
pub enum WorkloadCommand {
    /// Prepare one of the built-in workloads
    Make(MakeArguments),
    /// Summarize a prepared workload, a published JSON file, or recorded calls (strace, a file of calls)
    Show {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// Print the first operations, too
        #[arg(long, value_name = "N", default_value_t = 0)]
        operations: usize,
        /// Of recorded calls, only those on files below this folder
        #[arg(long, value_name = "FOLDER")]
        below: Option<String>,
    },
    /// Write a prepared workload in PocketData's published JSON format
    Export {
        /// The prepared workload
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// The JSON file
        #[arg(value_name = "FILE.json")]
        json: PathBuf,
    },
}

/// Arguments of `workload make`.
#[derive(Debug, Args)]
pub struct MakeArguments {
    /// ycsb-a to ycsb-f, pocketdata-a to pocketdata-f, pocketdata-ia to pocketdata-ic, contacts, null
    #[arg(value_name = "NAME", value_parser = parse_workload)]
    pub workload: DatabaseWorkload,
    /// Seed
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Records before the first operation
    #[arg(long, default_value_t = 500)]
    pub records: u64,
    /// Operations
    #[arg(long, default_value_t = 1800)]
    pub operations: u64,
    /// Fields per record
    #[arg(long, default_value_t = 10)]
    pub fields: u64,
    /// Characters per field
    #[arg(long, default_value_t = 100)]
    pub field_bytes: u64,
    /// Longest scan in records
    #[arg(long, default_value_t = 100)]
    pub scan_records: u64,
    /// Delay between operations: none, 1ms, lognormal:6ms, lognormal:6ms:SHAPE, published-log
    #[arg(long, default_value = "none", value_name = "DELAY", value_parser = parse_delay)]
    pub delay: Delay,
    /// The prepared workload
    #[arg(long, short, value_name = "FILE")]
    pub output: PathBuf,
}

fn parse_workload(text: &str) -> Result<DatabaseWorkload, String> {
    let word = serde_json::Value::String(text.to_owned());
    serde_json::from_value(word).ok().filter(|w| *w != DatabaseWorkload::File).ok_or_else(|| {
        "workloads: ycsb-a to ycsb-f, pocketdata-a to pocketdata-f, pocketdata-ia to pocketdata-ic, contacts, null"
            .to_owned()
    })
}

/// Arguments of `export`.
#[derive(Debug, Args)]
#[command(group(clap::ArgGroup::new("form").required(true).args(["perfetto", "calls", "csv", "json", "parquet"])))]
pub struct ExportArguments {
    /// The run's folder
    #[arg(value_name = "DIR")]
    pub folder: PathBuf,
    /// Write a Perfetto trace (open it at ui.perfetto.dev)
    #[arg(long, value_name = "FILE")]
    pub perfetto: Option<PathBuf>,
    /// Write a traced cell's calls on files, to be replayed by the workload `calls`
    #[arg(long, value_name = "FILE")]
    pub calls: Option<PathBuf>,
    /// Write all tables of the run into a folder, as NAME.csv [default: DIR/tables]
    #[arg(long, value_name = "FOLDER")]
    pub csv: Option<Option<PathBuf>>,
    /// The same as NAME.json
    #[arg(long, value_name = "FOLDER")]
    pub json: Option<Option<PathBuf>>,
    /// The same as NAME.parquet
    #[arg(long, value_name = "FOLDER")]
    pub parquet: Option<Option<PathBuf>>,
    /// With --perfetto or --calls: SQL condition that selects the cell, such as "engine = 'sqlite'"; the first traced
    /// match is exported [default: 1]
    #[arg(long, value_name = "EXPR", conflicts_with_all = ["csv", "json", "parquet"])]
    pub only: Option<String>,
}

/// Commands that advise.
#[derive(Debug, Subcommand)]
pub enum AdviseCommand {
    /// Rank CPU governors and their tunables by modelled energy within a latency budget
    Governor(AdviseGovernorArguments),
    /// Rank read-ahead settings for a recorded run on raw NAND by modelled time in calls
    Readahead(AdviseReadaheadArguments),
    /// Compare SCMFS's thresholds for huge pages by modelled TLB misses of a file's reads and writes
    HugePages(AdviseHugePagesArguments),
}

/// Arguments of `advise governor`.
#[derive(Debug, Args)]
pub struct AdviseGovernorArguments {
    /// The run's folder, or a phone's log (ftrace text or a Perfetto trace, plain or compressed by gzip; `-` is
    /// standard input)
    #[arg(value_name = "RUN|LOG")]
    pub folder: PathBuf,
    /// The device: a name in devices/ or a profile file
    #[arg(long, value_name = "D", add = ArgValueCandidates::new(names::devices))]
    pub device: String,
    /// Maximum mean latency: a time such as 2ms, or a percentage above the fastest governor's
    #[arg(long, value_name = "BUDGET", default_value = "10%", value_parser = parse_budget)]
    pub budget: Budget,
    /// SQL condition that selects the run, such as "workload = 'ycsb-b'"; uses the trials of the first match
    #[arg(long, value_name = "EXPR")]
    pub only: Option<String>,
    /// Frequency in kHz that a phone's log was recorded at, if the log does not say; by default the device's highest
    #[arg(long, value_name = "KHZ", value_parser = clap::value_parser!(u32).range(1..))]
    pub recorded_khz: Option<u32>,
    /// A lever of the replay, such as delay=lognormal:6ms or cores=1 (docs/studies.md); repeatable
    #[arg(long = "lever", value_name = "NAME=VALUE")]
    pub levers: Vec<String>,
    /// An additional governor to rank, such as "interactive{timer_rate=10000}"; repeatable
    #[arg(long = "governor", value_name = "GOVERNOR")]
    pub governors: Vec<Spec>,
    /// Number of governors to show; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub top: usize,
    /// Print all of them as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `advise readahead`.
#[derive(Debug, Args)]
pub struct AdviseReadaheadArguments {
    /// The run's folder
    #[arg(value_name = "RUN")]
    pub folder: PathBuf,
    /// Use only runs of this experiment
    #[arg(long, value_name = "NAME")]
    pub experiment: Option<String>,
    /// SQL condition that selects the run, such as "pattern = 'random'"; uses the trials of the first match
    #[arg(long, value_name = "EXPR", default_value = "1")]
    pub only: String,
    /// Number of settings to show; 0 shows all
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub top: usize,
    /// Print all of them as JSON
    #[arg(long)]
    pub json: bool,
}

/// Arguments of `tlb`.
#[derive(Debug, Args)]
pub struct TlbArguments {
    /// The virtual board
    #[arg(long, value_name = "NAME", default_value = "virt-nand")]
    pub board: String,
    /// The processor: a profile of kind tlb in devices/, or its file; repeatable
    #[arg(long, value_name = "P", default_value = "cortex-a15", add = ArgValueCandidates::new(names::processors))]
    pub processor: Vec<String>,
    /// Files to put beside the command on the volume before it runs, a folder or a tar file. Without it, a program that
    /// is named by its path is put there itself
    #[arg(long, value_name = "PATH")]
    pub files: Option<PathBuf>,
    /// A factor of docs/studies.md and its value, such as file_system=ubifs; repeatable
    #[arg(long, value_name = "FACTOR=VALUE", add = ArgValueCompleter::new(names::settings))]
    pub set: Vec<String>,
    /// Split the misses among the command's threads, in a run that is traced
    #[arg(long)]
    pub threads: bool,
    /// Print as JSON
    #[arg(long)]
    pub json: bool,
    /// The command. It runs on the board, in an empty folder of the volume
    #[arg(last = true, required = true, value_name = "COMMAND")]
    pub program: Vec<String>,
}

/// Arguments of `advise huge-pages`.
#[derive(Debug, Args)]
pub struct AdviseHugePagesArguments {
    /// The processor: i5-750 (the SCMFS thesis's), cortex-a15, cortex-a55, cortex-a76, zen-4 or golden-cove
    #[arg(long, value_name = "NAME", default_value = "cortex-a76", add = ArgValueCandidates::new(names::processors))]
    pub processor: String,
    /// Size of the file, 4KiB to 4GiB
    #[arg(long, value_name = "SIZE", default_value = "100MiB", value_parser = parse_bytes)]
    pub file: u64,
    /// Length of a read() or write(), a multiple of 4KiB; repeatable [default: 4KiB to 16MiB]
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes)]
    pub record: Vec<u64>,
    /// Print all counts as JSON
    #[arg(long)]
    pub json: bool,
}

/// Commands on studies.
#[derive(Debug, Subcommand)]
pub enum StudyCommand {
    /// Write a commented study to begin with; what is not said is asked for on a terminal
    New(StudyNewArguments),
    /// List the studies that came with pocketstone
    List,
    /// Show which cells each of several machines would run, and the commands for them
    Plan(StudyPlanArguments),
    /// Check a study file without running anything
    Check {
        /// The study's TOML file, or the name of one that came with pocketstone
        #[arg(value_name = "STUDY", add = ArgValueCompleter::new(names::studies))]
        file: PathBuf,
        /// Accept more than 100,000 cells
        #[arg(long)]
        many_cells: bool,
    },
}

/// Arguments of `study new`.
#[derive(Debug, Args)]
pub struct StudyNewArguments {
    /// The file to write
    #[arg(value_name = "FILE.toml")]
    pub file: PathBuf,
    /// The board [default: virt-nand]
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(names::boards))]
    pub board: Option<String>,
    /// The workload [default: read]
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(names::workloads))]
    pub workload: Option<String>,
    /// The file systems, separated by commas [default: what the board usually has]
    #[arg(long, value_name = "NAME,...", add = ArgValueCompleter::new(names::volumes))]
    pub file_systems: Option<String>,
    /// A factor of docs/studies.md and its values, such as requests=16,64; repeatable
    #[arg(long, value_name = "FACTOR=VALUE,...", add = ArgValueCompleter::new(names::settings))]
    pub set: Vec<String>,
    /// Number of seeds of each combination [default: 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repetitions: Option<u32>,
}

/// Arguments of `flashmon`.
#[derive(Debug, Args)]
pub struct FlashmonArguments {
    /// File for the classic summary: a line `reads writes erases` per block
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
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_are_sound() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn times_have_units() {
        for delay in ["none", "0", "1ms", "lognormal:6ms", "lognormal:6ms:0.5", "published-log"] {
            assert!(parse_delay(delay).is_ok(), "{delay}");
        }
        for delay in ["6", "1.5", "lognormal:6", "lognormal:6:0.5"] {
            assert!(parse_delay(delay).unwrap_err().starts_with("add a unit, such as "), "{delay}");
        }
        assert_eq!(parse_budget("2ms"), Ok(Budget::Ns(2_000_000)));
        assert_eq!(parse_budget("20%"), Ok(Budget::Over(0.2)));
        assert_eq!(parse_budget("20"), Err("add a unit, such as 20s or 20ms".into()));
        assert!(parse_budget("much").unwrap_err().contains("a percentage"));
    }
}
