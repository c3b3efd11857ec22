//! A command of the user's: a process below the cell's, in a folder of the volume.

use super::{Work, drop_caches_of, programs_read_ahead, sequence, settings, speed};
use crate::context::Context;
use crate::probes::{Gathered, Program};
use crate::volume::{Home, Opened, empty_folder};
use pocketstone_core::database::Condition;
use pocketstone_core::error::Context as _;
use pocketstone_core::log::{Call, encode_calls};
use pocketstone_core::outcome::{CommandOutcome, Outcome, Quantity, Unavailable};
use pocketstone_core::{Error, Result};
use pocketstone_engine::command::{RUNNER_VARIABLE, Waiting, own_identity};
use pocketstone_workload::CommandSpec;
use pocketstone_workload::command::SEED_VARIABLE;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Longest time that a command may take; what takes longer hangs.
const LIMIT: Duration = Duration::from_secs(1800);

/// Makes the folder of a command, with the files of an archive in it.
///
/// # Errors
/// `ErrorKind::User` if the volume is open in this process; `ErrorKind::Board` if the folder cannot be made, or the
/// files do not fit.
pub fn unpack(home: &Home, archive: Option<&Path>) -> Result<()> {
    let folder = home.of_command()?;
    empty_folder(&folder)?;
    let Some(archive) = archive else { return Ok(()) };
    // A virtual board has it as a part of busybox alone.
    let tar = |program: &mut Command| program.arg("-xpf").arg(archive).arg("-C").arg(&folder).output();
    let done = match tar(&mut Command::new("tar")) {
        Err(error) if error.kind() == ErrorKind::NotFound => tar(Command::new("/bin/busybox").arg("tar")),
        done => done,
    };
    let done = done.board(|| "cannot start tar".into())?;
    match done.status.success() {
        true => Ok(()),
        false => {
            let said = String::from_utf8_lossy(&done.stderr);
            Err(Error::board(format!("cannot put the command's files into {}: {}", folder.display(), said.trim()))
                .hint("they must fit on the volume, and so must their permissions and links"))
        }
    }
}

/// Measures a cell with a command.
///
/// # Errors
/// `ErrorKind::User` if the volume is open in this process; `ErrorKind::Board` if a setting or a probe fails, or the
/// command does not succeed.
pub fn measure(context: &Context<'_>, spec: &CommandSpec, opened: &Opened) -> Result<Outcome> {
    let folder = opened.home.of_command()?;
    if opened.is_new() {
        unpack(&opened.home, spec.files.as_ref().map(|_| context.archive))?;
    }
    let mut unavailable = Vec::new();
    let mut settings = settings(context, &spec.conditions)?;
    let hints = Err("a command gives no hints of what it does");
    let conditions = speed::condition(&mut spec.conditions.clone(), hints, &mut settings, &mut unavailable);
    let in_force = programs_read_ahead(context, &opened.home, &mut settings, &mut unavailable)?;
    let mut work = OnCommand { context, spec, conditions, folder, process: None, took_ns: (0, 0) };
    let outcome = sequence(context, &mut work, in_force, unavailable)?;
    settings.restore().map(|()| outcome)
}

struct OnCommand<'a> {
    context: &'a Context<'a>,
    spec: &'a CommandSpec,
    conditions: Vec<Condition>,
    folder: PathBuf,
    process: Option<Waiting>,
    /// When it began, and when it had ended.
    took_ns: (u64, u64),
}

impl Work for OnCommand<'_> {
    fn start(&mut self) -> Result<Program> {
        let runner = std::env::current_exe().board(|| "cannot find the path of this program".into())?;
        let output = self.context.folder.join("command-output");
        let mut variables = vec![(SEED_VARIABLE, self.context.plan.seed.to_string())];
        if !self.context.board.capabilities.disposable {
            variables.extend(own_identity().map(|own| (RUNNER_VARIABLE, own)));
        }
        let process = Waiting::start(&runner, &self.spec.line, &self.folder, &output, &variables)?;
        let pid = process.pid();
        self.process = Some(process);
        Ok(Program { pid, folder: Some(self.folder.clone()), own_events: None })
    }

    fn drop_caches(&mut self) -> Result<()> {
        if self.spec.cold { drop_caches_of(&self.folder, self.context) } else { Ok(()) }
    }

    fn go(&mut self) -> Result<()> {
        let process = self.process.as_mut().ok_or_else(|| Error::bug("the command was not started"))?;
        self.took_ns = process.go(LIMIT)?;
        Ok(())
    }

    fn finish(&mut self, gathered: &mut Gathered) -> Result<()> {
        let process = self.process.take().ok_or_else(|| Error::bug("the command was not started"))?;
        let pid = process.pid();
        let ended = process.finish()?;
        let (start_ns, end_ns) = self.took_ns;
        // The whole run is one operation.
        let call = Call { start_ns, latency_ns: end_ns - start_ns, intended_ns: start_ns };
        gathered.keep("calls.bin", &encode_calls(&[call]))?;
        let outcome = &mut gathered.outcome;
        outcome.unavailable.extend(left(ended.left));
        (outcome.start_ns, outcome.end_ns, outcome.calls) = (start_ns, end_ns, 1);
        outcome.command = Some(CommandOutcome {
            pid,
            threads: Vec::new(),
            usage: ended.usage,
            output: ended.output,
            output_bytes: ended.output_bytes,
            conditions: std::mem::take(&mut self.conditions),
        });
        Ok(())
    }
}

/// What is to be said of processes that a command left running.
fn left(names: BTreeSet<String>) -> Option<Unavailable> {
    (!names.is_empty()).then(|| Unavailable {
        what: Quantity::Other("what the command left running".into()),
        why: format!("killed at its end: {}", names.into_iter().collect::<Vec<_>>().join(", ")),
        cure: "have the command wait for what it starts, or end it".into(),
    })
}
