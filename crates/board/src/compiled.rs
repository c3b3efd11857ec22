//! Programs that are compiled at run time from this project's own sources, kept by their content.

use crate::cache::digest;
use crate::{BoardContext, child};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_engine::installed;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Something that is compiled from the project's sources.
#[derive(Debug, Clone, Copy)]
pub struct Compiled<'a> {
    /// What it is, for messages, such as `the board's runner`.
    pub what: &'a str,
    /// The folder of the cache that keeps it.
    pub folder: &'a str,
    /// The rooms that it is made of.
    pub rooms: &'a [&'a str],
    /// Who compiles it, with the version: it is made anew with another one.
    pub toolchain: &'a str,
    /// The target's name, as rustc has it.
    pub target: &'a str,
    /// The profile of the project's manifest.
    pub profile: &'a str,
    /// Arguments of Cargo, the subcommand first; those for target and profile follow.
    pub arguments: &'a [&'a str],
    /// The name of the file that comes out.
    pub file: &'a str,
    /// The fix if it cannot be compiled.
    pub cure: &'a str,
}

impl Compiled<'_> {
    /// The name in the cache of what comes out of these sources: the same ones are compiled for several processors.
    fn key(&self, content: &[u8]) -> String {
        digest(&[content, self.toolchain.as_bytes(), self.target.as_bytes()])
    }

    /// The compiled file, from the cache or made now, without the network where that works; `adjust` sets what the
    /// command needs beyond.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the sources are missing or cannot be compiled; `ErrorKind::Interrupted` if the user
    /// interrupts.
    pub fn make(&self, context: &BoardContext, adjust: impl Fn(&mut Command)) -> Result<PathBuf> {
        let cache = &context.cache;
        let sources = installed::checkout(self.what)?;
        let key = self.key(&content(&sources, self.rooms)?);
        let kept = cache.folder(self.folder)?.join(&key);
        if kept.exists() {
            return Ok(kept);
        }
        let _lock = cache.lock(self.folder)?;
        if kept.exists() {
            return Ok(kept);
        }
        (context.progress)(&format!("compiling {}", self.what));
        let target = sources.join("target").join(format!("board-{}", self.folder));
        let command = |network: bool| {
            let mut command = Command::new("cargo");
            command
                .current_dir(&sources)
                .args(self.arguments)
                .args(["--locked", "--target", self.target, "--profile", self.profile, "--target-dir"])
                .arg(&target)
                .args((!network).then_some("--offline"))
                // Flags set by the machine's own builds (sanitizers, coverage) are not meant for it.
                .env_remove("RUSTFLAGS")
                .env_remove("CARGO_ENCODED_RUSTFLAGS");
            adjust(&mut command);
            child::output(&mut command, context)
        };
        let mut output = command(false)?;
        // Cargo names the option where something has to be downloaded first.
        if !output.status.success() && String::from_utf8_lossy(&output.stderr).contains("--offline") {
            output = command(true)?;
        }
        if !output.status.success() {
            let said = String::from_utf8_lossy(&output.stderr);
            let cure = match is_the_sources(&said) {
                true => format!("mend {}, or undo what was changed there: git status", sources.display()),
                false => self.cure.to_owned(),
            };
            return Err(Error::board(format!("{} cannot be compiled:\n{}", self.what, said.trim())).hint(cure));
        }
        let built = target.join(self.target).join(self.profile).join(self.file);
        let temporary = kept.with_extension("new");
        fs::copy(&built, &temporary).board(|| format!("cannot copy {}", built.display()))?;
        fs::rename(&temporary, &kept).board(|| format!("cannot store {}", kept.display()))?;
        Ok(kept)
    }
}

/// Whether it is for an error in the project's sources that they do not compile, by what Cargo says: with a number
/// from rustc, and not for want of a standard library (E0463), which every crate lacks then.
fn is_the_sources(said: &str) -> bool {
    said.contains("could not compile `pocketstone")
        && said.contains("error")
        && !said.contains("E0463")
        && !said.contains("linker `")
}

/// The version of this machine's compiler where it has the standard library of a target.
pub fn compiler_for(target: &str) -> Option<String> {
    let ask = |arguments: &[&str]| {
        let output = Command::new("rustc").args(arguments).output().ok()?;
        output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
    };
    let sysroot = ask(&["--print", "sysroot"])?;
    Path::new(&sysroot).join("lib/rustlib").join(target).exists().then(|| ask(&["--version"])).flatten()
}

/// All bytes that something is made from, with their names.
fn content(sources: &Path, rooms: &[&str]) -> Result<Vec<u8>> {
    let mut files = vec![sources.join("Cargo.lock"), sources.join("Cargo.toml")];
    for room in rooms {
        files.push(sources.join("crates").join(room).join("Cargo.toml"));
        let mut folders = vec![sources.join("crates").join(room).join("src")];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(&folder).board(|| format!("cannot list {}", folder.display()))?.flatten() {
                match entry.path().is_dir() {
                    true => folders.push(entry.path()),
                    false => files.push(entry.path()),
                }
            }
        }
    }
    files.sort();
    let mut all = Vec::new();
    for file in files {
        all.extend(file.strip_prefix(sources).unwrap_or(&file).to_string_lossy().as_bytes());
        all.extend(fs::read(&file).board(|| format!("cannot read {}", file.display()))?);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_source_is_other_content_and_a_moved_project_is_not() {
        let project = |line: &str| {
            let folder = tempfile::tempdir().unwrap();
            let room = folder.path().join("crates/one/src/deep");
            fs::create_dir_all(&room).unwrap();
            for file in ["Cargo.toml", "Cargo.lock", "crates/one/Cargo.toml", "crates/one/src/lib.rs"] {
                fs::write(folder.path().join(file), file).unwrap();
            }
            fs::write(room.join("a.rs"), line).unwrap();
            fs::create_dir_all(folder.path().join("crates/two/src")).unwrap();
            fs::write(folder.path().join("crates/two/src/lib.rs"), line).unwrap();
            content(folder.path(), &["one"]).unwrap()
        };
        assert_eq!(project("fn a() {}"), project("fn a() {}"), "in another folder");
        assert_ne!(project("fn a() {}"), project("fn b() {}"));
        let text = String::from_utf8(project("fn a() {}")).unwrap();
        assert_eq!(text.matches("fn a() {}").count(), 1, "the other room does not count: {text}");
    }

    #[test]
    fn the_same_sources_for_another_processor_are_another_file() {
        let runner = |target: &'static str, toolchain: &'static str| {
            let (what, folder, profile, file, cure) = ("a runner", "runners", "board", "runner", "none");
            Compiled { what, folder, rooms: &[], toolchain, target, profile, arguments: &[], file, cure }
                .key(b"fn a() {}")
        };
        let arm = runner("armv7-unknown-linux-gnueabihf", "rustc 1.85");
        assert_eq!(arm, runner("armv7-unknown-linux-gnueabihf", "rustc 1.85"));
        assert_ne!(arm, runner("aarch64-unknown-linux-gnu", "rustc 1.85"));
        assert_ne!(arm, runner("armv7-unknown-linux-gnueabihf", "rustc 1.86"));
    }

    #[test]
    fn no_compiler_has_the_library_of_a_target_that_does_not_exist() {
        assert_eq!(compiler_for("pdp11-unknown-unknown"), None);
    }
}
