//! What changes the chip, with all bytes, and what the chip holds at the end: from that a lab knows what it held at any
//! moment in between.

use super::{Gathered, Probe};
use crate::context::Context;
use crate::volume::recovered::read_chip;
use pocketstone_core::chip::{CHANGES_FILE, Changed, encode_changes};
use pocketstone_core::outcome::Unavailable;
use pocketstone_core::{Error, Result};
use pocketstone_probe::ChipChanges;
use std::path::PathBuf;

/// How often the chip is read until nothing has changed it meanwhile: file systems write a last buffer some seconds
/// after the last call.
const TRIES: u32 = 5;

/// Changes of the chip of traced cells whose power is to be cut.
pub struct Changes {
    board: pocketstone_core::board::Board,
    folder: PathBuf,
    recorder: Option<ChipChanges>,
    changes: Vec<Changed>,
}

impl Changes {
    /// Of traced cells whose power is to be cut.
    pub fn of(context: &Context<'_>) -> Option<Changes> {
        (context.plan.trace && context.plan.power_cuts > 0).then(|| Changes {
            board: context.board.clone(),
            folder: context.folder.to_owned(),
            recorder: None,
            changes: Vec::new(),
        })
    }
}

impl Probe for Changes {
    /// From the start on: what a program changes as it opens its files belongs to the chip's history.
    fn before_start(&mut self, _unavailable: &mut Vec<Unavailable>) -> Result<()> {
        let geometry = crate::volume::recovered::chip_geometry(&self.board)?;
        let recorder = ChipChanges::new(geometry.page_bytes, geometry.oob_bytes)?;
        recorder.start()?;
        self.recorder = Some(recorder);
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let Some(recorder) = self.recorder.take() else { return Ok(()) };
        for _ in 0..TRIES {
            let before = recorder.events()?;
            read_chip(&self.board, &self.folder)?;
            if recorder.events()? == before {
                self.changes = recorder.stop()?;
                return Ok(());
            }
        }
        Err(Error::board(format!("the chip was written to each of the {TRIES} times that it was read")))
    }

    fn collect(self: Box<Self>, gathered: &mut Gathered) -> Result<()> {
        gathered.keep(CHANGES_FILE, &encode_changes(&self.changes))
    }
}
