//! Of several machines: shards, engines that run them, and merging.

use crate::names;
use clap::{Args, Subcommand};
use clap_complete::{ArgValueCandidates, ArgValueCompleter};
use pocketstone_study::specification::shares::MOST_SHARDS;
use std::path::PathBuf;

/// Arguments of `merge`.
#[derive(Debug, Args)]
pub struct MergeArguments {
    /// The folders of all shards
    #[arg(required = true, value_name = "DIR")]
    pub folders: Vec<PathBuf>,
    /// Folder for the results
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
    /// Print the outcome as JSON
    #[arg(long)]
    pub json: bool,
}

pub(super) fn parse_fraction(text: &str) -> Result<f64, String> {
    let fraction = text.parse().ok().filter(|f| (0.0..=1.0).contains(f));
    fraction.ok_or_else(|| "a part of all cells is a number from 0 to 1, such as 0.1".to_owned())
}

/// What several machines are to run.
#[derive(Debug, Clone, Args)]
pub struct SharesArguments {
    /// The study's TOML file, or the name of one that came with pocketstone
    #[arg(value_name = "STUDY", add = ArgValueCompleter::new(names::studies))]
    pub study: PathBuf,
    /// Number of shards
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(MOST_SHARDS)))]
    pub shards: u32,
    /// Board to run on, instead of the study's: a name in devices/ or a profile file
    #[arg(long, value_name = "NAME", add = ArgValueCandidates::new(names::boards))]
    pub board: Option<String>,
    /// Share out only cells that match an SQL condition
    #[arg(long, value_name = "EXPR")]
    pub only: Option<String>,
    /// Have this part of all cells measured by a second shard, too
    #[arg(long, value_name = "F", value_parser = parse_fraction)]
    pub verify_fraction: Option<f64>,
    /// Allow a study with more than 100,000 cells
    #[arg(long)]
    pub many_cells: bool,
}

/// Arguments of `study plan`.
#[derive(Debug, Args)]
pub struct StudyPlanArguments {
    /// What is shared out.
    #[command(flatten)]
    pub shares: SharesArguments,
    /// Print as JSON, with the cells of each shard
    #[arg(long)]
    pub json: bool,
}

/// Ways to many machines.
#[derive(Debug, Subcommand)]
pub enum ClusterCommand {
    /// Run a study's shards as a job array of Slurm, follow it, and merge the results
    Slurm(SlurmArguments),
    /// Write the scripts of a study's shards, and print GNU parallel's command line for them
    Parallel(ParallelArguments),
    /// Print an indexed Job of Kubernetes that runs a study's shards
    Kubernetes(KubernetesArguments),
}

/// What every way to many machines needs.
#[derive(Debug, Args)]
pub struct ClusterArguments {
    /// What is shared out.
    #[command(flatten)]
    pub shares: SharesArguments,
    /// Archive of the board by `pocketstone board export`, which each shard unpacks into a cache of its own. Without it
    /// the machines use the user's cache, which must not be on a network then
    #[arg(long, value_name = "FILE")]
    pub cache: Option<PathBuf>,
    /// Folder for the merged results, which all machines see; the shards are in DIR.shards beside it
    #[arg(long, short, value_name = "DIR")]
    pub output: PathBuf,
}

/// Arguments of `cluster slurm`.
#[derive(Debug, Args)]
pub struct SlurmArguments {
    /// The run.
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// An option for sbatch, such as --sbatch=--partition=short; repeatable
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub sbatch: Vec<String>,
    /// How often shards that are missing are submitted in all
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub attempts: u32,
    /// Print the scripts and commands without submitting anything
    #[arg(long)]
    pub dry_run: bool,
}

/// Arguments of `cluster parallel`.
#[derive(Debug, Args)]
pub struct ParallelArguments {
    /// The run.
    #[command(flatten)]
    pub cluster: ClusterArguments,
    /// Hosts to run on, as GNU parallel's --sshlogin has them; all see the folder of the results
    #[arg(long, value_name = "HOST,...")]
    pub hosts: Option<String>,
}

/// Arguments of `cluster kubernetes`.
#[derive(Debug, Args)]
pub struct KubernetesArguments {
    /// What is shared out.
    #[command(flatten)]
    pub shares: SharesArguments,
    /// The container image
    #[arg(long, value_name = "IMAGE")]
    pub image: String,
    /// The persistent volume claim that shards write their results to, and that a study of one's own is in
    #[arg(long, value_name = "NAME")]
    pub claim: String,
    /// Archive of the board in that claim
    #[arg(long, value_name = "FILE")]
    pub cache: Option<PathBuf>,
}
