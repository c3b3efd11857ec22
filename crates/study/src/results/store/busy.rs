//! Why results cannot be used: whoever reads them keeps others from writing, and the disk may be full.

use super::{FILE, Store, sql};
use pocketstone_core::Error;
use rusqlite::ErrorCode;
use std::time::Duration;

/// How long a run waits for others who read its results: twice as long as a query of the user's may take.
pub(super) const PATIENCE: Duration = Duration::from_secs(2 * sql::LIMIT.as_secs());

impl Store {
    /// An error of SQLite's, as what went wrong with the results.
    pub(super) fn failed(&self) -> impl Fn(rusqlite::Error) -> Error + use<> {
        let path = self.folder.join(FILE);
        move |error| {
            let path = path.display();
            match error.sqlite_error_code() {
                Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => {
                    Error::user(format!("cannot use {path}: another program reads or writes it for too long"))
                        .hint("wait until that ends; then go on with a run by --resume")
                        .because(error)
                }
                _ => Error::user(format!("cannot use {path} (is the disk full?)")).because(error),
            }
        }
    }
}
