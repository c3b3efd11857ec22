//! Checkpoints of an open volume.

use super::Volume;
use crate::checkpoint::{CheckpointState, Checkpoints, Schedule, Scheduled, Taken};
use crate::store::lock;
use crate::{Error, Result};

impl Volume {
    /// Takes a checkpoint of the volume while it is in use. It has every operation that has returned before, and of
    /// each that runs meanwhile all or nothing.
    ///
    /// # Errors
    /// `Medium` if the region is not a [`Tracked`](pocketstone_media::Tracked) one, the target is another volume's or
    /// cannot be written, or operations left no moment for it. What the target held before is kept.
    pub fn checkpoint(&self, series: &mut Checkpoints) -> Result<Taken> {
        series.take(&self.parts)
    }

    /// Takes checkpoints in the background from now on, instead of those that were scheduled before; waits for those
    /// that were asked for. With [`Schedule::every`], closing the volume takes a last one.
    ///
    /// # Errors
    /// `ReadOnly`; `Medium` if the thread cannot be started or, with [`Schedule::every`], the target cannot be used.
    pub fn schedule_checkpoints(&self, schedule: &Schedule) -> Result<()> {
        self.parts.store.writable()?;
        // It has the lock of its target. Not with the lock held: its thread may be asking for the state.
        let before = lock(&self.scheduled).take();
        drop(before);
        let new = Scheduled::start(&self.parts, schedule, &self.asked)?;
        let meanwhile = lock(&self.scheduled).replace(new);
        drop(meanwhile);
        Ok(())
    }

    /// Asks for a checkpoint now, by a word that one of [`CheckpointState::answers`] has when it has been taken or has
    /// failed.
    ///
    /// # Errors
    /// `NotSupported` if none are scheduled.
    pub fn ask_for_checkpoint(&self, word: &str) -> Result<()> {
        lock(&self.scheduled).as_ref().ok_or(Error::NotSupported)?.ask(word)
    }

    /// How checkpoints in the background go; `None`: none are scheduled.
    pub fn checkpoint_state(&self) -> Option<CheckpointState> {
        lock(&self.scheduled).as_ref().map(Scheduled::state)
    }
}
