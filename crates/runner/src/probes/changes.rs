//! What changes the chip or the block device, with all bytes, and what it holds at the end: from that a lab knows what
//! it held at any moment in between.

use super::{Gathered, Probe};
use crate::block::asked;
use crate::context::Context;
use crate::volume::recovered::{chip_geometry, read_block, read_chip};
use pocketstone_core::block_record::{BLOCK_CHANGES_FILE, encode_block_changes};
use pocketstone_core::chip::{CHANGES_FILE, encode_changes};
use pocketstone_core::outcome::Unavailable;
use pocketstone_core::volume::Medium;
use pocketstone_core::{Error, Result};
use pocketstone_probe::ChipChanges;
use std::path::PathBuf;

/// How often the chip is read until nothing has changed it meanwhile: file systems write a last buffer some seconds
/// after the last call.
const TRIES: u32 = 5;

/// Who records.
enum Recorder {
    /// The kernel's tracer.
    Chip(Box<ChipChanges>),
    /// The device's server.
    Block,
}

/// Changes of the chip or block device of traced cells whose power is to be cut.
pub struct Changes {
    board: pocketstone_core::board::BoardDescription,
    folder: PathBuf,
    block: bool,
    recorder: Option<Recorder>,
    log: Vec<u8>,
}

impl Changes {
    /// Of traced cells whose power is to be cut.
    pub fn of(context: &Context<'_>) -> Option<Changes> {
        (context.plan.trace && context.plan.power_cuts > 0).then(|| Changes {
            board: context.board.clone(),
            folder: context.folder.to_owned(),
            block: context.plan.volume.medium == Medium::Block,
            recorder: None,
            log: Vec::new(),
        })
    }
}

impl Probe for Changes {
    /// From the start on: what a program changes as it opens its files belongs to the chip's history.
    fn before_start(&mut self, _unavailable: &mut Vec<Unavailable>) -> Result<()> {
        self.recorder = Some(match self.block {
            true => asked::record().map(|()| Recorder::Block)?,
            false => {
                let geometry = chip_geometry(&self.board)?;
                let recorder = ChipChanges::new(geometry.page_bytes, geometry.oob_bytes)?;
                recorder.start()?;
                Recorder::Chip(Box::new(recorder))
            }
        });
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let Some(recorder) = self.recorder.take() else { return Ok(()) };
        let events = || match &recorder {
            Recorder::Chip(recorder) => recorder.events(),
            Recorder::Block => asked::recorded(),
        };
        for _ in 0..TRIES {
            let before = events()?;
            match self.block {
                true => read_block(&self.folder)?,
                false => read_chip(&self.board, &self.folder)?,
            }
            if events()? == before {
                self.log = match recorder {
                    Recorder::Chip(recorder) => encode_changes(&recorder.stop()?),
                    Recorder::Block => encode_block_changes(&asked::stop()?),
                };
                return Ok(());
            }
        }
        Err(Error::board(format!("the chip was written to each of the {TRIES} times that it was read")))
    }

    fn collect(self: Box<Self>, gathered: &mut Gathered) -> Result<()> {
        gathered.keep(if self.block { BLOCK_CHANGES_FILE } else { CHANGES_FILE }, &self.log)
    }
}
