//! Events that the processor and the kernel count of the program under test.

use super::{Gathered, Probe, Program};
use crate::context::Context;
use pocketstone_core::counted::Counted;
use pocketstone_core::error::Context as _;
use pocketstone_core::outcome::{Quantity, Unavailable};
use pocketstone_core::{Error, Result};
use pocketstone_probe::counters::Counter;
use pocketstone_probe::usage::threads;

/// A counter for each event and thread.
#[derive(Default)]
pub struct Counters {
    pid: u32,
    counters: Vec<(Counted, Vec<Counter>)>,
    counted: Vec<(Counted, u64)>,
    lost: Vec<Unavailable>,
}

impl Counters {
    /// Of cells that ask for it; what traced twins take is not counted.
    pub fn of(context: &Context<'_>) -> Option<Counters> {
        (context.plan.counters && !context.plan.trace).then(Counters::default)
    }
}

fn without(what: Counted, error: &Error) -> Unavailable {
    let cure = error.cure().unwrap_or_default().to_owned();
    Unavailable { what: Quantity::Counted(what), why: error.chain(), cure }
}

impl Probe for Counters {
    fn arm(&mut self, program: &Program, _unavailable: &mut Vec<Unavailable>) -> Result<()> {
        self.pid = program.pid;
        Ok(())
    }

    /// Opened here, behind all other probes: each counts the threads that its own starts from then on, too, and those
    /// of a probe are not the work's.
    fn begin(&mut self) -> Result<()> {
        let whose: Vec<Option<u32>> = match self.pid == std::process::id() {
            // The work is done by this thread and those that it starts.
            true => vec![None],
            false => {
                let threads = threads(self.pid).board(|| "the program under test has ended".into())?;
                threads.into_iter().map(Some).collect()
            }
        };
        for what in Counted::ALL {
            match whose.iter().map(|thread| Counter::open(what, *thread)).collect() {
                Ok(counters) => self.counters.push((what, counters)),
                Err(error) => self.lost.push(without(what, &error)),
            }
        }
        self.counters.iter().flat_map(|(_, counters)| counters).try_for_each(Counter::start)
    }

    fn end(&mut self) -> Result<()> {
        self.counters.iter().flat_map(|(_, counters)| counters).try_for_each(Counter::stop)?;
        for (what, counters) in &mut self.counters {
            match counters.iter_mut().map(Counter::read).sum() {
                Ok(count) => self.counted.push((*what, count)),
                Err(error) => self.lost.push(without(*what, &error)),
            }
        }
        Ok(())
    }

    fn collect(self: Box<Self>, gathered: &mut Gathered) -> Result<()> {
        gathered.outcome.counted.extend(self.counted);
        gathered.outcome.unavailable.extend(self.lost);
        Ok(())
    }
}
