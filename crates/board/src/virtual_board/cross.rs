//! The runner for 32-bit ARM: built from this project's own sources, kept by their content.

use super::packages::{self, Apt};
use crate::compiled::{Compiled, compiler_for};
use crate::{Cache, Surroundings};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use std::fs;
use std::path::PathBuf;
use std::process::Command;

const TARGET: &str = "armv7-unknown-linux-gnueabihf";
const LINKER: &str = "arm-linux-gnueabihf-gcc";
/// The rooms that the runner is made of.
const ROOMS: [&str; 9] = ["core", "media", "workload", "scmfs", "yaffs2", "mount", "engine", "probe", "runner"];

/// The runner's static binary for the board.
///
/// # Errors
/// When the sources are not there or cannot be compiled.
pub fn runner(cache: &Cache, surroundings: &Surroundings) -> Result<PathBuf> {
    let toolchain = Toolchain::choose(cache, surroundings)?;
    let upper = TARGET.to_uppercase().replace('-', "_");
    let runner = Compiled {
        what: "the board's runner",
        folder: "runners",
        rooms: &ROOMS,
        toolchain: &toolchain.name,
        target: TARGET,
        profile: "board",
        arguments: &["build", "-p", "pocketstone-runner"],
        file: "pocketstone-runner",
        cure: &format!("apt-get install gcc-arm-linux-gnueabihf libc6-dev-armhf-cross (for {LINKER})"),
    };
    runner.make(cache, &*surroundings.progress, |command| {
        command
            .env(format!("CARGO_TARGET_{upper}_LINKER"), LINKER)
            .env(format!("CARGO_TARGET_{upper}_RUSTFLAGS"), "-Ctarget-feature=+crt-static");
        toolchain.apply(command);
    })
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
        if let Some(version) = compiler_for(TARGET).filter(|_| !forced) {
            return Ok(Toolchain { name: version, root: None });
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
