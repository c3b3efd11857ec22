//! Records the revision that the commands are built from.

// Cargo takes what a build script prints.
#![allow(clippy::print_stdout)]

use std::process::Command;

fn git(arguments: &[&str]) -> Option<String> {
    let output = Command::new("git").args(arguments).output().ok().filter(|o| o.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

fn main() {
    let revision = match (git(&["rev-parse", "HEAD"]), git(&["status", "--porcelain", "--untracked-files=no"])) {
        (Some(revision), Some(changes)) if changes.is_empty() => revision,
        (Some(revision), _) => format!("{revision} with uncommitted changes"),
        _ => "unavailable (built outside a git checkout)".to_owned(),
    };
    println!("cargo::rustc-env=POCKETSTONE_REVISION={revision}");
    for file in ["../../.git/logs/HEAD", "../../.git/index", "../../crates"] {
        println!("cargo::rerun-if-changed={file}");
    }
}
