//! The locks of a database between the connections of this process. Other processes cannot have the volume.
//!
//! The levels and their rules are those of SQLite's "File Locking And Concurrency".

use crate::transaction::{Level, Shared};
use std::sync::{Arc, Mutex, MutexGuard};

/// Another connection is in the way.
#[derive(Debug)]
pub(crate) struct Busy;

#[derive(Default)]
pub(crate) struct Locks(Mutex<State>);

#[derive(Default)]
struct State {
    /// Connections with any lock.
    holders: usize,
    /// The one that may write, or is about to.
    writer: Option<(Shared, Level)>,
}

impl Locks {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change leaves it whole.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Raises a connection's lock from `held` to `wanted`; on [`Busy`] it may have got as far as `Pending`, which is
    /// returned as the level reached.
    pub fn raise(&self, own: &Shared, held: Level, wanted: Level) -> (Level, Result<(), Busy>) {
        let mut state = self.state();
        let other = state.writer.as_ref().filter(|(writer, _)| !Arc::ptr_eq(writer, own)).map(|(_, level)| *level);
        let mut reached = held;
        if held == Level::None {
            if other.is_some_and(|level| level >= Level::Pending) {
                return (held, Err(Busy));
            }
            state.holders += 1;
            reached = Level::Shared;
        }
        if wanted == Level::Shared {
            return (reached, Ok(()));
        }
        if other.is_some() {
            return (reached, Err(Busy));
        }
        if wanted == Level::Exclusive && state.holders > 1 {
            if held < Level::Reserved {
                // It rolls a journal back, or closes a WAL: others must not take it for a writer.
                return (reached, Err(Busy));
            }
            // Nobody new gets in, so that those who are in can leave.
            state.writer = Some((own.clone(), Level::Pending));
            return (Level::Pending, Err(Busy));
        }
        state.writer = Some((own.clone(), wanted));
        (wanted, Ok(()))
    }

    /// Lowers a connection's lock to `Shared` or `None`.
    pub fn lower(&self, own: &Shared, held: Level, wanted: Level) {
        let mut state = self.state();
        if state.writer.as_ref().is_some_and(|(writer, _)| Arc::ptr_eq(writer, own)) {
            state.writer = None;
        }
        if held > Level::None && wanted == Level::None {
            state.holders -= 1;
        }
    }

    /// Whether any connection may write, or is about to.
    pub fn is_reserved(&self) -> bool {
        self.state().writer.is_some()
    }

    /// The transaction of the one that may write.
    pub fn writer(&self) -> Option<Shared> {
        self.state().writer.as_ref().map(|(writer, _)| writer.clone())
    }
}
