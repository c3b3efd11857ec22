//! What the kernel did for the process under test, by ftrace or by Android's `traced`, and its own record of its calls
//! to files, if it has one.

use super::{Gathered, Probe, Program};
use crate::context::Context;
use pocketstone_core::error::Context as _;
use pocketstone_core::events_log::{decode_events, encode_events};
use pocketstone_core::outcome::{Quantity, Unavailable};
use pocketstone_core::{Error, Result};
use pocketstone_probe::recorder::{BUFFER_KIB, Follow, kinds};
use pocketstone_probe::{Recorder, Traced, ensure_tracefs};
use std::fs;
use std::path::{Path, PathBuf};

/// Events of a traced twin whose work a program of its own does.
#[derive(Default)]
pub struct Events {
    own: Option<PathBuf>,
    /// A command is whatever it starts; an engine is one process.
    children: bool,
    recorder: Option<Recorder>,
    traced: Option<Traced>,
    /// Why that could not be stopped.
    traced_failed: Option<Error>,
}

impl Events {
    /// Of traced cells whose work a program of its own does.
    pub fn of(context: &Context<'_>) -> Option<Events> {
        let children = context.plan.workload.command().is_some();
        let wanted = context.plan.trace && context.plan.workload.on_files().is_none();
        wanted.then(|| Events { children, ..Events::default() })
    }
}

impl Probe for Events {
    fn arm(&mut self, program: &Program, unavailable: &mut Vec<Unavailable>) -> Result<()> {
        self.own.clone_from(&program.own_events);
        let Some(directory) = &program.folder else { return Ok(()) };
        let follow = Follow { system_calls: self.own.is_none(), children: self.children };
        let error = match recorder(program.pid, directory, follow) {
            Ok(recorder) => return self.recorder.insert(recorder).start(),
            Err(error) => error,
        };
        // Who may not use tracefs may have a program that does.
        match Traced::start(program.pid, self.children) {
            Ok(traced) => self.traced = Some(traced),
            Err(traced) => {
                // Where there is a program that did not do it, its cure is the better one.
                let cured = if pocketstone_probe::traced::is_here() { &traced } else { &error };
                let why = format!("{}; {}", error.chain(), traced.chain());
                unavailable.extend(self.missed(&why, cured));
            }
        }
        Ok(())
    }

    fn end(&mut self) -> Result<()> {
        self.recorder.as_mut().map_or(Ok(()), Recorder::stop)?;
        self.traced_failed = self.traced.as_mut().and_then(|traced| traced.stop().err());
        Ok(())
    }

    fn collect(mut self: Box<Self>, gathered: &mut Gathered) -> Result<()> {
        let mut recording = self.recorder.take().map(Recorder::read).transpose()?;
        if let Some(traced) = self.traced.take() {
            match self.traced_failed.take().map_or_else(|| traced.read(), Err) {
                // Without it the cell is what it is without tracing.
                Err(error) => gathered.outcome.unavailable.extend(self.missed(&error.chain(), &error)),
                Ok(mut traced) => {
                    if self.own.is_some() {
                        traced.unavailable.retain(|unavailable| unavailable.what != Quantity::SystemCalls);
                    }
                    recording = Some(traced);
                }
            }
        }
        let mut events = None;
        if let Some(recording) = recording {
            gathered.threads.extend(recording.threads);
            gathered.outcome.unavailable.extend(recording.unavailable);
            events = Some(recording.log);
        }
        if let Some(path) = self.own {
            let log = fs::read(&path).board(|| "the engine produced no log of its file calls".into())?;
            let log = decode_events(&log)?;
            gathered.threads.extend(log.tasks.iter().map(|(thread, _)| *thread));
            // The kernel's first: its names of threads are those of the run's end.
            events = Some(events.unwrap_or_default().join(log)?);
        }
        events.map_or(Ok(()), |log| gathered.keep("events.bin", &encode_events(&log)?))
    }
}

impl Events {
    /// What is not recorded. The process's own record is there all the same, where it has one: then every other kind is
    /// named.
    fn missed(&self, why: &str, error: &Error) -> Vec<Unavailable> {
        let cure = error.cure().unwrap_or_default();
        let missed = |what: Quantity| Unavailable { what, why: why.to_owned(), cure: cure.into() };
        match self.own {
            None => vec![missed(Quantity::EventsOfOperations)],
            Some(_) => kinds(false).map(missed).collect(),
        }
    }
}

/// What records the process's events by tracefs.
fn recorder(pid: u32, directory: &Path, follow: Follow) -> Result<Recorder> {
    // As the files' names are in the process's own record.
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    ensure_tracefs().and_then(|()| Recorder::new(pid, &[&directory], BUFFER_KIB, follow))
}
