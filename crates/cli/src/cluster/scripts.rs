//! What a machine runs of a study's shards: shell scripts, the same for every engine.

use crate::again::quote;
use crate::arguments::ClusterArguments;
use crate::shards::{Plan, run_words};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_study::results::merge::Part;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// What every shard does, wherever things are.
const SHARD: &str = include_str!("shard.sh");

/// Where things are for a machine that runs a shard.
pub struct Places {
    /// The command, as a shell takes it.
    pub program: String,
    /// Its words that run a share, all but which one.
    pub words: Vec<String>,
    /// Number of shards.
    pub of: u32,
    /// The folder of the shards' results, which all machines see.
    pub shards: PathBuf,
    /// The archive to unpack into a cache of the shard's own.
    pub cache: Option<PathBuf>,
    /// The directory to begin in.
    pub directory: Option<PathBuf>,
}

/// The script that runs a shard. Its number is the first argument, or what Slurm or Kubernetes say. It works on the
/// machine's own disk: SQLite's locks, and those of a cache, are not to be had on every network.
pub fn shard(places: &Places) -> String {
    let Places { program, words, of, .. } = places;
    let path = |path: &Path| quote(&path.to_string_lossy());
    let begin = places.directory.as_deref().map_or_else(String::new, |d| format!("cd {} || exit 1\n", path(d)));
    let import = places.cache.as_deref().map_or_else(
        || ":".into(),
        |archive| format!("export POCKETSTONE_CACHE=\"$scratch/cache\"; {program} board import {} >&2", path(archive)),
    );
    let (words, shards) = (words.join(" "), path(&places.shards));
    format!(
        r#"#!/bin/sh
# Runs one of {of} shards; its number is the argument, or what Slurm or Kubernetes say.
shards={shards}
{begin}import_cache() {{ {import}; }}
# Both take the place of the process that calls them: a signal to it is one to the run.
new_run() {{ exec $apart {program} {words} --shard "$index/{of}" --output "$results"; }}
resumed_run() {{ exec $apart {program} run --resume "$results"; }}
{SHARD}"#
    )
}

/// The script that merges what there is.
pub fn merge(places: &Places, output: &Path) -> String {
    let path = |path: &Path| quote(&path.to_string_lossy());
    let begin = places.directory.as_deref().map_or_else(String::new, |d| format!("cd {} || exit 1\n", path(d)));
    let (program, shards, output) = (&places.program, path(&places.shards), path(output));
    format!("#!/bin/sh\n# Makes one run of all shards.\n{begin}exec {program} merge {shards}/[0-9]* -o {output}\n")
}

/// The folder of a run's shards.
pub struct Shards {
    /// From the root.
    pub folder: PathBuf,
    /// The folder of the results, from the root.
    pub output: PathBuf,
    /// Number of shards.
    pub of: u32,
    /// Digest of the plan.
    plan: String,
    places: Places,
}

impl Shards {
    /// Those of a plan, which nothing is written of yet.
    ///
    /// # Errors
    /// `ErrorKind::User` if a path cannot be resolved, or the archive is missing.
    pub fn of(arguments: &ClusterArguments, plan: &Plan) -> Result<Self> {
        let absolute = |path: &Path| std::path::absolute(path).user(|| format!("cannot resolve {}", path.display()));
        let output = absolute(&arguments.output)?;
        let name = output.file_name().ok_or_else(|| Error::user("--output is no folder's name"))?.to_string_lossy();
        let folder = output.with_file_name(format!("{name}.shards"));
        let cache = arguments.cache.as_deref().map(absolute).transpose()?;
        if let Some(cache) = cache.as_ref().filter(|cache| !cache.is_file()) {
            return Err(Error::user(format!("there is no file {}", cache.display())).hint(format!(
                "write it: pocketstone board export {} {}",
                plan.profile.name,
                cache.display()
            )));
        }
        let program = std::env::current_exe().user(|| "cannot find the path of this command".into())?;
        let places = Places {
            program: quote(&program.to_string_lossy()),
            words: run_words(&arguments.shares, &absolute(&arguments.shares.study)?),
            of: arguments.shares.shards,
            shards: folder.clone(),
            cache,
            directory: Some(std::env::current_dir().user(|| "this directory is gone".into())?),
        };
        Ok(Shards { folder, output, of: arguments.shares.shards, plan: plan.shares.digest.clone(), places })
    }

    /// The script of a shard.
    pub fn shard(&self) -> String {
        shard(&self.places)
    }

    /// The script that merges them.
    pub fn merge(&self) -> String {
        merge(&self.places, &self.output)
    }

    /// The path of a script.
    pub fn script(&self, name: &str) -> PathBuf {
        self.folder.join(format!("{name}.sh"))
    }

    /// The folder of the logs.
    pub fn logs(&self) -> PathBuf {
        self.folder.join("logs")
    }

    /// The log of a shard, or of the merge.
    pub fn log(&self, name: &str) -> PathBuf {
        self.logs().join(format!("{name}.log"))
    }

    /// Writes the scripts; shards that are there stay.
    ///
    /// # Errors
    /// `ErrorKind::User` if there are shards of another plan, or they cannot be written.
    pub fn write(&self) -> Result<()> {
        let failed = || format!("cannot write to {}", self.folder.display());
        fs::create_dir_all(self.logs()).user(failed)?;
        let plan = self.folder.join("plan");
        if fs::read_to_string(&plan).is_ok_and(|begun| begun != self.plan) {
            return Err(Error::user(format!("{} has shards of another plan", self.folder.display()))
                .hint("choose another --output, or remove that folder"));
        }
        fs::write(&plan, &self.plan).user(failed)?;
        for (name, text) in [("shard", self.shard()), ("merge", self.merge())] {
            let script = self.script(name);
            fs::write(&script, text).user(failed)?;
            fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).user(failed)?;
        }
        Ok(())
    }

    /// The numbers of the shards that are not there with all their cells.
    pub fn missing(&self) -> Vec<u32> {
        let whole = |index: &u32| {
            let part = Part::open(&self.folder.join(index.to_string()));
            part.is_ok_and(|part| part.share.plan == self.plan && part.ended().is_ok_and(|n| n == part.share.cells))
        };
        (1..=self.of).filter(|index| !whole(index)).collect()
    }
}
