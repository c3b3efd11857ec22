//! What a cell is measured with.

use pocketstone_core::board::BoardDescription;
use pocketstone_core::outcome::Geometry;
use pocketstone_core::{Error, Result};

use pocketstone_probe::flashmon::{first_nand, nand};
use pocketstone_workload::plan::Plan;
use std::os::fd::OwnedFd;
use std::path::Path;

/// What a cell is measured with.
pub struct Context<'a> {
    /// The board, as it says it is.
    pub board: &'a BoardDescription,
    /// The cell's plan.
    pub plan: &'a Plan,
    /// The prepared workload of a database.
    pub trace: &'a Path,
    /// The archive of a command's files.
    pub archive: &'a Path,
    /// Where logs go.
    pub folder: &'a Path,
    /// The way to a lab far away, which has a copy of what is set.
    pub lab: Option<&'a OwnedFd>,
}

impl Context<'_> {
    /// The geometry of the chip whose operations are counted: the named partition's, else the first one's.
    ///
    /// # Errors
    /// `ErrorKind::Board` if there is none.
    pub fn chip(&self) -> Result<Geometry> {
        let places = &self.board.places;
        match places.mtd_name {
            Some(_) => nand(places.mtd).ok_or_else(|| Error::board(format!("mtd{} is not raw NAND", places.mtd))),
            None => first_nand(),
        }
    }
}
