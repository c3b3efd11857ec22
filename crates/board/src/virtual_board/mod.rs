//! A board in QEMU that boots an unmodified kernel, and is the same machine every time.

mod clock;
mod console;
mod cross;
mod image;
mod initramfs;
mod packages;
mod qemu;
mod qmp;
mod states;

pub use console::Console;

use crate::{Board, Failed, Measured, Surroundings, VirtualProfile};
use crate::{engine_in, put_files, read_measured, read_reply, squashfs};
use image::Image;
use pocketstone_core::database::DatabaseEngine;
use pocketstone_core::error::Context;
use pocketstone_core::outcome::{Facts, Reply};
use pocketstone_core::plan::{FileSystem, Order, Plan, Step};
use pocketstone_core::{Error, Result};
use qemu::{Machine, Start};
use states::State;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::OnceLock;
use std::time::Duration;

/// A virtual board whose image is built.
pub struct VirtualBoard {
    name: String,
    profile: VirtualProfile,
    image: Image,
    qemu_version: String,
    facts: Facts,
    /// Make every state anew for each cell, from a cold boot on, instead of keeping it.
    cold: bool,
    surroundings: Surroundings,
    /// Its reply to the question for engines, once it was asked.
    engines: OnceLock<Reply>,
}

impl VirtualBoard {
    /// Builds what is missing of the board (kernel, runner, initramfs, saved state) and opens it.
    ///
    /// # Errors
    /// When QEMU is missing or a part cannot be built.
    pub fn open(name: &str, profile: &VirtualProfile, surroundings: &Surroundings) -> Result<Self> {
        let qemu_version = version()?;
        remove_left_cells(surroundings);
        let image = Image::build(profile, surroundings)?;
        let mut board = VirtualBoard {
            name: name.to_owned(),
            profile: profile.clone(),
            image,
            qemu_version,
            facts: Facts::new(),
            cold: false,
            surroundings: surroundings.clone(),
            engines: OnceLock::new(),
        };
        let state = board.state(&[]).map_err(Error::from)?;
        let mut facts = state.facts;
        facts.insert("qemu.version".into(), board.qemu_version.clone());
        facts.insert("qemu.arguments".into(), qemu::machine_arguments(profile).join(" "));
        facts.extend(board.image.facts.clone());
        board.facts = facts;
        Ok(board)
    }

    /// Boots anew for every cell and takes it through all steps again. Slower; the results are the same.
    pub fn cold(mut self) -> Self {
        self.cold = true;
        self
    }

    fn start<'a>(&'a self, state: Option<&'a Path>, console: qemu::Console) -> Start<'a> {
        Start { kernel: &self.image.kernel, initramfs: &self.image.initramfs, state, console }
    }

    fn boot_limit(&self) -> Duration {
        Duration::from_secs(self.profile.machine.boot_timeout_s)
    }

    fn cell_limit(&self) -> Duration {
        Duration::from_secs(self.profile.machine.cell_timeout_s)
    }

    /// A folder for one machine, removed when it is dropped.
    fn cell_folder(&self) -> Result<tempfile::TempDir> {
        let parent = self.surroundings.cache.folder("cells")?;
        let prefix = format!("cell-{}-", std::process::id());
        tempfile::Builder::new().prefix(&prefix).tempdir_in(parent).board(|| "cannot create a cell's folder".into())
    }

    /// Boots a machine and returns it stopped, ready for its first order, with what it is.
    fn boot(&self, folder: &Path) -> Result<(Machine, Facts)> {
        let start = self.start(None, qemu::Console::File);
        let mut machine = Machine::start(&self.profile, &start, folder, &self.surroundings)?;
        machine.favour_processor();
        machine.run(self.boot_limit())?;
        match read_reply(folder)? {
            Reply::Ready { facts } => Ok((machine, facts)),
            other => Err(Error::bug(format!("the board's first reply is {other:?}"))),
        }
    }

    /// A machine in the state after `steps`, stopped.
    fn machine_after(&self, steps: &[Step], folder: &Path) -> Result<Machine, Failed> {
        let kept = self.surroundings.cache.folder("states")?;
        let state = self.state_in(if self.cold { folder } else { &kept }, steps)?;
        let start = self.start(Some(&state.path), qemu::Console::File);
        Ok(Machine::start(&self.profile, &start, folder, &self.surroundings)?)
    }

    /// Runs a command on a freshly started board; returns its output and exit status.
    ///
    /// # Errors
    /// When the board fails or the command cannot be started.
    pub fn exec(&self, argv: &[String]) -> Result<(Vec<u8>, i32), Failed> {
        self.exec_after(&[], argv)
    }

    /// Runs a command on a board in the state after `steps`.
    ///
    /// # Errors
    /// When the board fails or the command cannot be started.
    pub fn exec_after(&self, steps: &[Step], argv: &[String]) -> Result<(Vec<u8>, i32), Failed> {
        let folder = self.cell_folder()?;
        let run = || -> Result<(Vec<u8>, i32), Failed> {
            let mut machine = self.machine_after(steps, folder.path())?;
            give(&mut machine, folder.path(), &Order::Exec { argv: argv.to_vec() }, self.cell_limit())?;
            let Reply::Executed { status } = read_reply(folder.path())? else {
                return Err(Error::bug("the board's reply is not a command's").into());
            };
            let output = fs::read(folder.path().join("output")).board(|| "the command left no output".into())?;
            Ok((output, status))
        };
        run().map_err(|failed| with_console(failed, folder.path()))
    }
}

/// Removes the folders of cells whose process was killed before it could.
fn remove_left_cells(surroundings: &Surroundings) {
    let Ok(entries) = surroundings.cache.folder("cells").and_then(|f| fs::read_dir(f).board(String::new)) else {
        return;
    };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix("cell-").and_then(|n| n.split('-').next());
        if owner.is_some_and(|pid| !Path::new("/proc").join(pid).exists()) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Gives a stopped machine an order and waits until it has carried it out.
fn give(machine: &mut Machine, folder: &Path, order: &Order, limit: Duration) -> Result<()> {
    let text = serde_json::to_vec(order).map_err(|e| Error::bug("an order is no JSON").because(e))?;
    fs::write(folder.join("order.json"), text).board(|| "cannot write the order".into())?;
    let _ = fs::remove_file(folder.join("reply.json"));
    machine.run(limit)
}

fn with_console(failed: Failed, folder: &Path) -> Failed {
    let console = failed.console.or_else(|| Some(Machine::console_tail(folder, 30)));
    Failed { error: failed.error, console }
}

/// QEMU's version; its absence is what most machines without a virtual board lack.
fn version() -> Result<String> {
    let missing = "apt-get install qemu-system-arm";
    let output = Command::new(qemu::QEMU)
        .arg("--version")
        .output()
        .map_err(|e| Error::board(format!("there is no {} on this machine", qemu::QEMU)).because(e).hint(missing))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().next().unwrap_or_default().to_owned();
    match output.status.success() && !line.is_empty() {
        true => Ok(line),
        false => Err(Error::board(format!("{} does not run", qemu::QEMU)).hint(missing)),
    }
}

impl Board for VirtualBoard {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn offers(&self, file_system: FileSystem) -> Result<()> {
        let module = match file_system {
            FileSystem::Directory => {
                return Err(Error::board("a directory is measured on the host board").hint("--board host"));
            }
            // Every kernel has tmpfs; SCMFS is in the runner.
            FileSystem::Scmfs | FileSystem::Tmpfs => return Ok(()),
            FileSystem::ScmfsPcm | FileSystem::ScmfsFuse | FileSystem::Ext4 => {
                let message = format!("{} in memory is measured on the host board", file_system.name());
                return Err(Error::board(message).hint("--board host"));
            }
            FileSystem::Yaffs2 | FileSystem::NullFuse => "fuse",
            FileSystem::SquashfsMtdblock | FileSystem::SquashfsUbiblock => {
                squashfs::version()?;
                "squashfs"
            }
            other => other.name(),
        };
        let named = |n: &String| n == module;
        match self.profile.nand.is_some() && self.profile.modules.load.iter().any(named) {
            true => Ok(()),
            false => Err(Error::board(format!("the board {} has no {module}", self.name))
                .hint(format!("add {module} to [modules] load, and a [nand] section, in its profile"))),
        }
    }

    fn traces(&self) -> Result<()> {
        match self.profile.nand.is_some() {
            true => Ok(()),
            false => Err(Error::board(format!("the board {} has no raw NAND", self.name))
                .hint("add a [nand] section to its profile")),
        }
    }

    fn engine(&self, engine: DatabaseEngine) -> Result<String> {
        if matches!(engine, DatabaseEngine::Bdb | DatabaseEngine::H2) {
            return Err(Error::board(format!("{} runs on this machine only", engine.name())).hint("--board host"));
        }
        if self.engines.get().is_none() {
            let folder = self.cell_folder()?;
            let mut machine = self.machine_after(&[], folder.path())?;
            give(&mut machine, folder.path(), &Order::Engines, self.cell_limit())?;
            let _ = self.engines.set(read_reply(folder.path())?);
        }
        self.engines.get().map_or_else(|| Err(Error::bug("no engines were asked for")), |r| engine_in(r, engine))
    }

    fn parallel(&self) -> usize {
        // Each machine is one busy thread, and nothing that the host does changes its results.
        std::thread::available_parallelism().map_or(1, usize::from)
    }

    fn deterministic(&self) -> bool {
        true
    }

    fn prepare(&self, steps: &[Step]) -> Result<(), Failed> {
        if self.cold {
            return Ok(());
        }
        let _: State = self.state(steps)?;
        Ok(())
    }

    fn measure(&self, plan: &Plan) -> Result<Measured, Failed> {
        let folder = self.cell_folder()?;
        let run = || -> Result<Measured, Failed> {
            let mut machine = self.machine_after(&plan.steps(), folder.path())?;
            let order = Order::Measure { plan: Box::new(plan.clone()) };
            put_files(&order, folder.path(), &self.surroundings.cache)?;
            give(&mut machine, folder.path(), &order, self.cell_limit())?;
            Ok(read_measured(folder.path())?)
        };
        run().map_err(|failed| with_console(failed, folder.path()))
    }
}
