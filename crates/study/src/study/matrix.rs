//! The matrices of a study: factors, their values, and what is compared.

use super::place::Locator;
use crate::factor::{self, FACTORS, Factor, Point};
use pocketstone_core::{Error, Result};
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use toml::Spanned;

/// Kinds of board that an experiment may have other factors for.
pub const BOARD_KINDS: [&str; 2] = ["virtual", "host"];

/// A matrix of factors.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Its name, unique in the study.
    pub name: String,
    /// Values by factor.
    pub factors: BTreeMap<&'static str, Vec<Json>>,
    /// Values that replace them on boards of a kind (`host`, `virtual`).
    pub on: BTreeMap<String, BTreeMap<&'static str, Vec<Json>>>,
    /// Number of seeds, where it differs from the study's.
    pub repetitions: Option<u32>,
    /// Which repetitions have a traced twin.
    pub traced: Traced,
    /// Two values of a factor to hold against each other.
    pub compare: Option<Compare>,
}

/// Which repetitions of a cell are measured a second time, traced.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Traced {
    /// Each.
    #[default]
    Each,
    /// The first one.
    First,
    /// None.
    None,
}

/// Two values of a factor to hold against each other: improvement = 1 - candidate / baseline.
#[derive(Debug, Clone, PartialEq)]
pub struct Compare {
    /// The factor.
    pub factor: &'static str,
    /// The value that is there today.
    pub baseline: Json,
    /// The value that may be better.
    pub candidate: Json,
}

type Factors = BTreeMap<Spanned<String>, Spanned<toml::Value>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawExperiment {
    pub name: Spanned<String>,
    factors: Factors,
    #[serde(default)]
    on: BTreeMap<Spanned<String>, Factors>,
    repetitions: Option<u32>,
    #[serde(default)]
    traced: Traced,
    compare: Option<RawCompare>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawCompare {
    factor: Spanned<String>,
    baseline: Spanned<toml::Value>,
    candidate: Spanned<toml::Value>,
}

/// Understands an experiment.
pub(super) fn experiment(at: &Locator<'_>, raw: RawExperiment) -> Result<Experiment> {
    let name = raw.name.get_ref().clone();
    let factors = factors(at, &raw.factors)?;
    let workloads = match factors.get("workload") {
        Some(values) => values.iter().filter_map(Json::as_str).collect(),
        None => vec!["read"],
    };
    for factor in FACTORS.iter() {
        let applies = workloads.iter().any(|w| factor.applies(w));
        if let (false, Some((name, _))) = (applies, raw.factors.iter().find(|(n, _)| n.get_ref() == factor.name)) {
            let error = Error::user(format!(
                "no workload of experiment `{}` has a factor `{}`",
                raw.name.get_ref(),
                factor.name
            ))
            .hint(format!("leave `{}` out, or add a workload that has it", factor.name));
            return Err(at.error(name.span(), error));
        }
        if applies && factor.default.is_none() && !factors.contains_key(factor.name) {
            let missing = Error::user(format!("experiment `{name}` says nothing about `{}`", factor.name))
                .hint(format!("add `{} = ...` ({}) to its [experiment.factors]", factor.name, factor.about));
            return Err(at.error(raw.name.span(), missing));
        }
    }
    let mut on = BTreeMap::new();
    for (kind, raw) in &raw.on {
        if !BOARD_KINDS.contains(&kind.get_ref().as_str()) {
            let error = Error::user(format!("there is no kind of board `{}`", kind.get_ref()));
            return Err(at.error(kind.span(), error.hint(format!("kinds: {}", BOARD_KINDS.join(", ")))));
        }
        on.insert(kind.get_ref().clone(), self::factors(at, raw)?);
    }
    let compare = match &raw.compare {
        None => None,
        Some(c) => {
            let factor = factor::named(c.factor.get_ref()).map_err(|e| at.error(c.factor.span(), e))?;
            let read = |v: &Spanned<toml::Value>| factor.read(v.get_ref()).map_err(|e| at.error(v.span(), e));
            let (baseline, candidate) = (read(&c.baseline)?, read(&c.candidate)?);
            for (value, span) in [(&baseline, c.baseline.span()), (&candidate, c.candidate.span())] {
                if !factors.get(factor.name).is_some_and(|values| values.contains(value)) {
                    let error = Error::user(format!("`{}` never has the value {value} here", factor.name));
                    return Err(at.error(span, error));
                }
            }
            Some(Compare { factor: factor.name, baseline, candidate })
        }
    };
    Ok(Experiment { name, factors, on, repetitions: raw.repetitions, traced: raw.traced, compare })
}

fn factors(at: &Locator<'_>, raw: &Factors) -> Result<BTreeMap<&'static str, Vec<Json>>> {
    let mut factors = BTreeMap::new();
    for (name, value) in raw {
        let factor = factor::named(name.get_ref()).map_err(|e| at.error(name.span(), e))?;
        let values = match value.get_ref() {
            toml::Value::Array(values) => values.iter().map(|v| factor.read(v)).collect(),
            single => factor.read(single).map(|v| vec![v]),
        };
        let values: Vec<Json> = values.map_err(|e| at.error(value.span(), e))?;
        if values.is_empty() {
            return Err(at.error(value.span(), Error::user(format!("`{}` has no values", factor.name))));
        }
        factors.insert(factor.name, values);
    }
    Ok(factors)
}

impl Experiment {
    /// The points of the matrix on boards of `kind`, in the order of [`FACTORS`]. A point has the factors
    /// that its workload has.
    pub fn points(&self, kind: &str) -> Vec<Point> {
        let replaced = self.on.get(kind);
        let values = |f: &Factor| -> Vec<Json> {
            let own = replaced.and_then(|r| r.get(f.name)).or_else(|| self.factors.get(f.name));
            own.cloned().unwrap_or_else(|| f.default_value().into_iter().collect())
        };
        let mut points = vec![Point::new()];
        for factor in &FACTORS {
            let values = values(factor);
            let with = |point: &Point, value: &Json| {
                let mut point = point.clone();
                point.insert(factor.name.to_owned(), value.clone());
                point
            };
            if !values.is_empty() {
                points = points.iter().flat_map(|p| values.iter().map(|v| with(p, v)).collect::<Vec<_>>()).collect();
            }
        }
        let mut found: Vec<Point> = Vec::new();
        for mut point in points {
            let workload = point["workload"].as_str().unwrap_or_default().to_owned();
            point.retain(|name, _| factor::named(name).is_ok_and(|f| f.applies(&workload)));
            if exists(&point) && !found.contains(&point) {
                found.push(point);
            }
        }
        found
    }
}

/// Whether a combination exists: only UBIFS has bulk_read, and only what changes a file can be synced.
fn exists(point: &Point) -> bool {
    let is = |name: &str, value: &str| point.get(name).is_some_and(|v| v == value);
    let bulk_read = point["bulk_read"] == Json::Bool(false) || is("file_system", "ubifs");
    let changes = !["read", "delete", "look-up"].iter().any(|operation| is("operation", operation));
    bulk_read && (changes || is("sync", "none"))
}
