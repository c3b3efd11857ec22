//! What is measured beside the work: each counter is one file here, and one line in [`all`].
//!
//! All have the same life: before the program under test starts, once it is in place, right before and right after its
//! work, and when it has ended.

mod block;
mod changes;
mod counters;
mod energy;
mod events;
mod flash;
mod others;
mod translation;
mod usage;

use crate::context::Context;
use pocketstone_core::error::Context as _;
use pocketstone_core::outcome::{Failure, Outcome, Quantity, Unavailable};
use pocketstone_core::{Error, Result};
use pocketstone_probe::conditions::Machine;
use pocketstone_probe::counters::data_tlb_counters;
use pocketstone_probe::ensure_tracefs;
use pocketstone_probe::flashmon::first_nand;
use pocketstone_probe::meters::Found;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The program under test, in place and waiting.
pub struct Program {
    /// The process that does the work.
    pub pid: u32,
    /// Where its files are; `None`: the work is done by this process.
    pub folder: Option<PathBuf>,
    /// A record of its own of its calls to files, which it leaves there.
    pub own_events: Option<PathBuf>,
}

/// What probes add to.
pub struct Gathered {
    /// The cell's outcome as far as it is known.
    pub outcome: Outcome,
    /// Threads whose doing is the workload's.
    pub threads: BTreeSet<u32>,
    /// The cell's folder, for logs.
    pub folder: PathBuf,
}

impl Gathered {
    /// Writes a log into the cell's folder.
    ///
    /// # Errors
    /// `ErrorKind::Board`, as [`keep`].
    pub fn keep(&self, name: &str, bytes: &[u8]) -> Result<()> {
        keep(&self.folder, name, bytes)
    }
}

/// Writes a log into a cell's folder.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be written.
pub fn keep(folder: &Path, name: &str, bytes: &[u8]) -> Result<()> {
    let path = folder.join(name);
    fs::write(&path, bytes).board(|| format!("cannot write {}", path.display()))
}

/// Something that is measured beside the work. What it cannot measure it says in `unavailable`; an error ends the
/// cell.
pub trait Probe {
    /// The program under test is about to be started.
    fn before_start(&mut self, unavailable: &mut Vec<Unavailable>) -> Result<()> {
        let _ = unavailable;
        Ok(())
    }

    /// It is in place and waits; caches are as they should be.
    fn arm(&mut self, program: &Program, unavailable: &mut Vec<Unavailable>) -> Result<()> {
        let _ = (program, unavailable);
        Ok(())
    }

    /// The work begins right after this.
    fn begin(&mut self) -> Result<()> {
        Ok(())
    }

    /// The work has ended, or failed. What takes long, such as reading what was recorded, waits for
    /// [`Probe::collect`]: the next probes still count.
    fn end(&mut self) -> Result<()> {
        Ok(())
    }

    /// The program has ended; what was found goes into the outcome.
    fn collect(self: Box<Self>, gathered: &mut Gathered) -> Result<()>;
}

/// What can be measured on this machine, each found by an attempt, and why not.
pub fn abilities() -> BTreeMap<String, Option<Failure>> {
    let frequencies = match Machine::default().frequencies_khz().is_empty() {
        false => Ok(()),
        true => Err(Error::board("/sys/devices/system/cpu/cpu0/cpufreq is missing")
            .hint("use a kernel with cpufreq on a machine that is not virtual")),
    };
    let mut found = Found::on(Path::new("/"));
    found.try_rails();
    let meters = match found.unavailable() {
        Some(Unavailable { what: Quantity::Energy, why, cure }) => Err(Error::board(why).hint(cure)),
        _ => Ok(()),
    };
    [
        ("flash operations", first_nand().map(drop)),
        ("kernel tracing", ensure_tracefs()),
        ("processor frequencies", frequencies),
        ("power meters", meters),
        ("misses of the data TLB", data_tlb_counters()),
    ]
    .map(|(name, attempt)| (name.to_owned(), attempt.err().as_ref().map(Failure::from)))
    .into()
}

/// The probes of a cell, the innermost first: they begin in the reverse order, and end and collect in this one.
///
/// # Errors
/// As [`energy::Energy::of`] and [`translation::Translation::of`].
pub fn all(context: &Context<'_>) -> Result<Vec<Box<dyn Probe>>> {
    let probes = [
        counters::Counters::of(context).map(boxed),
        Some(boxed(energy::Energy::of(context)?)),
        usage::Usage::of(context).map(boxed),
        events::Events::of(context).map(boxed),
        // It collects behind the one that knows more of the workload's threads.
        flash::Flash::of(context).map(boxed),
        block::Block::of(context).map(boxed),
        translation::Translation::of(context)?.map(boxed),
        others::Others::of(context).map(boxed),
        // Its end reads the whole chip.
        changes::Changes::of(context).map(boxed),
    ];
    Ok(probes.into_iter().flatten().collect())
}

fn boxed<P: Probe + 'static>(probe: P) -> Box<dyn Probe> {
    Box::new(probe)
}
