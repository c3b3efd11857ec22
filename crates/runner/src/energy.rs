//! Energy of a run, and its mark for a meter beside the machine.

use pocketstone_core::Result;
use pocketstone_core::outcome::{EnergyReading, Unavailable};
use pocketstone_core::plan::{FileSystem, Plan};
use pocketstone_probe::mark::Mark;
use pocketstone_probe::meters::{Metered, REST, Resting};
use std::path::Path;

/// A run that is about to begin.
pub struct Ready {
    resting: Option<Resting>,
    mark: Mark,
}

/// A run that goes on.
pub struct Running {
    metered: Option<Metered>,
    mark: Mark,
}

impl Ready {
    /// Rests, where the plan wants the run's energy: what traced twins take is not counted.
    ///
    /// # Errors
    /// When the mark's file cannot be written.
    pub fn new(plan: &Plan, unavailable: &mut Vec<Unavailable>) -> Result<Ready> {
        let mark = Mark::from_environment()?;
        let wanted = plan.energy && !plan.trace;
        if wanted && matches!(plan.volume.file_system, FileSystem::Jffs2 | FileSystem::Ubifs) {
            unavailable.push(Unavailable {
                what: "energy".into(),
                why: "a virtual board has no power meter".into(),
                cure: "--board host on a machine that has one, or a model of a device".into(),
            });
            return Ok(Ready { resting: None, mark });
        }
        let resting = wanted.then(|| Resting::begin(Path::new("/"), REST, unavailable));
        Ok(Ready { resting, mark })
    }

    /// The run begins.
    ///
    /// # Errors
    /// When the mark's file cannot be written.
    pub fn run(mut self) -> Result<Running> {
        let metered = self.resting.take().map(Resting::run);
        self.mark.raise()?;
        Ok(Running { metered, mark: self.mark })
    }
}

impl Running {
    /// The run has ended.
    ///
    /// # Errors
    /// When the mark's file cannot be written.
    pub fn finish(mut self, unavailable: &mut Vec<Unavailable>) -> Result<Vec<EnergyReading>> {
        self.mark.lower()?;
        Ok(self.metered.map(|m| m.finish(unavailable)).unwrap_or_default())
    }
}
