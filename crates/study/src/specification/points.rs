//! Points in words: which factors tell them apart, and how values are shown.

use super::factor::{FACTORS, Point, Value, named, show, value_of};

/// The factors in which the points of a run differ, in the order of the table of factors.
pub fn varying(points: &[&Point]) -> Vec<&'static str> {
    let names = FACTORS.iter().map(|f| f.name);
    names.filter(|n| points.iter().map(|p| p.get(*n)).collect::<Vec<_>>().windows(2).any(|w| w[0] != w[1])).collect()
}

/// A factor's value in a row, as text for a legend.
pub(crate) fn shown(point: &Point, factor: &str) -> String {
    let Ok(known) = named(factor) else {
        return match point.get(factor) {
            Some(Value::Text(text)) => text.clone(),
            value => value.map_or_else(String::new, Value::to_string),
        };
    };
    // Points of earlier versions do not say whether their workload has the factor.
    let value = value_of(point, known).or_else(|| known.default_value());
    value.map_or_else(String::new, |value| show(known, &value))
}
