//! Conditions on cells that are not measured yet.

use super::sql;
use crate::specification::cell::Cell;
use crate::specification::factor::{FACTORS, Value, value_of};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use rusqlite::Connection;
use std::collections::BTreeSet;

/// Selects cells by an SQL condition over their factors, experiment, seed, repetition and traced.
///
/// # Errors
/// `ErrorKind::User` for an invalid SQL condition.
pub fn select(cells: Vec<Cell>, condition: &str) -> Result<Vec<Cell>> {
    let wrong = || format!("`{condition}` is not a valid condition on cells");
    let names: Vec<&str> = FACTORS.iter().map(|f| f.name).collect();
    let hint = format!(
        "write SQL over experiment, seed, repetition, traced, {}: \"pattern = 'random' AND requests <= 64\"",
        names.join(", ")
    );
    let run = || -> rusqlite::Result<Connection> {
        let db = Connection::open_in_memory()?;
        let columns: String = names.iter().map(|n| format!(", {n}")).collect();
        db.execute_batch(&format!("CREATE TABLE c (id, experiment, seed, repetition, traced{columns})"))?;
        let blanks: String = names.iter().map(|_| ", ?").collect();
        let mut insert = db.prepare(&format!("INSERT INTO c VALUES (?, ?, ?, ?, ?{blanks})"))?;
        for (id, cell) in cells.iter().enumerate() {
            let mut values: Vec<rusqlite::types::Value> = vec![
                (id as i64).into(),
                cell.experiment.clone().into(),
                (cell.plan.seed as i64).into(),
                i64::from(cell.repetition).into(),
                i64::from(cell.traced).into(),
            ];
            values.extend(FACTORS.iter().map(|factor| match value_of(&cell.point, factor) {
                Some(Value::Text(s)) => s.into(),
                Some(Value::Flag(b)) => i64::from(b).into(),
                Some(Value::Number(n)) => i64::try_from(n).map_or(rusqlite::types::Value::Null, Into::into),
                None => rusqlite::types::Value::Null,
            }));
            insert.execute(rusqlite::params_from_iter(values))?;
        }
        drop(insert);
        Ok(db)
    };
    let db = run().map_err(|e| Error::bug("cells cannot be listed").because(e))?;
    let query = format!("SELECT id FROM c WHERE ({condition})");
    let ask = |db: &Connection| -> rusqlite::Result<Vec<i64>> {
        let mut query = db.prepare(&query)?;
        let rows = query.query_map([], |r| r.get(0))?;
        rows.collect()
    };
    let found = sql::limited(&db, sql::CHECK_LIMIT, condition, ask);
    let ids: BTreeSet<i64> = found.user(wrong).map_err(|e| e.hint(hint))?.into_iter().collect();
    Ok(cells.into_iter().enumerate().filter(|(n, _)| ids.contains(&(*n as i64))).map(|(_, c)| c).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specification::cell::cells;
    use crate::specification::study::Study;
    use crate::specification::traces::Traces;
    use std::path::Path;

    #[test]
    fn a_factor_that_points_omit_at_its_default_has_that_value() {
        let text = "title='t'\nboard='host'\n[[experiment]]\nname='e'\n[experiment.factors]\n\
                    file_system='scmfs'\nfile_bytes='1MiB'\nrequests=8\nthreshold=['default', 'never']\n";
        let study = Study::parse("s.toml", text).unwrap();
        let made = cells(&study, "host", None, false, &mut Traces::checked(Path::new("."))).unwrap();
        let of = |condition: &str| select(made.clone(), condition).unwrap().len();
        let all = made.len();
        assert!(all > 0 && of("threshold = 'never'") * 2 == all);
        assert_eq!(of("threshold = 'default'") * 2, all);
        assert_eq!(of("collector = 0 AND io_scheduler = 'default'"), all);
        // Of a workload that reads, nothing is known of engines and phases.
        assert_eq!(of("engine IS NULL AND phases IS NULL"), all);
    }
}
