//! Figures and tables of a study, from the results.

use crate::charts::{caption, is_modelled};
use crate::factor::{self, Kind};
use crate::model::*;
use crate::report_model::rows;
use crate::store::Store;
use crate::study::{FigureSpec, Show, Study, TableSpec};
use crate::summarize::shown;
use pocketstone_core::{Error, Result};
use std::collections::BTreeMap;

fn scale_of(metric: &str, show: Show) -> Scale {
    match show {
        Show::Improvement => Scale::Percent,
        Show::Value | Show::Runs if metric.ends_with("_ns") => Scale::Duration,
        Show::Value | Show::Runs if metric == "tracing_cost" => Scale::Percent,
        Show::Value | Show::Runs => Scale::Linear,
    }
}

/// A metric's name for people.
fn metric_label(metric: &str) -> String {
    let name = match metric {
        "total_ns" => "total time in read()",
        "mean_ns" => "mean latency of read()",
        "median_ns" => "median latency of read()",
        "p99_ns" => "99th percentile of read() latency",
        "max_ns" => "longest read()",
        "page_senses" => "flash page senses",
        "page_reads" => "flash page reads (with a page buffer)",
        "tracing_cost" => "cost of tracing",
        "column_changes" => "column changes",
        "response_mean_ns" => "mean time since the intended start",
        "response_p99_ns" => "99th percentile of the time since the intended start",
        "late_p99_ns" => "99th percentile of how late operations start",
        "run_ns" => "time of the run",
        "operations_per_s" => "operations per second",
        "startup_ns" => "process start to first result",
        "on_core_ns" => "on core",
        "off_core_ns" => "off core",
        "kernel_ns" => "on core, in the kernel",
        "process_ns" => "time on core of the whole process",
        "net_process_ns" => "time on core of the process, less the floor",
        "energy_uj" => "energy by the machine's own meter in uJ",
        "active_energy_uj" => "energy less that at rest in uJ",
        "net_energy_uj" => "energy less that at rest and the floor in uJ",
        "idle_mw" => "power at rest in mW",
        "bench_energy_uj" => "energy by the bench meter in uJ",
        "bench_active_energy_uj" => "energy by the bench meter, less that at rest, in uJ",
        "bench_net_energy_uj" => "energy by the bench meter, less that at rest and the floor, in uJ",
        "bench_idle_mw" => "power at rest by the bench meter in mW",
        "io_ns" => "blocked in read, write and sync",
        "rest_ns" => "the rest",
        "read_25_bytes_per_s" => "throughput of read() until 25% of a file is read, in bytes per second",
        "read_50_bytes_per_s" => "throughput of read() until 50% of a file is read, in bytes per second",
        "read_100_bytes_per_s" => "throughput of read() until a file is read, in bytes per second",
        "transactions_per_s" => "transactions per second",
        "prefetch_ns" => "time of the prefetching call",
        "prefetched_pages" => "pages in the page cache after the prefetching call",
        "cache_misses" => "page-cache misses",
        "read_bytes" => "bytes read",
        "written_bytes" => "bytes written",
        "modelled_energy_mj" => "modelled energy above idle (mJ)",
        "modelled_cpu_mj" => "modelled energy of the processor above idle (mJ)",
        "modelled_memory_mj" => "modelled energy of memory and flash above idle (mJ)",
        "modelled_power_mw" => "modelled power above idle (mW)",
        other => other,
    };
    name.to_owned()
}

/// A factor's value in words; `value` is as [`shown`] has it.
pub(crate) fn phrase(factor: &str, value: &str) -> String {
    match (factor, value) {
        ("read_ahead_bytes", "0 B") => "read-ahead off".to_owned(),
        ("read_ahead_bytes", _) => format!("read-ahead {value}"),
        ("request_bytes", _) => format!("{value} requests"),
        ("bulk_read", "true") => "bulk_read".to_owned(),
        ("bulk_read", _) => "no bulk_read".to_owned(),
        ("compression", _) => format!("compression {value}"),
        _ => value.to_owned(),
    }
}

/// A factor's values in an experiment that are words, in the order in which the study has them.
fn words_of(study: &Study, experiment: &str, factor: &str) -> Vec<String> {
    let found = study.experiments.iter().find(|e| e.name == experiment).and_then(|e| e.factors.get(factor));
    found.into_iter().flatten().filter_map(|v| v.as_str().map(str::to_owned)).collect()
}

/// A figure of the study, from the results.
pub(crate) fn figure(store: &Store, study: &Study, spec: &FigureSpec) -> Result<Figure> {
    let placed =
        |e: Error| Error::user(format!("{}.toml: figure `{}` does not work", study.name, spec.name)).because(e);
    let metrics: Vec<&String> = [&spec.metric].into_iter().chain(&spec.stack).map(|m| m.get_ref()).collect();
    let (names, mut series) = match spec.show {
        Show::Runs => (Vec::new(), runs(store, spec, &metrics).map_err(placed)?),
        _ => of_factor(store, study, spec, &metrics).map_err(placed)?,
    };
    series.extend(spec.paper.iter().map(|p| Series {
        name: p.name.clone(),
        source: Source::Paper,
        points: p.points.iter().map(|[x, y]| Point { x: *x, y: *y, low: None, high: None }).collect(),
        curve: false,
    }));
    let x = match spec.show {
        Show::Runs => Axis { label: "run".into(), scale: Scale::Linear },
        _ => {
            let factor = factor::named(spec.x.get_ref())?;
            let scale = match factor.kind {
                Kind::Nanoseconds => Scale::Duration,
                Kind::Bytes | Kind::BytesOrDefault => Scale::Bytes,
                Kind::Count | Kind::CountOrDefault => Scale::Log2,
                _ => Scale::Linear,
            };
            // What stands below bars says what they are; a long description would not fit.
            let label = if names.is_empty() { factor.about.to_owned() } else { factor.name.replace('_', " ") };
            Axis { label, scale }
        }
    };
    let metric = label(study, spec, metrics[0]);
    let y_label = match (spec.show, spec.stack.is_empty()) {
        (Show::Improvement, _) => format!("saved of {metric}"),
        (_, true) => metric,
        (_, false) => "time".to_owned(),
    };
    Ok(Figure {
        id: spec.name.clone(),
        title: spec.title.clone(),
        caption: caption(&spec.caption, metrics.iter().any(|m| is_modelled(m))),
        x,
        y: Axis { label: y_label, scale: scale_of(metrics[0], spec.show) },
        names,
        series,
        stacked: !spec.stack.is_empty(),
        ..Figure::default()
    })
}

/// A metric's name in a figure: what it is a latency of depends on the workload.
fn label(study: &Study, spec: &FigureSpec, metric: &str) -> String {
    let experiment = study.experiments.iter().find(|e| e.name == *spec.experiment.get_ref());
    let workload = experiment.and_then(|e| e.factors.get("workload")).and_then(|w| w.first()).and_then(|w| w.as_str());
    let calls = match workload {
        None | Some("read") => "read()",
        Some("files" | "postmark" | "app-start") => "a request",
        Some(_) => "an operation",
    };
    metric_label(metric).replace("in read()", &format!("in {calls}")).replace("read()", calls)
}

/// Names of the horizontal axis and the series, where it is a factor.
fn of_factor(
    store: &Store,
    study: &Study,
    spec: &FigureSpec,
    metrics: &[&String],
) -> Result<(Vec<String>, Vec<Series>)> {
    let table = if spec.show == Show::Improvement { "comparison" } else { "statistic" };
    let experiment = spec.experiment.get_ref();
    let x_factor = factor::named(spec.x.get_ref())?;
    let mut found = Vec::new();
    for metric in metrics {
        found.push(rows(store, table, experiment, metric, spec.only.as_deref())?);
    }
    // Words stand in the order in which the study has them.
    let there = |name: &str| found.iter().flatten().any(|r| r.point.get(x_factor.name).is_some_and(|v| v == name));
    let names: Vec<String> = match x_factor.kind {
        Kind::Word(_) | Kind::Text | Kind::Delay => {
            words_of(study, experiment, x_factor.name).into_iter().filter(|name| there(name)).collect()
        }
        _ => Vec::new(),
    };
    let bars = !names.is_empty();
    // By metric, and by the values of the factors that part the lines, each with its place among the words.
    type Name = (usize, Vec<(usize, String)>);
    let mut lines: BTreeMap<Name, Vec<Point>> = BTreeMap::new();
    for (number, row) in found.into_iter().enumerate().flat_map(|(n, rows)| rows.into_iter().map(move |r| (n, r))) {
        let value = row.point.get(x_factor.name);
        let named = value.and_then(|v| names.iter().position(|name| v == name)).map(|n| n as f64);
        let Some(x) = named.or_else(|| value?.as_f64()) else { continue };
        let place = |factor: &str, value: &str| {
            let words = if bars { words_of(study, experiment, factor) } else { Vec::new() };
            words.iter().position(|word| word == value).unwrap_or(0)
        };
        let named = |f: &str| (place(f, &shown(&row.point, f)), shown(&row.point, f));
        let name: Vec<(usize, String)> = spec.series.iter().map(|f| named(f.get_ref())).collect();
        let interval = row.n > 1;
        let (low, high) = (interval.then_some(row.low), interval.then_some(row.high));
        lines.entry((number, name)).or_default().push(Point { x, y: row.median, low, high });
    }
    let series = lines.into_iter().map(|((number, name), mut points)| {
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let words: Vec<String> =
            name.iter().zip(&spec.series).map(|((_, value), factor)| phrase(factor.get_ref(), value)).collect();
        let name = if words.is_empty() { label(study, spec, metrics[number]) } else { words.join(", ") };
        Series { name, points, ..Series::default() }
    });
    Ok((names, series.collect()))
}

/// The series of each repetition's own metrics: the first is number 1.
fn runs(store: &Store, spec: &FigureSpec, metrics: &[&String]) -> Result<Vec<Series>> {
    let condition = spec.only.as_ref().map_or(String::new(), |only| format!("AND ({only})"));
    let sql = format!(
        "SELECT c.repetition + 1, m.value FROM cells c JOIN metric m ON m.cell = c.id
         WHERE c.experiment = ?1 AND m.name = ?2 {condition} ORDER BY 1"
    );
    let mut series = Vec::new();
    for metric in metrics {
        let points = store.rows(&sql, [spec.experiment.get_ref(), *metric], |r| {
            Ok(Point { x: r.get::<_, i64>(0)? as f64, y: r.get(1)?, low: None, high: None })
        })?;
        if !points.is_empty() {
            series.push(Series { name: metric_label(metric), points, ..Series::default() });
        }
    }
    Ok(series)
}

/// A table of the study; none where its query gives no row.
pub(crate) fn study_table(store: &Store, study: &Study, spec: &TableSpec) -> Result<Option<Table>> {
    let query = spec.query.get_ref();
    let (columns, rows) = store.table(query).map_err(|e| {
        let place = study.place(&spec.query);
        Error::user(format!("{place}: the query of table `{}` does not work: {query}", spec.name)).because(e)
    })?;
    Ok((!rows.is_empty()).then(|| Table {
        id: spec.name.clone(),
        title: spec.title.clone(),
        caption: caption(&spec.caption, is_modelled(query)),
        columns,
        rows,
    }))
}
