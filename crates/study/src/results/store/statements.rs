//! The text of operations on databases, for queries of results.

use super::Store;
use pocketstone_board::trace_file;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_workload::database::Trace;
use rusqlite::params;

/// Characters of a text that are kept: the first ones tell what a statement does.
const CHARACTERS: usize = 1000;

impl Store {
    /// A prepared workload that the run has kept, by its digest.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is missing or damaged.
    pub(in crate::results) fn trace(&self, digest: &str) -> Result<Trace> {
        let path = trace_file(&self.folder.join("workloads"), digest);
        let file = std::fs::read(&path).user(|| format!("{} is missing from the results", path.display()))?;
        Trace::decode(&file).map_err(|e| Error::user(format!("{}", path.display())).because(e))
    }

    /// Keeps the text of every operation of the cells that are done, where it is not kept yet. A workload that is
    /// missing has none.
    ///
    /// # Errors
    /// `ErrorKind::User` if a workload is damaged, or the results cannot be written.
    pub fn keep_statements(&self) -> Result<()> {
        // Recorded calls are prepared, too.
        let sql = "SELECT DISTINCT plan ->> '$.workload.trace' AS prepared FROM cell WHERE status = 'done' \
                   AND plan ->> '$.workload.kind' = 'database' AND prepared IS NOT NULL \
                   AND prepared NOT IN (SELECT workload FROM main.statement) ORDER BY 1";
        let digests: Vec<String> = self.rows(sql, [], |row| row.get(0))?;
        let failed = self.failed();
        for digest in digests {
            if !trace_file(&self.folder.join("workloads"), &digest).exists() {
                continue;
            }
            let texts = statements(&self.trace(&digest)?);
            // All of a workload or none of it.
            let transaction = self.db.unchecked_transaction().map_err(&failed)?;
            let mut insert = self.db.prepare("INSERT INTO main.statement VALUES (?1, ?2, ?3)").map_err(&failed)?;
            for (number, text) in texts.iter().enumerate() {
                let start: String = text.chars().take(CHARACTERS).collect();
                insert.execute(params![digest, number as i64, start]).map_err(&failed)?;
            }
            drop(insert);
            transaction.commit().map_err(&failed)?;
        }
        Ok(())
    }
}

/// The SQL text of each operation; joined steps are parted by `; `.
pub(in crate::results) fn statements(trace: &Trace) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for step in trace.measured() {
        match all.last_mut() {
            Some(last) if step.joined => {
                last.push_str("; ");
                last.push_str(&trace.sql(step));
            }
            _ => all.push(trace.sql(step)),
        }
    }
    all
}
