//! A study's shards for engines that this command does not drive itself.

use super::scripts::{Places, Shards, shard};
use crate::again::quote;
use crate::arguments::{KubernetesArguments, ParallelArguments};
use crate::boards::context;
use crate::shards::{Plan, run_words};
use crate::studies;
use pocketstone_core::Result;
use std::path::{Path, PathBuf};

/// Writes the scripts, and prints the command line of GNU parallel.
///
/// # Errors
/// `ErrorKind::User` for an invalid study, or if the scripts cannot be written.
pub fn parallel(arguments: &ParallelArguments) -> Result<u8> {
    let plan = Plan::of(&arguments.cluster.shares, &context()?)?;
    let shards = Shards::of(&arguments.cluster, &plan)?;
    shards.write()?;
    let path = |path: &Path| quote(&path.to_string_lossy());
    let hosts = arguments.hosts.as_ref().map(|hosts| format!(" --sshlogin {}", quote(hosts))).unwrap_or_default();
    let (log, script, merge) =
        (path(&shards.folder.join("joblog")), path(&shards.script("shard")), path(&shards.script("merge")));
    let numbers: Vec<String> = (1..=shards.of).map(|index| index.to_string()).collect();
    let numbers = numbers.join(" ");
    // A shard uses all cores of its machine. Parallel joins its words for a shell of its own, but for -q, and puts the
    // number in the place of `{}`, which a path may have.
    let engine = format!("parallel --jobs 1{hosts} --joblog {log} --resume-failed --retries 3");
    say!("{engine} -q -I ,,, {script} ,,, ::: {numbers}");
    say!("{merge}");
    Ok(0)
}

/// Where the claim is in a container.
const SHARED: &str = "/shared";

/// Prints the Job.
///
/// # Errors
/// `ErrorKind::User` for an invalid study.
pub fn kubernetes(arguments: &KubernetesArguments) -> Result<u8> {
    let mut shares = arguments.shares.clone();
    let named = shares.study.clone();
    shares.study = studies::find(&named)?;
    let plan = Plan::of(&shares, &context()?)?;
    // The image has the studies that came with the command; others are in the claim.
    let study = match named.exists() {
        true => Path::new(SHARED).join(named.file_name().unwrap_or_default()),
        false => named,
    };
    let name = format!("pocketstone-{}", plan.study.name.replace(|c: char| !c.is_ascii_alphanumeric(), "-"));
    let name = name.to_lowercase();
    let places = Places {
        program: "pocketstone".into(),
        words: run_words(&shares, &study),
        of: shares.shards,
        // Shards of another plan that are there are not gone on with.
        shards: PathBuf::from(SHARED).join(format!("{}-{}.shards", plan.study.name, &plan.shares.digest[..12])),
        cache: arguments.cache.as_ref().map(|file| Path::new(SHARED).join(file)),
        directory: None,
    };
    pocketstone_cli::print_json(&serde_json::json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name },
        "spec": {
            "completionMode": "Indexed", "completions": shares.shards, "parallelism": shares.shards,
            "backoffLimitPerIndex": 3, "maxFailedIndexes": shares.shards,
            "template": { "spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "shard", "image": arguments.image, "command": ["/bin/sh", "-c", shard(&places)],
                    "volumeMounts": [{ "name": "shared", "mountPath": SHARED }],
                }],
                "volumes": [{ "name": "shared", "persistentVolumeClaim": { "claimName": arguments.claim } }],
            } },
        },
    }))?;
    Ok(0)
}
