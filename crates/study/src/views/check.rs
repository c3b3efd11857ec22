//! Whether everything that a study asks of results can be asked.

use super::{charts, claims, figures, report_model};
use crate::results::store::Store;
use crate::specification::study::Study;
use pocketstone_core::Result;

/// Checks that a study's queries are SQL over the results' tables, without any results, and its claims such that they
/// can hold.
///
/// # Errors
/// `ErrorKind::User` for the first invalid query or claim, at its line.
pub fn check_queries(study: &Study) -> Result<()> {
    let store = Store::to_check()?;
    claims::judge(&store, study)?;
    claims::check(&store, study)?;
    for figure in &study.figures {
        figures::figure(&store, study, figure)?;
    }
    charts::check(&store, study)?;
    for table in &study.tables {
        figures::study_table(&store, study, table)?;
    }
    for detail in &study.details {
        report_model::detail_cells(&store, study, detail)?;
    }
    Ok(())
}
