//! Holding two runs against each other.

use crate::results::stats::{Spread, Statistic, statistic};
use crate::results::store::{Store, StoredCell};
use crate::specification::factor::{Point, describe};
use crate::specification::metric::{self, Better, Metric};
use crate::specification::points::varying;
use crate::specification::study::{JUDGED, Study};
use pocketstone_board::COMPARABLE;
use pocketstone_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Comparison of two runs.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Cells that both have, with logs that are the same to the bit.
    pub identical: usize,
    /// Cells that both have, with logs that differ, in words.
    pub different: Vec<String>,
    /// Cells that only one of them has measured.
    pub unmatched: usize,
    /// Those of them that the first one has measured and the second one has not, or in which it failed; in words.
    pub lost: Vec<String>,
    /// The judged metrics that a cell of the first one has and the same cell of the second one has not, in words.
    pub lost_metrics: Vec<String>,
    /// The metrics that the study judges, at every point that both have.
    pub rows: Vec<ComparedPoint>,
    /// Where no cell is in both: the factors of which the runs have no value in common.
    pub apart: Vec<Apart>,
}

/// A factor of which two runs have no value in common.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Apart {
    /// Its name.
    pub factor: String,
    /// The first run's values.
    pub a: String,
    /// The second run's.
    pub b: String,
}

/// A point's metric in both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedPoint {
    /// The point in words.
    pub point: String,
    /// The metric.
    pub metric: &'static Metric,
    /// Median in the first run.
    pub a: f64,
    /// Median in the second run.
    pub b: f64,
    /// The second value over the first one, of the same cell each; infinite where the first one is 0 or below and the
    /// second one is another.
    pub ratio: Statistic,
    /// The smallest and the largest of those.
    pub extremes: [f64; 2],
    /// Whether the machines of both runs repeat a cell to the bit: then nothing is noise.
    pub exact: bool,
}

/// What can be said of a metric in two runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// No cell's value has changed.
    Same,
    /// The second run's values are larger.
    Larger,
    /// The second run's values are smaller.
    Smaller,
    /// They are not all to one side, or the interval of their ratio contains 1.
    NoClearDifference,
    /// The values are too few to tell a difference from noise.
    CannotTell,
}

impl Verdict {
    /// The verdict in words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Same => "the same",
            Verdict::Larger => "larger",
            Verdict::Smaller => "smaller",
            Verdict::NoClearDifference => "no clear difference",
            Verdict::CannotTell => "cannot tell",
        }
    }
}

impl Comparison {
    /// The medians of which can be said whether they are worse, and those of which cannot: noise is not told apart.
    pub fn judged(&self) -> (usize, usize) {
        let directed = || self.rows.iter().filter(|row| row.metric.better != Better::Neither);
        let unjudged = directed().filter(|row| row.verdict() == Verdict::CannotTell).count();
        (directed().count() - unjudged, unjudged)
    }
}

impl ComparedPoint {
    /// Why there is no verdict, or no change or end of its spread as a number, in words; `None` where there are all.
    pub fn reason(&self) -> Option<&'static str> {
        match self.verdict() {
            Verdict::CannotTell => Some("fewer than 5 cells of a machine that does not repeat to the bit"),
            _ if self.extremes.iter().any(|ratio| !ratio.is_finite()) => {
                Some("a value of the first run is 0 or below: no change is a fraction of it")
            }
            _ => None,
        }
    }

    /// How much larger the second is, as a fraction of the first: the median over the cells.
    pub fn change(&self) -> f64 {
        self.ratio.median - 1.0
    }

    /// Whether the second run's values are larger. On a machine that repeats to the bit a difference is one where all
    /// cells differ in the same direction; on any other, where the interval of the ratio does not contain 1, and
    /// there is none of fewer than 5 cells.
    pub fn verdict(&self) -> Verdict {
        // An interval leaves out the outermost cells, which are noise at most where a cell does not repeat to the bit.
        let [low, high] = match self.exact {
            true => self.extremes,
            false => [self.ratio.spread.low(), self.ratio.spread.high()],
        };
        match (self.ratio.spread, low > 1.0, high < 1.0) {
            (..) if self.extremes == [1.0, 1.0] => Verdict::Same,
            (Spread::Range { .. }, ..) if !self.exact => Verdict::CannotTell,
            (_, true, _) => Verdict::Larger,
            (_, _, true) => Verdict::Smaller,
            _ => Verdict::NoClearDifference,
        }
    }

    /// By which fraction of the first run the second one is worse; 0 where it is not, or where there is no telling.
    pub fn regression(&self) -> f64 {
        let worse = match self.metric.better {
            Better::Less => self.change(),
            Better::More => -self.change(),
            Better::Neither => 0.0,
        };
        // Where cells repeat to the bit the median is no noise, whichever way single cells went.
        let told = self.exact || matches!(self.verdict(), Verdict::Larger | Verdict::Smaller);
        if told && worse > 0.0 { worse } else { 0.0 }
    }
}

/// The facts that must agree for a comparison to mean anything, and do not: name, first value, second value.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read.
pub fn differing_facts(a: &Store, b: &Store) -> Result<Vec<(String, String, String)>> {
    let mut differing = Vec::new();
    let of_board = COMPARABLE.map(|name| format!("fact.{name}"));
    for name in ["study.name", "board"].into_iter().chain(of_board.iter().map(String::as_str)) {
        let value = |store: &Store| Ok::<_, Error>(store.fact(name)?.unwrap_or_else(|| "unavailable".into()));
        let (a, b) = (value(a)?, value(b)?);
        if a != b {
            differing.push((name.to_owned(), a, b));
        }
    }
    Ok(differing)
}

/// The metrics by which a run's study judges a change; those of results whose study cannot be read are the usual ones.
pub(crate) fn judged(store: &Store) -> Result<Vec<&'static Metric>> {
    let name = store.fact("study.name")?.unwrap_or_default();
    let study = store.fact("study")?.and_then(|text| Study::parse(&format!("{name}.toml"), &text).ok());
    let names = study.map_or_else(|| JUDGED.map(str::to_owned).to_vec(), |study| study.judged);
    Ok(names.iter().filter_map(|name| metric::named(name)).collect())
}

/// Compares two runs cell by cell and point by point, by the metrics that the study of the first one judges.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read.
pub fn compare(a: &Store, b: &Store) -> Result<Comparison> {
    let key = |c: &StoredCell| (c.experiment.clone(), format!("{:?}", c.point), c.seed, c.traced);
    let done = |store: &Store| -> Result<BTreeMap<_, StoredCell>> {
        Ok(store.cells()?.into_iter().filter(|c| c.digest.is_some()).map(|c| (key(&c), c)).collect())
    };
    let (in_a, in_b) = (done(a)?, done(b)?);
    let names = varying(&in_a.values().map(|cell| &cell.point).collect::<Vec<_>>());
    let words = |cell: &StoredCell| {
        let traced = if cell.traced { " traced" } else { "" };
        format!("{} seed={}{traced}", of_point(&cell.experiment, &cell.point, &names), cell.seed)
    };
    let (mut identical, mut different, mut lost) = (0, Vec::new(), Vec::new());
    let mut common: BTreeMap<i64, i64> = BTreeMap::new();
    for (key, cell) in &in_a {
        match in_b.get(key) {
            Some(other) if other.digest == cell.digest => identical += 1,
            Some(_) => different.push(words(cell)),
            None => lost.push(words(cell)),
        }
        common.extend(in_b.get(key).map(|other| (cell.id, other.id)));
    }
    let unmatched = in_a.len() + in_b.len() - 2 * common.len();
    let apart =
        if common.is_empty() { apart([&in_a, &in_b].map(|run| run.values().map(|c| &c.point))) } else { vec![] };
    let (rows, lost_metrics) = rows(a, b, &common)?;
    Ok(Comparison { identical, different, unmatched, lost, lost_metrics, rows, apart })
}

/// A point in words: its experiment, and the factors that it has not in common with all others.
fn of_point(experiment: &str, point: &Point, names: &[&str]) -> String {
    match describe(point, names) {
        none if none.is_empty() => experiment.to_owned(),
        factors => format!("{experiment}: {factors}"),
    }
}

/// The factors of which two runs have no value in common, with the values of each.
fn apart<'a>(runs: [impl Iterator<Item = &'a Point>; 2]) -> Vec<Apart> {
    let [of_a, of_b] = runs.map(|points| {
        let mut values: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
        for (factor, value) in points.flat_map(|point| point.iter()) {
            let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            values.entry(factor).or_default().insert(text);
        }
        values
    });
    let words = |values: &BTreeSet<String>| values.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let both = of_a.iter().filter_map(|(factor, a)| Some((factor, a, of_b.get(factor)?)));
    both.filter(|(_, a, b)| a.is_disjoint(b))
        .map(|(factor, a, b)| Apart { factor: (*factor).to_owned(), a: words(a), b: words(b) })
        .collect()
}

/// What the study judges over the cells that both runs have, each beside its own: what only one of them measured moves
/// nothing. And in words which of it the second run lacks.
fn rows(a: &Store, b: &Store, common: &BTreeMap<i64, i64>) -> Result<(Vec<ComparedPoint>, Vec<String>)> {
    let judged = judged(a)?;
    let exact = a.repeats_to_the_bit()? && b.repeats_to_the_bit()?;
    type Values = BTreeMap<(i64, String), f64>;
    let values = |store: &Store| -> Result<Values> {
        let rows =
            store.rows("SELECT cell, name, value FROM metric", [], |r| Ok(((r.get(0)?, r.get(1)?), r.get(2)?)))?;
        Ok(rows.into_iter().collect())
    };
    let (of_a, of_b) = (values(a)?, values(b)?);
    let cells: Vec<StoredCell> = a.cells()?.into_iter().filter(|c| common.contains_key(&c.id)).collect();
    let names = varying(&cells.iter().map(|c| &c.point).collect::<Vec<_>>());
    // By point; twins, of which only one has each metric, are together.
    let mut points: Vec<(&str, &Point, Vec<i64>)> = Vec::new();
    let mut places: BTreeMap<(&str, &Point), usize> = BTreeMap::new();
    for cell in &cells {
        let place = *places.entry((&cell.experiment, &cell.point)).or_insert(points.len());
        if place == points.len() {
            points.push((&cell.experiment, &cell.point, Vec::new()));
        }
        points[place].2.push(cell.id);
    }
    let (mut rows, mut lost) = (Vec::new(), Vec::new());
    for (experiment, point, ids) in points {
        let words = of_point(experiment, point, &names);
        for metric in &judged {
            let name = metric.name.to_owned();
            let value = |values: &Values, id: &i64| values.get(&(*id, name.clone())).copied();
            let pair = |id: &i64| Some((value(&of_a, id)?, value(&of_b, common.get(id)?)?));
            let (in_a, in_b): (Vec<f64>, Vec<f64>) = ids.iter().filter_map(pair).unzip();
            if ids.iter().any(|id| value(&of_a, id).is_some() && pair(id).is_none()) {
                lost.push(format!("{words} {name}"));
            }
            let ratios: Vec<f64> = in_a.iter().zip(&in_b).map(|(a, b)| ratio(*a, *b)).collect();
            if let (Some(ratio), Some(a), Some(b)) = (of_ratios(&ratios), statistic(&in_a), statistic(&in_b)) {
                let (point, extremes) = (words.clone(), extremes(&ratios));
                rows.push(ComparedPoint { point, metric, a: a.median, b: b.median, ratio, extremes, exact });
            }
        }
    }
    Ok((rows, lost))
}

/// A value over the first run's. Of 0 and of what is below no change is a fraction: it has a direction alone.
fn ratio(first: f64, second: f64) -> f64 {
    match (first > 0.0, second > first) {
        _ if first == second => 1.0,
        (true, _) => second / first,
        (false, true) => f64::INFINITY,
        (false, false) => f64::NEG_INFINITY,
    }
}

/// The statistic of ratios. Where those in the middle are infinite to both sides, as many values have grown as have
/// shrunk: the median is no change.
fn of_ratios(ratios: &[f64]) -> Option<Statistic> {
    let of_all = statistic(ratios)?;
    let median = if of_all.median.is_nan() { 1.0 } else { of_all.median };
    Some(Statistic { median, ..of_all })
}

fn extremes(values: &[f64]) -> [f64; 2] {
    [values.iter().copied().fold(f64::INFINITY, f64::min), values.iter().copied().fold(f64::NEG_INFINITY, f64::max)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(metric: &str, ratios: &[f64], exact: bool) -> ComparedPoint {
        let ratio = of_ratios(ratios).unwrap();
        let metric = metric::named(metric).unwrap();
        let extremes = extremes(ratios);
        ComparedPoint { point: String::new(), metric, a: 1.0, b: ratio.median, ratio, extremes, exact }
    }

    #[test]
    fn a_difference_needs_five_cells_or_a_machine_that_repeats_to_the_bit() {
        let verdict = |ratios: &[f64], exact| point("total_ns", ratios, exact).verdict();
        for ratios in [&[2.0][..], &[0.5], &[2.0, 2.0, 2.0, 2.0], &[1.0, 1.1]] {
            assert_eq!(verdict(ratios, false), Verdict::CannotTell, "{ratios:?}");
        }
        assert_eq!(verdict(&[1.1, 1.2, 1.3, 1.4, 1.5], false), Verdict::Larger);
        assert_eq!(verdict(&[0.9, 0.8, 0.7, 0.6, 0.5], false), Verdict::Smaller);
        assert_eq!(verdict(&[0.99, 1.2, 1.3, 1.4, 1.5], false), Verdict::NoClearDifference);
        // Of eight, one on the other side is outside of the interval.
        assert_eq!(verdict(&[0.9, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2], false), Verdict::Larger);
        assert_eq!((verdict(&[2.0], true), verdict(&[0.5, 0.6], true)), (Verdict::Larger, Verdict::Smaller));
        assert_eq!(
            (verdict(&[0.5, 2.0], true), verdict(&[1.0; 3], false)),
            (Verdict::NoClearDifference, Verdict::Same)
        );
        // One of many is beyond the interval, and no noise.
        assert_eq!(verdict(&[1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0], true), Verdict::NoClearDifference);
        assert_eq!(verdict(&[0.9, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2, 1.2], true), Verdict::NoClearDifference);
        assert_eq!(point("total_ns", &[f64::INFINITY], true).verdict(), Verdict::Larger);
    }

    #[test]
    fn runs_are_compared_whose_boards_differ_in_nothing_that_the_board_says_must_agree() {
        let folder = tempfile::tempdir().unwrap();
        let store = |name: &str| Store::create(&folder.path().join(name), [("board", "b")]).unwrap();
        let (a, b) = (store("a"), store("b"));
        assert_eq!(differing_facts(&a, &b).unwrap(), []);
        b.set_facts([("fact.image.digest", "another")]).unwrap();
        assert_eq!(differing_facts(&a, &b).unwrap(), []);
        for name in COMPARABLE.map(|name| format!("fact.{name}")) {
            b.set_facts([(name.as_str(), "another")]).unwrap();
            assert!(differing_facts(&a, &b).unwrap().contains(&(name, "unavailable".into(), "another".into())));
        }
    }

    #[test]
    fn what_cannot_be_judged_is_counted_and_what_the_second_run_lacks_is_lost() {
        let folder = tempfile::tempdir().unwrap();
        let study = "title = 't'\nboard = 'virt-nand'\njudged_metrics = ['total_ns', 'page_senses', 'process_ns']\n\
                     [[experiment]]\nname = 'e'\n[experiment.factors]\nfile_system = 'jffs2'\n\
                     file_bytes = '1MiB'\nrequests = [8, 16]\n";
        Study::parse("s.toml", study).unwrap();
        let store = |name: &str, values: &str| {
            let store = Store::create(&folder.path().join(name), [("study", study), ("study.name", "s")]).unwrap();
            let sql = format!(
                r#"WITH p(i, point) AS (VALUES (0, '{{"requests":8}}'), (1, '{{"requests":16}}')),
                     s(seed) AS (VALUES (1), (2))
                   INSERT INTO cell SELECT 2 * i + seed, 'e', point, 0, seed, 0, 'done', '{{}}', NULL, 'd', 1.0, NULL,
                     NULL, NULL FROM p, s;
                   INSERT INTO main.metric VALUES {values};"#
            );
            store.db.execute_batch(&sql).unwrap();
            store
        };
        let a = store(
            "a",
            "(1, 'total_ns', 1), (2, 'total_ns', 1), (3, 'total_ns', 1), (3, 'page_senses', 0),
                            (1, 'process_ns', 5), (2, 'process_ns', 5)",
        );
        let b = store(
            "b",
            "(1, 'total_ns', 2), (2, 'total_ns', 2), (3, 'total_ns', 1), (3, 'page_senses', 7),
                            (4, 'total_ns', 9), (2, 'process_ns', 5)",
        );
        let compared = compare(&a, &b).unwrap();
        // The total of 8 requests and the page senses of 16 differ, in less than five cells; the rest is the same.
        assert_eq!((compared.judged(), compared.rows.len()), ((2, 2), 4));
        assert_eq!(compared.lost_metrics, ["e: requests=8 process_ns"]);
        for store in [&a, &b] {
            store.set_facts([("board.repeats_to_the_bit", "yes")]).unwrap();
        }
        let compared = compare(&a, &b).unwrap();
        assert_eq!(compared.judged(), (4, 0));
        let of = |name: &str| compared.rows.iter().find(|row| row.metric.name == name).unwrap();
        assert_eq!((of("total_ns").reason(), of("total_ns").regression()), (None, 1.0));
        let senses = of("page_senses");
        assert!(senses.regression().is_infinite() && senses.reason().unwrap().contains("is 0"), "{senses:?}");
    }

    #[test]
    fn runs_without_a_common_cell_say_by_which_factors_they_are_apart() {
        let point = |text: &str| -> Point { serde_json::from_str(text).unwrap() };
        let a = [
            r#"{"command":"./app","command_files":"a/app","n":1}"#,
            r#"{"command":"./app","command_files":"a/x","n":2}"#,
        ];
        let b = [r#"{"command":"./app","command_files":"b/app","n":2}"#];
        let (a, b): (Vec<Point>, Vec<Point>) = (a.map(point).into(), b.map(point).into());
        let found = apart([a.iter(), b.iter()]);
        let expected = Apart { factor: "command_files".into(), a: "a/app, a/x".into(), b: "b/app".into() };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn from_a_value_below_0_a_change_has_a_direction_and_is_no_fraction() {
        // An energy less idle, from -998 uJ.
        let of = |after: f64| point("active_energy_uj", &[ratio(-998.0, after); 5], false);
        let rows = [50_200.0, -3000.0, -998.0].map(of);
        assert_eq!(rows.each_ref().map(|row| row.verdict()), [Verdict::Larger, Verdict::Smaller, Verdict::Same]);
        assert_eq!(rows.each_ref().map(|row| row.regression()), [f64::INFINITY, 0.0, 0.0]);
        assert!(rows[0].reason().unwrap().contains("0 or below") && rows[2].reason().is_none());
        assert_eq!([ratio(0.0, -1.0), ratio(0.0, 0.0), ratio(4.0, -1.0)], [f64::NEG_INFINITY, 1.0, -0.25]);
        // As many have grown as have shrunk: in the middle nothing has changed.
        let both = point("active_energy_uj", &[ratio(0.0, -1.0), ratio(0.0, 1.0)], true);
        assert_eq!((both.change(), both.verdict(), both.regression()), (0.0, Verdict::NoClearDifference, 0.0));
    }

    #[test]
    fn a_regression_has_the_direction_of_its_metric() {
        let of = |metric: &str, ratio: f64| point(metric, &[ratio; 5], false).regression();
        assert_eq!((of("total_ns", 1.25), of("total_ns", 0.75)), (0.25, 0.0));
        assert_eq!((of("page_senses", 1.5), of("operations_per_s", 0.75)), (0.5, 0.25));
        assert_eq!((of("operations_per_s", 1.5), of("off_core_ns", 2.0)), (0.0, 0.0));
        assert_eq!(point("total_ns", &[2.0], false).regression(), 0.0, "there is no telling");
    }

    #[test]
    fn on_a_machine_that_repeats_to_the_bit_a_cell_that_does_not_move_hides_no_regression() {
        let of = |metric: &str, ratios: [f64; 5], exact| {
            let point = point(metric, &ratios, exact);
            (point.verdict(), point.regression())
        };
        let unclear = |regression| (Verdict::NoClearDifference, regression);
        assert_eq!(of("total_ns", [1.0, 1.5, 1.5, 1.5, 1.5], true), unclear(0.5));
        assert_eq!(of("operations_per_s", [1.0, 0.75, 0.75, 0.75, 0.75], true), unclear(0.25));
        assert_eq!(of("total_ns", [1.0, 1.5, 1.5, 1.5, 1.5], false), unclear(0.0));
        assert_eq!(of("total_ns", [1.0, 1.0, 1.0, 1.0, 1.5], true), unclear(0.0), "the median is the same");
        assert_eq!(of("off_core_ns", [1.0, 1.5, 1.5, 1.5, 1.5], true), unclear(0.0), "none is worse");
    }
}
