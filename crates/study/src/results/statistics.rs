//! Statistics over seeds, and comparisons.

use crate::results::stats::{Statistic, statistic};
use crate::specification::factor::{self, Point, Value};
use crate::specification::metric;
use crate::specification::study::Study;
use pocketstone_core::median::median;
use rusqlite::{Connection, params};
use std::collections::BTreeMap;

/// Values of a point's metrics by seed; the point is JSON text.
type Values = BTreeMap<(String, String, String), BTreeMap<i64, f64>>;

/// Computes the statistics of all metrics that the results have, and of what a study compares, into two tables that are
/// like `statistic` and `comparison`.
///
/// # Errors
/// The `rusqlite::Error` of what cannot be read or written of the results.
pub(super) fn compute(
    db: &Connection,
    study: Option<&Study>,
    statistics: &str,
    comparisons: &str,
) -> rusqlite::Result<()> {
    let sql = "SELECT c.experiment, c.point, m.name, c.seed, m.value FROM main.metric m JOIN cell c ON c.id = m.cell";
    let mut values = Values::new();
    let mut query = db.prepare(sql)?;
    let mut rows = query.query([])?;
    while let Some(row) = rows.next()? {
        values.entry((row.get(0)?, row.get(1)?, row.get(2)?)).or_default().insert(row.get(3)?, row.get(4)?);
    }
    add_tracing_cost(&mut values);
    subtract_floor(&mut values);
    db.execute_batch(&format!("DELETE FROM {statistics}; DELETE FROM {comparisons};"))?;
    for ((experiment, point, metric), by_seed) in &values {
        let all: Vec<f64> = by_seed.values().copied().collect();
        put(db, statistics, experiment, point, metric, statistic(&all))?;
        let Some((other, rest)) = study.and_then(|study| baseline(study, experiment, point)) else { continue };
        let Some(baseline) = values.get(&(experiment.clone(), other, metric.clone())) else { continue };
        let Some(better) = metric::named(metric).map(|metric| metric.better) else { continue };
        let improvement = |(seed, value): (&i64, &f64)| better.improvement(*value, *baseline.get(seed)?);
        let paired: Vec<f64> = by_seed.iter().filter_map(improvement).collect();
        put(db, comparisons, experiment, &rest, metric, statistic(&paired))?;
    }
    Ok(())
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
                like.iter().map(|f| point.get(*f).map(Value::to_string).unwrap_or_default()).collect();
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
            let Some(floor) = floors.get_mut(&values).and_then(median) else { continue };
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
    db.prepare_cached(&format!("INSERT INTO {table} VALUES (?1,?2,?3,?4,?5,?6,?7,?8,?9)"))?
        .execute(params![
            experiment,
            point,
            metric,
            s.n as i64,
            s.median,
            s.mean,
            s.spread.low(),
            s.spread.high(),
            s.spread.coverage()
        ])
        .map(|_| ())
}

/// For a candidate's point: the baseline's point, and the point without the factor compared.
fn baseline(study: &Study, experiment: &str, point: &str) -> Option<(String, String)> {
    let compare = study.experiments.iter().find(|e| e.name == experiment)?.compare.as_ref()?;
    let factor = factor::named(compare.factor).ok()?;
    let mut point: Point = serde_json::from_str(point).ok()?;
    if factor::value_of(&point, factor).as_ref() != Some(&compare.candidate) {
        return None;
    }
    point.remove(compare.factor);
    let rest = serde_json::to_string(&point).ok()?;
    // The baseline may be what the factor is where a point says nothing of it.
    if factor::value_of(&point, factor).as_ref() == Some(&compare.baseline) {
        return Some((rest.clone(), rest));
    }
    point.insert(compare.factor.to_owned(), compare.baseline.clone());
    Some((serde_json::to_string(&point).ok()?, rest))
}

#[cfg(test)]
mod tests {
    use crate::results::store::Store;
    use crate::specification::study::Study;

    /// The improvement that results have whose points are without the factor compared where it is at its default.
    fn improvement(baseline: bool, candidate: bool) -> Vec<(String, f64)> {
        let text = format!(
            "title='t'\nboard='host'\n[[experiment]]\nname='e'\n[experiment.factors]\nfile_system='scmfs'\n\
             file_bytes='1MiB'\nrequests=8\ncollector=[false, true]\n[experiment.compare]\nfactor='collector'\n\
             baseline={baseline}\ncandidate={candidate}\n"
        );
        let study = Study::parse("s.toml", &text).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let mut store = Store::create(folder.path(), []).unwrap();
        let points = [("", 10.0), (r#""collector":true,"#, 4.0)];
        for (id, (collector, value)) in (1..).zip(points) {
            let point = format!(r#"{{{collector}"file_system":"scmfs","workload":"read"}}"#);
            let sql = "INSERT INTO cell VALUES (?1, 'e', ?2, 0, 7, 0, 'done', '{}', NULL, NULL, 1, NULL, NULL, NULL)";
            store.db.execute(sql, (id, point)).unwrap();
            store.db.execute("INSERT INTO main.metric VALUES (?1, 'total_ns', ?2)", (id, value)).unwrap();
        }
        store.summarize(&study).unwrap();
        store.rows("SELECT point, median FROM comparison", [], |r| Ok((r.get(0)?, r.get(1)?))).unwrap()
    }

    #[test]
    fn a_factor_that_points_omit_at_its_default_is_compared() {
        let rest = r#"{"file_system":"scmfs","workload":"read"}"#.to_owned();
        assert_eq!(improvement(false, true), [(rest.clone(), 0.6)]);
        assert_eq!(improvement(true, false), [(rest, -1.5)]);
    }
}
