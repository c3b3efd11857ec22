//! What the kernel did for the process under test, by ftrace, and its own record of its calls to files, if it has one.

use super::{Gathered, Probe, Program};
use crate::context::Context;
use pocketstone_core::Result;
use pocketstone_core::error::Context as _;
use pocketstone_core::events_log::{decode_events, encode_events};
use pocketstone_core::outcome::{Quantity, Unavailable};
use pocketstone_probe::recorder::{BUFFER_KIB, Follow, Recording, kinds};
use pocketstone_probe::{Recorder, ensure_tracefs};
use std::fs;
use std::path::{Path, PathBuf};

/// Events of a traced twin whose work a program of its own does.
#[derive(Default)]
pub struct Events {
    own: Option<PathBuf>,
    /// A command is whatever it starts; an engine is one process.
    children: bool,
    recorder: Option<Recorder>,
    recording: Option<Recording>,
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
        self.recorder = recorder(program.pid, directory, follow, unavailable);
        self.recorder.as_mut().map_or(Ok(()), Recorder::start)
    }

    fn end(&mut self) -> Result<()> {
        self.recording = self.recorder.take().map(Recorder::stop).transpose()?;
        Ok(())
    }

    fn collect(self: Box<Self>, gathered: &mut Gathered) -> Result<()> {
        let mut events = None;
        if let Some(recording) = self.recording {
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

/// What records the process's events, or why nothing does. The process's own record is there all the same, where it
/// has one: then every other kind is named.
fn recorder(pid: u32, directory: &Path, follow: Follow, unavailable: &mut Vec<Unavailable>) -> Option<Recorder> {
    // As the files' names are in the process's own record.
    let directory = directory.canonicalize().unwrap_or_else(|_| directory.to_owned());
    let error = match ensure_tracefs().and_then(|()| Recorder::new(pid, &[&directory], BUFFER_KIB, follow)) {
        Ok(recorder) => return Some(recorder),
        Err(error) => error,
    };
    let cure = error.cure().unwrap_or_default();
    let mut missed = |what: Quantity| {
        unavailable.push(Unavailable { what, why: error.chain(), cure: cure.into() });
    };
    match follow.system_calls {
        true => missed(Quantity::EventsOfOperations),
        false => kinds(follow.system_calls).for_each(missed),
    }
    None
}
