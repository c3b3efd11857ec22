//! Logs of phones as a report's model: figures and tables over their runs.

use crate::results::left_out::LeftOut;
use crate::results::stats::statistic;
use crate::specification::recordings::Recorded;
use crate::views::model::{Axis, Figure, Model, Point, Scale, Series, Table};
use pocketstone_core::units::{format_bytes, format_ns};
use pocketstone_core::words::counted;
use pocketstone_probe::analysis::PhoneSummary;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// Places along an axis that have room for their names, and letters that have room side by side.
const MOST_PLACES: usize = 12;
const MOST_LETTERS: usize = 48;

/// Parts of a bar whose colours are told apart.
const MOST_PARTS: usize = 8;

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
        let words: Vec<&str> = of.into_iter().flatten().map(String::as_str).collect();
        if words.is_empty() { self.file.clone() } else { words.join(" ") }
    }

    fn words(&self, which: &[Word]) -> Option<String> {
        let of = |word: &Word| match word {
            Word::Workload => self.of.workload.as_deref(),
            Word::Engine => self.of.engine.as_deref(),
            // As in the names of PocketData's logs: figures have little room.
            Word::Delay => self.of.delay.as_deref().map(|delay| delay.strip_prefix("published-").unwrap_or(delay)),
            Word::Governor => self.of.governor.as_deref(),
        };
        let words: Vec<&str> = which.iter().filter_map(of).collect();
        (!words.is_empty()).then(|| words.join(" "))
    }
}

/// A word of what a run is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Workload,
    Engine,
    Delay,
    Governor,
}

const ALL: [Word; 4] = [Word::Workload, Word::Engine, Word::Delay, Word::Governor];

type Run<'a> = (&'a LogRun, &'a PhoneSummary);

/// A value of a run, for a figure.
type Value = fn(&LogRun, &PhoneSummary) -> Option<f64>;

/// The page of the runs in a folder of logs, which `command` makes.
pub fn model(folder: &str, command: &str, rows: &[LogRun]) -> Model {
    let runs: Vec<Run<'_>> = rows.iter().filter_map(|row| Some((row, row.run.as_ref()?))).collect();
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
    let mut drawn: Vec<Figure> = figures.into_iter().flat_map(|figure| by_engine(&runs, figure)).collect();
    drawn.extend(residency(&runs));
    drawn.extend(calls(&runs));
    let without = |row: &LogRun| {
        Some(LeftOut {
            what: row.file.clone(),
            why: row.why_no_run.clone()?,
            cure: "`pocketstone trace LOG` shows what it holds".to_owned(),
        })
    };
    let said = "A run lies between two marks of its log. Times on a core are those of the thread that wrote the first \
                one; block requests are the machine's.";
    Model {
        title: format!("Logs in {folder}"),
        summary: format!("{} in {}.", counted(runs.len(), "run"), counted(logs.len(), "log")),
        description: vec![said.to_owned()],
        command: command.to_owned(),
        facts: vec![("pocketstone".to_owned(), env!("CARGO_PKG_VERSION").to_owned())],
        figures: drawn,
        tables: if runs.is_empty() { Vec::new() } else { vec![times(&runs), input_and_output(&runs)] },
        left_out: rows.iter().filter_map(without).collect(),
        ..Model::default()
    }
}

/// The runs of one picture: places along its axis, and at which of them each run stands.
struct Panel<'a> {
    /// What its runs have in common, behind a figure's title; empty where there is one panel.
    suffix: String,
    places: Vec<String>,
    runs: Vec<(usize, Run<'a>)>,
}

impl Panel<'_> {
    fn has_room(&self) -> bool {
        let pieces = self.places.iter().flat_map(|place| place.split([' ', '-', '_', '/']));
        let longest = pieces.map(|piece| piece.chars().count()).max().unwrap_or(0);
        self.places.len() <= MOST_PLACES && self.places.len() * longest <= MOST_LETTERS
    }
}

/// Puts runs into as few panels as have room for their names: all in one, or one for each value of the first of the
/// `splits` that are enough. A place is named by those of `words` that the panel does not have in common.
fn panels<'a>(runs: &[Run<'a>], words: &[Word], splits: &[&[Word]]) -> Vec<Panel<'a>> {
    let split_by = |split: &[Word]| {
        let others: Vec<Word> = words.iter().filter(|word| !split.contains(word)).copied().collect();
        let mut panels: BTreeMap<String, Panel<'a>> = BTreeMap::new();
        for run in runs {
            let suffix = run.0.words(split).map_or_else(String::new, |words| format!(": {words}"));
            let new = || Panel { suffix: suffix.clone(), places: Vec::new(), runs: Vec::new() };
            let panel = panels.entry(suffix.clone()).or_insert_with(new);
            let place = run.0.words(&others).unwrap_or_else(|| run.0.file.clone());
            let at = panel.places.iter().position(|known| *known == place).unwrap_or_else(|| {
                panel.places.push(place);
                panel.places.len() - 1
            });
            panel.runs.push((at, *run));
        }
        panels.into_values().collect::<Vec<_>>()
    };
    let mut found = split_by(&[]);
    for split in splits {
        if found.iter().all(Panel::has_room) {
            break;
        }
        found = split_by(split);
    }
    found.into_iter().flat_map(in_parts).collect()
}

/// A panel whose names still have no room, in parts of as many as have.
fn in_parts<'a>(panel: Panel<'a>) -> Vec<Panel<'a>> {
    let count = panel.places.len().div_ceil(MOST_PLACES);
    if count < 2 {
        return vec![panel];
    }
    let part = |(number, places): (usize, &[String])| {
        let first = number * MOST_PLACES;
        let of_part =
            |(at, run): &(usize, Run<'a>)| Some((at.checked_sub(first).filter(|at| *at < MOST_PLACES)?, *run));
        Panel {
            suffix: format!("{} ({} of {count})", panel.suffix, number + 1),
            places: places.to_vec(),
            runs: panel.runs.iter().filter_map(of_part).collect(),
        }
    };
    panel.places.chunks(MOST_PLACES).enumerate().map(part).collect()
}

/// A figure for each panel that has something to show.
fn drawn<'a>(
    panels: Vec<Panel<'a>>,
    whole: Figure,
    series: impl Fn(&Panel<'a>) -> Vec<Series>,
) -> impl Iterator<Item = Figure> {
    panels.into_iter().enumerate().filter_map(move |(number, panel)| {
        let series = series(&panel);
        let id = if number == 0 { whole.id.clone() } else { format!("{}-{}", whole.id, number + 1) };
        (!series.is_empty()).then(|| Figure {
            id,
            title: format!("{}{}", whole.title, panel.suffix),
            names: panel.places,
            series,
            ..whole.clone()
        })
    })
}

/// Bars of a value, of each engine's runs at each place: their median, and how far they are spread.
fn by_engine(
    runs: &[Run<'_>],
    (id, title, label, scale, value): (&str, &str, &str, Scale, Value),
) -> impl Iterator<Item = Figure> {
    use Word::{Delay, Governor, Workload};
    let splits: [&[Word]; 3] = [&[Delay], &[Governor], &[Delay, Governor]];
    let panels = panels(runs, &[Workload, Delay, Governor], &splits);
    let caption = "By workload, delay and governor; the median where several logs are of one.";
    let whole = Figure {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        y: Axis { label: label.to_owned(), scale },
        ..Figure::default()
    };
    let point = |(place, values): (usize, Vec<f64>)| {
        let s = statistic(&values)?;
        let end = |end: f64| (s.n > 1).then_some(end);
        let (low, high) = (end(s.spread.low()), end(s.spread.high()));
        Some(Point { x: place as f64, y: s.median, low, high, n: Some(s.n as u32) })
    };
    drawn(panels, whole, move |panel| {
        let mut values: BTreeMap<&str, BTreeMap<usize, Vec<f64>>> = BTreeMap::new();
        for (place, (row, run)) in &panel.runs {
            let Some(value) = value(row, run) else { continue };
            let engine = row.of.engine.as_deref().unwrap_or(&run.name);
            values.entry(engine).or_default().entry(*place).or_default().push(value);
        }
        let series = |(name, at): (&str, BTreeMap<usize, Vec<f64>>)| Series {
            name: name.to_owned(),
            points: at.into_iter().filter_map(point).collect(),
            ..Series::default()
        };
        values.into_iter().map(series).collect()
    })
}

/// Bars of parts, one for each place: means over its runs of what `parts` gives of a run, which are as many as there
/// are `names`, or none.
fn stacked(
    runs: &[Run<'_>],
    whole: Figure,
    names: Vec<String>,
    parts: impl Fn(&PhoneSummary) -> Vec<f64>,
) -> impl Iterator<Item = Figure> {
    use Word::{Delay, Engine, Governor};
    let splits: [&[Word]; 4] = [&[Engine], &[Engine, Delay], &[Engine, Governor], &[Engine, Delay, Governor]];
    let panels = panels(runs, &ALL, &splits);
    drawn(panels, Figure { stacked: true, ..whole }, move |panel| {
        let mut sums = vec![(0.0, vec![0.0; names.len()]); panel.places.len()];
        for (place, (_, run)) in &panel.runs {
            let found = parts(run);
            let (count, sums) = &mut sums[*place];
            *count += if found.is_empty() { 0.0 } else { 1.0 };
            sums.iter_mut().zip(found).for_each(|(sum, part)| *sum += part);
        }
        let point = |part: usize, place: usize| {
            let (count, sums) = &sums[place];
            (*count > 0.0).then(|| Point { x: place as f64, y: sums[part] / count, ..Point::default() })
        };
        let series = |(part, name): (usize, &String)| Series {
            name: name.clone(),
            points: (0..panel.places.len()).filter_map(|place| point(part, place)).collect(),
            ..Series::default()
        };
        names.iter().enumerate().map(series).filter(|s| s.points.iter().any(|p| p.y > 0.0)).collect()
    })
}

/// How long the app was on cores of which frequency; the lowest lies at the bottom of every bar.
fn residency(runs: &[Run<'_>]) -> impl Iterator<Item = Figure> {
    let all: BTreeSet<u32> = runs.iter().flat_map(|(_, run)| run.on_core_khz_ns.keys().copied()).collect();
    let all: Vec<u32> = all.into_iter().collect();
    let ranges: Vec<(u32, u32)> =
        all.chunks(all.len().div_ceil(MOST_PARTS).max(1)).map(|part| (part[0], part[part.len() - 1])).collect();
    let mhz = |khz: u32| f64::from(khz) / 1e3;
    let name = |(low, high): &(u32, u32)| match low == high {
        true => format!("{} MHz", mhz(*low)),
        false => format!("{} to {} MHz", mhz(*low), mhz(*high)),
    };
    let names = ranges.iter().map(name).collect();
    let whole = Figure {
        id: "residency".to_owned(),
        title: "Frequency residency".to_owned(),
        caption: "Frequencies of the cores that the app was on. A log without the event cpu_frequency has no bar."
            .to_owned(),
        y: Axis { label: "part of the time on a core whose frequency is known".to_owned(), scale: Scale::Percent },
        ..Figure::default()
    };
    stacked(runs, whole, names, move |run| {
        let known: f64 = run.on_core_khz_ns.values().map(|ns| *ns as f64).sum();
        let part = |(low, high): &(u32, u32)| {
            run.on_core_khz_ns.range(low..=high).map(|(_, ns)| *ns as f64).sum::<f64>() / known
        };
        if known > 0.0 { ranges.iter().map(part).collect() } else { Vec::new() }
    })
}

/// Calls on files.
fn calls(runs: &[Run<'_>]) -> impl Iterator<Item = Figure> {
    let whole = Figure {
        id: "calls".to_owned(),
        title: "Calls on files".to_owned(),
        caption: "Those that returned within the run.".to_owned(),
        y: Axis { label: "calls of the app".to_owned(), scale: Scale::Linear },
        ..Figure::default()
    };
    let names = ["reads", "writes", "syncs"].map(str::to_owned).to_vec();
    stacked(runs, whole, names, |run| [run.reads, run.writes, run.syncs].map(|n| n as f64).to_vec())
}

fn table(
    (id, title, caption): (&str, &str, &str),
    columns: &[&str],
    runs: &[Run<'_>],
    cells: impl Fn(&Run<'_>) -> Vec<String>,
) -> Table {
    let row = |run: &Run<'_>| [vec![run.0.name()], cells(run), vec![run.0.file.clone()]].concat();
    Table {
        id: id.to_owned(),
        title: title.to_owned(),
        caption: caption.to_owned(),
        origin: Default::default(),
        columns: ["run"].iter().chain(columns).chain(&["log"]).map(|head| (*head).to_owned()).collect(),
        rows: runs.iter().map(row).collect(),
    }
}

fn unknown() -> String {
    "unavailable".to_owned()
}

fn times(runs: &[Run<'_>]) -> Table {
    let columns = ["takes", "on core", "share", "bursts", "mean burst", "longest burst", "MHz"];
    let said = ("times", "Runs: time", "Every run of every log. MHz is the mean while the app was on a core.");
    table(said, &columns, runs, |(row, run)| {
        let time = |ns: Option<u64>| ns.map_or_else(unknown, |ns| format_ns(ns as f64));
        vec![
            time(Some(run.runtime_ns)),
            time(Some(run.on_core_ns)),
            row.on_core_share.map_or_else(unknown, |share| format!("{:.1} %", 100.0 * share)),
            run.bursts.count.to_string(),
            time(run.bursts.mean_ns),
            time(run.bursts.max_ns),
            row.mean_khz.map_or_else(unknown, |khz| format!("{:.0}", khz / 1e3)),
        ]
    })
}

fn input_and_output(runs: &[Run<'_>]) -> Table {
    let columns = ["reads", "writes", "syncs", "block reads", "block writes", "read", "written"];
    let said = ("io", "Runs: input and output", "Calls are the app's; block requests and their bytes the machine's.");
    table(said, &columns, runs, |(_, run)| {
        let mut cells =
            [run.reads, run.writes, run.syncs, run.block_reads, run.block_writes].map(|n| n.to_string()).to_vec();
        cells.extend([run.block_read_bytes, run.block_written_bytes].map(format_bytes));
        cells
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(at: u64, khz: &[(u32, u64)]) -> PhoneSummary {
        let zeros = ["reads", "read_bytes", "read_ns", "writes", "written_bytes", "write_ns", "syncs", "sync_ns"];
        let blocks = ["block_reads", "block_read_bytes", "block_writes", "block_written_bytes"];
        let mut json = serde_json::json!({
            "name": "SQL", "app": 7, "start_ns": 0, "runtime_ns": 1000 * at, "on_core_ns": 500 * at,
            "parameters": {}, "bursts": {"count": 0, "mean_ns": null, "max_ns": null}, "block_mean_ns": null,
            "on_core_khz_ns": khz.iter().map(|(khz, ns)| (khz.to_string(), *ns)).collect::<BTreeMap<_, _>>(),
        });
        zeros.iter().chain(&blocks).for_each(|name| json[name] = 0.into());
        serde_json::from_value(json).unwrap()
    }

    fn row(file: String, words: [&str; 4], run: PhoneSummary) -> LogRun {
        let [workload, engine, delay, governor] = words.map(|w| Some(w.to_owned()).filter(|w| !w.is_empty()));
        let of = Recorded { workload, engine, delay, governor };
        LogRun {
            file,
            of,
            on_core_share: run.on_core_share(),
            mean_khz: run.mean_khz(),
            run: Some(run),
            why_no_run: None,
        }
    }

    fn figures<'a>(model: &'a Model, id: &str) -> Vec<&'a Figure> {
        let of = |figure: &&Figure| figure.id == id || figure.id.strip_prefix(id).is_some_and(|n| n.starts_with("-"));
        model.figures.iter().filter(of).collect()
    }

    /// As many as PocketData has published: nine workloads, three delays, three engines.
    #[test]
    fn runs_that_have_no_room_for_their_names_stand_in_panels() {
        let mut rows = Vec::new();
        for (n, workload) in ["A", "B", "C", "D", "E", "F", "IA", "IB", "IC"].into_iter().enumerate() {
            for (m, delay) in ["none", "1ms", "published-log"].into_iter().enumerate() {
                for engine in ["sqlite", "bdb", "bdb100"] {
                    let at = 100 * (n as u64 + 1) + m as u64;
                    rows.push(row(
                        format!("{workload}{delay}{engine}"),
                        [workload, engine, delay, ""],
                        run(at, &[(5, 7)]),
                    ));
                }
            }
        }
        let page = model("logs", "command", &rows);
        let times = figures(&page, "runtime");
        let titles: Vec<&str> = times.iter().map(|f| f.title.as_str()).collect();
        assert_eq!(titles, ["Run: 1ms", "Run: log", "Run: none"]);
        for figure in &times {
            assert_eq!(figure.names, ["A", "B", "C", "D", "E", "F", "IA", "IB", "IC"]);
            let names: Vec<&str> = figure.series.iter().map(|s| s.name.as_str()).collect();
            assert_eq!(names, ["bdb", "bdb100", "sqlite"]);
        }
        assert_eq!(times[2].series[0].points[2], Point { x: 2.0, y: 300_000.0, low: None, high: None, n: Some(1) });
        let residency = figures(&page, "residency");
        assert_eq!(residency.len(), 9);
        assert!(residency.iter().all(|f| f.names.len() == 9 && f.stacked));
        assert_eq!(residency[8].title, "Frequency residency: sqlite none");
        let ids: BTreeSet<&str> = page.figures.iter().map(|f| f.id.as_str()).collect();
        assert_eq!(ids.len(), page.figures.len());
        assert_eq!(page.tables.iter().map(|t| t.rows.len()).collect::<Vec<_>>(), [81, 81]);

        // Of few runs all are in one figure.
        let few = model("logs", "command", &rows[..9]);
        assert_eq!(figures(&few, "runtime")[0].names, ["A none", "A 1ms", "A log"]);
        assert_eq!((figures(&few, "runtime").len(), figures(&few, "residency").len()), (1, 3));
        // Governors have long names: four of them stand apart.
        let governors = ["interactive", "ondemand", "performance", "powersave"];
        let of =
            |governor| ["A", "B"].map(|w| row(format!("{w}{governor}"), [w, "sqlite", "none", governor], run(1, &[])));
        let governed = model("logs", "command", &governors.into_iter().flat_map(of).collect::<Vec<_>>());
        assert_eq!(figures(&governed, "runtime").len(), 4);
        assert_eq!(figures(&governed, "runtime")[3].title, "Run: powersave");
        assert!(figures(&few, "bursts").len() == 1 && figures(&few, "burst").is_empty(), "no run has a burst");
    }

    #[test]
    fn several_runs_of_one_are_a_median_and_unknown_ones_stand_by_their_files() {
        let known = (1..=3).map(|n| row(format!("{n}.log"), ["C", "", "", ""], run(n * n, &[])));
        let page = model("logs", "command", &known.collect::<Vec<_>>());
        let point = figures(&page, "runtime")[0].series[0].points[0];
        assert_eq!((point.y, point.low, point.high, point.n), (4000.0, Some(1000.0), Some(9000.0), Some(3)));
        assert_eq!(
            (figures(&page, "runtime")[0].series[0].name.as_str(), page.summary.as_str()),
            ("SQL", "3 runs in 3 logs.")
        );
        assert!(figures(&page, "residency").is_empty() && figures(&page, "mhz").is_empty());

        let unknown: Vec<LogRun> = (0..30).map(|n| row(format!("{n:02}.log"), [""; 4], run(n + 1, &[]))).collect();
        let page = model("logs", "command", &unknown);
        let times = figures(&page, "runtime");
        let titles: Vec<&str> = times.iter().map(|f| f.title.as_str()).collect();
        assert_eq!(titles, ["Run (1 of 3)", "Run (2 of 3)", "Run (3 of 3)"]);
        assert_eq!((times[2].names.first().unwrap().as_str(), times[2].names.len()), ("24.log", 6));
        assert_eq!(times[2].series[0].points[5], Point { x: 5.0, y: 30_000.0, low: None, high: None, n: Some(1) });
    }

    /// Twenty frequencies: seven parts of three, but the last; each run was at one of them for 3/4 of its time.
    #[test]
    fn many_frequencies_are_ranges() {
        let all: Vec<u32> = (1..=20).map(|n| n * 100_000).collect();
        let other = |khz: u32| if khz == 100_000 { 2_000_000 } else { 100_000 };
        let rows: Vec<LogRun> = (all.iter().map(|khz| run(8, &[(*khz, 3), (other(*khz), 1)])))
            .zip(0..)
            .map(|(run, n)| row(format!("{n}"), [["C", "E"][n % 2], "sqlite", "", ""], run))
            .collect();
        let page = model("logs", "command", &rows);
        let figure = figures(&page, "residency")[0];
        let names: Vec<&str> = figure.series.iter().map(|s| s.name.as_str()).collect();
        assert_eq!((names.len(), names[0], names[6]), (7, "100 to 300 MHz", "1900 to 2000 MHz"));
        assert_eq!(figure.names, ["C sqlite", "E sqlite"]);
        // C: 100, 300, 500 and so on. Three quarters of the first and all of the second, a quarter of the eight others.
        let part = |n: usize| figure.series[n].points[0].y;
        assert!((part(0) - (0.75 + 1.0 + 8.0 * 0.25) / 10.0).abs() < 1e-9, "{}", part(0));
        assert!(((0..7).map(part).sum::<f64>() - 1.0).abs() < 1e-9);
    }
}
