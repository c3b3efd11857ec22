//! The runner for 32-bit ARM: built from this project's own sources, kept by their content.

use super::packages::{self, Apt};
use crate::cache::digest;
use crate::{Cache, Surroundings};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const TARGET: &str = "armv7-unknown-linux-gnueabihf";
const LINKER: &str = "arm-linux-gnueabihf-gcc";
/// The rooms that the runner is made of.
const ROOMS: [&str; 7] = ["core", "media", "workload", "scmfs", "engine", "probe", "runner"];

/// The runner's static binary for the board.
///
/// # Errors
/// When the sources are not there or cannot be compiled.
pub fn runner(cache: &Cache, surroundings: &Surroundings) -> Result<PathBuf> {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let sources = fs::canonicalize(&sources).map_err(|e| {
        Error::board(format!("pocketstone's sources are not at {}", sources.display()))
            .because(e)
            .hint("build pocketstone where its sources are: the board's runner is compiled from them")
    })?;
    let toolchain = Toolchain::choose(cache, surroundings)?;
    let key = digest(&[&content(&sources)?, toolchain.name.as_bytes()]);
    let kept = cache.folder("runners")?.join(&key);
    if kept.exists() {
        return Ok(kept);
    }
    let _lock = cache.lock("runner")?;
    if kept.exists() {
        return Ok(kept);
    }
    (surroundings.progress)("compiling the runner for the board");
    let target = sources.join("target/board-runner");
    let mut command = Command::new("cargo");
    command
        .current_dir(&sources)
        .args(["build", "--locked", "--profile", "board", "-p", "pocketstone-runner", "--target", TARGET])
        // A board serves nothing by FUSE.
        .arg("--no-default-features")
        .arg("--target-dir")
        .arg(&target)
        .env(format!("CARGO_TARGET_{}_LINKER", TARGET.to_uppercase().replace('-', "_")), LINKER)
        // Flags set by the machine's own builds (sanitizers, coverage) are not meant for the board.
        .env_remove("RUSTFLAGS")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env(
            format!("CARGO_TARGET_{}_RUSTFLAGS", TARGET.to_uppercase().replace('-', "_")),
            "-Ctarget-feature=+crt-static",
        );
    toolchain.apply(&mut command);
    let output = command.output().board(|| "cannot run cargo".into())?;
    if !output.status.success() {
        return Err(Error::board(format!(
            "the board's runner cannot be compiled:\n{}",
            String::from_utf8_lossy(&output.stderr).trim()
        ))
        .hint(format!("apt-get install gcc-arm-linux-gnueabihf libc6-dev-armhf-cross (for {LINKER})")));
    }
    let built = target.join(TARGET).join("board/pocketstone-runner");
    let temporary = kept.with_extension("new");
    fs::copy(&built, &temporary).board(|| format!("cannot copy {}", built.display()))?;
    fs::rename(&temporary, &kept).board(|| format!("cannot keep {}", kept.display()))?;
    Ok(kept)
}

/// All bytes that the runner is made from, with their names.
fn content(sources: &Path) -> Result<Vec<u8>> {
    let mut files = vec![sources.join("Cargo.lock"), sources.join("Cargo.toml")];
    for room in ROOMS {
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

/// A compiler for the board.
struct Toolchain {
    name: String,
    /// Root of an unpacked Debian toolchain, where the machine's own cannot do it.
    root: Option<PathBuf>,
}

impl Toolchain {
    /// The machine's own compiler where it has the board's standard library, else Debian's.
    fn choose(cache: &Cache, surroundings: &Surroundings) -> Result<Self> {
        // For those who want Debian's in any case, and for the test of that way.
        let forced = std::env::var("POCKETSTONE_CROSS").is_ok_and(|v| v == "debian");
        let ask = |arguments: &[&str]| {
            let output = Command::new("rustc").args(arguments).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        if let (false, Some(sysroot), Some(version)) = (forced, ask(&["--print", "sysroot"]), ask(&["--version"])) {
            if Path::new(&sysroot).join("lib/rustlib").join(TARGET).exists() {
                return Ok(Toolchain { name: version, root: None });
            }
        }
        let (name, root) = debian_toolchain(cache, surroundings)?;
        Ok(Toolchain { name, root: Some(root) })
    }

    fn apply(&self, command: &mut Command) {
        if let Some(root) = &self.root {
            let libraries = [root.join("usr/lib"), root.join(format!("usr/lib/{}-linux-gnu", std::env::consts::ARCH))];
            let path = std::env::join_paths(libraries).unwrap_or_default();
            command.env("RUSTC", root.join("usr/bin/rustc")).env("LD_LIBRARY_PATH", path);
        }
    }
}

/// Debian's `rustc-web`, unpacked side by side with the board's standard library: never installed,
/// because it conflicts with other compilers. Both architectures must have the same version.
fn debian_toolchain(cache: &Cache, surroundings: &Surroundings) -> Result<(String, PathBuf)> {
    let kept = cache.folder("toolchains")?;
    let _lock = cache.lock("toolchain")?;
    if let Some(entry) = fs::read_dir(&kept).ok().and_then(|mut e| e.find_map(|e| e.ok().filter(complete))) {
        return Ok((format!("debian {}", entry.file_name().to_string_lossy()), entry.path()));
    }
    let host = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => return Err(Error::board(format!("there is no Debian toolchain for a host of kind {other}"))),
    };
    let board = Apt::new(cache, "armhf", surroundings)?;
    let own = Apt::new(cache, host, surroundings)?;
    let library = board.show("libstd-rust-web-dev")?;
    let version = packages::field(&library, "Version").ok_or_else(|| Error::board("a package without a version"))?;
    let need = |record: &str, prefix: &str| {
        let found = packages::dependency(record, prefix).map(str::to_owned);
        found.ok_or_else(|| Error::board(format!("Debian's Rust depends on no {prefix}*")))
    };
    // rustc-web -> libstd-rust-web-dev -> libstd-rust-web-1.NN -> libllvmNN
    let dev = format!("libstd-rust-web-dev={version}");
    let shared = need(&own.show(&dev)?, "libstd-rust-web-1")?;
    let llvm = need(&own.show(&format!("{shared}={version}"))?, "libllvm")?;
    (surroundings.progress)(&format!("downloading Debian's Rust {version}"));
    let root = kept.join(version);
    own.unpack(&[&format!("rustc-web={version}"), &format!("{shared}={version}"), &dev, &llvm], &root)?;
    board.unpack(&[&dev], &root)?;
    fs::write(root.join("complete"), "").board(|| "cannot mark the toolchain".into())?;
    Ok((format!("debian {version}"), root))
}

fn complete(entry: &fs::DirEntry) -> bool {
    entry.path().join("complete").exists()
}
