//! No database: operations are walked through and nothing is done. What is measured then is the floor of
//! every measurement.

use super::Database;
use pocketstone_core::Result;
use pocketstone_workload::database::{ResultDigest, Step};

/// Does nothing.
pub(super) struct Null;

impl Database for Null {
    #[inline]
    fn execute(&mut self, _: usize, _: &Step, digest: &mut ResultDigest) -> Result<()> {
        digest.end();
        Ok(())
    }
}
