//! Replays in the results: their rows, statistics and views.

use super::recorded::ActivitySource;
use crate::results::replay_statistics;
use crate::results::store::Store;
use crate::specification::setting::{Lever, Setting, lever_columns};
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use rusqlite::{params, params_from_iter, types::Value};
use std::collections::BTreeSet;

/// A replay that is done.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Row {
    pub name: String,
    pub cell: Option<i64>,
    pub recorded: Option<String>,
    pub device: String,
    pub governor: String,
    pub setting: Setting,
    pub cycles_scale: f64,
    pub seed: u64,
    pub source: ActivitySource,
    pub profile: String,
    pub input: String,
    pub digest: String,
    pub metrics: Vec<(String, f64)>,
    /// Mean latency and least energy.
    pub front: Vec<(f64, f64)>,
}

/// The inputs of the replays that the store has.
pub(crate) fn inputs(store: &Store) -> Result<BTreeSet<String>> {
    Ok(store.rows("SELECT input FROM replay", [], |r| r.get(0))?.into_iter().collect())
}

/// The inputs of the replays of a log, or of those in a folder, that the store has.
pub(crate) fn recorded_inputs(store: &Store, name: &str, path: &str) -> Result<Vec<String>> {
    let sql = "SELECT input FROM replay WHERE name = ?1
               AND (recorded ->> '$.log' = ?2 OR substr(recorded ->> '$.log', 1, length(?2) + 1) = ?2 || '/')";
    store.rows(sql, [name, path.trim_end_matches('/')], |r| r.get(0))
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
        let blanks = vec!["?"; 11 + Lever::ALL.len()].join(", ");
        let insert = format!(
            "INSERT INTO replay (name, cell, recorded, device, governor, {}, cycles_scale, seed, source, profile, input,
             digest) VALUES ({blanks})",
            lever_columns("")
        );
        for row in rows {
            let mut values: Vec<Value> = vec![row.name.clone().into(), row.cell.into(), row.recorded.clone().into()];
            values.extend([&row.device, &row.governor].map(|t| Value::from(t.clone())));
            values.extend(row.setting.0.iter().map(|v| Value::from(v.clone())));
            values.extend([row.cycles_scale.into(), (row.seed as i64).into(), row.source.name().to_owned().into()]);
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
        replay_statistics::compute(&transaction, "replay_statistic")
    };
    write().user(failed)?;
    transaction.commit().user(failed)
}
