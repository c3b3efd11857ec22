//! Factors: what a study varies. One table names them all, with what their values may be.

mod table;

pub use table::FACTORS;

use pocketstone_core::database::Delay;
use pocketstone_core::units::{format_bytes, format_ns, parse_bytes, parse_ns};
use pocketstone_core::{Error, Result};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The values of a point of a study's matrix, by factor name. Factors that its workload does not have
/// are not in it.
pub type Point = BTreeMap<String, Json>;

/// What a factor's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of these words.
    Word(&'static [&'static str]),
    /// Any text.
    Text,
    /// A number of things, at least 1.
    Count,
    /// As `Count`, or the word `default`.
    CountOrDefault,
    /// A size in bytes, or a text with a unit; some also have the word `default`.
    Bytes,
    /// As `Bytes`, or the word `default`.
    BytesOrDefault,
    /// A duration in nanoseconds, or a text with a unit.
    Nanoseconds,
    /// A delay between two operations, as [`Delay`] reads it, or the word `own`: what the file has.
    Delay,
    /// true or false.
    Flag,
}

/// Which workloads have a factor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Of {
    /// All.
    All,
    /// All but those on databases.
    Files,
    /// Of those, all whose files' sizes are given.
    Sized,
    /// `read` and `files`.
    Paced,
    /// `read` alone.
    Read,
    /// `files` alone.
    FilesOnly,
    /// Those on a number of files.
    Many,
    /// `postmark` alone.
    Postmark,
    /// `app-start` alone.
    AppStart,
    /// Those on databases.
    Databases,
    /// All whose page cache is cold, or can be.
    Cached,
    /// `read`, `files` and `contacts`.
    Patterned,
    /// `prepared` alone.
    Prepared,
}

/// Whether a workload is one on a database.
pub fn on_database(workload: &str) -> bool {
    !["read", "files", "postmark", "app-start"].contains(&workload)
}

impl Of {
    fn has(self, workload: &str) -> bool {
        let (read, files) = (workload == "read", workload == "files");
        let (postmark, start) = (workload == "postmark", workload == "app-start");
        match self {
            Of::All => true,
            Of::Files => !on_database(workload),
            Of::Sized => read || files || postmark,
            Of::Paced => read || files,
            Of::Read => read,
            Of::FilesOnly => files,
            Of::Many => files || postmark || start,
            Of::Postmark => postmark,
            Of::AppStart => start,
            Of::Databases => on_database(workload),
            Of::Cached => !files,
            Of::Patterned => read || files || workload == "contacts",
            Of::Prepared => workload == "prepared",
        }
    }
}

/// A factor.
#[derive(Debug, Clone, Copy)]
pub struct Factor {
    /// Its name in studies, results and expressions.
    pub name: &'static str,
    /// Its values.
    pub kind: Kind,
    /// The value where a study says nothing; `None` where it must.
    pub default: Option<&'static str>,
    /// Which workloads have it.
    pub of: Of,
    /// What it is.
    pub about: &'static str,
}

/// The factor of that name.
///
/// # Errors
/// When there is none; the hint lists them.
pub fn named(name: &str) -> Result<&'static Factor> {
    FACTORS.iter().find(|f| f.name == name).ok_or_else(|| {
        let names: Vec<&str> = FACTORS.iter().map(|f| f.name).collect();
        Error::user(format!("there is no factor `{name}`")).hint(format!("factors: {}", names.join(", ")))
    })
}

impl Factor {
    /// Reads a value as a study writes it.
    ///
    /// # Errors
    /// When it is none of this factor.
    pub fn read(&self, value: &toml::Value) -> Result<Json> {
        let wrong = |expected: &str| Error::user(format!("`{}` takes {expected}, not {value}", self.name));
        match (self.kind, value) {
            (Kind::Word(words), toml::Value::String(text)) if words.contains(&text.as_str()) => Ok(text.clone().into()),
            (Kind::Word(words), _) => Err(wrong(&format!("one of {}", words.join(", ")))),
            (Kind::Flag, toml::Value::Boolean(flag)) => Ok((*flag).into()),
            (Kind::Flag, _) => Err(wrong("true or false")),
            (Kind::Text, toml::Value::String(text)) => Ok(text.clone().into()),
            (Kind::Text, _) => Err(wrong("a text")),
            (Kind::Count | Kind::CountOrDefault, toml::Value::Integer(n @ 1..)) => Ok((*n).into()),
            (Kind::BytesOrDefault | Kind::CountOrDefault, toml::Value::String(text)) if text == "default" => {
                Ok(text.clone().into())
            }
            (Kind::Count, _) => Err(wrong("a number from 1 on")),
            (Kind::CountOrDefault, _) => Err(wrong("a number from 1 on, or \"default\"")),
            (Kind::Delay, toml::Value::String(text)) if text == "own" => Ok(text.clone().into()),
            (Kind::Delay, toml::Value::String(text)) => Ok(text.parse::<Delay>()?.to_string().into()),
            (Kind::Delay, _) => Err(wrong("a delay, such as \"none\", \"1ms\" or \"lognormal:6ms\"")),
            (_, toml::Value::Integer(n @ 0..)) => Ok((*n).into()),
            (Kind::Bytes | Kind::BytesOrDefault, toml::Value::String(text)) => Ok(parse_bytes(text)?.into()),
            (Kind::Nanoseconds, toml::Value::String(text)) => Ok(parse_ns(text)?.into()),
            (Kind::Nanoseconds, _) => Err(wrong("a duration, such as \"10ms\"")),
            _ => Err(wrong("a size, such as \"4KiB\"")),
        }
    }

    /// Whether points with that workload have it.
    pub fn applies(&self, workload: &str) -> bool {
        self.of.has(workload)
    }

    /// The default value.
    pub fn default_value(&self) -> Option<Json> {
        let text = self.default?;
        Some(match text.parse::<u64>() {
            Ok(number) => number.into(),
            Err(_) => text.parse::<bool>().map_or_else(|_| text.into(), Json::from),
        })
    }

    /// A value for people.
    pub fn show(&self, value: &Json) -> String {
        match (self.kind, value.as_u64()) {
            (Kind::Bytes | Kind::BytesOrDefault, Some(n)) => format_bytes(n),
            (Kind::Nanoseconds, Some(n)) => format_ns(n as f64),
            _ => value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        }
    }
}

/// `name=value` of every factor of a point that is in `names`.
pub fn describe(point: &Point, names: &[&str]) -> String {
    let shown = FACTORS.iter().filter(|f| names.contains(&f.name));
    let parts: Vec<String> = shown.filter_map(|f| Some(format!("{}={}", f.name, f.show(point.get(f.name)?)))).collect();
    parts.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_values_of_their_factor() {
        for factor in FACTORS.iter().filter(|f| f.default.is_some()) {
            let value = factor.default_value().unwrap();
            let toml = toml::Value::try_from(&value).unwrap();
            assert_eq!(factor.read(&toml).unwrap(), value, "{}", factor.name);
        }
    }

    #[test]
    fn wrong_values_are_refused_with_what_would_be_right() {
        let read = |name: &str, value: toml::Value| named(name).unwrap().read(&value);
        assert_eq!(read("request_bytes", "4KiB".into()).unwrap(), 4096);
        assert_eq!(read("inter_arrival_ns", "1ms".into()).unwrap(), 1_000_000);
        assert!(read("pattern", "zigzag".into()).unwrap_err().to_string().contains("sequential, random"));
        assert!(read("requests", 0.into()).is_err());
        assert!(read("file_bytes", (-1).into()).is_err());
        assert!(read("bulk_read", "yes".into()).is_err());
        assert!(named("requets").unwrap_err().cure().unwrap().contains("requests"));
    }
}
