//! The runner for another processor: installed with the command, or else built from this project's own sources and kept
//! by their content.

use super::packages::{self, Apt};
use crate::BoardContext;
use crate::compiled::{Compiled, compiler_for};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_engine::installed::Installed;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// A processor that the runner can be built for.
struct Target {
    /// As Rust names it.
    triple: &'static str,
    /// As Debian names its architecture.
    debian: &'static str,
    /// As the kernels of such machines name themselves (`uname -m`).
    machines: &'static [&'static str],
    /// The linker, and the packages that have it.
    linker: &'static str,
    packages: &'static str,
}

/// Those that are known.
const TARGETS: [Target; 3] = [
    Target {
        triple: "armv7-unknown-linux-gnueabihf",
        debian: "armhf",
        machines: &["armv7l", "armv8l"],
        linker: "arm-linux-gnueabihf-gcc",
        packages: "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross",
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        debian: "arm64",
        machines: &["aarch64"],
        linker: "aarch64-linux-gnu-gcc",
        packages: "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
    },
    Target {
        triple: "x86_64-unknown-linux-gnu",
        debian: "amd64",
        machines: &["x86_64"],
        linker: "x86_64-linux-gnu-gcc",
        packages: "gcc-x86-64-linux-gnu libc6-dev-amd64-cross",
    },
];

/// The processors that there are runners for: as Rust names them, and as Debian does.
pub fn architectures() -> impl Iterator<Item = (&'static str, &'static str)> {
    TARGETS.iter().map(|target| (target.triple, target.debian))
}

/// Marks a toolchain of which nothing is missing.
const COMPLETE: &str = "complete";

/// The rooms that the runner is made of.
const ROOMS: [&str; 13] = [
    "vfs", "random", "core", "media", "lease", "workload", "scmfs", "sqlite", "yaffs2", "mount", "engine", "probe",
    "runner",
];

impl Target {
    /// That of an architecture of Debian's, or of a machine as its kernel names it.
    fn of(architecture: &str) -> Result<&'static Target> {
        let is = |target: &&Target| target.debian == architecture || target.machines.contains(&architecture);
        let target = TARGETS.iter().find(is);
        target.ok_or_else(|| Error::board(format!("{architecture} is not supported by the runner")))
    }
}

/// The compiler, with its version, that makes the runner for an architecture, named as for [`build`]: it is fetched if
/// it is not there.
///
/// # Errors
/// `ErrorKind::Board` if the architecture is unsupported, or neither this machine nor Debian's archive has one.
pub fn compiler(architecture: &str, context: &BoardContext) -> Result<String> {
    Toolchain::choose(Target::of(architecture)?, context).map(|toolchain| toolchain.name)
}

/// The runner's static binary for an architecture of Debian's, or for a machine as its kernel names it.
///
/// # Errors
/// `ErrorKind::Board` if the architecture is unsupported, or the sources are missing or cannot be compiled.
pub fn build(architecture: &str, context: &BoardContext) -> Result<PathBuf> {
    let target = Target::of(architecture)?;
    if let Some(installed) = Installed::of_this_program() {
        return installed.program(&format!("runners/{}", target.triple), &format!("the runner for {architecture}"));
    }
    let toolchain = Toolchain::choose(target, context)?;
    let upper = target.triple.to_uppercase().replace('-', "_");
    let runner = Compiled {
        what: "the board's runner",
        folder: "runners",
        rooms: &ROOMS,
        toolchain: &toolchain.name,
        target: target.triple,
        profile: "board",
        arguments: &["build", "-p", "pocketstone-runner"],
        file: "pocketstone-runner",
        cure: &format!("apt-get install {} (for {})", target.packages, target.linker),
    };
    runner.make(context, |command| {
        command
            // Its SQLite takes F2FS's atomic writes where a study asks for them.
            .env("LIBSQLITE3_FLAGS", "SQLITE_ENABLE_BATCH_ATOMIC_WRITE")
            .env(format!("CARGO_TARGET_{upper}_LINKER"), target.linker)
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
    fn choose(target: &Target, context: &BoardContext) -> Result<Self> {
        // For those who want Debian's in any case, and for the test of that way.
        let forced = std::env::var("POCKETSTONE_CROSS").is_ok_and(|v| v == "debian");
        if let Some(version) = compiler_for(target.triple).filter(|_| !forced) {
            return Ok(Toolchain { name: version, root: None });
        }
        let (name, root) = debian_toolchain(target, context).map_err(|error| {
            let triple = target.triple;
            Error::board(format!("there is no Rust compiler for {triple}")).because(error).hint(format!(
                "rustup target add {triple}; or use Debian's, for which `apt-get update` must work (is the network up?)"
            ))
        })?;
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
fn debian_toolchain(target: &Target, context: &BoardContext) -> Result<(String, PathBuf)> {
    let cache = &context.cache;
    let kept = cache.folder("toolchains")?;
    let _lock = cache.lock("toolchain")?;
    // One that was unpacked for other boards lacks the library of this one.
    let whole = |entry: &fs::DirEntry| {
        let root = entry.path();
        root.join(COMPLETE).exists() && root.join("usr/lib/rustlib").join(target.triple).exists()
    };
    if let Some(entry) = fs::read_dir(&kept).ok().and_then(|mut e| e.find_map(|e| e.ok().filter(whole))) {
        return Ok((format!("debian {}", entry.file_name().to_string_lossy()), entry.path()));
    }
    let host = match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => return Err(Error::board(format!("Debian has no toolchain for a host of kind {other}"))),
    };
    let _packages = cache.lock(packages::LOCK)?;
    let board = Apt::new(cache, target.debian, context)?;
    let own = Apt::new(cache, host, context)?;
    let library = board.show("libstd-rust-web-dev")?;
    let version = packages::field(&library, "Version").ok_or_else(|| Error::board("a package without a version"))?;
    let need = |record: &str, prefix: &str| {
        let found = packages::dependency(record, prefix).map(str::to_owned);
        found.ok_or_else(|| Error::board(format!("Debian's Rust has no dependency {prefix}*")))
    };
    // rustc-web -> libstd-rust-web-dev -> libstd-rust-web-1.NN -> libllvmNN
    let dev = format!("libstd-rust-web-dev={version}");
    let shared = need(&own.show(&dev)?, "libstd-rust-web-1")?;
    let llvm = need(&own.show(&format!("{shared}={version}"))?, "libllvm")?;
    (context.progress)(&format!("downloading Debian's Rust {version}"));
    let root = kept.join(version);
    let compiler = fs::remove_file(root.join(COMPLETE)).is_ok();
    if !compiler {
        own.unpack(&[&format!("rustc-web={version}"), &format!("{shared}={version}"), &dev, &llvm], &root)?;
    }
    board.unpack(&[&dev], &root)?;
    fs::write(root.join(COMPLETE), "").board(|| "cannot mark the toolchain".into())?;
    Ok((format!("debian {version}"), root))
}
