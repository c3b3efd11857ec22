//! Energy of a run by the machine's meters, and the run's mark for a meter beside the machine.

use pocketstone_core::Result;
use pocketstone_core::outcome::{EnergyReading, Unavailable};
use pocketstone_core::plan::Plan;
use pocketstone_probe::mark::Mark;
use pocketstone_probe::meters::{Metered, REST, Resting};
use std::path::Path;

/// What is metered is about to begin.
pub struct Ready {
    resting: Option<Resting>,
    mark: Mark,
}

/// The machine's meters run.
pub struct Metering {
    metered: Option<Metered>,
    mark: Mark,
    rests: bool,
}

impl Ready {
    /// Rests, where the plan wants energy: what traced twins take is not counted.
    ///
    /// # Errors
    /// When the mark's file cannot be written.
    pub fn new(plan: &Plan, unavailable: &mut Vec<Unavailable>) -> Result<Ready> {
        let mark = Mark::from_environment()?;
        let wanted = plan.energy && !plan.trace;
        if wanted && plan.volume.file_system.of_board() {
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

    /// The machine's meters begin: of a database with the start of its engine, else with the run.
    pub fn begin(self) -> Metering {
        let rests = self.resting.is_some();
        Metering { metered: self.resting.map(Resting::run), mark: self.mark, rests }
    }
}

impl Metering {
    /// Rests once more, with the engine in place: a bench meter sees the run alone, and takes its rest from right
    /// before.
    pub fn rest(&self) {
        if self.rests {
            std::thread::sleep(REST);
        }
    }

    /// The run begins.
    ///
    /// # Errors
    /// When the mark's file cannot be written.
    pub fn raise(&mut self) -> Result<()> {
        self.mark.raise()
    }

    /// The run has ended.
    ///
    /// # Errors
    /// When the mark's file cannot be written.
    pub fn lower(&mut self) -> Result<()> {
        self.mark.lower()
    }

    /// The machine's meters end.
    pub fn finish(self, unavailable: &mut Vec<Unavailable>) -> Vec<EnergyReading> {
        self.metered.map(|m| m.finish(unavailable)).unwrap_or_default()
    }
}
