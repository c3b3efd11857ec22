//! Results of a board.

use pocketstone_core::block_log::BlockLog;
use pocketstone_core::events::EventLog;
use pocketstone_core::log::{Call, FlashLog};
use pocketstone_core::outcome::Outcome;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_tlb::join::Joined;
use std::time::Duration;

/// What to run on a console.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Console {
    /// A cold boot, until the board is ready.
    Boot,
    /// A shell.
    Shell,
}

/// Result of one cell with its logs.
#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    /// Facts and counts.
    pub outcome: Outcome,
    /// Every call.
    pub calls: Vec<Call>,
    /// All flash operations, if the cell was traced.
    pub flash: Option<FlashLog>,
    /// All requests to the board's block device, if the cell was traced on one.
    pub block: Option<BlockLog>,
    /// Kernel events, if the cell was traced and has a database.
    pub events: Option<EventLog>,
    /// Misses of the modelled data TLB, if the plan has one.
    pub tlb: Option<Joined>,
    /// How long it waited for others who measure on the same machine, which is no part of what it costs.
    pub waited: Duration,
}

impl Measured {
    /// The result of a cell without logs.
    pub fn of(outcome: Outcome) -> Self {
        let (calls, waited) = (Vec::new(), Duration::ZERO);
        Measured { outcome, calls, flash: None, block: None, events: None, tlb: None, waited }
    }
}

/// Why an order failed, with the console's last lines.
#[derive(Debug)]
pub struct Failed {
    /// The error.
    pub error: Error,
    /// Last lines of the console, if the board has one.
    pub console: Option<String>,
    /// The board was lost: what became of the order is not known, and says nothing about what it measures.
    pub lost: bool,
    /// How long it waited for others who measure on the same machine, which is no part of what it costs.
    pub waited: Duration,
}

/// What a board says of what it offers.
///
/// # Errors
/// `ErrorKind::Interrupted`, and the error of a board that was lost: neither says anything of what it offers.
pub fn answer<T>(offer: Result<T, Failed>) -> Result<Result<T>> {
    match offer {
        Err(failed) if failed.lost || failed.error.kind() == ErrorKind::Interrupted => Err(failed.into()),
        offer => Ok(offer.map_err(Error::from)),
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Failed { error, console: None, lost: false, waited: Duration::ZERO }
    }
}

impl From<Failed> for Error {
    fn from(failed: Failed) -> Self {
        let error = failed.error;
        match failed.console.filter(|c| !c.is_empty() && error.kind() != ErrorKind::Interrupted) {
            Some(console) => {
                let message = format!("{}\nthe console's last lines were:\n{console}", error.chain());
                let whole = Error::new(error.kind(), message);
                match error.cure() {
                    Some(cure) => whole.hint(cure),
                    None => whole,
                }
            }
            None => error,
        }
    }
}
