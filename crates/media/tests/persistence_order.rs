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

/// A package whose binaries are the cases.
fn package(files: &[PathBuf]) -> PathBuf {
    let home = Path::new(env!("CARGO_TARGET_TMPDIR")).join("persistence_order");
    std::fs::create_dir_all(&home).unwrap();
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut manifest = format!(
        "[package]\nname = \"persistence-order\"\nedition = \"2024\"\n[workspace]\n[dependencies]\n\
         pocketstone-media.path = {:?}\n",
        root.to_str().unwrap()
    );
    for file in files {
        manifest += &format!("[[bin]]\nname = {:?}\npath = {:?}\n", name(file), file.to_str().unwrap());
    }
    std::fs::write(home.join("Cargo.toml"), manifest).unwrap();
    // The same versions, so that nothing has to be fetched.
    std::fs::copy(root.join("../../Cargo.lock"), home.join("Cargo.lock")).unwrap();
    home
}

#[test]
fn the_compiler_refuses_what_is_out_of_order() {
    let files = cases();
    let home = package(&files);
    let cargo = std::env::var_os("CARGO").unwrap_or("cargo".into());
    let output = Command::new(cargo)
        .args(["check", "--offline", "--keep-going", "--bins", "--message-format=json", "--target-dir"])
        .arg(home.join("target"))
        .current_dir(&home)
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let mut found = Errors::new();
    let mut compiled = BTreeSet::new();
    for line in text.lines() {
        let message: Value = serde_json::from_str(line).unwrap();
        let target = message["target"]["name"].as_str().unwrap_or_default().to_string();
        if message["reason"] == "compiler-artifact" {
            compiled.insert(target);
        } else if message["message"]["level"] == "error" && message["message"]["code"].is_object() {
            let spans = message["message"]["spans"].as_array().unwrap();
            let primary = spans.iter().find(|span| span["is_primary"] == true).unwrap();
            let code = message["message"]["code"]["code"].as_str().unwrap();
            found.insert((target, primary["line_start"].as_u64().unwrap(), code.into()));
        }
    }
    let expected: Errors = files.iter().flat_map(|file| announced(file)).collect();
    assert!(expected.len() >= 8, "the cases were not found");
    assert_eq!(found, expected, "{}", String::from_utf8_lossy(&output.stderr));
    for file in &files {
        assert_eq!(compiled.contains(&name(file)), announced(file).is_empty(), "{}", file.display());
    }
}
