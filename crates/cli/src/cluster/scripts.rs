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
    let import = places.cache.as_deref().map_or_else(String::new, |archive| {
        format!("export POCKETSTONE_CACHE=\"$scratch/cache\"\n{program} board import {} >&2 || exit 1\n", path(archive))
    });
    let (words, shards) = (words.join(" "), path(&places.shards));
    format!(
        r#"#!/bin/sh
# Runs one of {of} shards; its number is the argument, or what Slurm or Kubernetes say.
index=${{1:-${{SLURM_ARRAY_TASK_ID:-$((${{JOB_COMPLETION_INDEX:--1}} + 1))}}}}
shards={shards}
{begin}scratch=$(mktemp -d "${{TMPDIR:-/tmp}}/pocketstone-shard-XXXXXX") || exit 1
results=$scratch/results
run= ended= left=
trap '[ -n "$left" ] || rm -rf "$scratch"' EXIT
# What is told to end, ends its run first, which keeps what it has measured.
trap 'ended=1; [ -z "$run" ] || kill -TERM "$run"' TERM INT
{import}
# Where a shard is begun again while this is still at it, the newer one has it.
mkdir -p "$shards" || exit 1
owner=$(uname -n)-$$-$(date +%s)
echo "$owner" >"$shards/.owner-$index" || exit 1

# Which state the database is in; fails while it is being changed, when the journal is there.
state() {{
    [ ! -e "$results/results.sqlite-journal" ] && head -c 100 "$results/results.sqlite" | sha256sum &&
        [ ! -e "$results/results.sqlite-journal" ]
}}
# A copy of the database as it is at some moment, on this machine.
snapshot() {{
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        before=$(state) && cp "$results/results.sqlite" "$scratch/snapshot" && after=$(state) &&
            [ "$after" = "$before" ] && return 0
        sleep 0.2
    done
    return 1
}}
# Whether this still has the shard.
owns() {{
    [ "$(cat "$shards/.owner-$index")" = "$owner" ]
}}
# Waits until a database that is there has no journal, which would be played into the one that takes its place.
unjournalled() {{
    for attempt in 1 2 3 4 5 6 7 8 9 10; do
        [ -e "$1-journal" ] || return 0
        sleep 0.2
    done
    echo "$1-journal is in the way: reading those results removes it, as pocketstone report $(dirname "$1") does" >&2
    return 1
}}
# Copies a file under another name first: what is there is whole, or as it was.
place() {{
    new=$shards/$index/.new-$owner
    mkdir -p "$(dirname "$2")" && cp "$1" "$new" && owns && unjournalled "$2" && mv "$new" "$2" && return 0
    rm -f "$new"
    return 1
}}
# Copies the results to the folder that all machines see: a moment's database, after the files that belong to it. With
# `all` also those that are there and differ, which they do at the end alone.
keep() {{
    [ -e "$results/results.sqlite" ] || return 0
    owns || return 1
    snapshot || return 1
    find "$results" -type f ! -name 'results.sqlite*' ! -name in-use ! -name '*.new' ! -name '.*' \
        >"$scratch/files" || return 1
    while read -r file; do
        kept=$shards/$index/${{file#"$results/"}}
        [ -z "$1" ] && [ -e "$kept" ] || cmp -s "$file" "$kept" || place "$file" "$kept" || return 1
    done <"$scratch/files"
    place "$scratch/snapshot" "$shards/$index/results.sqlite"
}}

# In a session of its own, where there is a program for that: a signal to this script's group reaches it once.
apart=$(command -v setsid)
[ -z "$ended" ] || exit 143
if [ -e "$shards/$index/results.sqlite" ]; then
    cp -r "$shards/$index" "$results" || exit 1
    rm -f "$results"/.new-*
    $apart {program} run --resume "$results" &
else
    $apart {program} {words} --shard "$index/{of}" --output "$results" &
fi
run=$!
[ -z "$ended" ] || kill -TERM "$run"
# A machine that dies loses what it has measured since it last kept something.
(
    trap 'kill "$nap"; exit' TERM INT
    while kill -0 $$ && kill -0 "$run"; do
        sleep "${{POCKETSTONE_KEEP_S:-60}}" &
        nap=$!
        wait "$nap"
        kill -0 $$ && keep
    done
) </dev/null >/dev/null 2>&1 &
keeper=$!
wait "$run"
status=$?
# A signal ends the first wait.
while kill -0 "$run" 2>/dev/null; do
    wait "$run"
    status=$?
done
# From here on nothing is interrupted but by force.
trap '' TERM INT
kill "$keeper" 2>/dev/null
wait "$keeper"
if ! keep all; then
    left=1
    echo "cannot copy the results to $shards/$index: they are in $results on $(uname -n)" >&2
    exit 1
fi
[ ! -e "$shards/$index/results.sqlite" ] || echo "moved to $shards/$index: $results"
exit "$status"
"#
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
