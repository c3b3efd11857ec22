//! A chip that keeps, of every change to it, what a loss of power in this change would have left.

use super::power::TEARS;
use super::shape::Shape;
use pocketstone_media::Result;
use pocketstone_media::nand::{Fault, Geometry, Nand, SimulatedNand, Tear, Verdict};
use pocketstone_yaffs2::Volume;
use std::sync::{Arc, Mutex};

/// A chip after a loss of power.
pub struct Torn {
    /// Which change it was since the recording began, from 1.
    pub at: u64,
    pub tear: Tear,
    /// The power is on again.
    pub chip: SimulatedNand,
}

/// Handles of one chip: one for a volume, one for its test.
#[derive(Clone)]
pub struct Recorder {
    pub chip: SimulatedNand,
    torn: Arc<Mutex<(bool, u64, Vec<Torn>)>>,
}

impl Recorder {
    pub fn new(chip: SimulatedNand) -> Recorder {
        Recorder { chip, torn: Arc::default() }
    }

    pub fn mount(&self, shape: &Shape) -> pocketstone_vfs::Result<Volume> {
        shape.mount_with(Box::new(self.clone()), &shape.options)
    }

    pub fn record(&self, on: bool) {
        *self.torn.lock().expect("nobody panics with it") = (on, 0, Vec::new());
    }

    /// What was recorded; nothing more is.
    pub fn take(&self) -> Vec<Torn> {
        std::mem::take(&mut *self.torn.lock().expect("nobody panics with it")).2
    }

    fn tear(&self, change: impl Fn(&mut SimulatedNand)) {
        let mut torn = self.torn.lock().expect("nobody panics with it");
        if !torn.0 {
            return;
        }
        torn.1 += 1;
        for tear in TEARS {
            let mut chip = self.chip.snapshot();
            chip.cut_at(1, tear);
            change(&mut chip);
            chip.power_on();
            let at = torn.1;
            torn.2.push(Torn { at, tear, chip });
        }
    }
}

impl Nand for Recorder {
    fn geometry(&self) -> Geometry {
        self.chip.geometry()
    }

    fn read(&mut self, page: u32, data: &mut [u8], spare: &mut [u8]) -> Result<Verdict> {
        self.chip.read(page, data, spare)
    }

    fn program(&mut self, page: u32, data: &[u8], spare: &[u8]) -> Result<(), Fault> {
        self.tear(|chip| drop(chip.program(page, data, spare)));
        self.chip.program(page, data, spare)
    }

    fn erase(&mut self, block: u32) -> Result<(), Fault> {
        self.tear(|chip| drop(chip.erase(block)));
        self.chip.erase(block)
    }

    fn is_bad(&mut self, block: u32) -> Result<bool> {
        self.chip.is_bad(block)
    }

    fn mark_bad(&mut self, block: u32) -> Result<()> {
        self.tear(|chip| drop(chip.mark_bad(block)));
        self.chip.mark_bad(block)
    }

    fn describe(&self) -> String {
        self.chip.describe()
    }
}
