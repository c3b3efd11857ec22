//! Makes the module that the project ships, `crates/replay/browser/replay.wasm`, with its record: compiles the replay
//! to WebAssembly and notes what it was made from. Requires Rust's standard library for wasm32-unknown-unknown.

#![allow(clippy::print_stdout, clippy::print_stderr)]

use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_study::views::explorer::shipped::{MODULE, RECORD, Record};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

const TARGET: &str = "wasm32-unknown-unknown";

fn main() -> ExitCode {
    match make() {
        Ok(said) => {
            println!("{said}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {}", error.chain());
            ExitCode::FAILURE
        }
    }
}

fn make() -> Result<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let root = root.canonicalize().board(|| "the project's sources are not there".into())?;
    let built = compile(&root)?;
    let module = std::fs::read(&built.module).board(|| format!("cannot read {}", built.module.display()))?;
    let files = sources(&root, &built)?;
    let version = Command::new("rustc").arg("--version").output().board(|| "cannot run rustc".into())?;
    let compiler = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let record = Record::of(&module, compiler, &root, &files, &built.packages)?;
    let folder = root.join(MODULE);
    std::fs::create_dir_all(folder.parent().unwrap_or(&root))
        .board(|| format!("cannot make the folder of {MODULE}"))?;
    std::fs::write(root.join(MODULE), &module).board(|| format!("cannot write {MODULE}"))?;
    let text = toml::to_string(&record).map_err(|e| Error::bug("a record has no text").because(e))?;
    let head = "# From what replay.wasm was made, by: cargo run -p pocketstone-study --example browser-module\n";
    std::fs::write(root.join(RECORD), format!("{head}{text}")).board(|| format!("cannot write {RECORD}"))?;
    let (files, packages) = (record.sources.len(), record.packages.len());
    let digest = &record.module_sha256;
    Ok(format!("{MODULE}: {} bytes, SHA-256 {digest}, of {files} files and {packages} packages", module.len()))
}

/// What came out, and of what.
struct Built {
    module: PathBuf,
    /// Manifests of the project's crates that are in it, from the project's folder on.
    manifests: BTreeSet<String>,
    /// The other packages, as `NAME VERSION`.
    packages: Vec<String>,
}

fn compile(root: &Path) -> Result<Built> {
    let target = root.join("target/shipped-module");
    // What the compiler writes into the module does not name this machine's folders.
    let cargo =
        std::env::var("CARGO_HOME").unwrap_or_else(|_| format!("{}/.cargo", std::env::var("HOME").unwrap_or_default()));
    let flags = format!("--remap-path-prefix={cargo}=/cargo --remap-path-prefix={}=/pocketstone", root.display());
    let output = Command::new("cargo")
        .current_dir(root)
        .args(["rustc", "-p", "pocketstone-replay", "--lib", "--crate-type", "cdylib", "--locked"])
        .args(["--target", TARGET, "--profile", "browser", "--message-format", "json", "--target-dir"])
        .arg(&target)
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", flags)
        .stderr(Stdio::inherit())
        .output()
        .board(|| "cannot run cargo".into())?;
    if !output.status.success() {
        return Err(Error::board(format!("the replay cannot be compiled for {TARGET}")));
    }
    let (mut manifests, mut packages) = (BTreeSet::from(["Cargo.toml".to_owned()]), BTreeSet::new());
    for line in String::from_utf8_lossy(&output.stdout).lines() {
        let message: Value = serde_json::from_str(line).board(|| format!("cargo says {line}"))?;
        let text = |key: &str| message.get(key).and_then(Value::as_str).unwrap_or_default();
        if text("reason") != "compiler-artifact" {
            continue;
        }
        match Path::new(text("manifest_path")).strip_prefix(root) {
            Ok(own) => {
                manifests.insert(own.to_string_lossy().into_owned());
            }
            // Such as registry+https://github.com/rust-lang/crates.io-index#serde@1.0.2
            Err(_) => {
                let id = text("package_id").rsplit_once('#').map_or("", |(_, id)| id);
                packages.insert(id.replace('@', " "));
            }
        }
    }
    let module = target.join(TARGET).join("browser/pocketstone_replay.wasm");
    Ok(Built { module, manifests, packages: packages.into_iter().collect() })
}

/// The project's files that the compiler read, as Cargo notes them beside the module.
fn sources(root: &Path, built: &Built) -> Result<Vec<String>> {
    let notes = built.module.with_extension("d");
    let text = std::fs::read_to_string(&notes).board(|| format!("cannot read {}", notes.display()))?;
    let (_, read) = text.split_once(": ").ok_or_else(|| Error::board(format!("{} names no files", notes.display())))?;
    let own = |file: &str| Some(Path::new(file).strip_prefix(root).ok()?.to_string_lossy().into_owned());
    let mut files: BTreeSet<String> = read.split_whitespace().filter_map(own).collect();
    files.extend(built.manifests.iter().cloned());
    Ok(files.into_iter().collect())
}
