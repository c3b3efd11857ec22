//! How much a randomised test does, from which seed, and what it says.

use std::path::{Path, PathBuf};

/// How much to do: the long tests are the same tests with larger numbers, those on emulated processors with
/// smaller ones.
pub fn amount(bounded: u64, torture: u64) -> u64 {
    match std::env::var("POCKETSTONE_LESS").ok().and_then(|text| text.parse::<u64>().ok()) {
        _ if std::env::var_os("POCKETSTONE_TORTURE").is_some() => torture,
        // On an emulated processor: a part of it.
        Some(less) if bounded >= 100 => bounded.div_ceil(less.max(1)),
        _ => bounded,
    }
}

/// The seed of a randomised test: `POCKETSTONE_SEED`, to repeat a failure, or the one in the source.
pub fn seed(default: u64) -> u64 {
    std::env::var("POCKETSTONE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// One line on standard error: what a long test did, or a table.
pub fn say(line: &str) {
    use std::io::Write;
    // Written, not printed: the test runner keeps to itself what a passing test prints. That standard error is closed
    // must not fail a test that passed.
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A library, such as `libscmfs.so`, that Cargo made beside this test or benchmark.
#[track_caller]
pub fn library(name: &str) -> PathBuf {
    let here = std::env::current_exe().expect("this program's path");
    let path = here.with_file_name(name);
    assert!(path.is_file(), "{} was not built", path.display());
    path
}

/// The inputs of a fuzz target, sorted by name: what its fuzzer started from and found.
///
/// # Panics
///
/// If there is none, or it cannot be read.
pub fn corpus(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut inputs: Vec<(String, Vec<u8>)> = entries
        .map(|entry| {
            let entry = entry.expect("a corpus can be listed");
            let data =
                std::fs::read(entry.path()).unwrap_or_else(|error| panic!("{}: {error}", entry.path().display()));
            (entry.file_name().to_string_lossy().into_owned(), data)
        })
        .collect();
    inputs.sort();
    assert!(!inputs.is_empty(), "{} is empty", folder.display());
    inputs
}

/// Runs a fuzz target's body once on each of its inputs, and says at which one it panics.
///
/// # Panics
///
/// If the body does, or there is no input.
pub fn replay(target: &str, body: impl Fn(&str, &[u8]) + std::panic::RefUnwindSafe) {
    for (name, data) in corpus(target) {
        if let Err(panic) = std::panic::catch_unwind(|| body(&name, &data)) {
            say(&format!("while replaying {target}/{name}"));
            std::panic::resume_unwind(panic);
        }
    }
}
