//! `pocketstone compare`.

use crate::arguments::CompareArguments;
use pocketstone_core::units::format_ns;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_study::results::compare::{
    ComparedPoint, Comparison, Verdict, compare as compare_runs, differing_facts,
};
use pocketstone_study::results::store::Store;
use pocketstone_study::specification::metric::Unit;

/// Compares two runs.
///
/// # Errors
/// `ErrorKind::User` if they cannot be compared; `ErrorKind::Threshold` if a regression exceeds the limit, or cells are
/// lost.
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
        return Err(Error::user("the runs have no cells in common"));
    }
    let cells = comparison.identical + comparison.different.len();
    match comparison.different.is_empty() {
        true => say!("identical: the logs of all {cells} common cells are bit-identical"),
        false => {
            say!("different: the logs of {} of {cells} common cells differ", comparison.different.len());
            comparison.different.iter().take(10).for_each(|cell| say!("  {cell}"));
        }
    }
    if comparison.unmatched > 0 {
        say!("{} cells are in only one of the runs", comparison.unmatched);
    }
    for row in comparison.rows.iter().filter(|r| r.verdict() != Verdict::Same) {
        let write = |v: f64| if row.metric.unit == Unit::Nanoseconds { format_ns(v) } else { format!("{v:.0}") };
        say!(
            "{} {}: {} -> {} (pairs {:+.1} %{}), {}",
            row.point,
            row.metric.name,
            write(row.a),
            write(row.b),
            100.0 * row.change(),
            spread(row),
            row.verdict().words()
        );
    }
    let unknown = comparison.rows.iter().filter(|r| r.verdict() == Verdict::CannotTell).count();
    if unknown > 0 {
        say!(
            "{unknown} medians cannot be distinguished from noise: runs on this machine are not bit-identical, and a \
                median"
        );
        say!("of fewer than 5 cells has no 90 % interval; use more `repetitions`");
    }
    match arguments.max_regression {
        Some(limit) => judge(&comparison, limit),
        None => Ok(0),
    }
}

/// What the ends of a median's change are, in words; nothing of one cell.
fn spread(row: &ComparedPoint) -> String {
    let spread = row.ratio.spread;
    let percent = |ratio: f64| format!("{:+.1}", 100.0 * (ratio - 1.0));
    spread
        .name()
        .map_or(String::new(), |name| format!("; {name}: {} to {}", percent(spread.low()), percent(spread.high())))
}

/// Fails where the second run is worse by more than `limit` per cent, or lacks what the first one has.
fn judge(comparison: &Comparison, limit: f64) -> Result<u8> {
    let mut faults = Vec::new();
    let worse = comparison.rows.iter().filter(|r| 100.0 * r.regression() > limit).count();
    if worse > 0 {
        faults.push(format!("{worse} medians are worse by more than {limit} %"));
    }
    if !comparison.lost.is_empty() {
        comparison.lost.iter().take(10).for_each(|cell| say!("  lost: {cell}"));
        faults.push(format!("{} cells of the first run are missing or failed in the second", comparison.lost.len()));
    }
    match faults.is_empty() {
        true => Ok(0),
        false => Err(Error::new(ErrorKind::Threshold, faults.join(", and "))),
    }
}
