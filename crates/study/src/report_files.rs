//! The report's tables of `files` workloads and of databases.

use crate::factor::{Point as Factors, on_database};
use crate::model::Table;
use crate::report_model::{Row, rows, sort_key};
use crate::run::varying;
use crate::store::Store;
use crate::study::Experiment;
use crate::summarize::shown;
use pocketstone_core::Result;
use pocketstone_core::units::{format_bytes, format_ns};
use std::collections::BTreeMap;

/// Whether an experiment has a workload on a number of files.
pub(crate) fn on_files(experiment: &Experiment) -> bool {
    let workloads = experiment.factors.get("workload").into_iter().flatten().filter_map(|v| v.as_str());
    workloads.into_iter().any(|workload| workload != "read" && !on_database(workload))
}

/// Whether an experiment has databases.
pub(crate) fn on_databases(experiment: &Experiment) -> bool {
    let mut workloads = experiment.factors.get("workload").into_iter().flatten().filter_map(|v| v.as_str());
    workloads.any(on_database)
}

/// What the runs of an experiment on databases took.
pub(crate) fn databases_table(store: &Store, experiment: &str) -> Result<Option<Table>> {
    let shown_metrics: [(&str, &str); 12] = [
        ("mean_ns", "mean time"),
        ("p99_ns", "99th percentile"),
        ("response_p99_ns", "since intended start"),
        ("run_ns", "run"),
        ("on_core_ns", "on core"),
        ("off_core_ns", "off core"),
        ("startup_ns", "start-up"),
        ("reads", "reads"),
        ("writes", "writes"),
        ("syncs", "syncs"),
        ("page_senses", "page senses"),
        ("tracing_cost", "cost of tracing"),
    ];
    let mut table: BTreeMap<String, (Factors, BTreeMap<&str, Row>)> = BTreeMap::new();
    for (metric, _) in shown_metrics {
        for row in rows(store, "statistic", experiment, metric, None)? {
            let entry = table.entry(sort_key(&row.point)).or_insert_with(|| (row.point.clone(), BTreeMap::new()));
            entry.1.insert(metric, row);
        }
    }
    // A metric that no point has, such as flash operations where there is no flash, is no column.
    let there: Vec<(&str, &str)> =
        shown_metrics.into_iter().filter(|(m, _)| table.values().any(|(_, found)| found.contains_key(m))).collect();
    if there.is_empty() {
        return Ok(None);
    }
    let points: Vec<&Factors> = table.values().map(|(p, _)| p).collect();
    let names = varying(&points);
    let mut columns: Vec<String> = names.iter().map(|n| n.replace('_', " ")).collect();
    columns.push("seeds".into());
    columns.extend(there.iter().map(|(_, label)| (*label).to_owned()));
    let value = |metric: &str, row: &Row| match metric {
        "tracing_cost" => format!("{:+.1} %", 100.0 * row.median),
        _ if metric.ends_with("_ns") => format_ns(row.median),
        _ => format!("{:.0}", row.median),
    };
    let rows = table.values().map(|(point, found)| {
        let mut cells: Vec<String> = names.iter().map(|n| shown(point, n)).collect();
        cells.push(found.values().map(|r| r.n).max().unwrap_or(0).to_string());
        let cell = |metric: &str| found.get(metric).map_or_else(|| "unavailable".into(), |r| value(metric, r));
        cells.extend(there.iter().map(|(metric, _)| cell(metric)));
        cells
    });
    Ok(Some(Table {
        id: format!("results-{experiment}"),
        title: format!("Results: {experiment}"),
        caption: "Medians over the repetitions. Counts are from traced twins, everything else from untraced runs. \
                  Start-up is from the start of the process to the first result, without loading the workload; the \
                  cost of tracing is how much longer the twin's operations took."
            .into(),
        columns,
        rows: rows.collect(),
    }))
}

/// The latencies of an experiment's points.
pub(crate) fn latencies_table(store: &Store, experiment: &str) -> Result<Option<Table>> {
    let metrics = ["median_ns", "mean_ns", "p99_ns", "max_ns", "total_ns"];
    let mut table: BTreeMap<String, (Factors, BTreeMap<&str, Row>)> = BTreeMap::new();
    for metric in metrics {
        for row in rows(store, "statistic", experiment, metric, None)? {
            let entry = table.entry(sort_key(&row.point)).or_insert_with(|| (row.point.clone(), BTreeMap::new()));
            entry.1.insert(metric, row);
        }
    }
    if table.is_empty() {
        return Ok(None);
    }
    let points: Vec<&Factors> = table.values().map(|(p, _)| p).collect();
    let names = varying(&points);
    let mut columns: Vec<String> = names.iter().map(|n| n.replace('_', " ")).collect();
    let measured = ["seeds", "median latency", "90% interval", "mean", "99th percentile", "longest", "total time"];
    columns.extend(measured.map(str::to_owned));
    let rows = table.values().map(|(point, by_metric)| {
        let missing = || "unavailable".to_owned();
        let time = |metric: &str| by_metric.get(metric).map_or_else(missing, |r| format_ns(r.median));
        let median = by_metric.get("median_ns");
        let mut cells: Vec<String> = names.iter().map(|n| shown(point, n)).collect();
        cells.push(median.map_or_else(|| "0".into(), |r| r.n.to_string()));
        cells.push(time("median_ns"));
        cells.push(median.map_or_else(missing, |r| format!("{} to {}", format_ns(r.low), format_ns(r.high))));
        cells.extend(metrics[1..].iter().map(|metric| time(metric)));
        cells
    });
    Ok(Some(Table {
        id: format!("results-{experiment}"),
        title: format!("Results: {experiment}"),
        caption: "Of each repetition its own median, mean and so on; shown are the medians of those over the \
                  repetitions, which alternate between the file systems. The interval is of the median latency."
            .into(),
        columns,
        rows: rows.collect(),
    }))
}

/// What the file systems in memory were made of.
pub(crate) fn volumes_table(store: &Store) -> Result<Option<Table>> {
    let fact = |name: &str| format!("outcome ->> '$.facts.\"volume.{name}\"'");
    let sql = format!(
        "SELECT DISTINCT point ->> '$.file_system', {}, {}, {}, {} FROM cell WHERE status = 'done' AND {} IS NOT NULL
         ORDER BY min(id) OVER (PARTITION BY point ->> '$.file_system')",
        fact("bytes"),
        fact("tmpfs_huge"),
        fact("mapped_huge_bytes"),
        fact("caches"),
        fact("bytes"),
    );
    let size = |text: Option<String>| text.and_then(|t| t.parse().ok()).map_or("-".to_owned(), format_bytes);
    let rows = store
        .rows(&sql, [], |r| Ok(vec![r.get(0)?, size(r.get(1)?), r.get(2)?, size(r.get(3)?), r.get::<_, String>(4)?]))?;
    Ok((!rows.is_empty()).then(|| Table {
        id: "volumes".into(),
        title: "File systems in memory".into(),
        caption: "Each was made for one cell, on a tmpfs of its own. SCMFS and ext4 have a file there with room for \
                  every byte before the first request; all of SCMFS's is mapped. A loop device makes ext4's a disk."
            .into(),
        columns: ["file system", "size", "huge pages of the tmpfs", "mapped by huge pages", "caches"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    }))
}
