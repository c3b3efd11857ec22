//! The runner for another processor: installed with the command, or else built from this project's own sources and kept
//! by their content.

use super::packages::{self, Apt};
use crate::BoardContext;
use crate::compiled::{Compiled, compiler_for};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_engine::installed::Installed;
use std::fs;
use std::path::{Path, PathBuf};
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
const TARGETS: [Target; 4] = [
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
    Target {
        triple: "riscv64gc-unknown-linux-gnu",
        debian: "riscv64",
        machines: &["riscv64"],
        linker: "riscv64-linux-gnu-gcc",
        packages: "gcc-riscv64-linux-gnu libc6-dev-riscv64-cross",
    },
];

/// The processors that there are runners for: as Rust names them, and as Debian does.
pub fn architectures() -> impl Iterator<Item = (&'static str, &'static str)> {
    TARGETS.iter().map(|target| (target.triple, target.debian))
}

/// Marks a toolchain whose compiler is whole. Each library beside it is whole, or not there.
const COMPLETE: &str = "complete";

/// The rooms that the runner is made of.
const ROOMS: [&str; 14] = [
    "vfs", "random", "core", "process", "media", "lease", "workload", "scmfs", "sqlite", "yaffs2", "mount", "engine",
    "probe", "runner",
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
    let whole = |entry: &fs::DirEntry| has_library(&entry.path(), target.triple);
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
    if !root.join(COMPLETE).exists() {
        // What an earlier attempt has left may be half a library.
        let _ = fs::remove_dir_all(&root);
        own.unpack(&[&format!("rustc-web={version}"), &format!("{shared}={version}"), &dev, &llvm], &root)?;
        fs::write(root.join(COMPLETE), "").board(|| "cannot mark the toolchain".into())?;
    }
    add_library(&root, target.triple, |scratch| board.unpack(&[&dev], scratch))?;
    Ok((format!("debian {version}"), root))
}

/// Where a toolchain has the libraries of all processors.
fn libraries(root: &Path) -> PathBuf {
    root.join("usr/lib/rustlib")
}

/// Whether a toolchain is whole, with the library of a processor.
fn has_library(root: &Path, triple: &str) -> bool {
    root.join(COMPLETE).exists() && libraries(root).join(triple).exists()
}

/// Gives a toolchain the library of one more processor, all of it at once: where that fails, those that it has stay.
/// `unpack` puts the package into a folder.
fn add_library(root: &Path, triple: &str, unpack: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
    if has_library(root, triple) {
        return Ok(());
    }
    let failed = || format!("cannot add the library for {triple} to {}", root.display());
    let scratch = tempfile::tempdir_in(root.parent().unwrap_or(root)).board(failed)?;
    unpack(scratch.path())?;
    fs::create_dir_all(libraries(root)).board(failed)?;
    fs::rename(libraries(scratch.path()).join(triple), libraries(root).join(triple)).board(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half of a library, as a download that breaks off leaves it, or all of it.
    fn unpack(triple: &'static str, whole: bool) -> impl FnOnce(&Path) -> Result<()> {
        move |scratch| {
            let folder = libraries(scratch).join(triple).join("lib");
            fs::create_dir_all(&folder).unwrap();
            fs::write(folder.join("libcore.rlib"), "core").unwrap();
            match whole {
                true => fs::write(folder.join("libstd.rlib"), "std").board(|| "cannot write a library".into()),
                false => Err(Error::board("cannot download the package")),
            }
        }
    }

    #[test]
    fn a_library_that_cannot_be_added_leaves_a_toolchain_as_it_was() {
        let kept = tempfile::tempdir().unwrap();
        let root = kept.path().join("1.85");
        fs::create_dir(&root).unwrap();
        fs::write(root.join(COMPLETE), "").unwrap();
        let [one, two, ..] = TARGETS.map(|target| target.triple);
        add_library(&root, one, unpack(one, true)).unwrap();
        add_library(&root, two, unpack(two, false)).unwrap_err();
        assert!(has_library(&root, one) && !has_library(&root, two));
        add_library(&root, two, unpack(two, true)).unwrap();
        assert!(has_library(&root, one) && has_library(&root, two));
        assert!(libraries(&root).join(two).join("lib/libstd.rlib").exists());
        // One that is there is not fetched again, and nothing else is left in the folder of toolchains.
        add_library(&root, two, |_| panic!("fetched again")).unwrap();
        assert_eq!(fs::read_dir(kept.path()).unwrap().count(), 1);
    }
}
