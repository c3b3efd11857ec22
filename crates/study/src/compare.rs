//! Holding two runs against each other.

use crate::factor::{Point, describe};
use crate::run::varying;
use crate::store::{Store, StoredCell};
use pocketstone_core::{Error, Result};
use std::collections::BTreeMap;

/// What two runs have in common, and in what they differ.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Cells that both have, with logs that are the same to the bit.
    pub identical: usize,
    /// Cells that both have, with logs that differ, in words.
    pub different: Vec<String>,
    /// Cells that only one of them has.
    pub unmatched: usize,
    /// Medians that both have.
    pub rows: Vec<ComparedPoint>,
}

/// A point's metric in both runs.
#[derive(Debug, Clone, PartialEq)]
pub struct ComparedPoint {
    /// The point in words.
    pub point: String,
    /// The metric.
    pub metric: String,
    /// Median in the first run, and its 90% interval.
    pub a: [f64; 3],
    /// Median in the second run, and its 90% interval.
    pub b: [f64; 3],
}

impl ComparedPoint {
    /// How much larger the second is, as a fraction of the first.
    pub fn change(&self) -> f64 {
        match self.a[0] == self.b[0] {
            true => 0.0,
            false => self.b[0] / self.a[0] - 1.0,
        }
    }

    /// The verdict in words: with overlapping intervals there is none to give.
    pub fn verdict(&self) -> &'static str {
        match (self.a[0] == self.b[0], self.b[1] > self.a[2], self.b[2] < self.a[1]) {
            (true, ..) => "the same",
            (_, true, _) => "larger",
            (_, _, true) => "smaller",
            _ => "no clear difference",
        }
    }
}

/// Facts that must agree for a comparison to mean anything.
const MUST_AGREE: [&str; 5] = ["study.name", "board", "fact.kernel.release", "fact.machine", "fact.qemu.arguments"];

/// The facts that must agree and do not: name, first value, second value.
///
/// # Errors
/// When the results cannot be read.
pub fn differing_facts(a: &Store, b: &Store) -> Result<Vec<(String, String, String)>> {
    let mut differing = Vec::new();
    for name in MUST_AGREE {
        let value = |store: &Store| Ok::<_, Error>(store.fact(name)?.unwrap_or_else(|| "unavailable".into()));
        let (a, b) = (value(a)?, value(b)?);
        if a != b {
            differing.push((name.to_owned(), a, b));
        }
    }
    Ok(differing)
}

/// Compares two runs cell by cell and point by point.
///
/// # Errors
/// When the results cannot be read.
pub fn compare(a: &Store, b: &Store) -> Result<Comparison> {
    let key = |c: &StoredCell| (c.experiment.clone(), format!("{:?}", c.point), c.seed, c.traced);
    let done = |store: &Store| -> Result<BTreeMap<_, StoredCell>> {
        Ok(store.cells()?.into_iter().filter(|c| c.digest.is_some()).map(|c| (key(&c), c)).collect())
    };
    let (in_a, in_b) = (done(a)?, done(b)?);
    let (mut identical, mut different) = (0, Vec::new());
    for (key, cell) in &in_a {
        match in_b.get(key) {
            Some(other) if other.digest == cell.digest => identical += 1,
            Some(_) => {
                let names: Vec<&str> = cell.point.keys().map(String::as_str).collect();
                let traced = if cell.traced { " traced" } else { "" };
                different.push(format!(
                    "{}: {} seed={}{traced}",
                    cell.experiment,
                    describe(&cell.point, &names),
                    cell.seed
                ));
            }
            None => {}
        }
    }
    let unmatched = in_a.len() + in_b.len() - 2 * (identical + different.len());
    Ok(Comparison { identical, different, unmatched, rows: rows(a, b)? })
}

fn rows(a: &Store, b: &Store) -> Result<Vec<ComparedPoint>> {
    type Medians = BTreeMap<(String, String, String), [f64; 3]>;
    let medians = |store: &Store| -> Result<Medians> {
        let sql = "SELECT experiment, point, metric, median, low, high FROM statistic
                   WHERE metric IN ('total_ns', 'page_senses')";
        let rows =
            store.rows(sql, [], |r| Ok(((r.get(0)?, r.get(1)?, r.get(2)?), [r.get(3)?, r.get(4)?, r.get(5)?])))?;
        Ok(rows.into_iter().collect())
    };
    let (in_a, in_b) = (medians(a)?, medians(b)?);
    let both: Vec<_> = in_a.iter().filter_map(|(key, a)| Some((key, a, in_b.get(key)?))).collect();
    let points: Vec<Point> = both.iter().map(|((_, p, _), ..)| serde_json::from_str(p).unwrap_or_default()).collect();
    let names = varying(&points.iter().collect::<Vec<_>>());
    Ok(both
        .iter()
        .zip(&points)
        .map(|(((experiment, _, metric), a, b), point)| ComparedPoint {
            point: format!("{experiment}: {}", describe(point, &names)),
            metric: metric.clone(),
            a: **a,
            b: **b,
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_intervals_apart_are_a_difference() {
        let point = |a: [f64; 3], b: [f64; 3]| ComparedPoint { point: String::new(), metric: String::new(), a, b };
        let up = point([10.0, 9.0, 11.0], [15.0, 14.0, 16.0]);
        assert_eq!((up.verdict(), up.change()), ("larger", 0.5));
        assert_eq!(point([15.0, 14.0, 16.0], [10.0, 9.0, 11.0]).verdict(), "smaller");
        assert_eq!(point([10.0, 9.0, 11.0], [11.0, 10.5, 12.0]).verdict(), "no clear difference");
        assert_eq!(point([0.0, 0.0, 0.0], [0.0, 0.0, 0.0]).change(), 0.0);
    }
}
