//! The reads of measured cells under other rules and settings of read-ahead, on the model of
//! [`pocketstone_replay::read_ahead`]: kept beside what was measured, and ranked for advice. All of it is modelled.

pub mod advise;
mod recorded;

use crate::results::left_out::LeftOut;
use crate::results::store::{Store, StoredCell};
use crate::specification::study::{ReadAheadModelSpec, Study};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_replay::read_ahead::{Advice, Observed, PageCosts, Rules, Setting};
use pocketstone_workload::Workload;
use pocketstone_workload::plan::Plan;
use recorded::Recorded;
use rusqlite::params;
use std::collections::BTreeMap;

/// A cell under rules.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Row {
    cell: i64,
    rules: Rules,
    page_reads: u64,
    prefetched_pages: u64,
    page_senses: Option<f64>,
    total_ns: f64,
    page_saving: f64,
    time_saving: f64,
}

/// Brings the results' models of read-ahead up to date.
///
/// # Errors
/// `ErrorKind::User` for an invalid SQL condition in the study, or if the results cannot be read or written. Cells that
/// the model does not support are skipped and reported with the reason.
pub(crate) fn refresh(store: &mut Store, study: &Study) -> Result<()> {
    let mut tables = Vec::new();
    for spec in &study.read_ahead_models {
        let cells = cells(store, study, spec)?;
        let mut groups: BTreeMap<String, Vec<Recorded>> = BTreeMap::new();
        let mut refused: Option<Error> = None;
        for cell in &cells {
            let plan: Plan = store.json(cell.id, "plan")?;
            if !matches!(plan.workload, Workload::Read(_)) {
                continue;
            }
            let state =
                serde_json::to_string(&plan.steps()).map_err(|e| Error::bug("steps are not valid JSON").because(e))?;
            match Recorded::of(store, cell) {
                Ok(recorded) => groups.entry(state).or_default().push(recorded),
                Err(error) => refused = Some(error),
            }
        }
        if let Some(error) = refused {
            store
                .leave_out(&LeftOut::new(format!("part of the read-ahead model `{}`", spec.name.get_ref()), &error))?;
        }
        let mut rows = Vec::new();
        for group in groups.values() {
            rows.extend(of_group(store, group, &spec.rules)?);
        }
        tables.push((spec.name.get_ref().clone(), rows));
    }
    put(store, &tables)
}

/// The plain cells that a model is of.
fn cells(store: &Store, study: &Study, spec: &ReadAheadModelSpec) -> Result<Vec<StoredCell>> {
    let only = spec.only.as_ref().map_or("1", |only| only.get_ref().as_str());
    let sql = format!("SELECT id FROM cells WHERE experiment = ?1 AND status = 'done' AND NOT traced AND ({only})");
    let found: Vec<i64> =
        store.asked(only, &sql, [spec.experiment.get_ref()], |r| r.get(0)).map_err(|e| match &spec.only {
            Some(only) => study.error_at(only.span(), Error::user("invalid condition on cells").because(e)),
            None => e,
        })?;
    Ok(store.cells()?.into_iter().filter(|c| found.contains(&c.id)).collect())
}

/// The rows of cells that start from one state, so that their files lie at the same places.
fn of_group(store: &Store, group: &[Recorded], rules: &[Rules]) -> Result<Vec<Row>> {
    // Where read-ahead is off, what a call reads is known without any rules.
    let plain: Vec<&Recorded> = group.iter().filter(|r| r.in_force.window_pages() == 0).collect();
    let plain = if plain.is_empty() { group.iter().collect() } else { plain };
    let times: Vec<(i64, Vec<Observed>)> = plain.iter().map(|r| (r.cell, r.times())).collect();
    let senses = plain.iter().map(|r| Ok((r.cell, r.senses(store)?)));
    let senses: Vec<(i64, Vec<Observed>)> = senses.collect::<Result<_>>()?;
    let (all_times, all_senses) = (costs(&times, None), costs(&senses, None));
    let mut rows = Vec::new();
    for recorded in group {
        // What is foretold of a cell is not what was seen in it, unless it is the only one.
        let others = plain.iter().any(|r| r.cell == recorded.cell).then_some(recorded.cell);
        let [time, sense] = [&times, &senses].map(|calls| others.and_then(|_| costs(calls, others)));
        let (time, sense) = (time.as_ref().or(all_times.as_ref()), sense.as_ref().or(all_senses.as_ref()));
        let Some(time) = time else { return Ok(Vec::new()) };
        let off = Setting { mount_pages: 0, advice: Advice::Normal, ..recorded.in_force };
        for rules in rules {
            let [on, off] = [recorded.in_force, off].map(|setting| recorded.work(*rules, setting));
            let [on_ns, off_ns] = [&on, &off].map(|work| time.of(work.total(), &work.pages));
            let saved = |with: f64, without: f64| if with > 0.0 { 1.0 - without / with } else { 0.0 };
            rows.push(Row {
                cell: recorded.cell,
                rules: *rules,
                page_reads: on.total().pages,
                prefetched_pages: on.prefetch.pages,
                page_senses: sense.map(|sense| sense.of(on.total(), &on.pages)),
                total_ns: time.of(on.in_calls(), on.pages_in_calls()),
                page_saving: saved(on.total().pages as f64, off.total().pages as f64),
                time_saving: saved(on_ns, off_ns),
            });
        }
    }
    Ok(rows)
}

/// What reading cost in all cells but one.
fn costs(calls: &[(i64, Vec<Observed>)], but: Option<i64>) -> Option<PageCosts> {
    let calls = calls.iter().filter(|(cell, _)| Some(*cell) != but);
    PageCosts::from_calls(&calls.flat_map(|(_, calls)| calls.iter().copied()).collect::<Vec<_>>())
}

fn put(store: &mut Store, tables: &[(String, Vec<Row>)]) -> Result<()> {
    let folder = store.folder().display().to_string();
    let failed = || format!("cannot write the models of {folder}");
    let transaction = store.db.transaction().user(failed)?;
    transaction.execute("DELETE FROM read_ahead_model", []).user(failed)?;
    for (name, rows) in tables {
        let mut insert = transaction
            .prepare_cached("INSERT INTO read_ahead_model VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9)")
            .user(failed)?;
        for r in rows {
            let (reads, prefetched) = (r.page_reads as i64, r.prefetched_pages as i64);
            let savings = [r.page_saving, r.time_saving];
            let row = params![
                name,
                r.cell,
                r.rules.name(),
                reads,
                prefetched,
                r.page_senses,
                r.total_ns,
                savings[0],
                savings[1]
            ];
            insert.execute(row).user(failed)?;
        }
    }
    transaction.commit().user(failed)
}

#[cfg(test)]
mod tests;
