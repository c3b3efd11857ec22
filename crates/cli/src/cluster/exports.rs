//! A study's shards for engines that this command does not drive itself.

use super::scripts::{Places, Shards, shard};
use crate::again::quote;
use crate::arguments::{KubernetesArguments, ParallelArguments};
use crate::boards::context;
use crate::shards::{Plan, run_words};
use crate::studies;
use pocketstone_core::{Error, Result};
use std::path::{Component, Path, PathBuf};

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
/// Letters of a study's name in a Job's: with the rest, and a pod's number, the name of a host has at most 63.
const MOST_LETTERS: usize = 30;

/// Prints the Job.
///
/// # Errors
/// `ErrorKind::User` for an invalid study.
pub fn kubernetes(arguments: &KubernetesArguments) -> Result<u8> {
    let mut shares = arguments.shares.clone();
    let named = shares.study.clone();
    shares.study = studies::find(&named)?;
    let plan = Plan::of(&shares, &context()?)?;
    // The image has the studies and boards that came with the command; others are in the claim.
    let study = match named.exists() {
        true => in_claim(&named),
        false => named,
    };
    let board = shares.board.iter_mut().filter(|board| board.ends_with(".toml"));
    board.for_each(|board| *board = in_claim(Path::new(&*board)).to_string_lossy().into_owned());
    let name = job_name(&plan.study.name, &plan.shares.digest);
    let places = Places {
        program: "pocketstone".into(),
        words: run_words(&shares, &study),
        of: shares.shards,
        // Shards of another plan that are there are not gone on with.
        shards: PathBuf::from(SHARED).join(format!("{}-{}.shards", plan.study.name, &plan.shares.digest[..12])),
        cache: arguments.cache.as_deref().map(archive).transpose()?,
        directory: None,
    };
    let script = unexpanded(&shard(&places));
    pocketstone_cli::print_json(&serde_json::json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": name },
        "spec": {
            "completionMode": "Indexed", "completions": shares.shards, "parallelism": shares.shards,
            "backoffLimitPerIndex": 3, "maxFailedIndexes": shares.shards,
            "template": { "spec": {
                "restartPolicy": "Never",
                "containers": [{
                    "name": "shard", "image": arguments.image, "command": ["/bin/sh", "-c", script],
                    "volumeMounts": [{ "name": "shared", "mountPath": SHARED }],
                }],
                "volumes": [{ "name": "shared", "persistentVolumeClaim": { "claimName": arguments.claim } }],
            } },
        },
    }))?;
    Ok(0)
}

/// Where the claim has a file of this machine.
fn in_claim(file: &Path) -> PathBuf {
    Path::new(SHARED).join(file.file_name().unwrap_or_default())
}

/// The archive in the claim, whose path may begin at the claim or at the container's root.
fn archive(file: &Path) -> Result<PathBuf> {
    let path = Path::new(SHARED).join(file);
    match path.starts_with(SHARED) && !path.components().any(|part| part == Component::ParentDir) {
        true => Ok(path),
        false => Err(Error::user(format!("--cache {} is no file of the claim", file.display()))
            .hint(format!("copy it to the claim, and name its path there: --cache FILE, or --cache {SHARED}/FILE"))),
    }
}

/// A name that Kubernetes takes: small letters, digits and dashes between them. Plans have names of their own, so that
/// the Job of one that has changed is not the one that is there.
fn job_name(study: &str, digest: &str) -> String {
    let study = study.to_lowercase().replace(|c: char| !c.is_ascii_alphanumeric(), "-");
    let study = study[..study.len().min(MOST_LETTERS)].trim_matches('-');
    let words = ["pocketstone", study, &digest[..8]];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join("-")
}

/// A text that Kubernetes gives to a container as this one: in a command it replaces `$(NAME)` and `$$`.
fn unexpanded(text: &str) -> String {
    text.replace('$', "$$")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_jobs_are_those_of_hosts() {
        let digest = "0123456789ab";
        for (study, name) in [
            ("flash-choices", "pocketstone-flash-choices-01234567"),
            ("\u{e9}t\u{e9}", "pocketstone-t-01234567"),
            ("\u{e9}", "pocketstone-01234567"),
            ("My study_2.", "pocketstone-my-study-2-01234567"),
        ] {
            assert_eq!(job_name(study, digest), name);
        }
        let longest = job_name(&"a".repeat(80), digest);
        assert!(format!("{longest}-99999").len() <= 63, "{longest}");
    }

    #[test]
    fn archives_are_in_the_claim() {
        for file in ["board.tar.gz", "/shared/board.tar.gz"] {
            assert_eq!(archive(Path::new(file)).unwrap(), Path::new("/shared/board.tar.gz"));
        }
        for file in ["/home/me/board.tar.gz", "../board.tar.gz", "/sharedboard.tar.gz"] {
            assert!(archive(Path::new(file)).unwrap_err().cure().is_some(), "{file}");
        }
    }
}
