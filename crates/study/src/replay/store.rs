//! Replays in the results: their rows, statistics and views.

use super::setting::{LEVERS, Setting};
use crate::factor::FACTORS;
use crate::stats::statistic;
use crate::store::Store;
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use rusqlite::{params, params_from_iter, types::Value};
use std::collections::{BTreeMap, BTreeSet};

/// A replay that is done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub name: String,
    pub cell: i64,
    pub device: String,
    pub governor: String,
    pub setting: Setting,
    pub cycles_scale: f64,
    pub seed: u64,
    pub source: &'static str,
    pub profile: String,
    pub input: String,
    pub digest: String,
    pub metrics: Vec<(String, f64)>,
    /// Mean latency and least energy.
    pub front: Vec<(f64, f64)>,
}

fn levers(prefix: &str) -> String {
    LEVERS.map(|l| format!("{prefix}{}", l.name)).join(", ")
}

/// What a factor of the cell is called beside the replay's own columns.
fn recorded(factor: &str) -> String {
    let own = ["device", "governor"].contains(&factor) || LEVERS.iter().any(|l| l.name == factor);
    if own { format!("recorded_{factor}") } else { factor.to_owned() }
}

/// The views that one line of SQL can read. A factor that is a lever too is `recorded_...` there.
pub(crate) fn views() -> String {
    let columns =
        |point: &str| FACTORS.iter().map(|f| format!("{point} ->> '$.{}' AS {}, ", f.name, recorded(f.name))).collect();
    let (of_cell, of_point): (String, String) = (columns("c.point"), columns("point"));
    format!(
        "CREATE VIEW replays AS
             SELECT r.id, r.name AS replay, r.cell, c.experiment, {of_cell} c.repetition, c.seed, r.device, r.governor,
                    {}, r.cycles_scale, r.source, r.profile, r.digest
             FROM replay r JOIN cell c ON c.id = r.cell;
         CREATE VIEW replay_summary AS
             SELECT name AS replay, experiment, {of_point} device, governor, {}, metric, n, median, mean, low, high
             FROM replay_statistic WHERE metric NOT LIKE 'residency:%';
         CREATE VIEW replay_residency AS
             SELECT name AS replay, experiment, {of_point} device, governor, {},
                    CAST(substr(metric, 11) AS INTEGER) AS khz, n, median AS share, low, high
             FROM replay_statistic WHERE metric LIKE 'residency:%';",
        levers("r."),
        levers(""),
        levers(""),
    )
}

/// The inputs of the replays that the store has.
pub(crate) fn inputs(store: &Store) -> Result<BTreeSet<String>> {
    Ok(store.rows("SELECT input FROM replay", [], |r| r.get(0))?.into_iter().collect())
}

/// Adds replays, drops those whose input is not wanted any more, and computes statistics; all or nothing.
pub(crate) fn put(store: &mut Store, rows: &[Row], wanted: &BTreeSet<String>) -> Result<()> {
    let stale: Vec<String> = inputs(store)?.into_iter().filter(|i| !wanted.contains(i)).collect();
    let folder = store.folder().display().to_string();
    let failed = || format!("cannot write the replays of {folder}");
    let transaction = store.db.transaction().user(failed)?;
    let write = || -> rusqlite::Result<()> {
        for input in &stale {
            transaction.prepare_cached("DELETE FROM replay WHERE input = ?1")?.execute([input])?;
        }
        let blanks = vec!["?"; 10 + LEVERS.len()].join(", ");
        let insert = format!(
            "INSERT INTO replay (name, cell, device, governor, {}, cycles_scale, seed, source, profile, input, digest)
             VALUES ({blanks})",
            levers("")
        );
        for row in rows {
            let mut values: Vec<Value> =
                vec![row.name.clone().into(), row.cell.into(), row.device.clone().into(), row.governor.clone().into()];
            values.extend(row.setting.0.iter().map(|v| Value::from(v.clone())));
            values.extend([row.cycles_scale.into(), (row.seed as i64).into(), row.source.to_owned().into()]);
            values.extend([&row.profile, &row.input, &row.digest].map(|t| Value::from(t.clone())));
            transaction.prepare_cached(&insert)?.execute(params_from_iter(values))?;
            let id = transaction.last_insert_rowid();
            let mut metric = transaction.prepare_cached("INSERT INTO replay_metric VALUES (?1, ?2, ?3)")?;
            for (name, value) in &row.metrics {
                metric.execute(params![id, name, value])?;
            }
            let mut point = transaction.prepare_cached("INSERT INTO replay_front VALUES (?1, ?2, ?3, ?4)")?;
            for (number, (latency, energy)) in row.front.iter().enumerate() {
                point.execute(params![id, number as i64, latency, energy])?;
            }
        }
        summarize(&transaction)
    };
    write().user(failed)?;
    transaction.commit().user(failed)
}

/// Statistics over the cells of each point.
fn summarize(db: &rusqlite::Connection) -> rusqlite::Result<()> {
    db.execute_batch("DELETE FROM replay_statistic")?;
    let width = 5 + LEVERS.len();
    let sql = format!(
        "SELECT r.name, c.experiment, c.point, r.device, r.governor, {}, m.name, m.value
         FROM replay_metric m JOIN replay r ON r.id = m.replay JOIN cell c ON c.id = r.cell ORDER BY r.cell, r.id",
        LEVERS.map(|l| format!("CAST(r.{} AS TEXT)", l.name)).join(", ")
    );
    let mut values: BTreeMap<Vec<String>, Vec<f64>> = BTreeMap::new();
    let mut query = db.prepare(&sql)?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        let key = (0..=width).map(|n| row.get(n)).collect::<rusqlite::Result<Vec<String>>>()?;
        values.entry(key).or_default().push(row.get(width + 1)?);
    }
    let insert = format!("INSERT INTO replay_statistic VALUES ({})", vec!["?"; width + 6].join(", "));
    for (key, values) in values {
        // Resampling values that are all the same tells nothing, and most residencies are.
        let resampled = if values.windows(2).all(|w| w[0] == w[1]) { &values[..1] } else { &values[..] };
        let Some(s) = statistic(resampled) else { continue };
        let mut row: Vec<Value> = key.into_iter().map(Value::from).collect();
        row.push((values.len() as i64).into());
        row.extend([s.median, s.mean, s.low, s.high].map(Value::from));
        db.prepare_cached(&insert)?.execute(params_from_iter(row))?;
    }
    Ok(())
}
