//! What a cell is measured with.

use pocketstone_core::board::Board;
use pocketstone_workload::plan::Plan;
use std::path::Path;

/// What a cell is measured with.
pub struct Context<'a> {
    /// The board, as it says it is.
    pub board: &'a Board,
    /// The cell's plan.
    pub plan: &'a Plan,
    /// The prepared workload of a database.
    pub trace: &'a Path,
    /// The archive of a command's files.
    pub archive: &'a Path,
    /// Where logs go.
    pub folder: &'a Path,
}
