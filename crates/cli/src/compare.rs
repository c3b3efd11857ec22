//! `pocketstone compare`.

use crate::arguments::CompareArguments;
use pocketstone_cli::print_json;
use pocketstone_core::words::counted;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_study::results::compare::{
    Apart, ComparedPoint, Comparison, Verdict, compare as compare_runs, differing_facts,
};
use pocketstone_study::results::stats::Spread;
use pocketstone_study::results::store::Store;
use serde_json::Value;

/// Compares two runs.
///
/// # Errors
/// `ErrorKind::User` if they cannot be compared; `ErrorKind::Threshold` if a regression exceeds the limit, cells or
/// metrics are lost, or nothing can be judged.
pub fn compare(arguments: &CompareArguments) -> Result<u8> {
    let (a, b) = (Store::open(&arguments.a, false)?, Store::open(&arguments.b, false)?);
    let differing = differing_facts(&a, &b)?;
    if !differing.is_empty() && !arguments.force {
        let list: Vec<String> = differing.iter().map(|(name, a, b)| format!("{name}: {a} and {b}")).collect();
        return Err(Error::user(format!("the runs are not comparable: {}", list.join("; ")))
            .hint("compare them anyway with --force"));
    }
    let comparison = compare_runs(&a, &b)?;
    if comparison.identical + comparison.different.len() == 0 {
        return Err(nothing_in_common(&comparison.apart));
    }
    let faults = arguments.max_regression.map(|limit| faults(&comparison, limit)).unwrap_or_default();
    match (arguments.json, arguments.markdown) {
        (true, _) => print_json(&json(arguments, &comparison, &faults))?,
        (_, true) => say!("{}", markdown(arguments, &comparison, &faults)),
        _ => print(&comparison),
    }
    if faults.is_empty() {
        return Ok(0);
    }
    if !arguments.json && !arguments.markdown {
        lost(&comparison).for_each(|what| say!("  lost: {what}"));
    }
    let error = Error::new(ErrorKind::Threshold, faults.join(", and "));
    Err(match comparison.judged() {
        (0, 1..) => error.hint("measure with `repetitions = 5` at least: the median of fewer cells has no interval"),
        (0, 0) => error.hint("measure what the study's `judged_metrics` name in both runs"),
        _ => error,
    })
}

fn nothing_in_common(apart: &[Apart]) -> Error {
    let error = Error::user("the runs have no cells in common");
    if apart.is_empty() {
        return error.hint("compare runs that have points and seeds in common");
    }
    let factors: Vec<String> = apart.iter().map(|f| format!("{} is {} and {}", f.factor, f.a, f.b)).collect();
    let error = error.because(Error::user(factors.join("; ")));
    match apart.iter().any(|f| f.factor.starts_with("command")) {
        true => error.hint("two builds of a program are compared at the same path, with the same arguments"),
        false => error.hint("compare runs that have points in common"),
    }
}

/// The first of what the second run lacks: cells, and metrics of cells that it has.
fn lost(comparison: &Comparison) -> impl Iterator<Item = &String> {
    comparison.lost.iter().take(SHOWN).chain(comparison.lost_metrics.iter().take(SHOWN))
}

/// Cells that are listed at most.
const SHOWN: usize = 10;

fn print(comparison: &Comparison) {
    let cells = comparison.identical + comparison.different.len();
    match comparison.different.is_empty() {
        true => say!("identical: the logs of {} are bit-identical", all_common(cells)),
        false => {
            let of = counted(cells, "common cell");
            say!("different: the logs of {} of {of} differ", comparison.different.len());
            comparison.different.iter().take(SHOWN).for_each(|cell| say!("  {cell}"));
        }
    }
    if comparison.unmatched > 0 {
        let (cells, verb) = (counted(comparison.unmatched, "cell"), verb(comparison.unmatched));
        say!("{cells} {verb} in only one of the runs");
    }
    comparison.rows.iter().filter(|r| r.verdict() != Verdict::Same).for_each(|row| say!("{}", said(row)));
    let unknown = comparison.rows.iter().filter(|r| r.verdict() == Verdict::CannotTell).count();
    if unknown > 0 {
        say!("{} {CANNOT_TELL}", counted(unknown, "median"));
    }
}

/// A median in both runs, in a line.
fn said(row: &ComparedPoint) -> String {
    let [a, b] = row.metric.unit.write_both(row.a, row.b);
    let change = percentages(row).map_or(String::new(), |change| format!(" (pairs {change})"));
    format!("{} {}: {a} -> {b}{change}, {}", row.point, row.metric.name, row.verdict().words())
}

/// Why nothing can be said of some medians.
const CANNOT_TELL: &str = "cannot be distinguished from noise: runs on this machine are not bit-identical, and a \
    median\nof fewer than 5 cells has no 90 % interval; use more `repetitions`";

/// All of the cells that both runs have.
fn all_common(cells: usize) -> String {
    if cells == 1 { "the only common cell".to_owned() } else { format!("all {cells} common cells") }
}

/// The verb of so many things.
fn verb(number: usize) -> &'static str {
    if number == 1 { "is" } else { "are" }
}

/// The whole comparison, for programs. A change and its ends are fractions of the first run.
fn json(arguments: &CompareArguments, comparison: &Comparison, faults: &[String]) -> Value {
    let row = |row: &ComparedPoint| {
        let spread = row.ratio.spread;
        let (coverage, n) = match spread {
            Spread::Interval { coverage, .. } => (Some(coverage), None),
            Spread::Range { n, .. } => (None, Some(n)),
        };
        serde_json::json!({
            "point": row.point, "metric": row.metric.name, "a": row.a, "b": row.b, "change": row.change(),
            "low": spread.low() - 1.0, "high": spread.high() - 1.0, "coverage": coverage, "range_of": n,
            "verdict": row.verdict().words(), "regression": row.regression(), "reason": row.reason(),
        })
    };
    serde_json::json!({
        "format": 1, "a": arguments.a, "b": arguments.b, "identical_cells": comparison.identical,
        "different_cells": comparison.different, "cells_in_one_run": comparison.unmatched,
        "lost_cells": comparison.lost, "lost_metrics": comparison.lost_metrics,
        "rows": comparison.rows.iter().map(row).collect::<Vec<_>>(), "unjudged_rows": comparison.judged().1,
        "max_regression_percent": arguments.max_regression, "faults": faults,
    })
}

/// The comparison as a page: what was asked for first, then what has changed.
fn markdown(arguments: &CompareArguments, comparison: &Comparison, faults: &[String]) -> String {
    let cells = comparison.identical + comparison.different.len();
    let mut text = format!("### {} and {}\n\n", arguments.a.display(), arguments.b.display());
    text += &match (arguments.max_regression, faults.is_empty()) {
        (Some(limit), true) => format!("**Passed**: {}.\n\n", passed(comparison, limit)),
        (Some(_), false) => format!("**Failed**: {}.\n\n", faults.join(", and ")),
        (None, _) => String::new(),
    };
    text += &match comparison.different.len() {
        0 => format!("The logs of {} are bit-identical.\n", all_common(cells)),
        n => format!("The logs of {n} of {} differ.\n", counted(cells, "common cell")),
    };
    if comparison.unmatched > 0 {
        let (cells, verb) = (counted(comparison.unmatched, "cell"), verb(comparison.unmatched));
        text += &format!("{cells} {verb} in only one of the runs.\n");
    }
    let changed: Vec<&ComparedPoint> = comparison.rows.iter().filter(|r| r.verdict() != Verdict::Same).collect();
    if !changed.is_empty() {
        text += "\n| | Metric | Before | After | Change | |\n| --- | --- | ---: | ---: | ---: | --- |\n";
    }
    for row in &changed {
        let words = [row.point.as_str(), row.metric.name].map(|word| word.replace('|', "\\|"));
        let [a, b] = row.metric.unit.write_both(row.a, row.b);
        let (change, verdict) = (percentages(row).unwrap_or_default(), row.verdict().words());
        text += &format!("| {} | {} | {a} | {b} | {change} | {verdict} |\n", words[0], words[1]);
    }
    if changed.iter().any(|row| row.verdict() == Verdict::CannotTell) {
        text += &format!("\nSome medians {CANNOT_TELL}.\n");
    }
    lost(comparison).for_each(|what| text += &format!("\n- lost: {what}"));
    text
}

/// What a limit says that no median exceeds: where cells do not repeat to the bit, that none does so clearly.
fn passed(comparison: &Comparison, limit: f64) -> String {
    let worse = if comparison.rows.iter().all(|row| row.exact) { "worse" } else { "clearly worse" };
    match comparison.judged() {
        (_, 0) => format!("no median is {worse} by more than {limit} %"),
        (judged, unjudged) => {
            let none = match judged {
                1 => format!("the only median that can be judged is not {worse}"),
                _ => format!("none of {judged} medians is {worse}"),
            };
            format!("{none} by more than {limit} %; {} cannot be judged", counted(unjudged, "other"))
        }
    }
}

/// A median's change in per cent, and its ends with what they are, unless it is of one cell. `None` where the change is
/// no fraction of the first run, and no ends where one of them is none.
fn percentages(row: &ComparedPoint) -> Option<String> {
    let percent = |ratio: f64| ratio.is_finite().then(|| format!("{:+.1}", 100.0 * (ratio - 1.0)));
    let spread = row.ratio.spread;
    let ends = spread.name().zip(percent(spread.low())).zip(percent(spread.high()));
    let ends = ends.map_or(String::new(), |((name, low), high)| format!("; {name}: {low} to {high}"));
    Some(format!("{} %{ends}", percent(row.ratio.median)?))
}

/// Why the second run fails: it is worse by more than `limit` per cent, lacks what the first one has, or nothing says
/// that it is not worse.
fn faults(comparison: &Comparison, limit: f64) -> Vec<String> {
    let mut faults = Vec::new();
    let worse = comparison.rows.iter().filter(|r| 100.0 * r.regression() > limit).count();
    if worse > 0 {
        faults.push(format!("{} {} worse by more than {limit} %", counted(worse, "median"), verb(worse)));
    }
    if !comparison.lost.is_empty() {
        let (cells, verb) = (counted(comparison.lost.len(), "cell"), verb(comparison.lost.len()));
        faults.push(format!("{cells} of the first run {verb} missing or failed in the second"));
    }
    if !comparison.lost_metrics.is_empty() {
        let (medians, verb) = (counted(comparison.lost_metrics.len(), "median"), verb(comparison.lost_metrics.len()));
        faults.push(format!("{medians} of the first run {verb} without values in the second"));
    }
    if comparison.judged().0 == 0 {
        faults.push("none of the medians can be judged".to_owned());
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_study::results::stats::statistic;
    use pocketstone_study::specification::metric;

    fn row(ratios: &[f64], exact: bool) -> ComparedPoint {
        let (ratio, metric) = (statistic(ratios).unwrap(), metric::named("total_ns").unwrap());
        let ends = [ratios[0], ratios[ratios.len() - 1]];
        ComparedPoint { point: String::new(), metric, a: 1.0, b: 1.0, ratio, extremes: ends, exact }
    }

    #[test]
    fn a_change_has_percentages_where_it_is_a_fraction() {
        let of = |ratios: &[f64]| percentages(&row(ratios, true));
        assert_eq!(of(&[1.5]).as_deref(), Some("+50.0 %"));
        assert_eq!(of(&[0.5, 1.0, 1.5]).as_deref(), Some("+0.0 %; range of 3: -50.0 to +50.0"));
        assert_eq!(of(&[1.0, 1.5, f64::INFINITY]).as_deref(), Some("+50.0 %"));
        assert_eq!((of(&[f64::INFINITY; 5]), of(&[f64::NEG_INFINITY])), (None, None));
    }

    #[test]
    fn values_that_differ_do_not_look_alike() {
        let (a, b) = (104_857_600.0, 104_857_601.0);
        let metric = metric::named("used_bytes").unwrap();
        let row = ComparedPoint { metric, a, b, ..row(&[b / a], true) };
        assert_eq!(said(&row), " used_bytes: 100 MiB -> 104857601 B (pairs +0.0 %), larger");
        let page = markdown(&arguments(), &of_rows(vec![row]), &[]);
        assert!(page.ends_with("\n|  | used_bytes | 100 MiB | 104857601 B | +0.0 % | larger |\n"), "{page}");
    }

    #[test]
    fn one_thing_is_singular() {
        let comparison = Comparison {
            unmatched: 1,
            lost: vec!["a cell".into()],
            lost_metrics: vec!["a median".into()],
            ..of_rows(vec![row(&[1.5], true)])
        };
        assert_eq!(
            faults(&comparison, 0.5),
            [
                "1 median is worse by more than 0.5 %",
                "1 cell of the first run is missing or failed in the second",
                "1 median of the first run is without values in the second"
            ]
        );
        let page = markdown(&arguments(), &comparison, &[]);
        let said = "The logs of the only common cell are bit-identical.\n1 cell is in only one of the runs.\n";
        assert!(page.contains(said), "{page}");
    }

    fn arguments() -> CompareArguments {
        let (a, b) = ("a".into(), "b".into());
        CompareArguments { a, b, force: false, max_regression: None, json: false, markdown: true }
    }

    fn of_rows(rows: Vec<ComparedPoint>) -> Comparison {
        let (different, lost, lost_metrics) = (Vec::new(), Vec::new(), Vec::new());
        Comparison { identical: 1, different, unmatched: 0, lost, lost_metrics, rows, apart: vec![] }
    }

    #[test]
    fn a_passed_limit_says_no_more_than_was_judged() {
        let text = |rows| passed(&of_rows(rows), 0.5);
        assert_eq!(text(vec![row(&[1.0], true)]), "no median is worse by more than 0.5 %");
        let unclear = row(&[0.5, 2.0, 2.0, 2.0, 2.0], false);
        assert_eq!(text(vec![unclear.clone()]), "no median is clearly worse by more than 0.5 %");
        assert_eq!(
            text(vec![unclear, row(&[2.0], false)]),
            "the only median that can be judged is not clearly worse by more than 0.5 %; 1 other cannot be judged"
        );
    }
}
