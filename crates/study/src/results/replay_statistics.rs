//! Statistics over the replays of a run.

use super::stats::statistic;
use crate::specification::setting::Lever;
use rusqlite::types::Value;
use rusqlite::{Connection, params_from_iter};
use std::collections::BTreeMap;

/// Computes the statistics over the cells of each point, and over logs of which the same is known, into a table that is
/// like `replay_statistic`.
///
/// # Errors
/// The `rusqlite::Error` of what cannot be read or written of the results.
pub(crate) fn compute(db: &Connection, into: &str) -> rusqlite::Result<()> {
    db.execute_batch(&format!("DELETE FROM {into}"))?;
    let width = 5 + Lever::ALL.len();
    // Results of earlier versions have cells only.
    let has_logs: bool =
        db.query_row("SELECT count(*) > 0 FROM pragma_table_info('replay') WHERE name = 'recorded'", [], |r| r.get(0))?;
    let point = if has_logs { "coalesce(c.point, r.recorded)" } else { "c.point" };
    let sql = format!(
        "SELECT r.name, coalesce(c.experiment, ''), {point}, r.device, r.governor, {}, m.name, m.value
         FROM replay_metric m JOIN replay r ON r.id = m.replay LEFT JOIN cell c ON c.id = r.cell ORDER BY r.cell, r.id",
        Lever::ALL.map(|lever| format!("CAST(r.{} AS TEXT)", lever.name())).join(", ")
    );
    let mut values: BTreeMap<Vec<String>, Vec<f64>> = BTreeMap::new();
    let mut query = db.prepare(&sql)?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let key = (0..=width).map(|n| row.get(n)).collect::<rusqlite::Result<Vec<String>>>()?;
        values.entry(key).or_default().push(row.get(width + 1)?);
    }
    let insert = format!("INSERT INTO {into} VALUES ({})", vec!["?"; width + 7].join(", "));
    for (key, values) in values {
        let Some(s) = statistic(&values) else { continue };
        let mut row: Vec<Value> = key.into_iter().map(Value::from).collect();
        row.push((values.len() as i64).into());
        row.extend([s.median, s.mean, s.spread.low(), s.spread.high()].map(Value::from));
        row.push(s.spread.coverage().into());
        db.prepare_cached(&insert)?.execute(params_from_iter(row))?;
    }
    Ok(())
}
