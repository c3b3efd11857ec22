//! The way to a machine on which the runner carries out orders.

use crate::{Cache, Console, Failed};
use pocketstone_core::block::SECTOR_SIZES;
use pocketstone_core::board::Board as Description;
use pocketstone_core::database::DatabaseEngine;
use pocketstone_core::outcome::Facts;
use pocketstone_core::volume::{Access, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_tlb::Processor;
use pocketstone_tlb::join::Clock;
use pocketstone_workload::plan::{Plan, Step};
use std::fs::File;
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

/// A transport to a machine: places an order's files, has the runner execute the order, and collects its output. If
/// states can be saved, orders start from saved states.
pub trait Transport: Send + Sync {
    /// The machine's capabilities and locations.
    fn describe(&self) -> Description;

    /// Facts about the machine.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the board does not answer.
    fn facts(&self) -> Result<Facts>;

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

    /// Refuses to watch orders with the model of a processor's data TLB, by its profile's name.
    ///
    /// # Errors
    /// `ErrorKind::Board` with the reason, and the fix as its hint; `ErrorKind::User` if the profile is unknown.
    fn watches(&self, processor: &str) -> Result<Processor> {
        let error = Error::board(format!("the accesses of this board are not seen, so not those of {processor}'s TLB"));
        Err(error.hint("choose a virtual board (pocketstone board list), or scmfs in process with one thread"))
    }

    /// As [`Transport::carry_out`], with every data access of the machine going through the model of a data TLB;
    /// [`pocketstone_tlb::MARKS_FILE`] is in the folder then. Returns the machine's clock.
    ///
    /// # Errors
    /// As [`Transport::watches`] and [`Transport::carry_out`]; `ErrorKind::Board` also if the model cannot be made, and
    /// `ErrorKind::Bug` of a machine that watches and does not do this. A failed order is a reply.
    fn carry_out_watched(&self, after: &[Step], folder: &Path, processor: &Processor) -> Result<Clock, Failed> {
        let _ = (after, folder);
        self.watches(&processor.name)?;
        Err(Error::bug("a board that watches does not do it").into())
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

    /// An exclusive lock for measuring, if concurrent measurements would disturb each other; released with the file.
    ///
    /// # Errors
    /// `ErrorKind::User` if the lock file cannot be created.
    fn alone(&self) -> Result<Option<File>> {
        Ok(None)
    }

    /// Waits until the machine is fit to be measured.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it does not become so, or does not answer; `ErrorKind::Interrupted`.
    fn await_fitness(&self) -> Result<()> {
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
