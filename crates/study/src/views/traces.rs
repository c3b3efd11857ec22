//! Logs of phones as a report's model: figures and a table over their runs.

use crate::results::left_out::LeftOut;
use crate::results::stats::statistic;
use crate::specification::recordings::Recorded;
use crate::views::model::{Axis, Figure, Model, Point, Scale, Series, Table};
use pocketstone_core::units::format_ns;
use pocketstone_probe::analysis::PhoneSummary;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// A run of a folder's logs, or a log without one.
#[derive(Debug, Clone, Serialize)]
pub struct LogRun {
    /// The log, below the folder.
    pub file: String,
    /// What it is of.
    pub of: Recorded,
    /// The run.
    pub run: Option<PhoneSummary>,
    /// Part of the run that the app was on a core.
    pub on_core_share: Option<f64>,
    /// Mean frequency of the app's cores while it was on them.
    pub mean_khz: Option<f64>,
    /// Why there is no run.
    pub why_no_run: Option<String>,
}

impl LogRun {
    /// What the run is of, in words; the file's name where nothing is known of it.
    pub fn name(&self) -> String {
        let of = [&self.of.workload, &self.of.engine, &self.of.delay, &self.of.governor];
        self.words(&of)
    }

    /// The same without the engine, which has a colour.
    fn place(&self) -> String {
        self.words(&[&self.of.workload, &self.of.delay, &self.of.governor])
    }

    fn words(&self, of: &[&Option<String>]) -> String {
        let words: Vec<&str> = of.iter().filter_map(|word| word.as_deref()).collect();
        if words.is_empty() { self.file.clone() } else { words.join(" ") }
    }
}

/// A value of a run, for a figure.
type Value = fn(&LogRun, &PhoneSummary) -> Option<f64>;

/// The page of the runs in a folder of logs.
pub fn model(folder: &str, rows: &[LogRun]) -> Model {
    let runs: Vec<(&LogRun, &PhoneSummary)> = rows.iter().filter_map(|row| Some((row, row.run.as_ref()?))).collect();
    let logs: BTreeSet<&str> = rows.iter().map(|row| row.file.as_str()).collect();
    let figures: [(&str, &str, &str, Scale, Value); 6] = [
        ("on-core", "Time on a core", "part of the run on a core", Scale::Percent, |row, _| row.on_core_share),
        ("runtime", "Run", "time from mark to mark", Scale::Duration, |_, run| Some(run.runtime_ns as f64)),
        ("burst", "Bursts: length", "mean time on a core at once", Scale::Duration, |_, run| {
            run.bursts.mean_ns.map(|ns| ns as f64)
        }),
        ("bursts", "Bursts: number", "spans on a core", Scale::Linear, |_, run| Some(run.bursts.count as f64)),
        ("mhz", "Frequency", "mean on a core, MHz", Scale::Linear, |row, _| Some(row.mean_khz? / 1e3)),
        ("written", "Block I/O: written", "bytes", Scale::Bytes, |_, run| Some(run.block_written_bytes as f64)),
    ];
    let mut drawn: Vec<Figure> = figures.into_iter().filter_map(|figure| by_engine(&runs, figure)).collect();
    drawn.extend(residency(&runs));
    drawn.extend(calls(&runs));
    let without = |row: &LogRun| {
        Some(LeftOut {
            what: row.file.clone(),
            why: row.why_no_run.clone()?,
            cure: "`pocketstone trace LOG` shows what it holds".to_owned(),
        })
    };
    Model {
        title: format!("Logs in {folder}"),
        summary: format!("{} runs in {} logs.", runs.len(), logs.len()),
        description: vec![
            "A run lies between two marks of its log. Times on a core are those of the thread that wrote the first one; \
             block requests are the machine's."
                .to_owned(),
        ],
        figures: drawn,
        tables: table(&runs).into_iter().collect(),
        left_out: rows.iter().filter_map(without).collect(),
        ..Model::default()
    }
}

/// The places of runs along the horizontal axis.
fn places(runs: &[(&LogRun, &PhoneSummary)], name: fn(&LogRun) -> String) -> Vec<String> {
    let mut places = Vec::new();
    for (row, _) in runs {
        let place = name(row);
        if !places.contains(&place) {
            places.push(place);
        }
    }
    places
}

/// Bars of a value, of each engine's runs at each place: their median, and how far they are spread.
fn by_engine(
    runs: &[(&LogRun, &PhoneSummary)],
    (id, title, label, scale, value): (&str, &str, &str, Scale, Value),
) -> Option<Figure> {
    let names = places(runs, LogRun::place);
    let mut values: BTreeMap<String, BTreeMap<usize, Vec<f64>>> = BTreeMap::new();
    for (row, run) in runs {
        let Some(value) = value(row, run) else { continue };
        let engine = row.of.engine.clone().unwrap_or_else(|| run.name.clone());
        let place = names.iter().position(|name| *name == row.place())?;
        values.entry(engine).or_default().entry(place).or_default().push(value);
    }
    let point = |(place, values): (usize, Vec<f64>)| {
        let s = statistic(&values)?;
        let (low, high) = (Some(s.spread.low()), Some(s.spread.high()));
        Some(Point { x: place as f64, y: s.median, low, high, n: Some(s.n as u32) })
    };
    let series: Vec<Series> = values
        .into_iter()
        .map(|(name, at)| Series { name, points: at.into_iter().filter_map(point).collect(), ..Series::default() })
        .collect();
    let caption = "By workload, delay and governor; the median where several logs are of one.";
    (!series.is_empty()).then(|| Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        x: Axis::default(),
        y: Axis { label: label.to_owned(), scale },
        names,
        series,
        ..Figure::default()
    })
}

/// Bars of parts, one for each place: means over its runs of what `parts` gives of a run, by name.
fn stacked(
    runs: &[(&LogRun, &PhoneSummary)],
    (id, title, caption, y): (&str, &str, &str, Axis),
    parts: impl Fn(&PhoneSummary) -> Vec<(String, f64)>,
) -> Option<Figure> {
    let names = places(runs, LogRun::name);
    let mut counts = vec![0.0; names.len()];
    let mut series: Vec<(String, Vec<f64>)> = Vec::new();
    for (row, run) in runs {
        let found = parts(run);
        let Some(place) = names.iter().position(|name| *name == row.name()).filter(|_| !found.is_empty()) else {
            continue;
        };
        counts[place] += 1.0;
        for (part, value) in found {
            match series.iter_mut().find(|(name, _)| *name == part) {
                Some((_, sums)) => sums[place] += value,
                None => {
                    let mut sums = vec![0.0; names.len()];
                    sums[place] = value;
                    series.push((part, sums));
                }
            }
        }
    }
    let point = |(place, sum): (usize, &f64)| {
        (counts[place] > 0.0).then(|| Point { x: place as f64, y: sum / counts[place], ..Point::default() })
    };
    let series: Vec<Series> = series
        .iter()
        .map(|(name, sums)| Series {
            name: name.clone(),
            points: sums.iter().enumerate().filter_map(point).collect(),
            ..Series::default()
        })
        .collect();
    (!series.is_empty()).then(|| Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        y,
        names,
        series,
        stacked: true,
        ..Figure::default()
    })
}

/// How long the app was on cores of which frequency.
fn residency(runs: &[(&LogRun, &PhoneSummary)]) -> Option<Figure> {
    // The lowest frequency lies at the bottom of every bar.
    let all: BTreeSet<u32> = runs.iter().flat_map(|(_, run)| run.on_core_khz_ns.keys().copied()).collect();
    let y = Axis { label: "part of the time on a core whose frequency is known".to_owned(), scale: Scale::Percent };
    let caption = "Frequencies of the cores that the app was on. A log without the event cpu_frequency has no bar.";
    stacked(runs, ("residency", "Frequency residency", caption, y), |run| {
        let known: f64 = run.on_core_khz_ns.values().map(|ns| *ns as f64).sum();
        let part = |khz: &u32| {
            let ns = run.on_core_khz_ns.get(khz).copied().unwrap_or(0) as f64;
            (format!("{} MHz", f64::from(*khz) / 1e3), ns / known)
        };
        if known > 0.0 { all.iter().map(part).collect() } else { Vec::new() }
    })
}

/// Calls on files and block requests.
fn calls(runs: &[(&LogRun, &PhoneSummary)]) -> Option<Figure> {
    let y = Axis { label: "calls of the app".to_owned(), scale: Scale::Linear };
    stacked(runs, ("calls", "Calls on files", "Those that returned within the run.", y), |run| {
        [("reads", run.reads), ("writes", run.writes), ("syncs", run.syncs)]
            .map(|(name, n)| (name.to_owned(), n as f64))
            .to_vec()
    })
}

fn table(runs: &[(&LogRun, &PhoneSummary)]) -> Option<Table> {
    let columns = [
        "log",
        "workload",
        "engine",
        "delay",
        "governor",
        "takes",
        "on core",
        "share",
        "bursts",
        "mean burst",
        "MHz",
        "reads",
        "writes",
        "syncs",
        "block reads",
        "block writes",
    ];
    let unknown = || "unknown".to_owned();
    let row = |(row, run): &(&LogRun, &PhoneSummary)| {
        let of = [&row.of.workload, &row.of.engine, &row.of.delay, &row.of.governor];
        let mut cells = vec![row.file.clone()];
        cells.extend(of.map(|word| word.clone().unwrap_or_else(unknown)));
        cells.extend([
            format_ns(run.runtime_ns as f64),
            format_ns(run.on_core_ns as f64),
            row.on_core_share.map_or_else(unknown, |share| format!("{:.1} %", 100.0 * share)),
            run.bursts.count.to_string(),
            run.bursts.mean_ns.map_or_else(unknown, |ns| format_ns(ns as f64)),
            row.mean_khz.map_or_else(unknown, |khz| format!("{:.0}", khz / 1e3)),
        ]);
        cells.extend([run.reads, run.writes, run.syncs, run.block_reads, run.block_writes].map(|n| n.to_string()));
        cells
    };
    (!runs.is_empty()).then(|| Table {
        id: "runs".to_owned(),
        title: "Runs".to_owned(),
        caption: "Every run of every log.".to_owned(),
        origin: Default::default(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: runs.iter().map(row).collect(),
    })
}
