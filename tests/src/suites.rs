//! Programs of others that test file systems.

use crate::command::{Ran, run};
use crate::project;
use pocketstone_testing::{Need, Skip, installed};
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where `scripts/suites` puts what it builds.
const BUILT: &str = ".cache/suites/bin";

/// Says what something came to.
pub use pocketstone_testing::say as tell;

/// A program that `scripts/suites` builds.
///
/// # Errors
///
/// A counted [`Skip`] where it is neither built nor installed.
#[track_caller]
pub fn built(name: &str) -> Result<PathBuf, Skip> {
    let built = project().join(BUILT).join(name).canonicalize().ok();
    let missing = || Need::Suites.lacks(format_args!("the suite {name} is not built"));
    built.or_else(|| installed(name)).ok_or_else(missing)
}

/// A command that does not wait for anything at a terminal.
pub fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.stdin(std::process::Stdio::null());
    command
}

/// A file with settings for a suite.
pub fn settings(name: &str) -> PathBuf {
    project().join("tests/suites").join(name).canonicalize().expect("the shipped settings")
}

/// A text without the colours that terminals like.
fn plain(text: &str) -> String {
    let mut pieces = text.split('\x1b');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |plain, piece| plain + piece.split_once('m').map_or("", |(_, rest)| rest))
}

/// The cases that ended so, in what pjdfstest says.
pub fn cases<'a>(lines: &'a str, end: &str) -> BTreeSet<&'a str> {
    let named = lines.lines().filter_map(|line| line.strip_suffix(end)).map(str::trim);
    named.filter(|name| name.contains("::") && !name.contains(' ')).collect()
}

/// So many operations by fsx on each of some files of a folder, all at once, as a file of settings says; `logs` is
/// where it puts what it says of a failure.
#[track_caller]
pub fn fsx(suite: &Path, settings_name: &str, logs: &Path, folder: &Path, operations: u64, seeds: RangeInclusive<u64>) {
    std::thread::scope(|scope| {
        for seed in seeds {
            let mut words = fsx_once(command(suite), settings_name, logs, folder, operations, seed);
            scope.spawn(move || run(&mut words).ends_with(0));
        }
    });
}

/// fsx, however it is started, on one file of a folder; otherwise as [`fsx`].
pub fn fsx_once(
    mut words: Command,
    settings_name: &str,
    logs: &Path,
    folder: &Path,
    operations: u64,
    seed: u64,
) -> Command {
    words.arg("-f").arg(settings(settings_name)).arg("-P").arg(logs);
    words.args(["-N", &operations.to_string(), "-S", &seed.to_string()]);
    words.arg(folder.join(format!("file-{seed}")));
    words
}

/// The cases of pjdfstest that fit the patterns, or all, in a folder and with another one on another file system. None
/// fails.
#[track_caller]
pub fn pjdfstest(suite: &Path, settings: &Path, folder: &Path, other: &Path, patterns: &[&str]) -> Ran {
    let mut words = command(suite);
    words.arg("-c").arg(settings).arg("-p").arg(folder).arg("-s").arg(other).args(patterns);
    let mut ran = run(&mut words);
    ran.out = plain(&ran.out);
    assert_eq!(cases(&ran.out, "FAILED"), BTreeSet::new(), "{ran}");
    ran
}

/// Random writes by fio, read back and compared.
#[track_caller]
pub fn fio(suite: &Path, folder: &Path, engine: &str, block: &str, size: &str) {
    let mut words = command(suite);
    words.arg(format!("--directory={}", folder.display())).arg(format!("--name={engine}-{block}"));
    words.args([format!("--ioengine={engine}"), format!("--bs={block}"), format!("--size={size}")]);
    words.args(["--rw=randwrite", "--verify=crc32c", "--do_verify=1", "--verify_fatal=1", "--verify_state_save=0"]);
    let ran = run(words.args(["--end_fsync=1", "--output-format=json"])).ends_with(0);
    let report: serde_json::Value = serde_json::from_str(&ran.out).unwrap_or_else(|e| panic!("{e}: {ran}"));
    let job = &report["jobs"][0];
    assert_eq!(job["error"], 0, "{ran}");
    let read = job["read"]["io_bytes"].as_u64().unwrap_or(0);
    assert!(read > 0 && read == job["write"]["io_bytes"].as_u64().unwrap_or(0), "all is compared: {ran}");
}

/// PostMark with 200 files in an empty folder, which is empty again then; `instructions` is where its script is put.
#[track_caller]
pub fn postmark(suite: &Path, folder: &Path, instructions: &Path, transactions: u32, settings: &str) -> Ran {
    let place = folder.display();
    let script =
        format!("set location {place}\nset number 200\nset transactions {transactions}\n{settings}run\nquit\n");
    std::fs::write(instructions, script).expect("instructions");
    // It says nothing of errors by its exit status.
    let ran = run(command(suite).arg(instructions)).ends_with(0).says(&["Deleting files...Done", "files"]);
    assert!(!format!("{}{}", ran.out, ran.err).contains("Error"), "{ran}");
    assert_eq!(std::fs::read_dir(folder).expect("the folder").count(), 0, "it removes all its files");
    ran
}
