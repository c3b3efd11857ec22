//! `run`: a program with the library that reaches files of mounted volumes without the kernel.

use crate::arguments::{Direct, RunArguments};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The library's file name.
const LIBRARY: &str = "libscmfs_preload.so";
/// Where it is, for who keeps it elsewhere.
const PLACE: &str = "SCMFS_PRELOAD_LIBRARY";

/// Becomes the program.
pub fn run(arguments: &RunArguments) -> Result<u8> {
    let library = library()?;
    let Some((program, rest)) = arguments.program.split_first() else {
        return Err(Error::user("no program was given").hint("scmfs run PROGRAM ARGUMENTS"));
    };
    let mut command = Command::new(program);
    command.args(rest).env("LD_PRELOAD", with(library, std::env::var_os("LD_PRELOAD")));
    if let Some(direct) = arguments.preload {
        let word = match direct {
            Direct::Off => "off",
            Direct::Read => "read",
            Direct::Write => "write",
            Direct::Append => "append",
        };
        command.env("SCMFS_PRELOAD", word);
    }
    if let Some(report) = &arguments.report {
        let absolute = std::path::absolute(report).user(|| format!("cannot find {}", report.display()))?;
        // Said now, and not by every process at its end.
        std::fs::OpenOptions::new()
            .append(true)
            .create(true)
            .open(&absolute)
            .user(|| format!("cannot write {}", absolute.display()))?;
        command.env("SCMFS_PRELOAD_REPORT", absolute);
    }
    let error = command.exec();
    Err(Error::user(format!("cannot run {}", Path::new(program).display())).because(error))
}

/// What is loaded before a program, ours first.
fn with(library: PathBuf, others: Option<OsString>) -> OsString {
    let mut all = library.into_os_string();
    if let Some(others) = others.filter(|others| !others.is_empty()) {
        all.push(":");
        all.push(others);
    }
    all
}

/// The library: where the user says, beside this program, or where packages have libraries.
fn library() -> Result<PathBuf> {
    let missing = |place: &Path| {
        Error::board(format!("{} is not there", place.display()))
            .hint("cargo build --release -p pocketstone-preload, or name it in SCMFS_PRELOAD_LIBRARY")
    };
    if let Some(place) = std::env::var_os(PLACE).map(PathBuf::from) {
        return if place.is_file() { Ok(place) } else { Err(missing(&place)) };
    }
    let program = std::env::current_exe().board(|| "cannot find this program".to_owned())?;
    let folder = program.parent().unwrap_or(Path::new("/"));
    let beside = folder.join(LIBRARY);
    // Cargo leaves what it makes for tests in `deps`, which is never older.
    let folders = ["deps", ".", "../lib", "../lib/scmfs"];
    let places = folders.map(|place| folder.join(place).join(LIBRARY));
    let found = places.into_iter().find(|place| place.is_file());
    // The dynamic linker takes spaces and colons for separators.
    let usable = |place: &PathBuf| !place.as_os_str().as_encoded_bytes().iter().any(|byte| b" :".contains(byte));
    match found.map(|place| place.canonicalize().unwrap_or(place)) {
        Some(place) if usable(&place) => Ok(place),
        Some(place) => Err(Error::user(format!("{} has a space or a colon in its name", place.display()))
            .hint("the dynamic linker cannot load it from there: move it")),
        None => Err(missing(&beside)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_that_are_loaded_anyway_stay() {
        let library = || PathBuf::from("/lib/a.so");
        assert_eq!(with(library(), None), "/lib/a.so");
        assert_eq!(with(library(), Some("".into())), "/lib/a.so");
        assert_eq!(with(library(), Some("b.so".into())), "/lib/a.so:b.so");
    }
}
