//! The report's tables of results, by what their workloads are on, and of volumes.

use crate::results::store::Store;
use crate::specification::factor::{Point as Factors, workload_of};
use crate::specification::points::shown;
use crate::specification::points::varying;
use crate::views::model::Table;
use crate::views::rows::{Found, Row, SpreadColumn, TracingCost, by_point};
use pocketstone_core::Result;
use pocketstone_core::origin::Origin;
use pocketstone_core::units::format_bytes;
use pocketstone_core::words::Word;
use pocketstone_workload::ReadSpec;
use pocketstone_workload::definition::Defined;
use pocketstone_workload::table::Name;

/// A table of results: the columns that its workloads have something in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Results {
    /// Reads of one file: times, and flash operations.
    Reads,
    /// Operations on files: latencies.
    Files,
    /// Commands: one call each.
    Commands,
    /// Operations on databases.
    Databases,
}

impl Results {
    const ALL: [Results; 4] = [Results::Reads, Results::Files, Results::Commands, Results::Databases];

    /// The one that has a workload's points. Results may have workloads of other versions.
    fn of(workload: &str) -> Results {
        match Name::of_word(workload) {
            Some(Name::OnFiles(_)) if workload == ReadSpec::NAME => Results::Reads,
            Some(Name::OnFiles(_)) | None => Results::Files,
            Some(Name::Command) => Results::Commands,
            Some(Name::Database(_)) => Results::Databases,
        }
    }

    /// Its word, where an experiment has several.
    fn word(self) -> &'static str {
        match self {
            Results::Reads => "reads",
            Results::Files => "files",
            Results::Commands => "commands",
            Results::Databases => "databases",
        }
    }

    fn table(self, store: &Store, experiment: &str) -> Result<Option<Table>> {
        match self {
            Results::Reads => reads_table(store, experiment),
            Results::Files => latencies_table(store, experiment),
            Results::Commands => commands_table(store, experiment),
            Results::Databases => databases_table(store, experiment),
        }
    }

    /// As [`by_point`], of the points that it has.
    fn by_point(self, store: &Store, experiment: &str, metrics: &[&'static str]) -> Result<(Vec<Found>, Origin)> {
        let (mut found, origin) = by_point(store, "statistic", experiment, metrics)?;
        found.retain(|(point, _)| Results::of(workload_of(point)) == self);
        Ok((found, origin))
    }
}

/// The tables of an experiment's results: one, or, of different kinds of workloads, one for each; none of commands
/// where a table of the study shows what they took (`commands_shown`).
pub(crate) fn results_tables(store: &Store, experiment: &str, commands_shown: bool) -> Result<Vec<Table>> {
    let sql = "SELECT DISTINCT point ->> '$.workload' FROM statistic WHERE experiment = ?1";
    let workloads: Vec<Option<String>> = store.rows(sql, [experiment], |r| r.get(0))?;
    let usual = workload_of(&Factors::default()).to_owned();
    let has = |results: &Results| {
        workloads.iter().any(|workload| Results::of(workload.as_deref().unwrap_or(&usual)) == *results)
    };
    let mut tables = Vec::new();
    let shown = |results: &Results| *results != Results::Commands || !commands_shown;
    for results in Results::ALL.into_iter().filter(has).filter(shown) {
        tables.extend(results.table(store, experiment)?.map(|table| (results, table)));
    }
    if tables.len() > 1 {
        for (results, table) in &mut tables {
            table.id = format!("{}-{}", results.word(), table.id);
            table.title = format!("{} ({})", table.title, results.word());
        }
    }
    Ok(tables.into_iter().map(|(_, table)| table).collect())
}

/// The factors in which a table's points differ, and the columns of these.
fn factor_columns(table: &[Found]) -> (Vec<&'static str>, Vec<String>) {
    let names = varying(&table.iter().map(|(point, _)| point).collect::<Vec<&Factors>>());
    let columns = names.iter().map(|name| name.replace('_', " ")).collect();
    (names, columns)
}

/// What the runs of an experiment on databases took.
fn databases_table(store: &Store, experiment: &str) -> Result<Option<Table>> {
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
    let (table, origin) = Results::Databases.by_point(store, experiment, &shown_metrics.map(|(metric, _)| metric))?;
    // A metric that no point has, such as flash operations where there is no flash, is no column.
    let there: Vec<(&str, &str)> =
        shown_metrics.into_iter().filter(|(m, _)| table.iter().any(|(_, found)| found.contains_key(m))).collect();
    if there.is_empty() {
        return Ok(None);
    }
    let (names, mut columns) = factor_columns(&table);
    columns.push("seeds".into());
    columns.extend(there.iter().map(|(_, label)| (*label).to_owned()));
    let tracing = TracingCost::of(store, 1)?;
    let rows = table.iter().map(|(point, found)| {
        let value = |metric: &str, row: &Row| match metric {
            "tracing_cost" => tracing.text(row, found.get("mean_ns")),
            _ => row.text(),
        };
        let mut cells: Vec<String> = names.iter().map(|n| shown(point, n)).collect();
        cells.push(found.values().map(|r| r.n).max().unwrap_or(0).to_string());
        let cell = |metric: &str| found.get(metric).map_or_else(|| "unavailable".into(), |r| value(metric, r));
        cells.extend(there.iter().map(|(metric, _)| cell(metric)));
        cells
    });
    Ok(Some(Table {
        origin,
        id: format!("results-{experiment}"),
        title: format!("Results: {experiment}"),
        caption: origin.caption(&format!(
            "Medians over the repetitions. Counts are from traced twins, everything else from untraced runs. Start-up \
                is from the start of the process to the first result, without loading the workload; the cost of \
                tracing is the extra time of the twin's operations. Time on core counts from the process's start \
                signal: for a very short run it may exceed the run itself.{}",
            tracing.caption()
        )),
        columns,
        rows: rows.collect(),
    }))
}

/// What reads of one file took.
fn reads_table(store: &Store, experiment: &str) -> Result<Option<Table>> {
    let metrics = ["total_ns", "mean_ns", "page_senses", "page_reads", "tracing_cost"];
    let tracing = TracingCost::of(store, 2)?;
    let (table, origin) = Results::Reads.by_point(store, experiment, &metrics)?;
    if table.is_empty() {
        return Ok(None);
    }
    let (names, mut columns) = factor_columns(&table);
    let spread = SpreadColumn::of(table.iter().map(|(_, found)| found.get("total_ns")));
    columns.extend(
        ["seeds", "total time", &spread.head(), "mean latency", "page senses", "page reads", "cost of tracing"]
            .map(str::to_owned),
    );
    let rows = table.iter().map(|(point, by_metric)| {
        let value = |metric: &str| by_metric.get(metric).map_or("unavailable".to_owned(), Row::text);
        let mut cells: Vec<String> = names.iter().map(|n| shown(point, n)).collect();
        let total = by_metric.get("total_ns");
        cells.push(total.map_or("0".into(), |r| r.n.to_string()));
        cells.push(value("total_ns"));
        cells.push(total.map_or("unavailable".into(), |r| spread.cell(r)));
        cells.extend(["mean_ns", "page_senses", "page_reads"].map(value));
        let cost = by_metric.get("tracing_cost");
        cells.push(cost.map_or("unavailable".into(), |cost| tracing.text(cost, total)));
        cells
    });
    Ok(Some(Table {
        origin,
        id: format!("results-{experiment}"),
        title: format!("Results: {experiment}"),
        caption: origin.caption(&format!(
            "Medians over the seeds. Latencies are from untraced runs, counts from their traced twins; the cost of \
                tracing is the extra time of the twin's calls.{}",
            tracing.caption()
        )),
        columns,
        rows: rows.collect(),
    }))
}

/// The latencies of an experiment's points.
fn latencies_table(store: &Store, experiment: &str) -> Result<Option<Table>> {
    let metrics = ["median_ns", "mean_ns", "p99_ns", "max_ns", "total_ns"];
    let (table, origin) = Results::Files.by_point(store, experiment, &metrics)?;
    if table.is_empty() {
        return Ok(None);
    }
    let (names, mut columns) = factor_columns(&table);
    let spread = SpreadColumn::of(table.iter().map(|(_, found)| found.get("median_ns")));
    let measured = ["seeds", "median latency", &spread.head(), "mean", "99th percentile", "longest", "total time"];
    columns.extend(measured.map(str::to_owned));
    let rows = table.iter().map(|(point, by_metric)| {
        let missing = || "unavailable".to_owned();
        let value = |metric: &str| by_metric.get(metric).map_or_else(missing, Row::text);
        let median = by_metric.get("median_ns");
        let mut cells: Vec<String> = names.iter().map(|n| shown(point, n)).collect();
        cells.push(median.map_or_else(|| "0".into(), |r| r.n.to_string()));
        cells.push(value("median_ns"));
        cells.push(median.map_or_else(missing, |r| spread.cell(r)));
        cells.extend(metrics[1..].iter().map(|metric| value(metric)));
        cells
    });
    Ok(Some(Table {
        origin,
        id: format!("results-{experiment}"),
        title: format!("Results: {experiment}"),
        caption: origin.caption(&format!(
            "Median, mean and so on are computed per repetition; shown are their medians over the repetitions{}. The \
                spread is that of the median latency.",
            if names.contains(&"file_system") { ", which alternate between the file systems" } else { "" }
        )),
        columns,
        rows: rows.collect(),
    }))
}

/// What the commands of an experiment took.
fn commands_table(store: &Store, experiment: &str) -> Result<Option<Table>> {
    let more_metrics = [
        ("on_core_ns", "on core"),
        ("io_ns", "in I/O calls"),
        ("reads", "reads"),
        ("writes", "writes"),
        ("syncs", "syncs"),
        ("page_senses", "page senses"),
    ];
    let metrics: Vec<&'static str> = std::iter::once("total_ns").chain(more_metrics.map(|(name, _)| name)).collect();
    let (table, origin) = Results::Commands.by_point(store, experiment, &metrics)?;
    // A metric that no point has is no column.
    let has = |metric: &str| table.iter().any(|(_, found)| found.contains_key(metric));
    let there: Vec<_> = more_metrics.into_iter().filter(|(metric, _)| has(metric)).collect();
    if table.is_empty() {
        return Ok(None);
    }
    let (names, mut columns) = factor_columns(&table);
    let spread = SpreadColumn::of(table.iter().map(|(_, found)| found.get("total_ns")));
    columns.extend(["seeds", "total time", &spread.head()].map(str::to_owned));
    columns.extend(there.iter().map(|(_, label)| (*label).to_owned()));
    let rows = table.iter().map(|(point, by_metric)| {
        let missing = || "unavailable".to_owned();
        let value = |metric: &str| by_metric.get(metric).map_or_else(missing, Row::text);
        let total = by_metric.get("total_ns");
        let mut cells: Vec<String> = names.iter().map(|n| shown(point, n)).collect();
        cells.push(total.map_or_else(|| "0".into(), |r| r.n.to_string()));
        cells.push(value("total_ns"));
        cells.push(total.map_or_else(missing, |r| spread.cell(r)));
        cells.extend(there.iter().map(|(metric, _)| value(metric)));
        cells
    });
    Ok(Some(Table {
        origin,
        id: format!("results-{experiment}"),
        title: format!("Results: {experiment}"),
        caption: origin.caption(
            "Medians over the seeds. Times are those of untraced runs; time in calls that read, write or sync, and \
                counts, are those of traced twins, with all processes that the command started.",
        ),
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
    // What is not on a tmpfs has no huge pages of one.
    let text = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    let row =
        |r: &rusqlite::Row<'_>| Ok(vec![r.get(0)?, size(r.get(1)?), text(r.get(2)?), size(r.get(3)?), text(r.get(4)?)]);
    let (rows, origin) = store.with_origin(|store| store.rows(&sql, [], row))?;
    Ok((!rows.is_empty()).then(|| Table {
        origin,
        id: "volumes".into(),
        title: "File systems in memory".into(),
        caption: origin.caption(
            "Each was created for one cell, on its own tmpfs. SCMFS and ext4 use a file there, fully allocated \
                before the first request; SCMFS's is fully mapped. ext4 uses its file through a loop device.",
        ),
        columns: ["file system", "size", "tmpfs huge pages", "mapped with huge pages", "caches"]
            .map(str::to_owned)
            .to_vec(),
        rows,
    }))
}
