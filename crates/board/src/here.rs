//! This machine.

use crate::orders::{introduced, introduction, put, read_response, remove_ours};
use crate::scratch::{remove_left_temporary, temporary_folder};
use crate::transport::{Offer, Transport, Undisturbed, of_a_real_machine};
use crate::{BoardContext, Cache, Failed, HostProfile, child};
use pocketstone_core::board::{Ability, BoardDescription, Capabilities, Places};
use pocketstone_core::error::Context;
use pocketstone_core::outcome::Facts;
use pocketstone_core::volume::{Medium, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_engine::installed::Installed;
use pocketstone_probe::alone::{Alone, MACHINE};
use pocketstone_probe::own_folder;
use pocketstone_workload::plan::{Plan, Request, Step};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use tempfile::TempDir;

/// Where Linux says that the processor has counters.
const PROCESSOR_COUNTERS: [&str; 2] =
    ["/sys/bus/event_source/devices/cpu", "/sys/bus/event_source/devices/armv8_pmuv3"];

/// The lock in the cache by which its runs measure in turns.
const CELL: &str = "host-cell";

/// How often a user's Ctrl-C is looked for while another run has the machine.
const LOOK: Duration = Duration::from_millis(500);

/// The way to this machine: a child process.
pub struct Here {
    /// The profile's; `None`: the user's own.
    directory: Option<PathBuf>,
    runner: PathBuf,
    context: BoardContext,
    /// The name that one lab on the machine has while it measures.
    name: String,
}

impl Here {
    /// The way to this machine.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the runner is not next to the command.
    pub fn open(profile: &HostProfile, context: &BoardContext) -> Result<Self> {
        remove_left_temporary();
        let (directory, runner) = (profile.directory.clone(), runner_beside_command()?);
        Ok(Here { directory, runner, context: context.clone(), name: MACHINE.into() })
    }

    /// The machine, unless others have it. It is given back to all of them first, and then to those of this cache, who
    /// wait in the order of their asking.
    fn alone_at_once(&self) -> Result<Option<(Alone, File)>> {
        let Some(order) = self.context.cache.try_lock(CELL)? else { return Ok(None) };
        Ok(Alone::now(&self.name)?.map(|alone| (alone, order)))
    }

    fn run(&self, folder: &Path) -> Result<()> {
        let errors = folder.join("errors");
        let log = File::create(&errors).board(|| format!("cannot create {}", errors.display()))?;
        let mut command = Command::new(&self.runner);
        command
            .arg("order")
            .args([&folder.join("order.json"), folder])
            .stdin(Stdio::null())
            .stdout(log.try_clone().board(|| "cannot share a file".into())?)
            .stderr(log);
        // A lab that is killed takes its cell along, and a watchdog puts back what the cell had set.
        pocketstone_engine::end_with_this_process(&mut command);
        let mut runner = command.spawn().board(|| format!("cannot start {}", self.runner.display()))?;
        let status = child::wait(&mut runner, &self.context)?;
        if !status.success() {
            let said = std::fs::read_to_string(&errors).unwrap_or_default();
            return Err(Error::board(format!("the runner exited with {status}: {}", said.trim())));
        }
        Ok(())
    }
}

/// The runner that was built beside this command, or installed with it.
pub(crate) fn runner_beside_command() -> Result<PathBuf> {
    let command = std::env::current_exe().board(|| "cannot find the path of this command".into())?;
    if let Some(installed) = Installed::of(&command) {
        return installed.program("pocketstone-runner", "the runner of this machine");
    }
    // Tests run from target/*/deps.
    let candidates = command.ancestors().skip(1).take(2).map(|folder| folder.join("pocketstone-runner"));
    candidates.into_iter().find(|path| path.exists()).ok_or_else(|| {
        Error::board(format!("no pocketstone-runner next to {}", command.display()))
            .hint("build both: cargo build --release")
    })
}

impl Transport for Here {
    fn describe(&self) -> BoardDescription {
        let counters = match PROCESSOR_COUNTERS.iter().any(|path| Path::new(path).exists()) {
            true => Ability::Yes,
            false => Ability::no(
                &Error::board("the kernel exposes no processor counters").hint("use a machine that is not virtual"),
            ),
        };
        let capabilities = Capabilities {
            // Asked again, and answered in full, when a cell is traced; this is what nearly always lacks.
            flash_counters: Ability::found(&pocketstone_probe::flashmon::first_nand()),
            processor_counters: counters,
            ..of_a_real_machine()
        };
        BoardDescription { capabilities, places: Places::default(), settings: Vec::new() }
    }

    fn facts(&self) -> Result<Facts, Failed> {
        // The profile's directory is not made for that, because --directory may name another.
        let folder = self.folder()?;
        let order = introduction(folder.path().join("empty"));
        put(Request { board: self.describe(), order }, folder.path(), self.cache())?;
        self.run(folder.path())?;
        Ok(introduced(read_response(folder.path())?)?)
    }

    fn offers(&self, volume: &Volume) -> Result<Offer> {
        match volume.medium {
            Medium::Directory => Ok(Offer::Sure),
            _ if volume.volatile() => Ok(Offer::Try),
            _ => Err(elsewhere(volume)),
        }
    }

    fn cache(&self) -> &Cache {
        &self.context.cache
    }

    fn folder(&self) -> Result<TempDir> {
        temporary_folder()
    }

    fn carry_out(&self, _after: &[Step], folder: &Path) -> Result<(), Failed> {
        // States are not kept: each cell is prepared right before it is measured.
        Ok(self.run(folder)?)
    }

    fn alone(&self) -> Result<Undisturbed<'_>> {
        // Two labs on one machine would measure each other, and remove each other's files.
        let undisturbed = |alone: (Alone, File)| Undisturbed::until(move || drop(alone));
        if let Some(alone) = self.alone_at_once()? {
            return Ok(undisturbed(alone));
        }
        (self.context.progress)("waiting for another run on this machine to end its cell");
        // A thread waits in the kernel: asking now and then would miss the moment between two cells of the other run,
        // and disturb it. If nobody wants the lock any more when it comes, it goes with the message.
        let (cache, name, (send, got)) = (self.context.cache.clone(), self.name.clone(), channel());
        std::thread::spawn(move || {
            let alone = cache.lock(CELL).and_then(|order| Ok((Alone::wait(&name)?, order)));
            send.send(alone)
        });
        loop {
            match got.recv_timeout(LOOK) {
                Ok(alone) => return alone.map(undisturbed),
                Err(RecvTimeoutError::Timeout) => self.context.check()?,
                Err(RecvTimeoutError::Disconnected) => return Err(Error::bug("nobody waits for the lock")),
            }
        }
    }

    fn resolve(&self, volume: &Volume) -> Result<Volume> {
        if volume.medium != Medium::Directory {
            return Ok(volume.clone());
        }
        let directory = match volume.directory.as_ref().or(self.directory.as_ref()) {
            Some(directory) => directory.clone(),
            None => own_folder(Path::new("/var/tmp"), "pocketstone")
                .map_err(|e| e.hint("choose another folder: --directory DIR"))?,
        };
        Ok(Volume { directory: Some(directory), ..volume.clone() })
    }

    fn clean(&self, plan: &Plan) {
        // The directory may be anyone's, so its own files only.
        let Some(directory) = &plan.volume.directory else { return };
        remove_ours(plan, directory);
    }
}

/// That this machine has no flash for a volume, with a board that has.
fn elsewhere(volume: &Volume) -> Error {
    let (lacking, board) = match volume.medium {
        Medium::Block => ("managed flash", "virt-emmc"),
        _ => ("raw NAND", "virt-nand"),
    };
    Error::board(format!("this machine has no {lacking} for {}", volume.name()))
        .hint(format!("run it on the virtual board: --board {board} (requires: sudo apt-get install qemu-system-arm)"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::volume::FileSystem;
    use std::sync::Arc;

    #[test]
    fn who_waits_for_another_run_has_its_turn_after_one_cell_and_can_be_interrupted() {
        let folder = tempfile::tempdir().unwrap();
        let context = BoardContext::uninterrupted(Cache::at(folder.path()).unwrap(), "/".into(), Arc::new(|_| {}));
        let name = format!("pocketstone-test-{}", std::process::id());
        let here = || Here { directory: None, runner: "/".into(), context: context.clone(), name: name.clone() };
        let (own, other, (send, got)) = (here(), here(), channel());
        let first = own.alone().unwrap();
        std::thread::spawn(move || send.send(other.alone().map(drop)));
        assert!(got.recv_timeout(Duration::from_millis(100)).is_err(), "it waits");
        drop(first);
        // A second cell is begun at once, and waits for the other run.
        drop(own.alone().unwrap());
        got.recv_timeout(Duration::from_secs(10)).unwrap().unwrap();
        let _held = own.alone().unwrap();
        context.cancelled.store(true, std::sync::atomic::Ordering::Relaxed);
        assert_eq!(here().alone().err().map(|error| error.kind()), Some(pocketstone_core::ErrorKind::Interrupted));
    }

    #[test]
    fn a_volume_that_is_not_for_this_machine_is_told_with_a_board_that_has_its_flash() {
        for (file_system, lacking, board) in [
            (FileSystem::Jffs2, "no raw NAND for jffs2", "--board virt-nand "),
            (FileSystem::F2fs, "no managed flash for f2fs", "--board virt-emmc "),
        ] {
            let error = elsewhere(&Volume::usual(file_system));
            assert!(error.chain().contains(lacking), "{}", error.chain());
            assert!(error.cure().is_some_and(|cure| cure.contains(board)), "{:?}", error.cure());
        }
    }
}
