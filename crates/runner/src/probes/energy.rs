//! Energy of a run by the machine's meters, and the run's mark for a meter beside the machine.

use super::{Gathered, Probe, Program};
use crate::context::Context;
use pocketstone_core::Result;
use pocketstone_core::board::Ability;
use pocketstone_core::outcome::{Quantity, Unavailable};
use pocketstone_probe::mark::Mark;
use pocketstone_probe::meters::{Ended, Metered, REST, Resting};
use std::path::Path;

/// The machine's own meters, and the mark.
pub struct Energy {
    wanted: bool,
    /// PocketData's energy is that of the engine's whole process; of all other work it is that of the run.
    whole_program: bool,
    meters: Ability,
    resting: Option<Resting>,
    metered: Option<Metered>,
    ended: Option<Ended>,
    mark: Mark,
}

impl Energy {
    /// Of every cell: a meter beside the machine wants the mark, whatever the plan says.
    ///
    /// # Errors
    /// As [`Mark::from_environment`].
    pub fn of(context: &Context<'_>) -> Result<Energy> {
        Ok(Energy {
            // What traced twins take is not counted.
            wanted: context.plan.energy && !context.plan.trace,
            whole_program: context.plan.workload.database().is_some(),
            meters: context.board.capabilities.power_meters.clone(),
            resting: None,
            metered: None,
            ended: None,
            mark: Mark::from_environment()?,
        })
    }
}

impl Probe for Energy {
    fn before_start(&mut self, unavailable: &mut Vec<Unavailable>) -> Result<()> {
        if !self.wanted {
            return Ok(());
        }
        if let Ability::No(failure) = &self.meters {
            self.wanted = false;
            let (why, cure) = (failure.message.clone(), failure.hint.clone().unwrap_or_default());
            unavailable.push(Unavailable { what: Quantity::Energy, why, cure });
            return Ok(());
        }
        if self.whole_program {
            self.metered = Some(Resting::begin(Path::new("/"), REST, unavailable).run());
        }
        Ok(())
    }

    /// A rest right before the work, with everything in place: a bench meter sees the run alone, and takes its rest
    /// from there.
    fn arm(&mut self, _program: &Program, unavailable: &mut Vec<Unavailable>) -> Result<()> {
        match (self.wanted, self.whole_program) {
            (false, _) => {}
            (true, true) => std::thread::sleep(REST),
            (true, false) => self.resting = Some(Resting::begin(Path::new("/"), REST, unavailable)),
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
        if let Some(resting) = self.resting.take() {
            self.metered = Some(resting.run());
        }
        self.mark.raise()
    }

    fn end(&mut self) -> Result<()> {
        self.mark.lower()?;
        if !self.whole_program {
            self.ended = self.metered.take().map(Metered::end);
        }
        Ok(())
    }

    fn collect(self: Box<Self>, gathered: &mut Gathered) -> Result<()> {
        if let Some(ended) = self.metered.map(Metered::end).or(self.ended) {
            gathered.outcome.energy = ended.finish(&mut gathered.outcome.unavailable);
        }
        Ok(())
    }
}
