//! What a database's process used, by the kernel's account of it.

use super::{Gathered, Probe, Program};
use crate::context::Context;
use pocketstone_core::Result;
use pocketstone_core::outcome::Unavailable;
use pocketstone_probe::usage::Snapshot;

/// The account right before the work and right after it.
#[derive(Default)]
pub struct Usage {
    pid: u32,
    before: Option<Snapshot>,
    after: Option<Snapshot>,
}

impl Usage {
    /// Of cells on a database.
    pub fn of(context: &Context<'_>) -> Option<Usage> {
        context.plan.workload.database().map(|_| Usage::default())
    }
}

impl Probe for Usage {
    fn arm(&mut self, program: &Program, _unavailable: &mut Vec<Unavailable>) -> Result<()> {
        self.pid = program.pid;
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        self.before = Some(Snapshot::of(self.pid));
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.after = Some(Snapshot::of(self.pid));
        Ok(())
    }

    fn collect(self: Box<Self>, gathered: &mut Gathered) -> Result<()> {
        if let (Some(before), Some(after), Some(database)) = (self.before, self.after, &mut gathered.outcome.database) {
            database.process_ns = after.on_core_ns();
            database.usage = after.since(&before);
        }
        Ok(())
    }
}
