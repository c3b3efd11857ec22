//! Requests to the board's block device, by blkmon.

use super::{Gathered, Probe, Program};
use crate::context::Context;
use pocketstone_core::Result;
use pocketstone_core::block_log::encode_block;
use pocketstone_core::outcome::{BlockCounts, Quantity, Unavailable};
use pocketstone_core::volume::Medium;
use pocketstone_probe::blkmon::Blkmon;
use std::path::PathBuf;

/// Requests of a traced cell on a block device.
pub struct Block {
    device: PathBuf,
    monitor: Option<Blkmon>,
}

impl Block {
    /// Of traced cells on block devices.
    pub fn of(context: &Context<'_>) -> Option<Block> {
        let plan = context.plan;
        let device = || context.board.places.block.clone();
        (plan.trace && plan.volume.medium == Medium::Block).then(|| Block { device: device(), monitor: None })
    }
}

impl Probe for Block {
    fn arm(&mut self, _program: &Program, unavailable: &mut Vec<Unavailable>) -> Result<()> {
        match Blkmon::new(&self.device).and_then(|monitor| monitor.start().map(|()| monitor)) {
            Ok(monitor) => self.monitor = Some(monitor),
            Err(error) => {
                let cure = error.cure().unwrap_or_default().to_owned();
                unavailable.push(Unavailable { what: Quantity::BlockRequests, why: error.chain(), cure });
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.monitor.as_ref().map_or(Ok(()), Blkmon::stop)
    }

    fn collect(self: Box<Self>, gathered: &mut Gathered) -> Result<()> {
        let Some(monitor) = self.monitor else { return Ok(()) };
        let log = monitor.read()?;
        gathered.keep("block.bin", &encode_block(&log))?;
        gathered.outcome.block = Some(BlockCounts {
            workload: log.totals(|request| gathered.threads.contains(&request.pid)),
            background: log.totals(|request| !gathered.threads.contains(&request.pid)),
        });
        Ok(())
    }
}
