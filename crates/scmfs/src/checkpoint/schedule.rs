//! Checkpoints that are taken every now and then while a volume is in use.

use super::{Checkpoints, Taken};
use crate::parts::Parts;
use crate::store::lock;
use crate::{Error, Result};
use pocketstone_vfs::MediumError;
use serde::Serialize;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// When and where checkpoints are taken.
#[derive(Clone)]
pub struct Schedule {
    /// The folder.
    pub target: PathBuf,
    /// How many are kept.
    pub keep: u32,
    /// How often; `None`: when somebody asks.
    pub every: Option<Duration>,
    /// What is done before each: whoever holds changes back brings them.
    pub before: Arc<dyn Fn() + Send + Sync>,
    /// Is told of each one that failed, in one line.
    pub report: Arc<dyn Fn(&str) + Send + Sync>,
}

/// How it goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct CheckpointState {
    /// The folder.
    pub target: PathBuf,
    /// How many are kept.
    pub keep: u32,
    /// Seconds from one to the next; `None`: when somebody asks.
    pub every_s: Option<u64>,
    /// One is being taken.
    pub running: bool,
    /// How many were taken.
    pub taken: u64,
    /// The last one.
    pub last: Option<Taken>,
    /// Why the one after that failed.
    pub error: Option<String>,
    /// The word of who asked for the last one that has ended.
    pub answered: Option<String>,
}

/// The thread that takes them. Dropping it ends it and waits.
pub(crate) struct Scheduled {
    ask: Option<Sender<String>>,
    state: Arc<Mutex<CheckpointState>>,
    thread: Option<JoinHandle<Checkpoints>>,
    schedule: Schedule,
}

impl Scheduled {
    pub fn start(parts: &Arc<Parts>, schedule: &Schedule) -> Result<Scheduled> {
        let series = Checkpoints::open(&schedule.target, schedule.keep)?;
        let (ask, asked) = channel();
        let every_s = schedule.every.map(|every| every.as_secs());
        let (target, keep) = (schedule.target.clone(), schedule.keep);
        let first = CheckpointState { target, keep, every_s, ..CheckpointState::default() };
        let state = Arc::new(Mutex::new(first));
        let (parts, shared, how) = (parts.clone(), state.clone(), schedule.clone());
        let work = move || serve(series, &parts, &shared, &how, &asked);
        let thread = std::thread::Builder::new().name("scmfs-checkpoint".into()).spawn(work);
        let failed = |e| MediumError::failed("cannot start a thread for checkpoints").because(e);
        Ok(Scheduled { ask: Some(ask), state, thread: Some(thread.map_err(failed)?), schedule: schedule.clone() })
    }

    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Asks for one now; `word` is in the state when it has ended.
    pub fn ask(&self, word: &str) -> Result<()> {
        let sent = self.ask.as_ref().is_some_and(|ask| ask.send(word.to_owned()).is_ok());
        if sent { Ok(()) } else { Err(Error::Busy) }
    }

    pub fn state(&self) -> CheckpointState {
        lock(&self.state).clone()
    }

    /// Takes no more; gives the series back.
    pub fn stop(mut self) -> Option<Checkpoints> {
        self.ask = None;
        self.thread.take()?.join().ok()
    }
}

impl Drop for Scheduled {
    fn drop(&mut self) {
        self.ask = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn serve(
    mut series: Checkpoints,
    parts: &Parts,
    state: &Mutex<CheckpointState>,
    how: &Schedule,
    asked: &Receiver<String>,
) -> Checkpoints {
    let mut next = how.every.map(|every| Instant::now() + every);
    loop {
        let word = match next.map(|next| next.saturating_duration_since(Instant::now())) {
            None => asked.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(left) => asked.recv_timeout(left),
        };
        let word = match word {
            Ok(word) => Some(word),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return series,
        };
        // From beginning to beginning, without catching up.
        next = how.every.map(|every| Instant::now() + every);
        lock(state).running = true;
        (how.before)();
        let done = series.take(parts);
        let mut state = lock(state);
        state.running = false;
        let trouble = match done {
            Ok(taken) => {
                let trouble = taken.trouble.clone();
                (state.taken, state.last, state.error) = (state.taken + 1, Some(taken), None);
                trouble
            }
            Err(error) => {
                state.error = Some(pocketstone_vfs::chain(&error));
                state.error.clone()
            }
        };
        state.answered = word.or(state.answered.take());
        drop(state);
        if let Some(trouble) = trouble {
            (how.report)(&format!("checkpoint to {}: {trouble}", how.target.display()));
        }
    }
}
