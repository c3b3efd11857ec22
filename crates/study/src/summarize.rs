//! Statistics over seeds, comparisons, and claims.

use crate::factor::Point;
use crate::model::{ClaimResult, Verdict};
use crate::stats::{Statistic, statistic};
use crate::store::Store;
use crate::study::{ClaimSpec, Study, Unit};
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_core::units::format_ns;
use rusqlite::types::ValueRef;
use rusqlite::{Connection, params};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// Values of a point's metrics by seed; the point is JSON text.
type Values = BTreeMap<(String, String, String), BTreeMap<i64, f64>>;

/// Computes the tables `statistic` and `comparison` from the cells that are done.
///
/// # Errors
/// When the results cannot be read or written.
pub fn summarize(store: &mut Store, study: &Study) -> Result<()> {
    let sql = "SELECT c.experiment, c.point, m.name, c.seed, m.value FROM metric m JOIN cell c ON c.id = m.cell";
    let mut values = Values::new();
    for (experiment, point, metric, seed, value) in store.rows(sql, [], |r| {
        Ok((r.get::<_, String>(0)?, r.get::<_, String>(1)?, r.get::<_, String>(2)?, r.get(3)?, r.get(4)?))
    })? {
        values.entry((experiment, point, metric)).or_default().insert(seed, value);
    }
    add_tracing_cost(&mut values);
    subtract_floor(&mut values);
    let folder = store.folder().display().to_string();
    let transaction = store.db.transaction().user(|| format!("cannot write the statistics of {folder}"))?;
    let write = || -> rusqlite::Result<()> {
        transaction.execute_batch("DELETE FROM statistic; DELETE FROM comparison;")?;
        for ((experiment, point, metric), by_seed) in &values {
            let all: Vec<f64> = by_seed.values().copied().collect();
            put(&transaction, "statistic", experiment, point, metric, statistic(&all))?;
            let Some((other, rest)) = baseline(study, experiment, point) else { continue };
            let Some(baseline) = values.get(&(experiment.clone(), other, metric.clone())) else { continue };
            let paired: Vec<f64> = by_seed
                .iter()
                .filter_map(|(seed, value)| Some(1.0 - value / baseline.get(seed).filter(|b| **b != 0.0)?))
                .collect();
            put(&transaction, "comparison", experiment, &rest, metric, statistic(&paired))?;
        }
        Ok(())
    };
    write().user(|| format!("cannot write the statistics of {folder}"))?;
    transaction.commit().user(|| format!("cannot write the statistics of {folder}"))
}

/// What tracing cost: how much longer the traced twin took, as a fraction.
fn add_tracing_cost(values: &mut Values) {
    let mut costs = Values::new();
    for ((experiment, point, metric), traced) in values.iter().filter(|((_, _, m), _)| m == "traced_total_ns") {
        let Some(plain) = values.get(&(experiment.clone(), point.clone(), metric.replace("traced_", ""))) else {
            continue;
        };
        let by_seed: BTreeMap<i64, f64> = traced
            .iter()
            .filter_map(|(seed, t)| Some((*seed, t / plain.get(seed).filter(|p| **p > 0.0)? - 1.0)))
            .collect();
        costs.insert((experiment.clone(), point.clone(), "tracing_cost".into()), by_seed);
    }
    values.extend(costs);
}

/// What is measured, what it is less the floor, and the factors in which a floor must be like it.
const NET: [(&str, &str, &[&str]); 3] = [
    ("process_ns", "net_process_ns", &["engine"]),
    ("active_energy_uj", "net_energy_uj", &["engine", "governor", "frequency", "cores", "power"]),
    ("bench_active_energy_uj", "bench_net_energy_uj", &["engine", "governor", "frequency", "cores", "power"]),
];

/// What a process used beyond the floor: beyond what one of the same engine uses that does nothing (the median
/// over its runs). Of energy, in the same conditions.
fn subtract_floor(values: &mut Values) {
    let mut net = Values::new();
    for (measured, less_floor, like) in NET {
        // The values of those factors, and whether it is a floor.
        let kind = |point: &str| {
            let point: Point = serde_json::from_str(point).ok()?;
            point.get("engine")?;
            let values: Vec<String> =
                like.iter().map(|f| point.get(*f).map(Json::to_string).unwrap_or_default()).collect();
            Some((values, point.get("workload")?.as_str()? == "null"))
        };
        let mut floors: BTreeMap<Vec<String>, Vec<f64>> = BTreeMap::new();
        let those = || values.iter().filter(|((_, _, metric), _)| metric == measured);
        for ((_, point, _), by_seed) in those() {
            if let Some((values, true)) = kind(point) {
                floors.entry(values).or_default().extend(by_seed.values());
            }
        }
        for ((experiment, point, _), by_seed) in those() {
            let Some((values, false)) = kind(point) else { continue };
            let Some(floor) = floors.get_mut(&values).map(|all| crate::stats::median(all)) else { continue };
            let less = by_seed.iter().map(|(seed, value)| (*seed, value - floor)).collect();
            net.insert((experiment.clone(), point.clone(), less_floor.into()), less);
        }
    }
    values.extend(net);
}

fn put(
    db: &Connection,
    table: &str,
    experiment: &str,
    point: &str,
    metric: &str,
    s: Option<Statistic>,
) -> rusqlite::Result<()> {
    let Some(s) = s else { return Ok(()) };
    db.prepare_cached(&format!("INSERT INTO {table} VALUES (?1,?2,?3,?4,?5,?6,?7,?8)"))?
        .execute(params![experiment, point, metric, s.n as i64, s.median, s.mean, s.low, s.high])
        .map(|_| ())
}

/// For a candidate's point: the baseline's point, and the point without the factor compared.
fn baseline(study: &Study, experiment: &str, point: &str) -> Option<(String, String)> {
    let compare = study.experiments.iter().find(|e| e.name == experiment)?.compare.as_ref()?;
    let mut point: Point = serde_json::from_str(point).ok()?;
    if point.get(compare.factor) != Some(&compare.candidate) {
        return None;
    }
    point.insert(compare.factor.to_owned(), compare.baseline.clone());
    let other = serde_json::to_string(&point).ok()?;
    point.remove(compare.factor);
    Some((other, serde_json::to_string(&point).ok()?))
}

/// Judges the study's claims.
///
/// # Errors
/// When a claim's query is no SQL; its line is named.
pub fn judge(store: &Store, study: &Study) -> Result<Vec<ClaimResult>> {
    study.claims.iter().map(|claim| judge_one(store, study, claim)).collect()
}

fn judge_one(store: &Store, study: &Study, claim: &ClaimSpec) -> Result<ClaimResult> {
    let query = claim.value.get_ref();
    let value = number(&store.db, query).user(|| {
        format!("{}: the query of claim `{}` does not work: {query}", study.place(&claim.value), claim.name)
    })?;
    let write = |v: f64| match claim.unit {
        Unit::Percent => format!("{:.1} %", 100.0 * v),
        Unit::Nanoseconds => format_ns(v),
        Unit::Number if v == v.trunc() => format!("{v:.0}"),
        Unit::Number => format!("{v:.3}"),
    };
    let bound = match (claim.at_least, claim.at_most) {
        (Some(low), Some(high)) => format!("between {} and {}", write(low), write(high)),
        (Some(low), None) => format!("at least {}", write(low)),
        (None, Some(high)) => format!("at most {}", write(high)),
        (None, None) => String::new(),
    };
    let (verdict, detail) = match value {
        None => (Verdict::Unavailable, "the results that it needs are not in this run".to_owned()),
        Some(v) => {
            let holds = claim.at_least.is_none_or(|low| v >= low) && claim.at_most.is_none_or(|high| v <= high);
            let verdict = if holds { Verdict::Holds } else { Verdict::Fails };
            (verdict, format!("{} is {}{bound}", write(v), if holds { "" } else { "not " }))
        }
    };
    Ok(ClaimResult {
        name: claim.name.clone(),
        text: claim.text.clone(),
        verdict,
        detail,
        paper: claim.paper.clone(),
        deviation: claim
            .paper
            .as_ref()
            .filter(|_| verdict == Verdict::Fails)
            .map(|_| claim.deviation.clone().unwrap_or_else(|| "Why it is not so here is unexplained.".to_owned())),
        query: query.clone(),
        required: claim.required,
    })
}

/// The single number that a query gives; `None` where it gives NULL or no row.
fn number(db: &Connection, query: &str) -> Result<Option<f64>> {
    let mut statement = db.prepare(query).user(|| "it is no SQL".into())?;
    let mut rows = statement.query([]).user(|| "it cannot run".into())?;
    let Some(row) = rows.next().user(|| "it cannot run".into())? else { return Ok(None) };
    match row.get_ref(0).user(|| "it has no column".into())? {
        ValueRef::Null => Ok(None),
        ValueRef::Integer(n) => Ok(Some(n as f64)),
        ValueRef::Real(x) => Ok(Some(x)),
        ValueRef::Text(_) | ValueRef::Blob(_) => Err(pocketstone_core::Error::user("it gives a text, not a number")),
    }
}

/// Checks that a study's queries are SQL over the results' tables, without any results.
///
/// # Errors
/// The first that is not; its line is named.
pub fn check_queries(study: &Study) -> Result<()> {
    let folder = tempfile::tempdir().user(|| "cannot create a temporary folder".into())?;
    let store = Store::create(folder.path())?;
    judge(&store, study)?;
    for figure in &study.figures {
        crate::figures::figure(&store, study, figure)?;
    }
    crate::charts::check(&store, study)?;
    for table in &study.tables {
        crate::figures::study_table(&store, study, table)?;
    }
    for detail in &study.details {
        crate::report_model::detail_cells(&store, study, detail)?;
    }
    Ok(())
}

/// A factor's value in a row, as text for a legend.
pub(crate) fn shown(point: &Point, factor: &str) -> String {
    let value = point.get(factor).unwrap_or(&Json::Null);
    crate::factor::named(factor).map_or_else(|_| value.to_string(), |f| f.show(value))
}
