//! The experiments of a study: factors, their values, and comparisons.

use super::place::Locator;
use crate::specification::factor::{self, FACTORS, Point, Value};
use crate::specification::volume::{BULK_READ, FILE_SYSTEM, MEDIUM, OF_EXT4, OF_PCM, OF_SCMFS};
use pocketstone_board::KINDS;
use pocketstone_core::volume::{FileSystem, Medium, Volume};
use pocketstone_core::{Error, Result};
use pocketstone_workload::factor::AnyFactor;
use pocketstone_workload::table::{Name, ON_FILES, WORKLOAD};
use serde::Deserialize;
use std::collections::{BTreeMap, HashSet};
use std::ops::Range;
use toml::Spanned;

/// A matrix of factors.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// Its name, unique in the study.
    pub name: String,
    /// Values by factor.
    pub factors: BTreeMap<&'static str, Vec<Value>>,
    /// Values that replace them on boards of a kind (`host`, `virtual`).
    pub on: BTreeMap<String, BTreeMap<&'static str, Vec<Value>>>,
    /// Number of seeds, if it differs from the study's.
    pub repetitions: Option<u32>,
    /// Which repetitions have a traced twin.
    pub traced: Traced,
    /// Two values of a factor to hold against each other.
    pub compare: Option<Compare>,
    /// Where the study's text names it, and its factors by kind of board (`""`: all kinds), for errors.
    pub(super) places: Places,
}

/// Where an experiment stands in its study.
#[derive(Debug, Clone, Default)]
pub(super) struct Places {
    name: Range<usize>,
    factors: BTreeMap<(String, String), Range<usize>>,
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
    pub baseline: Value,
    /// The value that may be better.
    pub candidate: Value,
}

type Factors = BTreeMap<Spanned<String>, Spanned<toml::Value>>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RawExperiment {
    pub name: Spanned<String>,
    factors: Factors,
    #[serde(default)]
    on: BTreeMap<Spanned<String>, Factors>,
    repetitions: Option<Spanned<u32>>,
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

impl RawExperiment {
    /// Where the values of its factors stand.
    pub fn value_spans(&self) -> impl Iterator<Item = Range<usize>> {
        [&self.factors].into_iter().chain(self.on.values()).flat_map(|factors| factors.values().map(Spanned::span))
    }
}

/// Understands an experiment.
pub(super) fn experiment(at: &Locator<'_>, raw: RawExperiment) -> Result<Experiment> {
    let name = raw.name.get_ref().clone();
    let factors = factors(at, &raw.factors)?;
    check_factors(at, &raw.name, &factors, &raw.factors)?;
    let mut on = BTreeMap::new();
    for (kind, replacing) in &raw.on {
        if !KINDS.iter().any(|known| known.name == kind.get_ref()) {
            let error = Error::user(format!("unknown kind of board `{}`", kind.get_ref()));
            let names: Vec<&str> = KINDS.iter().map(|known| known.name).collect();
            return Err(at.error(kind.span(), error.hint(format!("kinds: {}", names.join(", ")))));
        }
        let replaced = self::factors(at, replacing)?;
        let mut all = factors.clone();
        all.extend(replaced.clone());
        check_factors(at, &raw.name, &all, replacing)?;
        on.insert(kind.get_ref().clone(), replaced);
    }
    let compare = match &raw.compare {
        None => None,
        Some(c) => {
            let factor = factor::named(c.factor.get_ref()).map_err(|e| at.error(c.factor.span(), e))?;
            let read = |v: &Spanned<toml::Value>| factor::read(factor, v.get_ref()).map_err(|e| at.error(v.span(), e));
            let (baseline, candidate) = (read(&c.baseline)?, read(&c.candidate)?);
            if baseline == candidate {
                let error =
                    Error::user(format!("baseline and candidate are both {}", factor::show(factor, &candidate)))
                        .hint(format!("compare two values of `{}`", factor.name));
                return Err(at.error(c.candidate.span(), error));
            }
            for (value, span) in [(&baseline, c.baseline.span()), (&candidate, c.candidate.span())] {
                if !factors.get(factor.name).is_some_and(|values| values.contains(value)) {
                    let error = Error::user(format!("`{}` never has the value {value} here", factor.name));
                    return Err(at.error(span, error));
                }
            }
            Some(Compare { factor: factor.name, baseline, candidate })
        }
    };
    let repetitions = raw.repetitions.as_ref().map(|r| repetitions(at, r)).transpose()?;
    let mut places = Places { name: raw.name.span(), factors: BTreeMap::new() };
    let kinds = raw.on.iter().map(|(kind, factors)| (kind.get_ref().as_str(), factors));
    for (kind, factors) in kinds.chain([("", &raw.factors)]) {
        let spans = factors.iter().map(|(name, value)| ((kind.to_owned(), name.get_ref().clone()), value.span()));
        places.factors.extend(spans);
    }
    Ok(Experiment { name, factors, on, repetitions, traced: raw.traced, compare, places })
}

/// Refuses factors, as a study has written them, that no workload has, and workloads that lack a factor they need.
fn check_factors(
    at: &Locator<'_>,
    experiment: &Spanned<String>,
    factors: &BTreeMap<&'static str, Vec<Value>>,
    written: &Factors,
) -> Result<()> {
    let name = experiment.get_ref();
    let workloads = match factors.get(WORKLOAD.name()) {
        Some(values) => values.iter().filter_map(Value::as_str).collect(),
        None => vec!["read"],
    };
    for factor in FACTORS.iter() {
        let applies = workloads.iter().any(|w| factor::of_workload(factor, w).is_some());
        if let (false, Some((place, _))) = (applies, written.iter().find(|(n, _)| n.get_ref() == factor.name)) {
            let error = Error::user(format!("no workload of experiment `{name}` has a factor `{}`", factor.name))
                .hint(format!("remove `{}`, or add a workload that has it", factor.name));
            return Err(at.error(place.span(), error));
        }
        if applies && factor.default.is_none() && !factors.contains_key(factor.name) {
            let missing = Error::user(format!("experiment `{name}` does not set `{}`", factor.name))
                .hint(format!("add `{} = ...` ({}) to its [experiment.factors]", factor.name, factor.about));
            return Err(at.error(experiment.span(), missing));
        }
    }
    Ok(())
}

/// A number of repetitions: at least one.
pub(super) fn repetitions(at: &Locator<'_>, number: &Spanned<u32>) -> Result<u32> {
    match *number.get_ref() {
        0 => Err(at.error(number.span(), Error::user("repetitions must be 1 or more"))),
        n => Ok(n),
    }
}

fn factors(at: &Locator<'_>, raw: &Factors) -> Result<BTreeMap<&'static str, Vec<Value>>> {
    let mut factors = BTreeMap::new();
    for (name, value) in raw {
        let factor = factor::named(name.get_ref()).map_err(|e| at.error(name.span(), e))?;
        let values = match value.get_ref() {
            toml::Value::Array(values) => values.iter().map(|v| factor::read(factor, v)).collect(),
            single => factor::read(factor, single).map(|v| vec![v]),
        };
        let values: Vec<Value> = values.map_err(|e| at.error(value.span(), e))?;
        if values.is_empty() {
            return Err(at.error(value.span(), Error::user(format!("`{}` has no values", factor.name))));
        }
        let mut seen = HashSet::new();
        if let Some(twice) = values.iter().find(|v| !seen.insert(v.to_string())) {
            let error = Error::user(format!("`{}` has the value {} twice", factor.name, factor::show(factor, twice)));
            return Err(at.error(value.span(), error.hint("to run a cell more often, use `repetitions`")));
        }
        factors.insert(factor.name, values);
    }
    Ok(factors)
}

impl Experiment {
    /// The points of the matrix on boards of `kind`, in the order of [`FACTORS`]. A point has the factors
    /// that its workload has.
    pub fn points(&self, kind: &str) -> Vec<Point> {
        points(&self.values(kind), exists)
    }

    /// A combination that does not exist, where none does.
    pub(crate) fn impossible(&self, kind: &str) -> Option<Point> {
        let none = self.points(kind).is_empty();
        none.then(|| points(&self.values(kind), |_| true).into_iter().next()).flatten()
    }

    /// How many points [`Experiment::points`] has whose workload and file system are the same, by a point of each
    /// such kind; counted without making them.
    pub fn kinds_of_points(&self, kind: &str) -> Vec<(Point, u64)> {
        let values = self.values(kind);
        // What decides whether a combination exists stays as it is, and of all else there is one value.
        let kept = |f: &AnyFactor| {
            let of_workload = ON_FILES.iter().flat_map(|workload| workload.deciding);
            DECIDING.iter().chain(of_workload).any(|name| *name == f.name)
        };
        let few: Vec<_> = values.iter().map(|(f, v)| (*f, if kept(f) { v.clone() } else { v[..1].to_vec() })).collect();
        let of_one = |point: &Point| {
            let workload = point.get(WORKLOAD.name()).and_then(Value::as_str).unwrap_or_default();
            let has = |f: &AnyFactor| factor::of_workload(f, workload).is_some();
            let others = values.iter().filter(|(f, _)| !kept(f) && has(f));
            others.fold(1u64, |n, (_, values)| n.saturating_mul(values.len() as u64))
        };
        points(&few, exists).into_iter().map(|point| (of_one(&point), point)).map(|(n, point)| (point, n)).collect()
    }

    /// The factors that have values on boards of `kind`, in the order of [`FACTORS`].
    fn values(&self, kind: &str) -> Vec<(&'static AnyFactor, Vec<Value>)> {
        let replaced = self.on.get(kind);
        let values = |f: &AnyFactor| -> Vec<Value> {
            let own = replaced.and_then(|r| r.get(f.name)).or_else(|| self.factors.get(f.name));
            own.cloned().unwrap_or_else(|| f.default_value().into_iter().collect())
        };
        FACTORS.iter().map(|f| (f, values(f))).filter(|(_, values)| !values.is_empty()).collect()
    }

    /// Where the study says what a factor is on boards of `kind`; else where it names the experiment.
    pub(crate) fn place(&self, kind: &str, factor: &str) -> Range<usize> {
        let written = |kind: &str| self.places.factors.get(&(kind.to_owned(), factor.to_owned()));
        written(kind).or_else(|| written("")).unwrap_or(&self.places.name).clone()
    }
}

/// The factors of a volume that decide whether a combination exists, and whether it has a traced twin.
const DECIDING: [&str; 12] = [
    "workload",
    "file_system",
    "medium",
    "volume_access",
    "bulk_read",
    "threshold",
    "null_files",
    "collector",
    "direct",
    "barriers",
    "pcm_read",
    "pcm_write",
];

/// Every combination that exists; the last factor varies fastest.
fn points(values: &[(&'static AnyFactor, Vec<Value>)], exists: fn(&Point) -> bool) -> Vec<Point> {
    let mut found = Vec::new();
    // Which value each factor has.
    let mut at = vec![0; values.len()];
    let workloads = values.iter().position(|(f, _)| f.name == WORKLOAD.name());
    let words = workloads.map_or(&[][..], |n| &values[n].1);
    // Whether the factor of this number is one of the workload of that one, and is left out as the default.
    let own = |(factor, _): &(&AnyFactor, Vec<Value>), word: &Value| {
        factor::of_workload(factor, word.as_str().unwrap_or_default()).map(|own| own.quiet)
    };
    let own: Vec<Vec<Option<bool>>> = words.iter().map(|w| values.iter().map(|v| own(v, w)).collect()).collect();
    loop {
        let own = workloads.map_or(&[][..], |n| &own[at[n]]);
        // A factor that this workload does not have makes no points: its first value stands for all.
        let same = own.iter().zip(&at).any(|(own, n)| *n > 0 && own.is_none());
        if !same {
            let those = values.iter().zip(&at).zip(own).filter_map(|(value, own)| Some((value, (*own)?)));
            let of = those.filter_map(|(((factor, values), n), quiet)| {
                let value = &values[*n];
                let said = !quiet || factor.default_value().as_ref() != Some(value);
                said.then(|| (factor.name.to_owned(), value.clone()))
            });
            let point: Point = of.collect();
            found.extend(exists(&point).then_some(point));
        }
        // The next combination, as an odometer counts.
        let Some(turns) = (0..values.len()).rev().find(|n| at[*n] + 1 < values[*n].1.len()) else { return found };
        at[turns] += 1;
        at[turns + 1..].fill(0);
    }
}

/// Whether a combination exists: only UBIFS has bulk_read, only SCMFS a threshold, null files and a collector, only
/// ext4 O_DIRECT and no barriers, only phase change memory its times, and workloads have rules of their own.
fn exists(point: &Point) -> bool {
    let is = |name: &str, value: &str| point.get(name).is_some_and(|v| v == value);
    let bulk_read = !point.of(&BULK_READ).unwrap_or(false) || is("file_system", "ubifs");
    // They are there only where they are not the default. A name that is none is refused where its plan is made.
    let named = point.of(&FILE_SYSTEM).ok().and_then(|name| Volume::named(&name).ok());
    let only = |factors: &[AnyFactor], file_system| {
        let said = factors.iter().any(|factor| point.contains_key(factor.name));
        !said || named.as_ref().is_none_or(|volume| volume.file_system == file_system)
    };
    let own = only(&OF_SCMFS, FileSystem::Scmfs) && only(&OF_EXT4, FileSystem::Ext4);
    let has_pcm_times = OF_PCM.iter().any(|factor| point.contains_key(factor.name));
    let medium = point.of(&MEDIUM).ok().flatten();
    let on_pcm = named.as_ref().is_none_or(|volume| medium.unwrap_or(volume.medium) == Medium::Pcm);
    bulk_read && own && (!has_pcm_times || on_pcm) && point.of(&WORKLOAD).is_ok_and(|name: Name| name.exists(point))
}
