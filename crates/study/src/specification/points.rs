//! Points in words: which factors tell them apart, and how values are shown.

use super::factor::{FACTORS, Point, Value, named, show};

/// The factors in which the points of a run differ, in the order of the table of factors.
pub fn varying(points: &[&Point]) -> Vec<&'static str> {
    let names = FACTORS.iter().map(|f| f.name);
    names.filter(|n| points.iter().map(|p| p.get(*n)).collect::<Vec<_>>().windows(2).any(|w| w[0] != w[1])).collect()
}

/// A factor's value in a row, as text for a legend.
pub(crate) fn shown(point: &Point, factor: &str) -> String {
    let known = named(factor).ok();
    // One that a point says nothing of is what it is by default.
    let value = point.get(factor).cloned().or_else(|| known?.default_value());
    match (known, value) {
        (Some(factor), Some(value)) => show(factor, &value),
        (None, Some(Value::Text(text))) => text,
        (None, Some(value)) => value.to_string(),
        (_, None) => String::new(),
    }
}
