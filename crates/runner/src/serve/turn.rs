//! The turns by which a lab far away and runs on this machine measure: one cell each.

use super::beating;
use super::lab::Lab;
use pocketstone_core::Result;
use pocketstone_core::frame::Frame;
use pocketstone_core::volume::Medium;
use pocketstone_probe::alone::Alone;
use pocketstone_workload::plan::{Order, Request, Step};
use std::fs;
use std::path::Path;

/// What the lab is told while another run measures.
const WAITS: &str = "another run on that machine is to end its cell";

/// The machine, while a cell of the lab's is prepared, measured and cleaned up.
pub struct Turn {
    name: &'static str,
    kept: Option<Alone>,
}

impl Turn {
    /// Turns at a name, of which none is taken yet.
    pub fn of(name: &'static str) -> Turn {
        Turn { name, kept: None }
    }

    /// Takes the machine for an order that needs it and is about to be carried out; `lab` is told if that has to wait.
    /// What is returned is to be kept until there is a reply: the turn is over then, unless more of the cell follows.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the kernel keeps nobody away, or the lab is not there any more.
    pub fn take(&mut self, order: &Path, lab: &mut Lab) -> Result<Option<Alone>> {
        // What cannot be read is refused by who is to carry it out.
        let request = fs::read(order).ok().and_then(|text| serde_json::from_slice::<Request>(&text).ok());
        let Some(order) = request.map(|request| request.order) else { return Ok(self.kept.take()) };
        if begins(&order) {
            self.kept = None;
        }
        let alone = match self.kept.take() {
            None if needs(&order) => Some(self.wait(lab)?),
            kept => kept,
        };
        if continues(&order) {
            self.kept = alone;
            return Ok(None);
        }
        Ok(alone)
    }

    fn wait(&self, lab: &mut Lab) -> Result<Alone> {
        if let Some(alone) = Alone::now(self.name)? {
            return Ok(alone);
        }
        lab.tell(&Frame::Waits(WAITS.into()))?;
        let alone = beating(|| Alone::wait(self.name), || lab.beat())??;
        lab.tell(&Frame::Begins)?;
        Ok(alone)
    }
}

/// Whether a cell begins with it, whatever became of the one before.
fn begins(order: &Order) -> bool {
    matches!(order, Order::Prepare { step: Step::Format { .. } })
}

/// Whether others that measure would disturb it, or it them. A command by hand is what its user wants now, and a
/// directory is made in no time: by that the machine introduces itself.
fn needs(order: &Order) -> bool {
    match order {
        Order::Prepare { step: Step::Format { volume } } => volume.medium != Medium::Directory,
        Order::Prepare { .. } | Order::Measure { .. } | Order::Abilities => true,
        _ => false,
    }
}

/// Whether more of the cell follows: it is to be measured yet, or its files are to be removed.
fn continues(order: &Order) -> bool {
    match order {
        Order::Prepare { step } => !step.volume().volatile(),
        Order::Measure { plan } => plan.volume.directory.is_some(),
        _ => false,
    }
}
