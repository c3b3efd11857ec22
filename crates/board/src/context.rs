//! The environment of a board.

use crate::Cache;
use pocketstone_core::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The context of a board: cache, progress reporting, cancellation.
#[derive(Clone)]
pub struct BoardContext {
    /// The cache.
    pub cache: Cache,
    /// The folder of devices' profiles.
    pub devices: PathBuf,
    /// Called with a short description of long-running work.
    pub progress: Arc<dyn Fn(&str) + Send + Sync>,
    /// Set when the user wants to stop.
    pub cancelled: Arc<AtomicBool>,
    /// Can be read once `cancelled` is set; nobody does, so that it wakes everybody. Without it, what waits for a
    /// process notices the user's wish when that has ended.
    pub wakes: Option<Arc<OwnedFd>>,
}

impl BoardContext {
    /// One in which nobody interrupts.
    pub fn uninterrupted(cache: Cache, devices: PathBuf, progress: Arc<dyn Fn(&str) + Send + Sync>) -> Self {
        BoardContext { cache, devices, progress, cancelled: Arc::default(), wakes: None }
    }

    /// An error once the user wants to stop.
    ///
    /// # Errors
    /// `ErrorKind::Interrupted` if the user has interrupted.
    pub fn check(&self) -> Result<()> {
        match self.cancelled.load(Ordering::Relaxed) {
            true => Err(Error::new(ErrorKind::Interrupted, "interrupted")),
            false => Ok(()),
        }
    }
}
