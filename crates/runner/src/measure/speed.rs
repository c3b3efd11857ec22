//! The governor `database` on this machine: schedutil, and clamps on the utilisation of the threads that execute
//! operations, set as they tell what they do. Unverified on hardware: see docs/database-governor.md.
//!
//! A thread's clamp stays with it while it sleeps, and counts only while it runs or could. So the start of an
//! operation is the only hint that needs a system call, and only where the clamp is another one than before.

use pocketstone_core::database::{Condition, Conditions, DatabaseEngine, DatabaseSpec};
use pocketstone_core::hint::{Hint, TakesHints, clamp_of};
use pocketstone_core::outcome::{Quantity, Unavailable};
use pocketstone_core::{Error, Result};
use pocketstone_engine::database::Informs;
use pocketstone_probe::Settings;
use pocketstone_probe::conditions::Machine;
use std::io;

/// The governor's name in a study.
const NAME: &str = "database";
/// Per cent of the highest frequency where a study does not say: half of it was the efficient point of the phone
/// that PocketData measured.
const ALONE_PERCENT: u32 = 50;
/// And with operations that wait.
const BATCH_PERCENT: u32 = 100;

/// Speeds in per cent of the highest frequency: `database`, `database:ALONE`, `database:ALONE:BATCH`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Speeds {
    /// For an operation that no other one waits behind.
    alone: u32,
    /// For one with others behind it.
    batch: u32,
}

impl Speeds {
    /// `None` for any other governor.
    fn of(governor: &str) -> Option<Result<Speeds>> {
        let rest = governor.strip_prefix(NAME)?;
        let mut words = rest.split(':');
        let wrong = || {
            Error::user(format!("`{governor}` is not a governor"))
                .hint("database, database:50 or database:50:100: per cent of the maximum frequency, 1 to 100")
        };
        let percent = |word: &str| word.parse().ok().filter(|p| (1..=100).contains(p)).ok_or_else(wrong);
        let speeds = match (words.next(), words.next(), words.next(), words.next()) {
            (Some(""), None, ..) => Ok((ALONE_PERCENT, BATCH_PERCENT)),
            (Some(""), Some(alone), None, _) => percent(alone).map(|alone| (alone, BATCH_PERCENT)),
            (Some(""), Some(alone), Some(batch), None) => percent(alone).and_then(|a| Ok((a, percent(batch)?))),
            _ => Err(wrong()),
        };
        Some(speeds.map(|(alone, batch)| Speeds { alone, batch: batch.max(alone) }))
    }

    /// The clamp for an operation, of 1024.
    fn clamp(self, following: u32) -> u32 {
        clamp_of(if following > 0 { self.batch } else { self.alone }, 100)
    }
}

/// The system call, or what stands for it.
trait SetsClamp: Send {
    /// Sets the least and the greatest utilisation that the calling thread counts with, of 1024; `None` takes
    /// both away.
    fn set(&mut self, clamp: Option<u32>) -> io::Result<()>;
}

/// `sched_setattr`.
struct Kernel;

/// Its argument, as sched_setattr(2) and the kernel's user interface describe it.
#[repr(C)]
#[derive(Default)]
struct Attributes {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime: u64,
    deadline: u64,
    period: u64,
    util_min: u32,
    util_max: u32,
}

/// The policy and its parameters stay; both clamps are set.
const FLAGS: u64 = 0x08 | 0x10 | 0x20 | 0x40;
/// Takes a clamp away, from Linux 5.11 on.
const RESET: u32 = u32::MAX;

impl SetsClamp for Kernel {
    fn set(&mut self, clamp: Option<u32>) -> io::Result<()> {
        let util = clamp.unwrap_or(RESET);
        let size = size_of::<Attributes>() as u32;
        let attributes = Attributes { size, flags: FLAGS, util_min: util, util_max: util, ..Attributes::default() };
        // SAFETY: thread 0 is the calling one; the kernel reads `size` bytes of a struct that outlives the call,
        // has the kernel's layout without gaps, and keeps no pointer to it.
        match unsafe { libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0) } {
            0 => Ok(()),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// Turns a thread's hints into clamps.
struct Clamps<S> {
    speeds: Speeds,
    set: S,
    last: Option<u32>,
}

impl<S: SetsClamp> TakesHints for Clamps<S> {
    fn hint(&mut self, hint: Hint) {
        let Hint::OperationStarts { following } = hint else { return };
        let clamp = Some(self.speeds.clamp(following));
        if clamp != self.last {
            self.last = clamp;
            // It was tried before the run. What fails now costs speed or energy, not the run.
            let _ = self.set.set(clamp);
        }
    }
}

/// Whom an engine's threads tell of their work, where the task asks for it.
pub fn informs(spec: &DatabaseSpec) -> Option<Box<Informs>> {
    let speeds = Speeds::of(spec.conditions.governor.as_deref()?)?.ok()?;
    Some(Box::new(move || Box::new(Clamps { speeds, set: Kernel, last: None })))
}

/// Whether a program tells of its operations, or why not.
type Hints = std::result::Result<(), &'static str>;

/// Whether an engine does.
pub fn hints(engine: DatabaseEngine) -> Hints {
    match engine {
        DatabaseEngine::H2 => Err("H2 runs in Java, whose threads give no hints"),
        _ => Ok(()),
    }
}

/// Puts the conditions of a plan in force before its program starts. Those that cannot be are left out, and `asked` is
/// what the program is to be told then.
pub fn condition(
    asked: &mut Conditions,
    hints: Hints,
    settings: &mut Settings,
    unavailable: &mut Vec<Unavailable>,
) -> Vec<Condition> {
    let conditions = apply_on(&Machine::default(), &mut Kernel, asked, hints, settings);
    for missed in conditions.iter().filter(|c| !c.why.is_empty()) {
        let what = Quantity::Other(format!("{} {}", missed.name, missed.asked));
        unavailable.push(Unavailable { what, why: missed.why.clone(), cure: String::new() });
    }
    conditions
}

/// Asks the machine for the conditions of a trial, and says what is in force. `asked` is what the engine's process
/// is to be told then: without the governor `database` where it cannot be.
///
/// `hints`: why the program tells nothing of its work, if it does not.
fn apply_on(
    machine: &Machine,
    kernel: &mut impl SetsClamp,
    asked: &mut Conditions,
    hints: Hints,
    settings: &mut Settings,
) -> Vec<Condition> {
    let governor = asked.governor.clone().unwrap_or_default();
    let Some(speeds) = Speeds::of(&governor) else { return machine.apply(asked, settings) };
    let offered = speeds.and_then(|speeds| offered(kernel, speeds, hints));
    let below = offered.is_ok().then(|| "schedutil".to_owned());
    let mut conditions = machine.apply(&Conditions { governor: below, ..asked.clone() }, settings);
    match (offered, conditions.iter_mut().find(|c| c.name == "governor")) {
        (Ok(speeds), Some(found)) => {
            found.asked = governor;
            match (&found.in_force, found.why.is_empty()) {
                (Some(below), true) => {
                    let (alone, batch) = (speeds.clamp(0), speeds.clamp(1));
                    found.in_force = Some(format!("{below} with clamps of {alone} and {batch} of 1024"));
                }
                _ => asked.governor = None,
            }
        }
        (offered, _) => {
            let why = offered.err().map(|e| format!("{}: {}", e.chain(), e.cure().unwrap_or("no known fix")));
            let (name, in_force) = ("governor".to_owned(), machine.governor());
            conditions.insert(0, Condition { name, asked: governor, in_force, why: why.unwrap_or_default() });
            asked.governor = None;
        }
    }
    conditions
}

/// Whether both speeds can be asked for here; each is tried on the calling thread.
fn offered(kernel: &mut impl SetsClamp, speeds: Speeds, hints: Hints) -> Result<Speeds> {
    hints.map_err(|why| Error::board(why).hint("use another governor, or a database engine that gives hints"))?;
    let tried = [Some(speeds.clamp(0)), Some(speeds.clamp(1)), None].into_iter().try_for_each(|c| kernel.set(c));
    tried.map(|()| speeds).map_err(|error| {
        Error::board(format!("this kernel does not support utilization clamping (sched_setattr: {error})"))
            .hint("use Linux 5.11 or newer, built with CONFIG_UCLAMP_TASK")
    })
}

#[cfg(test)]
mod tests;
