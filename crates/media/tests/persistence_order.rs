//! The order of persistence is checked by the compiler: every file in `tests/compile_fail` is compiled,
//! and its errors are those, on those lines, that `//~ E0000` comments announce. A file without such
//! comments compiles.
//!
//! Error codes and lines are stable where the wording of messages is not, so that this holds for
//! every compiler that builds the workspace.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

type Errors = BTreeSet<(String, u64, String)>;

fn cases() -> Vec<PathBuf> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compile_fail");
    let mut files: Vec<PathBuf> = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    files
}

fn name(file: &Path) -> String {
    file.file_stem().unwrap().to_str().unwrap().into()
}

fn announced(file: &Path) -> Errors {
    let text = std::fs::read_to_string(file).unwrap();
    let lines = text.lines().enumerate();
    lines
        .filter_map(|(number, line)| {
            line.split_once("//~ ").map(|(_, code)| (name(file), number as u64 + 1, code.into()))
        })
        .collect()
}

/// The newest library of a crate that Cargo made beside this test: it is of these sources.
fn library(name: &str) -> PathBuf {
    let here = std::env::current_exe().unwrap();
    let is_it = |path: &PathBuf| {
        let file = path.file_name().unwrap().to_string_lossy();
        file.starts_with(&format!("lib{name}-")) && file.ends_with(".rlib")
    };
    let entries = std::fs::read_dir(here.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let made = |path: &PathBuf| path.metadata().and_then(|file| file.modified()).unwrap();
    entries.filter(is_it).max_by_key(made).unwrap_or_else(|| panic!("there is no {name} beside {}", here.display()))
}

/// What the compiler says of a case, and whether it compiles: against the library that is there, which Cargo would make
/// once more.
fn compile(file: &Path, home: &Path) -> (Errors, bool) {
    let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
    let media = library("pocketstone_media");
    let output = Command::new(rustc)
        .args(["--edition=2024", "--crate-type=bin", "--emit=metadata", "--error-format=json", "--out-dir"])
        .arg(home)
        .arg("-L")
        .arg(format!("dependency={}", media.parent().unwrap().display()))
        .arg("--extern")
        .arg(format!("pocketstone_media={}", media.display()))
        .arg(file)
        .output()
        .unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    let messages =
        text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap_or_else(|e| panic!("{line}: {e}")));
    let of_message = |message: Value| {
        let code = message["code"]["code"].as_str().filter(|_| message["level"] == "error")?.to_owned();
        let primary = message["spans"].as_array().unwrap().iter().find(|span| span["is_primary"] == true).unwrap();
        Some((name(file), primary["line_start"].as_u64().unwrap(), code))
    };
    (messages.filter_map(of_message).collect(), output.status.success())
}

#[test]
fn the_compiler_refuses_what_is_out_of_order() {
    let home = tempfile::tempdir().unwrap();
    let mut announced_errors = 0;
    for file in cases() {
        let expected = announced(&file);
        announced_errors += expected.len();
        let (found, compiles) = compile(&file, home.path());
        assert_eq!((&found, compiles), (&expected, expected.is_empty()), "{}", file.display());
    }
    assert!(announced_errors >= 8, "the cases were not found");
}
