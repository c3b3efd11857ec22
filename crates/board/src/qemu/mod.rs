//! A board in QEMU that boots an unmodified kernel, and is the same machine every time.

mod clock;
mod console;
mod idle;
mod image;
mod initramfs;
mod machine;
mod makers;
mod packages;
mod qmp;
mod runner;
mod states;
mod watch;

pub use runner::{architectures, build as static_runner, compiler as runner_compiler};

use crate::cache::files_below;
use crate::orders::{put, read_response};
use crate::scratch::{folder, remove_left};
use crate::transport::{Offer, Transport, refuse_preload};
use crate::{BoardContext, Cache, Console, Failed, VirtualProfile, squashfs};
use image::Image;
use machine::{Machine, Start};
use pocketstone_core::block::SECTOR_SIZES;
use pocketstone_core::board::{Ability, BoardDescription, Capabilities, Places};
use pocketstone_core::database::DatabaseEngine;
use pocketstone_core::outcome::{Facts, Response};
use pocketstone_core::volume::{Access, FileSystem, Medium, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_tlb::Processor;
use pocketstone_tlb::join::Clock;
use pocketstone_workload::plan::{Order, Request, Step};
use std::fs;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// The folder in the cache with the folders of cells.
const CELLS: &str = "cells";

/// The way to a machine in QEMU whose image is built.
pub struct Qemu {
    name: String,
    profile: VirtualProfile,
    image: Image,
    qemu_version: String,
    /// Make every state anew for each cell, from a cold boot on, instead of keeping it. Slower; the results are the
    /// same.
    cold: bool,
    context: BoardContext,
}

impl Qemu {
    /// Builds what is missing of the board (kernel, runner, initramfs).
    ///
    /// # Errors
    /// `ErrorKind::Board` if QEMU is missing or a part cannot be built.
    pub fn open(name: &str, profile: &VirtualProfile, cold: bool, context: &BoardContext) -> Result<Self> {
        let qemu_version = version(profile.machine.architecture.emulator())?;
        remove_left(&context.cache.folder(CELLS)?);
        let image = Image::build(profile, context)?;
        let (name, profile, context) = (name.to_owned(), profile.clone(), context.clone());
        Ok(Qemu { name, profile, image, qemu_version, cold, context })
    }

    /// What QEMU says of its version.
    pub(crate) fn version(&self) -> &str {
        &self.qemu_version
    }

    /// Digest of kernel and initramfs.
    pub(crate) fn image_digest(&self) -> &str {
        &self.image.digest
    }

    /// The files of the cache that this board is started from, by their names there: packages, a compiled runner, the
    /// initramfs, the states; at least the state after the boot.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it does not boot, or the cache cannot be read.
    pub(crate) fn kept(&self) -> Result<Vec<PathBuf>> {
        self.state(&[]).map_err(Error::from)?;
        let root = self.context.cache.root();
        let mut all = self.kept_states()?;
        for part in self.image.parts.iter().filter(|part| part.starts_with(root)) {
            match part.is_dir() {
                true => all.extend(files_below(root, part)?),
                false => all.push(part.strip_prefix(root).unwrap_or(part).to_owned()),
            }
        }
        // Links, such as from modules to their sources, are of no use to a board.
        all.retain(|name| fs::symlink_metadata(root.join(name)).is_ok_and(|found| found.is_file()));
        Ok(all)
    }

    fn start<'a>(&'a self, state: Option<&'a Path>, console: machine::Console) -> Start<'a> {
        let Image { kernel, initramfs, idle, .. } = &self.image;
        Start { kernel, initramfs, idle: idle.as_deref(), state, console, plugin: None }
    }

    fn boot_limit(&self) -> Duration {
        Duration::from_secs(self.profile.machine.boot_timeout_s)
    }

    fn cell_limit(&self) -> Duration {
        Duration::from_secs(self.profile.machine.cell_timeout_s)
    }

    /// Boots a machine and returns it stopped, ready for its first order, with what it is.
    fn boot(&self, folder: &Path) -> Result<(Machine, Facts), Failed> {
        let start = self.start(None, machine::Console::File);
        let mut machine = Machine::start(&self.profile, &start, folder, &self.context)?;
        machine.favour_processor();
        machine.run(self.boot_limit())?;
        match read_response(folder)? {
            Response::Ready { facts } => Ok((machine, facts)),
            other => Err(Error::bug(format!("the board's first reply is {other:?}")).into()),
        }
    }

    /// A machine in the state after `steps`, stopped; with a plugin where one is given.
    fn machine_after(&self, steps: &[Step], folder: &Path, plugin: Option<&Path>) -> Result<Machine, Failed> {
        let kept = self.context.cache.folder("states")?;
        let state = self.state_in(if self.cold { folder } else { &kept }, steps)?;
        let start = Start { plugin, ..self.start(Some(&state.path), machine::Console::File) };
        Machine::start(&self.profile, &start, folder, &self.context)
    }

    /// Puts an order where a machine that was started in `folder` finds it.
    fn put(&self, order: Order, folder: &Path) -> Result<()> {
        put(Request { board: self.describe(), order }, folder, &self.context.cache)
    }
}

fn with_console(failed: Failed, folder: &Path) -> Failed {
    let console = failed.console.or_else(|| Some(Machine::console_tail(folder, 30)));
    Failed { console, ..failed }
}

/// QEMU's version; its absence is what most machines without a virtual board lack.
fn version(emulator: &str) -> Result<String> {
    let missing = "apt-get install qemu-system-arm";
    let output = Command::new(emulator)
        .arg("--version")
        .output()
        .map_err(|e| Error::board(format!("{emulator} is not installed on this machine")).because(e).hint(missing))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = text.lines().next().unwrap_or_default().to_owned();
    match output.status.success() && !line.is_empty() {
        true => Ok(line),
        false => Err(Error::board(format!("{emulator} does not start")).hint(missing)),
    }
}

impl Transport for Qemu {
    fn describe(&self) -> BoardDescription {
        let no_flash = Error::board(format!("the board {} has neither raw NAND nor managed flash", self.name))
            .hint("add a [nand] or [block] section to its profile");
        let flash = self.profile.nand.as_ref().map(drop).or(self.profile.block.as_ref().map(drop)).ok_or(no_flash);
        let no_chip = Error::board(format!("the board {} has no raw NAND", self.name))
            .hint("use a virtual board with nandsim, such as virt-nand");
        let no_meter = Error::board("a virtual board has no power meter")
            .hint("use --board host on a machine that has one, or a device model");
        let no_counters =
            Error::board("QEMU counts only instructions").hint("use --board host on a machine that has counters");
        let capabilities = Capabilities {
            disposable: true,
            deterministic: true,
            // Each machine is one busy thread, and nothing that the host does changes its results.
            parallel: std::thread::available_parallelism().map_or(1, usize::from),
            // Those of managed flash are the requests that it gets.
            flash_counters: Ability::found(&flash),
            tracing: Ability::Unknown,
            power_meters: Ability::no(&no_meter),
            processor_counters: Ability::no(&no_counters),
            power_cuts: Ability::found(&flash),
            chip_faults: Ability::found(&self.profile.nand.as_ref().ok_or(no_chip)),
            accesses: Ability::found(&self.sees_accesses()),
        };
        BoardDescription { capabilities, places: Places::default(), settings: Vec::new() }
    }

    fn facts(&self) -> Result<Facts, Failed> {
        let mut facts = self.state(&[])?.facts;
        facts.insert("qemu.version".into(), self.qemu_version.clone());
        facts.insert("qemu.arguments".into(), machine::machine_arguments(&self.profile).join(" "));
        facts.extend(self.image.facts.clone());
        Ok(facts)
    }

    fn offers(&self, volume: &Volume) -> Result<Offer> {
        let on_host = |why: String| Err(Error::board(why).hint("--board host"));
        let module = match volume.file_system {
            FileSystem::Directory => return on_host("directories are supported only on the host board".into()),
            FileSystem::Yaffs2 | FileSystem::Null => "fuse",
            FileSystem::Squashfs => {
                squashfs::version()?;
                "squashfs"
            }
            other => other.name(),
        };
        refuse_preload(volume)?;
        match volume.medium {
            Medium::RamDisk | Medium::Hugetlbfs | Medium::Pcm => {
                return on_host(format!("{} is supported only on the host board", volume.name()));
            }
            // Every kernel has tmpfs; the libraries are in the runner.
            _ if volume.volatile() && volume.access != Access::Fuse => return Ok(Offer::Sure),
            _ if volume.volatile() => return Ok(Offer::Try),
            _ => {}
        }
        let named = |n: &String| n == module;
        let (section, there) = match volume.medium {
            Medium::Block => ("block", self.profile.block.is_some()),
            _ => ("nand", self.profile.nand.is_some()),
        };
        match there && self.profile.modules.load.iter().any(named) {
            true => Ok(Offer::Sure),
            false => Err(Error::board(format!("the board {} has no {module} on {}", self.name, volume.medium.name()))
                .hint(format!("add {module} to [modules] load, and a [{section}] section, in its profile"))),
        }
    }

    fn offers_engine(&self, engine: DatabaseEngine) -> Result<()> {
        match engine {
            DatabaseEngine::Bdb | DatabaseEngine::H2 => {
                Err(Error::board(format!("{} is supported only on this machine", engine.name())).hint("--board host"))
            }
            _ => Ok(()),
        }
    }

    fn cache(&self) -> &Cache {
        &self.context.cache
    }

    fn folder(&self) -> Result<TempDir> {
        folder(&self.context.cache.folder(CELLS)?)
    }

    fn carry_out(&self, after: &[Step], folder: &Path) -> Result<(), Failed> {
        let run = || -> Result<(), Failed> {
            let mut machine = self.machine_after(after, folder, None)?;
            machine.run(self.cell_limit())
        };
        run().map_err(|failed| with_console(failed, folder))
    }

    fn carry_out_watched(&self, after: &[Step], folder: &Path, processor: &mut Processor) -> Result<Clock, Failed> {
        self.carry_out_with_plugin(after, folder, processor).map_err(|failed| with_console(failed, folder))
    }

    fn sector_bytes(&self) -> usize {
        self.profile.block.as_ref().map_or(SECTOR_SIZES[0], |block| block.sector_bytes) as usize
    }

    fn keeps_states(&self) -> bool {
        true
    }

    fn lost(&self, attempt: u32, error: &Error) -> Result<()> {
        (self.context.progress)(&format!("a machine was lost ({attempt}): {}; trying again", error.chain()));
        self.context.check()
    }

    fn keep(&self, steps: &[Step]) -> Result<(), Failed> {
        // Cold boards make them where they are used.
        if self.cold { Ok(()) } else { self.state(steps).map(|_| ()) }
    }

    fn console_tail(&self, folder: &Path) -> Option<String> {
        Some(Machine::console_tail(folder, 30))
    }

    fn console(&self, what: Console, input: Box<dyn Read + Send>, output: Box<dyn Write + Send>) -> Result<(), Failed> {
        self.join_console(what, input, output)
    }
}
