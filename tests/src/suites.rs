//! Programs of others that test file systems.

use crate::command::{Ran, run};
use crate::project;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where `scripts/suites` puts what it builds.
const BUILT: &str = ".cache/suites/bin";

/// Says what is left out.
pub fn left_out(what: &str, why: &str, cure: &str) {
    use std::io::Write;
    // Written, not printed: the test runner keeps what a passing test prints to itself.
    let _ = writeln!(std::io::stderr(), "left out: {what}; why: {why}; cure: {cure}");
}

/// Says what something came to.
pub fn tell(text: &str) {
    use std::io::Write;
    // Straight to the stream, as above.
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn find(name: &str) -> Option<PathBuf> {
    let built = project().join(BUILT).join(name);
    // Debian keeps programs for the administrator where not every PATH looks.
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into()]);
    std::iter::once(built).chain(folders.map(|folder| folder.join(name))).find(|program| program.is_file())
}

/// A program from a Debian package, or `None`, said aloud.
pub fn packaged(name: &str, package: &str) -> Option<PathBuf> {
    let found = find(name);
    if found.is_none() {
        left_out(&format!("the suite {name}"), "it is not installed", &format!("sudo apt-get install {package}"));
    }
    found
}

/// A program that `scripts/suites` builds, or `None`, said aloud.
pub fn built(name: &str) -> Option<PathBuf> {
    let found = find(name).and_then(|program| program.canonicalize().ok());
    if found.is_none() {
        left_out(&format!("the suite {name}"), "it is not built", "scripts/suites");
    }
    found
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
pub fn plain(text: &str) -> String {
    let mut pieces = text.split('\x1b');
    let first = pieces.next().unwrap_or_default().to_owned();
    pieces.fold(first, |plain, piece| plain + piece.split_once('m').map_or("", |(_, rest)| rest))
}

/// The cases that ended so, in what pjdfstest says.
pub fn cases<'a>(lines: &'a str, end: &str) -> BTreeSet<&'a str> {
    let named = lines.lines().filter_map(|line| line.strip_suffix(end)).map(str::trim);
    named.filter(|name| name.contains("::") && !name.contains(' ')).collect()
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
