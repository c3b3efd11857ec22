//! Tunables: a governor's settings by name, with the units that sysfs has.
//!
//! Times are in microseconds, frequencies in kHz, loads and thresholds in per cent, switches 0 or 1. Lists are
//! those of the interactive governor: a value, then pairs `frequency:value`, each in force from its frequency on:
//! `85 1500000:90 1800000:70`.

use std::collections::BTreeMap;

use pocketstone_core::{Error, Result};

/// The settings of one governor: those named; the others have their defaults.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Tunables {
    governor: String,
    values: BTreeMap<String, String>,
}

impl Tunables {
    /// Settings of `governor`.
    pub fn new(governor: &str, values: BTreeMap<String, String>) -> Self {
        Tunables { governor: governor.to_owned(), values }
    }

    /// A user error about a tunable's value.
    pub(super) fn wrong(&self, name: &str, must: &str) -> Error {
        let value = self.values.get(name).map_or("", String::as_str);
        Error::user(format!("tunable {name} of the governor {} is {value:?}", self.governor)).hint(must.to_owned())
    }

    /// The text of a tunable, where it is named.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.values.get(name).map(|v| v.trim())
    }

    /// A whole number between two bounds, which are allowed.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is something else.
    pub fn number(&self, name: &str, default: u64, least: u64, most: u64) -> Result<u64> {
        let Some(text) = self.text(name) else { return Ok(default) };
        match text.parse::<u64>() {
            Ok(number) if (least..=most).contains(&number) => Ok(number),
            _ => Err(self.wrong(name, &format!("give a whole number from {least} to {most}"))),
        }
    }

    /// A time in microseconds, as nanoseconds; at most an hour.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is something else.
    pub fn time_ns(&self, name: &str, default_us: u64, least_us: u64) -> Result<u64> {
        Ok(self.number(name, default_us, least_us, 3_600_000_000)? * 1000)
    }

    /// A switch, 0 or 1.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is something else.
    pub fn switch(&self, name: &str, default: bool) -> Result<bool> {
        Ok(self.number(name, u64::from(default), 0, 1)? == 1)
    }

    /// Whole numbers separated by spaces.
    ///
    /// # Errors
    /// `ErrorKind::User` if one is something else.
    pub fn list(&self, name: &str) -> Result<Vec<u64>> {
        let text = self.text(name).unwrap_or_default();
        let numbers = text.split_whitespace().map(str::parse).collect::<Result<Vec<u64>, _>>();
        numbers.map_err(|e| self.wrong(name, "give whole numbers separated by spaces").because(e))
    }

    /// A list of a value and pairs `frequency:value`, each of at least `least`.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is something else or its frequencies do not ascend.
    pub fn steps(&self, name: &str, default: u64, least: u64) -> Result<Steps> {
        let Some(text) = self.text(name) else { return Ok(Steps { first: default, from: Vec::new() }) };
        Steps::parse(text).filter(|s| s.values().all(|v| (least..=3_600_000_000).contains(&v))).ok_or_else(|| {
            self.wrong(
                name,
                &format!("give a value of at least {least}, then pairs FREQUENCY:VALUE in kHz by ascending frequency"),
            )
        })
    }
}

/// A value that depends on frequency, in steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Steps {
    first: u64,
    from: Vec<(u64, u64)>,
}

impl Steps {
    fn parse(text: &str) -> Option<Self> {
        // Kernels split at spaces and colons alike.
        let numbers: Vec<u64> =
            text.split([' ', ':', '\t']).filter(|t| !t.is_empty()).map(|t| t.parse().ok()).collect::<Option<_>>()?;
        let (first, pairs) = numbers.split_first()?;
        if pairs.len() % 2 != 0 {
            return None;
        }
        let from: Vec<(u64, u64)> = pairs.chunks(2).map(|p| (p[0], p[1])).collect();
        let ascends = from.windows(2).all(|w| w[0].0 < w[1].0);
        ascends.then_some(Steps { first: *first, from })
    }

    fn values(&self) -> impl Iterator<Item = u64> + '_ {
        std::iter::once(self.first).chain(self.from.iter().map(|(_, v)| *v))
    }

    /// The value at a frequency.
    pub fn at(&self, khz: u64) -> u64 {
        let above = self.from.partition_point(|(from, _)| *from <= khz);
        if above == 0 { self.first } else { self.from[above - 1].1 }
    }
}
