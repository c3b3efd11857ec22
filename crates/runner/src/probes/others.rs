//! What other programs do on the machine meanwhile.

use super::{Gathered, Probe, Program};
use crate::context::Context;
use pocketstone_core::Result;
use pocketstone_core::outcome::{Others as Found, Unavailable};
use pocketstone_engine::now_ns;
use pocketstone_probe::quiet::Load;

/// The machine's load right before the work and right after it.
#[derive(Default)]
pub struct Others {
    pid: u32,
    before: Option<Load>,
    found: Option<Found>,
}

impl Others {
    /// Of cells on a machine that is used for other things, too: one that is thrown away has no other programs.
    pub fn of(context: &Context<'_>) -> Option<Others> {
        (!context.board.capabilities.disposable).then(Others::default)
    }
}

impl Probe for Others {
    fn arm(&mut self, program: &Program, _unavailable: &mut Vec<Unavailable>) -> Result<()> {
        self.pid = program.pid;
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        self.before = Load::of(self.pid, now_ns());
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        let after = Load::of(self.pid, now_ns());
        self.found = self.before.zip(after).map(|(before, after)| after.others_since(&before));
        Ok(())
    }

    fn collect(self: Box<Self>, gathered: &mut Gathered) -> Result<()> {
        // What a command's children did is known only when it has ended: they are not others.
        gathered.outcome.others = self.found.filter(|_| gathered.outcome.command.is_none());
        Ok(())
    }
}
