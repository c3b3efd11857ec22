//! `pocketstone compare`.

use crate::arguments::CompareArguments;
use pocketstone_core::units::format_ns;
use pocketstone_core::{Error, ErrorKind, Result};
use pocketstone_study::compare::{compare as compare_runs, differing_facts};
use pocketstone_study::store::Store;

/// Compares two runs.
///
/// # Errors
/// When they cannot be compared, or a regression exceeds the limit.
pub fn compare(arguments: &CompareArguments) -> Result<u8> {
    let (a, b) = (Store::open(&arguments.a, false)?, Store::open(&arguments.b, false)?);
    let differing = differing_facts(&a, &b)?;
    if !differing.is_empty() && !arguments.force {
        let list: Vec<String> = differing.iter().map(|(name, a, b)| format!("{name}: {a} and {b}")).collect();
        return Err(Error::user(format!("the runs are not of the same kind: {}", list.join("; ")))
            .hint("compare them all the same with --force"));
    }
    let comparison = compare_runs(&a, &b)?;
    if comparison.identical + comparison.different.len() == 0 {
        return Err(Error::user("the runs have no cell in common"));
    }
    let cells = comparison.identical + comparison.different.len();
    match comparison.different.is_empty() {
        true => say!("identical: the logs of all {cells} cells in common agree to the bit"),
        false => {
            say!("different: the logs of {} of {cells} cells in common differ", comparison.different.len());
            comparison.different.iter().take(10).for_each(|cell| say!("  {cell}"));
        }
    }
    if comparison.unmatched > 0 {
        say!("{} cells are in one of the runs only", comparison.unmatched);
    }
    let write = |metric: &str, v: f64| if metric.ends_with("_ns") { format_ns(v) } else { format!("{v:.0}") };
    for row in comparison.rows.iter().filter(|r| r.verdict() != "the same") {
        say!(
            "{} {}: {} -> {} ({:+.1} %), {}",
            row.point,
            row.metric,
            write(&row.metric, row.a[0]),
            write(&row.metric, row.b[0]),
            100.0 * row.change(),
            row.verdict()
        );
    }
    if let Some(limit) = arguments.max_regression {
        let worse = |r: &&pocketstone_study::compare::ComparedPoint| {
            r.metric.ends_with("_ns") && r.verdict() == "larger" && 100.0 * r.change() > limit
        };
        let count = comparison.rows.iter().filter(worse).count();
        if count > 0 {
            return Err(Error::new(ErrorKind::Threshold, format!("{count} medians grew by more than {limit} %")));
        }
    }
    Ok(0)
}
