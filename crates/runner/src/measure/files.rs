//! Work on files, by the executor.

use super::{Work, read_ahead, sequence, settings};
use crate::context::Context;
use crate::probes::{Gathered, Program};
use crate::volume::{Home, OnTree, Opened, drop_caches_of};
use pocketstone_core::database::Conditions;
use pocketstone_core::log::encode_calls;
use pocketstone_core::outcome::{Outcome, ReadAheadInForce, Space, Unavailable};
use pocketstone_core::volume::FileSystem;
use pocketstone_core::{Error, Result};
use pocketstone_engine::{Executor, Recording, Tree, resident_pages, run};
use pocketstone_workload::plan::{ReadAhead, ReadAheadBy};
use pocketstone_workload::{Caches, FileWorkload, Operation, Population};

/// Measures a cell with a workload on files.
///
/// # Errors
/// `ErrorKind::User` if the workload is invalid, or the files are in process, where advice for them is unsupported;
/// `ErrorKind::Board` if the volume, a setting or a probe fails.
pub fn measure(context: &Context<'_>, workload: &dyn FileWorkload, opened: &Opened) -> Result<Outcome> {
    workload.check()?;
    let population = workload.population(context.plan.seed);
    // What has no size does not say how much of it is used.
    let sized = context.plan.volume.file_system != FileSystem::Ramfs;
    let free_bytes = opened.populate(&population)?.filter(|_| sized);
    let mut unavailable = Vec::new();
    // The value is captured when a file is opened: it is set before, and put back at the end.
    let mut settings = settings(context, &Conditions::default())?;
    let mut in_force = ReadAheadInForce::default();
    // What has warm caches reads nothing ahead.
    if population.caches != Caches::Warm {
        in_force = read_ahead(context, &opened.home, &mut settings, &mut unavailable)?;
    }
    let population = &population;
    let measure = Measure { context, workload, opened, population, free_bytes, in_force, unavailable };
    let outcome = opened.home.with(population, measure)?;
    settings.restore().map(|()| outcome)
}

struct Measure<'a> {
    context: &'a Context<'a>,
    workload: &'a dyn FileWorkload,
    opened: &'a Opened,
    population: &'a Population,
    /// Space that was free before the files were made.
    free_bytes: Option<u64>,
    in_force: ReadAheadInForce,
    unavailable: Vec<Unavailable>,
}

impl OnTree for Measure<'_> {
    type Out = Outcome;

    fn on<T: Tree>(self, tree: &T) -> Result<Outcome> {
        let Measure { context, workload, opened, population, free_bytes, mut in_force, unavailable } = self;
        let operations = workload.operations(context.plan.seed).collect();
        let random = match context.plan.read_ahead {
            Some(ReadAhead { by: ReadAheadBy::File, bytes }) => Some(bytes == 0),
            _ => None,
        };
        in_force.advice = match random {
            Some(true) => "random",
            Some(false) => "normal",
            None => "none",
        }
        .into();
        let mut work = OnFiles {
            context,
            workload,
            opened,
            population,
            free_bytes,
            tree,
            random,
            operations,
            executors: Vec::new(),
            recording: None,
            resident_pages: None,
        };
        sequence(context, &mut work, in_force, unavailable)
    }
}

struct OnFiles<'a, T: Tree> {
    context: &'a Context<'a>,
    workload: &'a dyn FileWorkload,
    opened: &'a Opened,
    population: &'a Population,
    free_bytes: Option<u64>,
    tree: &'a T,
    /// The advice for files, where read-ahead is set by file.
    random: Option<bool>,
    operations: Vec<Operation>,
    executors: Vec<Executor<'a, T>>,
    recording: Option<Recording>,
    resident_pages: Option<u64>,
}

impl<T: Tree> Work for OnFiles<'_, T> {
    fn start(&mut self) -> Result<Program> {
        self.executors = Executor::all(self.tree, self.workload, self.context.plan.seed)?;
        if let Some(random) = self.random {
            self.executors.iter().try_for_each(|executor| executor.advise(random))?;
        }
        Ok(Program { pid: std::process::id(), folder: None, own_events: None })
    }

    fn drop_caches(&mut self) -> Result<()> {
        if self.context.plan.volume.page_cached() {
            drop_caches_of(&self.opened.home, self.population, self.context.board)?;
        }
        if let (Caches::ColdPages, Home::Kernel(root), [target]) =
            (self.population.caches, &self.opened.home, &self.population.list()[..])
        {
            self.resident_pages = resident_pages(&root.join(&target.name));
        }
        Ok(())
    }

    fn go(&mut self) -> Result<()> {
        self.recording = Some(run(&mut self.executors, &self.operations)?);
        Ok(())
    }

    fn finish(&mut self, gathered: &mut Gathered) -> Result<()> {
        let recording = self.recording.take().ok_or_else(|| Error::bug("nothing was recorded"))?;
        gathered.keep("calls.bin", &encode_calls(&recording.calls))?;
        gathered.threads.extend(&recording.threads);
        let outcome = &mut gathered.outcome;
        (outcome.start_ns, outcome.end_ns) = (recording.start_ns, recording.end_ns);
        outcome.calls = recording.calls.len() as u64;
        outcome.prefetched = self.executors.first().and_then(Executor::prefetched);
        outcome.filled_bytes = self.executors.iter().map(Executor::filled_bytes).sum();
        outcome.read_ahead.resident_pages_before = self.resident_pages;
        // What is kept for files that are open is given back when they are closed.
        self.executors.clear();
        outcome.space = self.free_bytes.map(|before| self.space(before)).transpose()?;
        Ok(())
    }
}

impl<T: Tree> OnFiles<'_, T> {
    fn space(&self, free_bytes_before: u64) -> Result<Space> {
        let names = self.workload.names(self.context.plan.seed);
        // A file that is not there takes nothing.
        let size = |name: String| std::ffi::CString::new(name).ok().and_then(|name| self.tree.stat(&name).ok());
        Ok(Space {
            used_bytes: free_bytes_before.saturating_sub(self.tree.free_bytes()?),
            stored_bytes: names.into_iter().filter_map(size).sum(),
            fragmented_files: self.tree.fragmented_files(),
        })
    }
}
