//! A governor as text: its name, what it is fixed at, and tunables in braces.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};

use super::about::{About, GOVERNORS};
use super::fixed::Fixed;
use super::tunables::Tunables;
use super::{Governor, conservative, database, interactive, ondemand, ondemand_legacy, schedutil};
use crate::device::{Cluster, Device};

/// A governor and its tunables, as studies name it.
///
/// `performance`, `powersave`, `fixed:50` (per cent of the highest frequency, the nearest operating point; a
/// fraction of up to three digits is allowed), `fixed:1267200kHz` (the nearest operating point), `ondemand`,
/// `ondemand-legacy`, `conservative`, `conservative-legacy`, `interactive`, `schedutil`, `database`; tunables in
/// braces: `interactive{timer_rate=20000,target_loads="85 1500000:90"}`. Its text is the same for the same
/// governor: names sorted, values quoted where they have other characters than letters, digits and `-_.`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Spec {
    kind: Kind,
    tunables: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Kind {
    Performance,
    Powersave,
    /// In thousandths of a per cent.
    Share(u32),
    Khz(u32),
    Ondemand,
    OndemandLegacy,
    Conservative,
    ConservativeLegacy,
    Interactive,
    Schedutil,
    Database,
}

/// The governors that have tunables, by name; `Spec::build` makes each of them.
const TUNED: [(&str, Kind, &[&str]); 7] = [
    ("ondemand", Kind::Ondemand, ondemand::TUNABLES),
    ("ondemand-legacy", Kind::OndemandLegacy, ondemand_legacy::TUNABLES),
    ("conservative", Kind::Conservative, conservative::TUNABLES),
    ("conservative-legacy", Kind::ConservativeLegacy, conservative::LEGACY_TUNABLES),
    ("interactive", Kind::Interactive, interactive::TUNABLES),
    ("schedutil", Kind::Schedutil, schedutil::TUNABLES),
    ("database", Kind::Database, database::TUNABLES),
];

const KNOWN: &str = "performance, powersave, fixed:PERCENT, fixed:FREQUENCYkHz";

fn known() -> String {
    TUNED.iter().fold(KNOWN.to_owned(), |all, (name, ..)| format!("{all}, {name}"))
}

impl Spec {
    /// The name without tunables: `fixed:50`, `interactive`.
    pub fn name(&self) -> String {
        match self.kind {
            Kind::Performance => "performance".to_owned(),
            Kind::Powersave => "powersave".to_owned(),
            Kind::Share(thousandths) => {
                let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
                format!("fixed:{}", text.trim_end_matches('0').trim_end_matches('.'))
            }
            Kind::Khz(khz) => format!("fixed:{khz}kHz"),
            kind => TUNED.iter().find(|(_, k, _)| *k == kind).map_or("", |(name, ..)| *name).to_owned(),
        }
    }

    /// Names of the tunables that it has.
    pub fn tunables(&self) -> &'static [&'static str] {
        TUNED.iter().find(|(_, kind, _)| *kind == self.kind).map_or(&[], |(.., names)| *names)
    }

    /// What there is to know of it.
    pub fn about(&self) -> About {
        let name = self.name();
        let name = if name.starts_with("fixed:") { "fixed" } else { name.as_str() };
        let nothing = About { name: "", about: "", tunables: &[] };
        GOVERNORS.iter().find(|g| g.name == name).copied().unwrap_or(nothing)
    }

    /// The same governor with a tunable set. A user error if it has no such tunable.
    pub fn with(mut self, tunable: &str, value: &str) -> Result<Self> {
        self.check(tunable)?;
        if value.contains('"') {
            return Err(Error::user(format!("the value of {tunable} contains a quotation mark: {value}"))
                .hint("values are numbers, or lists of numbers"));
        }
        self.tunables.insert(tunable.to_owned(), value.trim().to_owned());
        Ok(self)
    }

    fn check(&self, tunable: &str) -> Result<()> {
        let names = self.tunables();
        if names.contains(&tunable) {
            return Ok(());
        }
        let hint = if names.is_empty() { "it has none".to_owned() } else { format!("it has: {}", names.join(", ")) };
        Err(Error::user(format!("the governor {} has no tunable {tunable:?}", self.name())).hint(hint))
    }

    /// The governor for a domain of a cluster: its own defaults, then the device's ticks and settings, then those in
    /// braces. A user error if a tunable is unknown, or out of its range.
    pub fn build(&self, device: &Device, cluster: &Cluster) -> Result<Box<dyn Governor>> {
        let name = self.name();
        let mut values = device.tunables.get(&name).cloned().unwrap_or_default();
        for tunable in values.keys() {
            self.check(tunable).map_err(|e| {
                let hint = e.cure().unwrap_or_default().to_owned();
                Error::user(format!("the profile of the device {}", device.name)).because(e).hint(hint)
            })?;
        }
        if let (Some(hz), true) = (device.hz, self.tunables().contains(&"hz")) {
            values.entry("hz".to_owned()).or_insert_with(|| hz.to_string());
        }
        values.extend(self.tunables.clone());
        let tunables = Tunables::new(&name, values.clone());
        Ok(match self.kind {
            Kind::Performance => Box::new(Fixed::Highest),
            Kind::Powersave => Box::new(Fixed::Lowest),
            Kind::Share(thousandths) => Box::new(Fixed::Share(thousandths)),
            Kind::Khz(khz) => Box::new(Fixed::Khz(khz)),
            Kind::Ondemand => Box::new(ondemand::Ondemand::new(&tunables, cluster)?),
            Kind::OndemandLegacy => Box::new(ondemand_legacy::OndemandLegacy::new(&tunables, cluster)?),
            Kind::Conservative => Box::new(conservative::Conservative::new(&tunables, cluster, false)?),
            Kind::ConservativeLegacy => Box::new(conservative::Conservative::new(&tunables, cluster, true)?),
            Kind::Interactive => Box::new(interactive::Interactive::new(&tunables)?),
            Kind::Schedutil => Box::new(schedutil::Schedutil::new(&tunables, cluster)?),
            Kind::Database => {
                let below = Spec { kind: Kind::Schedutil, tunables: BTreeMap::new() }.build(device, cluster)?;
                Box::new(database::DatabaseInformed::new(device, cluster, &values, below)?)
            }
        })
    }
}

fn kind(name: &str) -> Result<Kind> {
    let fixed = match name {
        "performance" => return Ok(Kind::Performance),
        "powersave" => return Ok(Kind::Powersave),
        _ => name.strip_prefix("fixed:"),
    };
    if let Some(at) = fixed {
        let wrong = || {
            Error::user(format!("a frequency cannot be fixed at {at:?}"))
                .hint("use per cent of the maximum frequency (fixed:50), or kHz (fixed:1267200kHz)")
        };
        if let Some(khz) = at.strip_suffix("kHz") {
            return khz.parse().ok().filter(|khz| *khz > 0).map(Kind::Khz).ok_or_else(wrong);
        }
        return thousandths(at).filter(|t| (1..=100_000).contains(t)).map(Kind::Share).ok_or_else(wrong);
    }
    TUNED
        .iter()
        .find(|(known, ..)| *known == name)
        .map(|(_, kind, _)| *kind)
        .ok_or_else(|| Error::user(format!("unknown governor {name:?}")).hint(format!("available: {}", known())))
}

/// A decimal number of up to three digits after its point, in thousandths.
fn thousandths(text: &str) -> Option<u32> {
    let (whole, part) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
    if !digits(whole) || !digits(part) || part.len() > 3 || whole.len() > 3 {
        return None;
    }
    Some(whole.parse::<u32>().ok()? * 1000 + format!("{part:0<3}").parse::<u32>().ok()?)
}

impl FromStr for Spec {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let text = text.trim();
        let (name, inside) = match text.split_once('{') {
            None => (text, ""),
            Some((name, rest)) => match rest.strip_suffix('}') {
                Some(inside) => (name, inside),
                None => return Err(shape(text, "its braces are not closed at the end")),
            },
        };
        let mut spec = Spec { kind: kind(name.trim())?, tunables: BTreeMap::new() };
        let mut rest = inside.trim();
        while !rest.is_empty() {
            let (tunable, after) =
                rest.split_once('=').ok_or_else(|| shape(text, &format!("{rest:?} has no value")))?;
            let (value, left) = value(after.trim_start()).ok_or_else(|| shape(text, "a quotation is not closed"))?;
            let tunable = tunable.trim();
            if spec.tunables.contains_key(tunable) {
                return Err(shape(text, &format!("{tunable} is given twice")));
            }
            spec = spec.with(tunable, value)?;
            rest = match left.trim_start() {
                "" => "",
                left => match left.strip_prefix(',').map(str::trim_start) {
                    Some(more) if !more.is_empty() => more,
                    _ => return Err(shape(text, &format!("after {tunable} there is {left:?}"))),
                },
            };
        }
        Ok(spec)
    }
}

/// A value and what follows it.
fn value(text: &str) -> Option<(&str, &str)> {
    match text.strip_prefix('"') {
        Some(quoted) => quoted.split_once('"'),
        None => Some(text.split_at(text.find(',').unwrap_or(text.len()))),
    }
}

fn shape(text: &str, what: &str) -> Error {
    Error::user(format!("invalid governor {text:?}: {what}"))
        .hint("use NAME, or NAME{TUNABLE=VALUE,TUNABLE=\"VALUE WITH SPACES\"}")
}

impl fmt::Display for Spec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        for (at, (tunable, value)) in self.tunables.iter().enumerate() {
            f.write_str(if at == 0 { "{" } else { "," })?;
            let plain = !value.is_empty() && value.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b));
            if plain { write!(f, "{tunable}={value}")? } else { write!(f, "{tunable}=\"{value}\"")? }
        }
        f.write_str(if self.tunables.is_empty() { "" } else { "}" })
    }
}

impl TryFrom<String> for Spec {
    type Error = Error;

    fn try_from(text: String) -> Result<Self> {
        text.parse()
    }
}

impl From<Spec> for String {
    fn from(spec: Spec) -> String {
        spec.to_string()
    }
}

#[cfg(test)]
#[path = "spec_tests.rs"]
mod tests;
