//! The definition of a workload, for studies and for boards.

use crate::Operation;
use crate::database::Prepares;
use crate::factor::{AnyFactor, Impossible, Point};
use crate::metrics::{Ran, Values};
use crate::population::{Population, file_name};
use pocketstone_core::Result;
use pocketstone_core::metric::Metric;

/// A workload as studies know it.
pub trait Defined: Sized {
    /// Its name.
    const NAME: &'static str;
    /// What it is, in a few words.
    const ABOUT: &'static str;
    /// What a study can vary of it, beside the volume.
    const FACTORS: &'static [AnyFactor];
    /// The factors that decide whether a combination exists.
    const DECIDING: &'static [&'static str] = &[];
    /// Factors of a run of a second, as a study has them, by which every volume is tried.
    const SMALL: &'static str;
    /// What one of its measured calls is, in figures.
    const REQUEST: &'static str = "a request";
    /// Whether the page cache may have nothing of its files before the first operation: not where the operations use
    /// what they have just written.
    const MAY_BE_COLD: bool = true;
    /// The metrics that not every workload has.
    const METRICS: &'static [Metric] = &[];

    /// Converts a point of a study; what has to be made or read for it, `prepares` does.
    ///
    /// # Errors
    /// `Impossible` if the values contradict each other, or a file that they name cannot be read.
    fn of_point(point: &Point, prepares: &mut dyn Prepares) -> Result<Self, Impossible>;

    /// Whether a combination of values is valid; invalid ones have no cells.
    fn exists(point: &Point) -> bool {
        let _ = point;
        true
    }
}

/// A file workload as seen by boards: its files and operations.
pub trait FileWorkload {
    /// Says what is wrong with the specification, and with which factor.
    ///
    /// # Errors
    /// `Impossible` if numbers contradict each other.
    fn judge(&self) -> Result<(), Impossible>;

    /// Validates the specification.
    ///
    /// # Errors
    /// `ErrorKind::User` if numbers contradict each other.
    fn check(&self) -> Result<()> {
        self.judge().map_err(|impossible| impossible.error)
    }

    /// The files that there are before the first operation.
    fn population(&self, seed: u64) -> Population;

    /// How many files get the numbers behind those, at most.
    fn new_files(&self) -> u64 {
        0
    }

    /// Operations before the clock starts.
    fn setup(&self) -> Box<dyn Iterator<Item = Operation>> {
        Box::new(std::iter::empty())
    }

    /// The measured operations, in order.
    fn operations(&self, seed: u64) -> Box<dyn Iterator<Item = Operation>>;

    /// Most bytes that one call moves.
    fn request_bytes(&self) -> u64;

    /// Whether it changes anything.
    fn writes(&self) -> bool {
        true
    }

    /// Whether it needs mappings of files.
    fn maps(&self) -> bool {
        false
    }

    /// Whether it gives advice about its one file, so that read-ahead can be set by file.
    fn takes_advice(&self) -> bool {
        false
    }

    /// Whether each request that changes a file makes that durable.
    fn sync_each(&self) -> bool {
        false
    }

    /// Threads that share the operations: thread `t` of `n` has the operations `t`, `t + n`, ...
    fn threads(&self) -> u32 {
        1
    }

    /// Time in which it does nothing but wait, in ns.
    fn pauses_ns(&self) -> u64 {
        0
    }

    /// Values of its metrics: those of [`Defined::METRICS`] that it has with these factors.
    fn metrics(&self, ran: &Ran<'_>) -> Values {
        let _ = ran;
        Values::new()
    }

    /// The names of all files, by their numbers.
    fn names(&self, seed: u64) -> Vec<String> {
        usual_names(self, seed)
    }
}

/// The names of a workload's files where it says nothing of its own: those of the population, then numbers.
pub(crate) fn usual_names<W: FileWorkload + ?Sized>(workload: &W, seed: u64) -> Vec<String> {
    let population = workload.population(seed);
    let new = population.files..population.files + workload.new_files();
    let there = population.list().into_iter().map(|file| file.name);
    there.chain(new.map(|number| file_name(number as u32))).collect()
}
