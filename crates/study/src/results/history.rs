//! A study's runs one after the other: how their values went, where they changed, and what else changed there.

use super::change_points::{ENOUGH, change_points};
use super::compare::judged;
use super::store::{FILE, Store};
use crate::specification::factor::{Point, describe};
use crate::specification::metric::{self, Better, Metric};
use crate::specification::points::varying;
use pocketstone_core::error::Context;
use pocketstone_core::median::median;
use pocketstone_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A run of the study.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Run {
    /// Its folder.
    pub folder: PathBuf,
    /// When it began, in UTC.
    pub started: String,
    facts: BTreeMap<String, String>,
}

impl Run {
    /// The revision of this project that measured it.
    pub fn revision(&self) -> &str {
        self.facts.get("git.revision").map_or("unavailable", String::as_str)
    }
}

/// A metric of a point, over the runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Series {
    /// The point in words.
    pub point: String,
    /// The metric.
    pub metric: &'static Metric,
    /// The median of each run; `None` of a run that did not measure it.
    pub values: Vec<Option<f64>>,
    /// Where it changed.
    pub changes: Vec<Change>,
}

impl Series {
    /// Whether a change of it can be told from noise: where the board repeats to the bit, or with enough values.
    pub fn can_tell(&self, exact: bool) -> bool {
        exact || self.values.iter().flatten().count() >= ENOUGH
    }
}

/// A change of a series from one level to the next.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Change {
    /// The last run of the level before, as an index.
    pub last: usize,
    /// The first run of the new level.
    pub run: usize,
    /// The level before: the median of its runs.
    pub before: f64,
    /// The new level.
    pub after: f64,
}

/// What a change means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// For the better.
    Better,
    /// For the worse.
    Worse,
    /// The metric has no better direction.
    Neither,
}

impl Direction {
    /// In a word.
    pub fn word(self) -> &'static str {
        match self {
            Direction::Better => "better",
            Direction::Worse => "worse",
            Direction::Neither => "changed",
        }
    }
}

impl Change {
    /// By which fraction of the level before; none of 0 and of what is below.
    pub fn fraction(&self) -> Option<f64> {
        (self.before > 0.0).then(|| self.after / self.before - 1.0)
    }

    /// What it means for a metric.
    pub fn direction(&self, metric: &Metric) -> Direction {
        match (metric.better, self.after > self.before) {
            (Better::Less, true) | (Better::More, false) => Direction::Worse,
            (Better::Less, false) | (Better::More, true) => Direction::Better,
            (Better::Neither, _) => Direction::Neither,
        }
    }
}

/// A fact that is another one from a run on.
#[derive(Debug, Clone, PartialEq)]
pub struct FactChange {
    /// The first run with the new one, as an index.
    pub run: usize,
    /// Its name.
    pub name: String,
    /// What it was; empty where the run before had none.
    pub before: String,
    /// What it is.
    pub after: String,
}

/// Runs of one study on one board, in the order in which they began.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct History {
    /// The study's name.
    pub study: String,
    /// The board's name.
    pub board: String,
    /// The runs.
    pub runs: Vec<Run>,
    /// Whether the board repeats a cell to the bit: then any change is one.
    pub exact: bool,
    /// The series.
    pub series: Vec<Series>,
    /// The facts that changed.
    pub facts: Vec<FactChange>,
}

impl History {
    /// Whether changes of any series can be told from noise.
    pub fn can_tell(&self) -> bool {
        self.exact || self.series.iter().any(|series| series.can_tell(self.exact))
    }

    /// The series that did not change, and those of which there is no telling.
    pub fn without_change(&self) -> (Vec<&Series>, Vec<&Series>) {
        self.series.iter().filter(|series| series.changes.is_empty()).partition(|series| series.can_tell(self.exact))
    }

    /// The facts that changed behind one run and up to another.
    pub fn facts_between(&self, after: usize, until: usize) -> impl Iterator<Item = &FactChange> {
        self.facts.iter().filter(move |fact| fact.run > after && fact.run <= until)
    }
}

/// What of the runs makes the history.
#[derive(Debug, Default)]
pub struct Selection {
    /// The study whose runs count; all must be of one without it.
    pub study: Option<String>,
    /// The board whose runs count; all must be of one without it.
    pub board: Option<String>,
    /// Names of metrics; those that the study judges without any.
    pub metrics: Vec<String>,
}

/// Facts that are another one in every run, or have no meaning from run to run.
const OF_A_RUN: [&str; 5] = ["started_utc", "command", "options", "study.folder", "study.title"];

/// The history of the runs in some folders: each is a run's, or has runs below it.
///
/// # Errors
/// `ErrorKind::User` if a folder has no run or one that cannot be read, if runs are of several studies or boards, if
/// there are fewer than two, or for an unknown metric.
pub fn history(folders: &[PathBuf], selection: &Selection) -> Result<History> {
    let mut stores: Vec<Store> = Vec::new();
    for folder in folders {
        let found = runs_below(folder)?;
        if found.is_empty() {
            let hint = "name folders that `pocketstone run` created, or one with such folders in it";
            return Err(Error::user(format!("there are no results in {} (no {FILE})", folder.display())).hint(hint));
        }
        for run in found {
            let opened = Store::open(&run, false);
            stores.push(opened.user(|| format!("cannot read the run in {}", run.display()))?);
        }
    }
    let study = one_of(&mut stores, "study.name", "studies", selection.study.as_deref(), "--study")?;
    let board = one_of(&mut stores, "board", "boards", selection.board.as_deref(), "--board")?;
    if stores.len() < 2 {
        let hint = "a history needs two runs at least; `pocketstone report` shows one";
        return Err(Error::user(format!("there is one run of {study} on {board} in these folders")).hint(hint));
    }
    of_stores(stores, study, board, selection)
}

fn of_stores(stores: Vec<Store>, study: String, board: String, selection: &Selection) -> Result<History> {
    let mut runs: Vec<(Run, Store)> = Vec::new();
    for store in stores {
        let facts: BTreeMap<String, String> = store.facts()?.into_iter().collect();
        let started = facts.get("started_utc").cloned().unwrap_or_default();
        runs.push((Run { folder: store.folder().to_owned(), started, facts }, store));
    }
    runs.sort_by(|(a, _), (b, _)| (&a.started, &a.folder).cmp(&(&b.started, &b.folder)));
    let (runs, stores): (Vec<Run>, Vec<Store>) = runs.into_iter().unzip();
    let metrics = match (selection.metrics.is_empty(), stores.last()) {
        (true, Some(last)) => judged(last)?,
        _ => selection
            .metrics
            .iter()
            .map(|name| metric::named(name).ok_or_else(|| metric::unknown(name)))
            .collect::<Result<_>>()?,
    };
    let repeats = stores.iter().map(Store::repeats_to_the_bit).collect::<Result<Vec<_>>>()?;
    let exact = repeats.into_iter().all(|repeats| repeats);
    let series = series(&stores, &metrics, exact)?;
    let facts = fact_changes(&runs);
    Ok(History { study, board, runs, exact, series, facts })
}

/// Folders of runs: the folder itself, or those below it, in the order of their names. Links are not followed.
fn runs_below(folder: &Path) -> Result<Vec<PathBuf>> {
    if folder.join(FILE).exists() {
        return Ok(vec![folder.to_owned()]);
    }
    let failed = || format!("cannot list {}", folder.display());
    let mut below: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).user(failed)? {
        let entry = entry.user(failed)?;
        if entry.file_type().user(failed)?.is_dir() {
            below.push(entry.path());
        }
    }
    below.sort();
    below.iter().map(|folder| runs_below(folder)).collect::<Result<Vec<_>>>().map(|runs| runs.concat())
}

/// Keeps the runs whose fact is the wanted one; without a wish, all have to agree.
fn one_of(stores: &mut Vec<Store>, fact: &str, what: &str, wanted: Option<&str>, option: &str) -> Result<String> {
    let mut names: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut kept = Vec::new();
    for store in stores.drain(..) {
        let name = store.fact(fact)?.unwrap_or_else(|| "unavailable".into());
        if wanted.is_none_or(|wanted| wanted == name) {
            kept.push(store);
        } else {
            names.insert(name, store.folder().to_owned());
            continue;
        }
        let folder = kept.last().map(|store: &Store| store.folder().to_owned()).unwrap_or_default();
        names.entry(name).or_insert(folder);
    }
    *stores = kept;
    let list = || names.iter().map(|(name, at)| format!("{name} ({})", at.display())).collect::<Vec<_>>().join(", ");
    match (wanted, names.len()) {
        (Some(wanted), _) if stores.is_empty() => {
            Err(Error::user(format!("there are no runs of {wanted}; there are: {}", list())))
        }
        (Some(wanted), _) => Ok(wanted.to_owned()),
        (None, 1) => Ok(names.into_keys().next().unwrap_or_default()),
        (None, _) => Err(Error::user(format!("these runs are of several {what}: {}", list()))
            .hint(format!("choose one with {option} NAME"))),
    }
}

/// The metrics of every point that two runs have at least.
fn series(stores: &[Store], metrics: &[&'static Metric], exact: bool) -> Result<Vec<Series>> {
    // By experiment, point and place of the metric.
    type Found = BTreeMap<(String, String, usize), (Point, Vec<Option<f64>>)>;
    let mut found = Found::new();
    for (run, store) in stores.iter().enumerate() {
        for row in store.statistics()? {
            let Some(place) = metrics.iter().position(|metric| metric.name == row.metric) else { continue };
            let key = (row.experiment, format!("{:?}", row.point), place);
            let empty = || (row.point.clone(), vec![None; stores.len()]);
            found.entry(key).or_insert_with(empty).1[run] = Some(row.statistic.median);
        }
    }
    let points: Vec<&Point> = found.values().map(|(point, _)| point).collect();
    let names = varying(&points);
    let words = |experiment: &str, point: &Point| match describe(point, &names) {
        factors if factors.is_empty() => experiment.to_owned(),
        factors => format!("{experiment}: {factors}"),
    };
    let mut series: Vec<Series> = Vec::new();
    for ((experiment, _, place), (point, values)) in &found {
        if values.iter().flatten().count() > 1 {
            let changes = changes(values, exact, series.len() as u64);
            let (point, values) = (words(experiment, point), values.clone());
            series.push(Series { point, metric: metrics[*place], values, changes });
        }
    }
    Ok(series)
}

/// Where values change: at any other one on a board that repeats to the bit, else where the method finds it.
fn changes(values: &[Option<f64>], exact: bool, seed: u64) -> Vec<Change> {
    let (runs, values): (Vec<usize>, Vec<f64>) =
        values.iter().enumerate().filter_map(|(run, value)| Some((run, (*value)?))).unzip();
    let places = match exact {
        true => (1..values.len()).filter(|&at| values[at] != values[at - 1]).collect(),
        false => change_points(&values, seed),
    };
    let ends: Vec<usize> = [0].into_iter().chain(places).chain([values.len()]).collect();
    let level = |from: usize, to: usize| median(values[from..to].to_vec()).unwrap_or(f64::NAN);
    let change = |ends: &[usize]| Change {
        last: runs[ends[1] - 1],
        run: runs[ends[1]],
        before: level(ends[0], ends[1]),
        after: level(ends[1], ends[2]),
    };
    ends.windows(3).map(change).collect()
}

/// The facts that are another one than in the run before.
fn fact_changes(runs: &[Run]) -> Vec<FactChange> {
    let names: BTreeSet<&String> = runs.iter().flat_map(|run| run.facts.keys()).collect();
    let names: Vec<&String> = names.into_iter().filter(|name| !OF_A_RUN.contains(&name.as_str())).collect();
    let mut changes = Vec::new();
    for (number, pair) in runs.windows(2).enumerate() {
        for name in &names {
            let value = |run: &Run| run.facts.get(*name).cloned().unwrap_or_default();
            let (before, after) = (value(&pair[0]), value(&pair[1]));
            if before != after {
                changes.push(FactChange { run: number + 1, name: (*name).clone(), before, after });
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn on_a_board_that_repeats_to_the_bit_any_other_value_is_a_change() {
        let values = [Some(5.0), None, Some(5.0), Some(5.05), Some(5.05), None, Some(5.0)];
        let found = changes(&values, true, 1);
        let change = |last, run, before, after| Change { last, run, before, after };
        assert_eq!(found, [change(2, 3, 5.0, 5.05), change(4, 6, 5.05, 5.0)]);
        assert!((found[0].fraction().unwrap() - 0.01).abs() < 1e-12, "one per cent");
        assert_eq!(changes(&values, false, 1), [], "five values cannot tell a change from noise");
        assert_eq!(changes(&[Some(0.0), Some(1.0)], true, 1)[0].fraction(), None);
    }

    #[test]
    fn a_change_is_for_the_worse_in_the_direction_of_its_metric() {
        let up = Change { last: 0, run: 1, before: 1.0, after: 2.0 };
        let down = Change { before: 2.0, after: 1.0, ..up };
        let of = |change: Change, name: &str| change.direction(metric::named(name).unwrap());
        assert_eq!((of(up, "total_ns"), of(down, "total_ns")), (Direction::Worse, Direction::Better));
        assert_eq!((of(up, "operations_per_s"), of(down, "operations_per_s")), (Direction::Better, Direction::Worse));
        assert_eq!(of(up, "off_core_ns"), Direction::Neither);
        // From -10 us to 5 us is no change of -150 %.
        assert_eq!(Change { before: -10.0, after: 5.0, ..up }.fraction(), None);
    }

    #[test]
    fn a_series_that_few_runs_measured_is_not_without_a_change() {
        // Twelve runs; six of them have a 99th percentile.
        let series = |name: &str, values: Vec<Option<f64>>| Series {
            point: name.into(),
            metric: metric::named("p99_ns").unwrap(),
            values,
            changes: Vec::new(),
        };
        let half: Vec<_> = (0..12).map(|run| (run % 2 == 0).then_some(if run < 6 { 1e3 } else { 1e4 })).collect();
        let of = |exact| {
            let series = vec![series("half", half.clone()), series("all", vec![Some(1.0); 12])];
            let history = History { exact, series, ..History::default() };
            let (steady, untold) = history.without_change();
            let names = |of: Vec<&Series>| of.iter().map(|series| series.point.clone()).collect::<Vec<_>>();
            (history.can_tell(), names(steady), names(untold))
        };
        assert_eq!(of(false), (true, vec!["all".to_owned()], vec!["half".to_owned()]));
        assert_eq!(of(true), (true, vec!["half".to_owned(), "all".to_owned()], vec![]));
    }

    fn run(folder: &Path, facts: &[(&str, &str)], median: f64) {
        let store = Store::create(folder, facts.iter().copied()).unwrap();
        let sql = "INSERT INTO main.statistic VALUES ('e', '{\"requests\":16}', 'total_ns', 1, ?1, ?1, ?1, ?1, NULL)";
        store.db.execute(sql, [median]).unwrap();
    }

    #[test]
    fn runs_are_in_the_order_of_their_beginning_and_facts_beside_their_changes() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let facts = |day: &'static str, revision: &'static str| {
            [
                ("study.name", "s"),
                ("board", "b"),
                ("started_utc", day),
                ("git.revision", revision),
                ("board.repeats_to_the_bit", "yes"),
            ]
        };
        run(&at("x/later"), &facts("2026-01-03 00:00:00", "two"), 101.0);
        run(&at("x/deep/first"), &facts("2026-01-01 00:00:00", "one"), 100.0);
        run(&at("y"), &facts("2026-01-02 00:00:00", "one"), 100.0);
        let all = history(&[at("x"), at("y")], &Selection::default()).unwrap();
        assert_eq!(
            all.runs.iter().map(|run| run.folder.clone()).collect::<Vec<_>>(),
            [at("x/deep/first"), at("y"), at("x/later")]
        );
        let [series] = &all.series[..] else { panic!("{:?}", all.series) };
        assert_eq!(series.changes, [Change { last: 1, run: 2, before: 100.0, after: 101.0 }]);
        let fact = FactChange { run: 2, name: "git.revision".into(), before: "one".into(), after: "two".into() };
        assert_eq!((all.facts_between(1, 2).collect::<Vec<_>>(), all.facts_between(0, 1).count()), (vec![&fact], 0));

        // What makes no history says why.
        let refused = |folders: &[PathBuf], selection: &Selection| history(folders, selection).unwrap_err().chain();
        let none = Selection::default();
        assert!(refused(&[at("y")], &none).contains("there is one run of s on b"));
        std::fs::create_dir(at("empty")).unwrap();
        assert!(refused(&[at("y"), at("empty")], &none).contains("there are no results in"));
        run(&at("z"), &[("study.name", "other"), ("board", "b")], 1.0);
        let several = refused(&[at("y"), at("z")], &none);
        assert!(several.contains("several studies: other (") && several.contains("s ("), "{several}");
        let one = Selection { study: Some("s".into()), ..Selection::default() };
        assert_eq!(history(&[folder.path().to_owned()], &one).unwrap().runs.len(), 3);
        std::fs::write(at("z/results.sqlite"), "no database").unwrap();
        let damaged = refused(&[at("y"), at("z")], &none);
        assert!(damaged.contains("cannot read the run in") && damaged.contains("/z"), "{damaged}");
        let unknown = Selection { metrics: vec!["nothing".into()], ..Selection::default() };
        assert!(refused(&[at("x")], &unknown).contains("nothing"));
    }
}
