//! What the translation layer of the board's block device does, by its server.

use super::{Gathered, Probe};
use crate::block::{asked, described};
use crate::context::Context;
use pocketstone_core::outcome::Translated;
use pocketstone_core::translation::TranslationCounts;
use pocketstone_core::volume::Medium;
use pocketstone_core::{Error, Result};

/// Counts of a traced cell on a block device with a translation layer.
pub struct Translation {
    page_bytes: u64,
    before: TranslationCounts,
    counts: Option<TranslationCounts>,
}

impl Translation {
    /// Of traced cells on such devices.
    ///
    /// # Errors
    /// `ErrorKind::User`, as [`described`].
    pub fn of(context: &Context<'_>) -> Result<Option<Translation>> {
        if !context.plan.trace || context.plan.volume.medium != Medium::Block {
            return Ok(None);
        }
        let layer = described()?.and_then(|device| device.translation);
        let probe = |page_bytes| Translation { page_bytes, before: TranslationCounts::default(), counts: None };
        Ok(layer.map(|layer| probe(layer.page_bytes())))
    }
}

impl Probe for Translation {
    fn begin(&mut self) -> Result<()> {
        asked::counts().map(|counts| self.before = counts)
    }

    fn end(&mut self) -> Result<()> {
        asked::counts().map(|counts| self.counts = Some(counts.since(&self.before)))
    }

    fn collect(self: Box<Self>, gathered: &mut Gathered) -> Result<()> {
        let counts = self.counts.ok_or_else(|| Error::bug("a run began and did not end"))?;
        gathered.outcome.translation = Some(Translated { page_bytes: self.page_bytes, counts });
        Ok(())
    }
}
