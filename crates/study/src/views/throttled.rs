//! What is to be said of cells that ran on a board that was too warm.

use crate::results::store::Store;
use pocketstone_core::Result;

/// That some cells ended on a phone that was throttled; none where all were cool, or nothing says so.
pub(crate) fn caveat(store: &Store) -> Result<Option<String>> {
    let sql = "SELECT count(*), sum(thermal > 0), max(thermal) FROM (SELECT \
               CAST(outcome ->> '$.facts.\"thermal.status\"' AS INTEGER) AS thermal FROM cell WHERE status = 'done') \
               WHERE thermal IS NOT NULL";
    let found = store.rows(sql, [], |row| {
        let (cells, throttled): (u64, Option<u64>) = (row.get(0)?, row.get(1)?);
        Ok((cells, throttled.unwrap_or(0), row.get::<_, Option<u64>>(2)?))
    })?;
    let [(cells, throttled @ 1.., Some(most))] = found[..] else { return Ok(None) };
    Ok(Some(format!(
        "At the end of {throttled} of {cells} cells the board was throttled (thermal status up to {most}): their times \
         are those of a slower one. The cells' fact thermal.status says which; with thermal_status_most = 0 in the \
         board's profile, cells wait until it has cooled down."
    )))
}
