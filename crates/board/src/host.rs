//! This machine as a board.

use crate::{Board, Failed, HostProfile, Measured, Surroundings, engine_in, put_trace, read_measured, read_reply};
use pocketstone_core::database::{DATABASE_FOLDER, DatabaseEngine};
use pocketstone_core::error::Context;
use pocketstone_core::outcome::{Facts, Reply};
use pocketstone_core::plan::{FileSystem, Order, Plan, Step, Volume};
use pocketstone_core::{Error, Result};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

/// The host board.
pub struct HostBoard {
    name: String,
    directory: PathBuf,
    runner: PathBuf,
    facts: Facts,
    surroundings: Surroundings,
    /// Its reply to the question for engines, once it was asked.
    engines: OnceLock<Reply>,
}

impl HostBoard {
    /// Opens the host board.
    ///
    /// # Errors
    /// When the runner is not where the command is.
    pub fn open(name: &str, profile: &HostProfile, surroundings: &Surroundings) -> Result<Self> {
        let runner = runner_beside_command()?;
        let mut board = HostBoard {
            name: name.to_owned(),
            directory: profile.directory.clone(),
            runner,
            facts: Facts::new(),
            surroundings: surroundings.clone(),
            engines: OnceLock::new(),
        };
        // Any order that succeeds makes the runner say what the machine is; the profile's directory is
        // not made for that, because --directory may name another.
        let scratch = tempfile::tempdir().board(|| "cannot create a temporary folder".into())?;
        let directory = Some(scratch.path().to_path_buf());
        let volume = Volume { file_system: FileSystem::Directory, options: Vec::new(), directory };
        let folder = board.carry_out(&Order::Prepare { step: Step::Format { volume } })?;
        if let Reply::Ready { facts } = read_reply(folder.path())? {
            board.facts = facts;
        }
        Ok(board)
    }

    fn volume(&self, of: &Volume) -> Volume {
        if of.file_system.in_memory() {
            return of.clone();
        }
        let directory = of.directory.clone().unwrap_or_else(|| self.directory.clone());
        Volume { file_system: FileSystem::Directory, options: Vec::new(), directory: Some(directory) }
    }

    /// Has the runner carry out an order; its reply is in the returned folder.
    fn carry_out(&self, order: &Order) -> Result<tempfile::TempDir> {
        let folder = tempfile::tempdir().board(|| "cannot create a temporary folder".into())?;
        let path = folder.path().join("order.json");
        let text = serde_json::to_vec(order).map_err(|e| Error::bug("an order is no JSON").because(e))?;
        std::fs::write(&path, text).board(|| format!("cannot write {}", path.display()))?;
        put_trace(order, folder.path(), &self.surroundings.cache)?;
        let errors = folder.path().join("errors");
        let log = std::fs::File::create(&errors).board(|| format!("cannot create {}", errors.display()))?;
        let mut runner = Command::new(&self.runner)
            .arg("order")
            .args([&path, folder.path()])
            .stdin(Stdio::null())
            .stdout(log.try_clone().board(|| "cannot share a file".into())?)
            .stderr(log)
            .spawn()
            .board(|| format!("cannot start {}", self.runner.display()))?;
        let status = loop {
            if let Some(status) = runner.try_wait().board(|| "cannot wait for the runner".into())? {
                break status;
            }
            if let Err(error) = self.surroundings.check() {
                let _ = runner.kill();
                let _ = runner.wait();
                return Err(error);
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        if !status.success() {
            let said = std::fs::read_to_string(&errors).unwrap_or_default();
            return Err(Error::board(format!("the runner ended with {status}: {}", said.trim())));
        }
        Ok(folder)
    }
}

/// The runner that was built beside this command.
fn runner_beside_command() -> Result<PathBuf> {
    let command = std::env::current_exe().board(|| "this command does not know where it is".into())?;
    // Tests run from target/*/deps.
    let candidates = command.ancestors().skip(1).take(2).map(|folder| folder.join("pocketstone-runner"));
    candidates.into_iter().find(|path| path.exists()).ok_or_else(|| {
        Error::board(format!("there is no pocketstone-runner beside {}", command.display()))
            .hint("build both: cargo build --release")
    })
}

impl Board for HostBoard {
    fn name(&self) -> &str {
        &self.name
    }

    fn facts(&self) -> Facts {
        self.facts.clone()
    }

    fn offers(&self, file_system: FileSystem) -> Result<()> {
        match file_system {
            FileSystem::Directory => Ok(()),
            // Made and thrown away once: nothing else says as surely that it can be had.
            in_memory if in_memory.in_memory() => {
                let volume = Volume { file_system, options: Vec::new(), directory: None };
                let folder = self.carry_out(&Order::Prepare { step: Step::Format { volume } })?;
                read_reply(folder.path()).map(|_| ())
            }
            other => Err(Error::board(format!("the host board has no raw NAND for {}", other.name()))
                .hint("run it on the virtual board: --board virt-nand (needs: apt-get install qemu-system-arm)")),
        }
    }

    fn traces(&self) -> Result<()> {
        // Asked again, and answered in full, when a cell is traced; this is what nearly always lacks.
        pocketstone_probe::flashmon::first_nand().map(|_| ())
    }

    fn engine(&self, engine: DatabaseEngine) -> Result<String> {
        if self.engines.get().is_none() {
            let folder = self.carry_out(&Order::Engines)?;
            let _ = self.engines.set(read_reply(folder.path())?);
        }
        self.engines.get().map_or_else(|| Err(Error::bug("no engines were asked for")), |r| engine_in(r, engine))
    }

    fn parallel(&self) -> usize {
        // Two cells at once would measure each other.
        1
    }

    fn deterministic(&self) -> bool {
        false
    }

    fn prepare(&self, _steps: &[Step]) -> Result<(), Failed> {
        // A directory keeps no states: each cell is prepared right before it is measured.
        Ok(())
    }

    fn measure(&self, plan: &Plan) -> Result<Measured, Failed> {
        // Two labs on one machine would measure each other, and remove each other's files.
        let _alone = self.surroundings.cache.lock("host-cell")?;
        let mut plan = plan.clone();
        plan.volume = self.volume(&plan.volume);
        let run = || -> Result<Measured> {
            for step in plan.steps() {
                let folder = self.carry_out(&Order::Prepare { step })?;
                read_reply(folder.path())?;
            }
            let folder = self.carry_out(&Order::Measure { plan: Box::new(plan.clone()) })?;
            read_measured(folder.path())
        };
        let measured = run();
        if let Some(directory) = &plan.volume.directory {
            remove_files(directory);
        }
        Ok(measured?)
    }
}

/// Removes what a cell wrote: the directory may be anyone's, so its own files only.
fn remove_files(directory: &Path) {
    for name in [pocketstone_core::plan::TARGET_FILE, "filler"] {
        let _ = std::fs::remove_file(directory.join(name));
    }
    for name in [pocketstone_core::plan::FILES_FOLDER, DATABASE_FOLDER] {
        let _ = std::fs::remove_dir_all(directory.join(name));
    }
}
