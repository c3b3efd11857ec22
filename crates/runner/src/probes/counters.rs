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
    fn arm(&mut self, program: &Program, unavailable: &mut Vec<Unavailable>) -> Result<()> {
        // Each counts the threads that its own starts from now on, too.
        let whose: Vec<Option<u32>> = match program.pid == std::process::id() {
            // The work is done by this thread and those that it starts.
            true => vec![None],
            false => {
                let threads = threads(program.pid).board(|| "the program under test has ended".into())?;
                threads.into_iter().map(Some).collect()
            }
        };
        for what in Counted::ALL {
            match whose.iter().map(|thread| Counter::open(what, *thread)).collect() {
                Ok(counters) => self.counters.push((what, counters)),
                Err(error) => unavailable.push(without(what, &error)),
            }
        }
        Ok(())
    }

    fn begin(&mut self) -> Result<()> {
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
