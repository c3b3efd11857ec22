//! The way to a machine on which the runner carries out orders.

use crate::{Cache, Console, Failed};
use pocketstone_core::block::SECTOR_SIZES;
use pocketstone_core::board::{Ability, BoardDescription, Capabilities};
use pocketstone_core::database::DatabaseEngine;
use pocketstone_core::outcome::Facts;
use pocketstone_core::volume::{Access, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_tlb::Processor;
use pocketstone_tlb::join::Clock;
use pocketstone_workload::plan::{Plan, Step};
use std::io::{Read, Write};
use std::path::Path;
use tempfile::TempDir;

/// How certain the support of a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// Certain.
    Sure,
    /// Making one tells.
    Try,
}

/// Refuses what only this machine's runner can do: those of boards are static.
///
/// # Errors
/// `ErrorKind::Board` for a volume that a library loaded before the runner is to reach.
pub(crate) fn refuse_preload(volume: &Volume) -> Result<()> {
    if volume.access != Access::Preload {
        return Ok(());
    }
    let why = "a library cannot be loaded before the board's runner, which is static";
    Err(Error::board(why).hint("--board host"))
}

/// What a machine can do that others use, too, and that only tells what it can measure when it is tried.
pub(crate) fn of_a_real_machine() -> Capabilities {
    let cuts = Error::board("the power of this board cannot be cut at a chosen operation")
        .hint("use a virtual board, such as virt-nand or virt-emmc");
    let faults =
        Error::board("the board's chip is not simulated").hint("use a virtual board with nandsim, such as virt-nand");
    let accesses = Error::board("memory accesses of this board cannot be observed, so its TLB is not modelled")
        .hint("choose a virtual board (pocketstone board list), or scmfs in process with one thread");
    Capabilities {
        // Two cells at once would measure each other.
        parallel: 1,
        power_cuts: Ability::no(&cuts),
        chip_faults: Ability::no(&faults),
        accesses: Ability::no(&accesses),
        ..Capabilities::unknown()
    }
}

/// How often a cell or a question is tried whose board is lost meanwhile.
pub const ATTEMPTS: u32 = 3;

/// Tries something again if the machine is lost meanwhile; the result, and which attempt it is of.
pub fn tried<T>(transport: &dyn Transport, act: impl Fn() -> Result<T, Failed>) -> Result<(T, u32), Failed> {
    let mut attempt = 1;
    loop {
        match act() {
            Err(failed) if failed.lost && attempt < ATTEMPTS => {
                transport.lost(attempt, &failed.error)?;
                attempt += 1;
            }
            done => return done.map(|done| (done, attempt)),
        }
    }
}

/// The time in which nobody else measures on a machine, until this is dropped.
#[must_use]
pub struct Undisturbed<'a>(Option<Box<dyn FnOnce() + 'a>>);

impl<'a> Undisturbed<'a> {
    /// With what lets others measure again.
    pub(crate) fn until(release: impl FnOnce() + 'a) -> Undisturbed<'a> {
        Undisturbed(Some(Box::new(release)))
    }
}

impl Drop for Undisturbed<'_> {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release();
        }
    }
}

/// A transport to a machine: places an order's files, has the runner execute the order, and collects its output. If
/// states can be saved, orders start from saved states.
pub trait Transport: Send + Sync {
    /// The machine's capabilities and locations.
    fn describe(&self) -> BoardDescription;

    /// Facts about the machine.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the board does not answer, with `lost` set if it did before.
    fn facts(&self) -> Result<Facts, Failed>;

    /// Checks whether a volume is supported.
    ///
    /// # Errors
    /// `ErrorKind::Board` with the reason, and the fix as its hint.
    fn offers(&self, volume: &Volume) -> Result<Offer>;

    /// Refuses engines that cannot be there.
    ///
    /// # Errors
    /// `ErrorKind::Board` with the reason, and the fix as its hint.
    fn offers_engine(&self, engine: DatabaseEngine) -> Result<()> {
        let _ = engine;
        Ok(())
    }

    /// The folder of prepared workloads.
    fn cache(&self) -> &Cache;

    /// Creates a folder for an order and its output.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it cannot be created.
    fn folder(&self) -> Result<TempDir>;

    /// Has the runner carry out the order in `folder`, which has all that it needs beside it, in the state after
    /// `after`; the reply and its logs are in the folder then.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the machine fails, with `lost` set if what became of the order is not known;
    /// `ErrorKind::User` if the cache cannot be used; `ErrorKind::Interrupted`. A failed order is a reply.
    fn carry_out(&self, after: &[Step], folder: &Path) -> Result<(), Failed>;

    /// As [`Transport::carry_out`], with every data access of the machine going through the model of a data TLB;
    /// [`pocketstone_tlb::MARKS_FILE`] is in the folder then. Returns the machine's clock, and sets what of the
    /// processor its kernel decides.
    ///
    /// # Errors
    /// As [`Transport::carry_out`]; `ErrorKind::Board` also if the model cannot be made, and `ErrorKind::Bug` of a
    /// machine whose accesses are not seen. A failed order is a reply.
    fn carry_out_watched(&self, after: &[Step], folder: &Path, processor: &mut Processor) -> Result<Clock, Failed> {
        let _ = (after, folder);
        Err(Error::bug(format!("accesses are not seen, but should be for {}", processor.name)).into())
    }

    /// What the machine's block device writes as a whole when its power is cut.
    fn sector_bytes(&self) -> usize {
        SECTOR_SIZES[0] as usize
    }

    /// Whether states are kept: orders then start from them, and what an order does to the machine is gone with it.
    fn keeps_states(&self) -> bool {
        false
    }

    /// Creates and saves the state after `steps`, if states are saved.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the machine fails, or a step there; `ErrorKind::User` if the cache cannot be used;
    /// `ErrorKind::Interrupted`.
    fn keep(&self, steps: &[Step]) -> Result<(), Failed> {
        let _ = steps;
        Ok(())
    }

    /// Keeps others from measuring on the machine until the result is dropped, if they would disturb each other; waits
    /// until they have ended what they measure. Who has it already must not ask again: it would wait for itself. That
    /// the machine is lost is said by the next order.
    ///
    /// # Errors
    /// `ErrorKind::User` if the lock file cannot be created; `ErrorKind::Board` if nobody can be kept away;
    /// `ErrorKind::Interrupted`.
    fn alone(&self) -> Result<Undisturbed<'_>> {
        Ok(Undisturbed(None))
    }

    /// Waits until the machine is fit to be measured.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it does not become so, or does not answer; `ErrorKind::Interrupted`.
    fn await_fitness(&self) -> Result<(), Failed> {
        Ok(())
    }

    /// Facts about the machine at the end of a cell.
    fn conditions(&self) -> Facts {
        Facts::new()
    }

    /// Completes a volume with the machine's defaults.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the machine cannot tell.
    fn resolve(&self, volume: &Volume) -> Result<Volume> {
        Ok(volume.clone())
    }

    /// Cleans up after a cell on a persistent machine.
    fn clean(&self, plan: &Plan) {
        let _ = plan;
    }

    /// The board was lost while it carried out a cell, for the `attempt`th time; it is tried again after this.
    ///
    /// # Errors
    /// `ErrorKind::Interrupted`.
    fn lost(&self, attempt: u32, error: &Error) -> Result<()> {
        let _ = (attempt, error);
        Ok(())
    }

    /// The last lines of the console, from an order's folder, if there is one.
    fn console_tail(&self, folder: &Path) -> Option<String> {
        let _ = folder;
        None
    }

    /// Connects the console to `input` and `output`, if there is one.
    ///
    /// # Errors
    /// `ErrorKind::User` if it has none; `ErrorKind::Board` if the machine fails.
    fn console(&self, what: Console, input: Box<dyn Read + Send>, output: Box<dyn Write + Send>) -> Result<(), Failed> {
        let _ = (what, input, output);
        let error = Error::user("this board has no console");
        Err(error.hint("choose a virtual board: pocketstone board list").into())
    }
}
