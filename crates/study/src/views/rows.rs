//! Rows of statistics, and the words that tables have for them.

use crate::results::stats::Spread;
use crate::results::store::Store;
use crate::specification::factor::{self, Point as Factors};
use crate::specification::metric::{self, Unit};
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_core::origin::Origin;
use std::collections::{BTreeMap, BTreeSet};

/// A row of `statistic` or `comparison`.
pub(crate) struct Row {
    pub point: Factors,
    pub n: i64,
    /// Of the median and the spread.
    pub unit: Unit,
    pub median: f64,
    pub spread: Spread,
}

impl Row {
    /// The median as tables have it.
    pub fn text(&self) -> String {
        self.unit.write(self.median)
    }
}

/// A column of tables for the spread of a median: its head says what the two ends are, or each cell does.
pub(crate) struct SpreadColumn {
    /// What the ends are in all rows that have some.
    common: Option<String>,
}

impl SpreadColumn {
    /// The column of these rows.
    pub fn of<'a>(rows: impl Iterator<Item = Option<&'a Row>>) -> Self {
        let names: BTreeSet<String> = rows.flatten().filter_map(|row| row.spread.name()).collect();
        SpreadColumn { common: names.first().filter(|_| names.len() == 1).cloned() }
    }

    /// Its head.
    pub fn head(&self) -> String {
        self.common.clone().unwrap_or_else(|| "spread".to_owned())
    }

    /// A row's cell; one value has no spread.
    pub fn cell(&self, row: &Row) -> String {
        let Some(name) = row.spread.name() else { return "none".to_owned() };
        let ends = format!("{} to {}", row.unit.write(row.spread.low()), row.unit.write(row.spread.high()));
        if self.common.is_some() { ends } else { format!("{ends} ({name})") }
    }
}

/// How a table says what tracing cost, and what its caption says of it.
pub(crate) struct TracingCost {
    pub(super) decimals: usize,
    /// Times repeat to the bit: nothing is noise.
    pub(super) exact: bool,
}

impl TracingCost {
    /// For the results of a store, with so many decimals.
    ///
    /// # Errors
    /// `ErrorKind::User` if the results cannot be read.
    pub fn of(store: &Store, decimals: usize) -> Result<Self> {
        Ok(TracingCost { decimals, exact: store.repeats_to_the_bit()? })
    }

    /// A cost, beside the time of the untraced runs that it is a part of.
    pub fn text(&self, cost: &Row, untraced: Option<&Row>) -> String {
        let text = format!("{:+.*} %", self.decimals, 100.0 * cost.median);
        let spread = untraced
            .filter(|u| u.n > 1 && u.median > 0.0)
            .map_or(0.0, |u| (u.spread.high() - u.spread.low()) / u.median);
        // Tracing makes nothing faster: a cost that is not above zero was not seen.
        let seen = if cost.n > 1 { cost.spread.low() > 0.0 } else { cost.median > spread };
        match (self.exact || seen, self.exact || cost.n > 1) {
            (true, true) => text,
            (true, false) => format!("{text}, one pair"),
            (false, _) => format!("within noise ({text})"),
        }
    }

    /// What to know of these numbers.
    pub fn caption(&self) -> &'static str {
        if self.exact {
            return "";
        }
        " It is within noise if its interval, or the range of fewer than five pairs, does not lie above zero or, for \
            a single pair of runs, if it does not exceed the spread of the untraced runs. A single pair includes any \
            disturbance of either run."
    }
}

/// The rows of one metric in an experiment.
pub(crate) fn rows(store: &Store, table: &str, experiment: &str, metric: &str, only: Option<&str>) -> Result<Vec<Row>> {
    let metric = metric::named(metric).ok_or_else(|| metric::unknown(metric))?;
    // How much better a value is than another one is a share, whatever their unit.
    let (view, unit) = if table == "comparison" { ("improvement", Unit::Share) } else { ("summary", metric.unit) };
    let condition = only.map_or(String::new(), |o| format!("AND ({o})"));
    // What conditions know as the views `summary` and `improvement`, beside the point, which those lack.
    let factors: String = factor::FACTORS.iter().map(|f| format!("point ->> '$.{0}' AS {0}, ", f.name)).collect();
    let sql = format!(
        "SELECT point, n, median, low, high FROM (
             SELECT point, experiment, {factors} metric, n, median, mean, low, high, coverage,
                 (SELECT d.origin FROM metric_definition d WHERE d.name = metric) AS origin FROM {table}) AS {view}
         WHERE experiment = ?1 AND metric = ?2 {condition}"
    );
    let read = |r: &rusqlite::Row<'_>| Ok((r.get::<_, String>(0)?, r.get(1)?, r.get(2)?, r.get(3)?, r.get(4)?));
    let rows = match only {
        Some(only) => store.asked(only, &sql, [experiment, metric.name], read)?,
        None => store.rows(&sql, [experiment, metric.name], read)?,
    };
    rows.into_iter()
        .map(|(point, n, median, low, high)| {
            let point = serde_json::from_str(&point).user(|| "a point is not valid JSON".into())?;
            Ok(Row { point, n, unit, median, spread: Spread::known(n as usize, low, high) })
        })
        .collect()
}

/// A point and its rows by metric.
pub(crate) type Found = (Factors, BTreeMap<&'static str, Row>);

/// The points of an experiment that have some of these metrics, in order, and where the values come from.
pub(crate) fn by_point(
    store: &Store,
    table: &str,
    experiment: &str,
    metrics: &[&'static str],
) -> Result<(Vec<Found>, Origin)> {
    store.with_origin(|store| {
        let mut points: BTreeMap<String, Found> = BTreeMap::new();
        for metric in metrics {
            for row in rows(store, table, experiment, metric, None)? {
                let found = points.entry(sort_key(&row.point)).or_insert_with(|| (row.point.clone(), BTreeMap::new()));
                found.1.insert(metric, row);
            }
        }
        Ok(points.into_values().collect())
    })
}

/// Sorts points by their factors in the order of the table of factors, numbers as numbers.
pub(crate) fn sort_key(point: &Factors) -> String {
    let parts = factor::FACTORS.iter().map(|f| match point.get(f.name) {
        Some(v) => v.as_u64().map_or_else(|| v.to_string(), |n| format!("{n:020}")),
        None => String::new(),
    });
    parts.collect::<Vec<_>>().join("|")
}
