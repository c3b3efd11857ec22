//! Flash operations, by flashmon.

use super::{Gathered, Probe, Program};
use crate::context::Context;
use crate::volume;
use pocketstone_core::Result;
use pocketstone_core::board::Places;
use pocketstone_core::log::{FlashOp, encode_flash};
use pocketstone_core::outcome::{FlashCounts, Geometry, Quantity, Unavailable};
use pocketstone_core::volume::{Medium, Volume};
use pocketstone_probe::flashmon::{Flashmon, totals};

/// Flash operations of a traced cell.
pub struct Flash {
    volume: Volume,
    places: Places,
    /// A program's system calls are traced on machines without flash, too: there, nobody misses it.
    may_lack_chip: bool,
    chip: Option<Result<Geometry>>,
    monitor: Option<Flashmon>,
    page_reads: bool,
}

impl Flash {
    /// Of traced cells.
    pub fn of(context: &Context<'_>) -> Option<Flash> {
        context.plan.trace.then(|| Flash {
            volume: context.plan.volume.clone(),
            places: context.board.places.clone(),
            may_lack_chip: context.plan.workload.on_files().is_none() || context.plan.volume.medium == Medium::Block,
            chip: Some(context.chip()),
            monitor: None,
            page_reads: false,
        })
    }
}

impl Probe for Flash {
    fn arm(&mut self, _program: &Program, unavailable: &mut Vec<Unavailable>) -> Result<()> {
        let Some(chip) = self.chip.take() else { return Ok(()) };
        if chip.is_err() && self.may_lack_chip {
            return Ok(());
        }
        // A machine without raw NAND still measures latency.
        match chip.and_then(Flashmon::new) {
            Ok(monitor) => {
                self.page_reads = monitor.page_reads_unavailable().is_none();
                let missing = monitor.page_reads_unavailable();
                unavailable.extend(missing.map(|why| Unavailable {
                    what: Quantity::PageReads,
                    why,
                    cure: String::new(),
                }));
                monitor.start()?;
                self.monitor = Some(monitor);
            }
            Err(error) => {
                let cure = error.cure().unwrap_or_default().to_owned();
                unavailable.push(Unavailable { what: Quantity::FlashOperations, why: error.chain(), cure });
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.monitor.as_ref().map_or(Ok(()), Flashmon::stop)
    }

    fn collect(self: Box<Self>, gathered: &mut Gathered) -> Result<()> {
        let Some(monitor) = self.monitor else { return Ok(()) };
        let log = &monitor.read()?;
        gathered.keep("flash.bin", &encode_flash(log))?;
        // Kernel threads do a block device's reads, and on a read-only volume nobody else has any.
        let all = self.volume.read_only();
        let servers = volume::serving_threads(&self.volume, &self.places);
        let mine = |op: &FlashOp| all || gathered.threads.contains(&op.pid) || servers.contains(&op.pid);
        gathered.outcome.flash = Some(FlashCounts {
            workload: totals(log, self.page_reads, mine),
            background: totals(log, self.page_reads, |op| !mine(op)),
        });
        Ok(())
    }
}
