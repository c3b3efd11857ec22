//! Checkpoints that are taken every now and then while a volume is in use.

use super::{Checkpoints, Taken};
use crate::parts::Parts;
use crate::store::lock;
use crate::{Error, Result};
use pocketstone_vfs::{MediumError, setters};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// When and where checkpoints are taken.
#[non_exhaustive]
#[derive(Clone)]
pub struct Schedule {
    /// The folder.
    pub target: PathBuf,
    /// How many are kept; `None`: as many as are there.
    pub keep: Option<u32>,
    /// How often; `None`: when somebody asks.
    pub every: Option<Duration>,
    /// What is done before each: whoever holds changes back brings them. What of that may be missing, if anything.
    pub before: Arc<dyn Fn() -> Option<String> + Send + Sync>,
    /// Is told of each one that failed, in one line.
    pub report: Arc<dyn Fn(&str) + Send + Sync>,
}

impl Schedule {
    /// Into that folder when somebody asks, with nothing done before, and failures told to nobody.
    pub fn new(target: impl Into<PathBuf>) -> Schedule {
        Schedule { target: target.into(), keep: None, every: None, before: Arc::new(|| None), report: Arc::new(|_| ()) }
    }

    setters! { keep: impl Into<Option<u32>>, every: impl Into<Option<Duration>> }

    /// Sets [`before`](field@Schedule::before).
    #[must_use]
    pub fn before(mut self, before: impl Fn() -> Option<String> + Send + Sync + 'static) -> Schedule {
        self.before = Arc::new(before);
        self
    }

    /// Sets [`report`](field@Schedule::report).
    #[must_use]
    pub fn report(mut self, report: impl Fn(&str) + Send + Sync + 'static) -> Schedule {
        self.report = Arc::new(report);
        self
    }
}

/// How it goes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct CheckpointState {
    /// The folder.
    pub target: PathBuf,
    /// How many are kept; `None`: as many as were there.
    pub keep: Option<u32>,
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
    /// How many were asked for and have not ended.
    pub waiting: usize,
    /// What became of the last ones that were asked for, whatever target they had.
    pub answers: VecDeque<Answer>,
}

/// What became of a checkpoint that somebody asked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Answer {
    /// The word of who asked.
    pub word: String,
    /// The checkpoint.
    pub taken: Option<Taken>,
    /// Why there is none.
    pub error: Option<String>,
}

/// Answers are kept until so many others have come: whoever asks looks every fraction of a second.
const ANSWERS_MOST: usize = 64;

/// What was asked of a volume, and what became of it. It outlives the series that answers.
#[derive(Default)]
pub(crate) struct Asked {
    waiting: usize,
    answers: VecDeque<Answer>,
}

impl Asked {
    fn answer(&mut self, word: String, done: &Result<Taken>) {
        self.waiting -= 1;
        let error = done.as_ref().err().map(|error| pocketstone_vfs::chain(error));
        self.answers.push_back(Answer { word, taken: done.as_ref().ok().cloned(), error });
        if self.answers.len() > ANSWERS_MOST {
            self.answers.pop_front();
        }
    }
}

/// The thread that takes them. Dropping it ends it and waits.
pub(crate) struct Scheduled {
    ask: Option<Sender<String>>,
    asked: Arc<Mutex<Asked>>,
    state: Arc<Mutex<CheckpointState>>,
    thread: Option<JoinHandle<Option<Checkpoints>>>,
    schedule: Schedule,
}

impl Scheduled {
    /// Starts it. The target of checkpoints that come by themselves has to be usable now; that of others is opened by
    /// the first one, for whoever asks may hold what opening it waits for.
    pub fn start(parts: &Arc<Parts>, schedule: &Schedule, asked: &Arc<Mutex<Asked>>) -> Result<Scheduled> {
        let series = schedule.every.map(|_| open(schedule, parts)).transpose()?;
        let (ask, words) = channel();
        let every_s = schedule.every.map(|every| every.as_secs());
        let (target, keep) = (schedule.target.clone(), schedule.keep);
        let first = CheckpointState { target, keep, every_s, ..CheckpointState::default() };
        let state = Arc::new(Mutex::new(first));
        let (parts, shared, how, answers) = (parts.clone(), state.clone(), schedule.clone(), asked.clone());
        let work = move || serve(series, &parts, &shared, &how, &words, &answers);
        let thread = std::thread::Builder::new().name("scmfs-checkpoint".into()).spawn(work);
        let failed = |e| MediumError::failed("cannot start a thread for checkpoints").because(e);
        let (thread, asked) = (Some(thread.map_err(failed)?), asked.clone());
        Ok(Scheduled { ask: Some(ask), asked, state, thread, schedule: schedule.clone() })
    }

    pub fn schedule(&self) -> &Schedule {
        &self.schedule
    }

    /// Asks for one now; an answer with `word` is in the state when it has ended.
    pub fn ask(&self, word: &str) -> Result<()> {
        lock(&self.asked).waiting += 1;
        let sent = self.ask.as_ref().is_some_and(|ask| ask.send(word.to_owned()).is_ok());
        if !sent {
            lock(&self.asked).waiting -= 1;
            return Err(Error::Busy);
        }
        Ok(())
    }

    pub fn state(&self) -> CheckpointState {
        let mut state = lock(&self.state).clone();
        let asked = lock(&self.asked);
        (state.waiting, state.answers) = (asked.waiting, asked.answers.clone());
        state
    }

    /// Takes no more but those that were asked for; gives the series back.
    pub fn stop(mut self) -> Option<Checkpoints> {
        self.ask = None;
        self.thread.take()?.join().ok().flatten()
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

/// Opens the target for this volume.
fn open(schedule: &Schedule, parts: &Parts) -> Result<Checkpoints> {
    let series = Checkpoints::open(&schedule.target, schedule.keep)?;
    series.check_owner(parts.store.superblock().uuid)?;
    Ok(series)
}

fn serve(
    mut series: Option<Checkpoints>,
    parts: &Parts,
    state: &Mutex<CheckpointState>,
    how: &Schedule,
    words: &Receiver<String>,
    asked: &Mutex<Asked>,
) -> Option<Checkpoints> {
    let mut next = how.every.map(|every| Instant::now() + every);
    loop {
        let word = match next.map(|next| next.saturating_duration_since(Instant::now())) {
            None => words.recv().map_err(|_| RecvTimeoutError::Disconnected),
            Some(left) => words.recv_timeout(left),
        };
        let word = match word {
            Ok(word) => Some(word),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return series,
        };
        // From beginning to beginning, without catching up.
        next = how.every.map(|every| Instant::now() + every);
        lock(state).running = true;
        let missing = (how.before)();
        let opened = match series.take() {
            Some(series) => Ok(series),
            None => open(how, parts),
        };
        let mut done = opened.and_then(|opened| series.insert(opened).take(parts));
        if let (Ok(taken), Some(missing)) = (&mut done, missing) {
            taken.trouble = Some(match taken.trouble.take() {
                None => missing,
                Some(trouble) => format!("{trouble}; {missing}"),
            });
        }
        if let Some(word) = word {
            lock(asked).answer(word, &done);
        }
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
        drop(state);
        if let Some(trouble) = trouble {
            (how.report)(&format!("checkpoint to {}: {trouble}", how.target.display()));
        }
    }
}
