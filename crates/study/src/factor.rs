//! Factors: what a study varies. One table names them all, with what their values may be.

use pocketstone_core::units::{format_bytes, format_ns, parse_bytes, parse_ns};
use pocketstone_core::{Error, Result};
use serde_json::Value as Json;
use std::collections::BTreeMap;

/// The values of a point of a study's matrix, by factor name.
pub type Point = BTreeMap<String, Json>;

/// What a factor's values are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// One of these words.
    Word(&'static [&'static str]),
    /// A number of things, at least 1.
    Count,
    /// A size in bytes, or a text with a unit; some also have the word `default`.
    Bytes,
    /// As `Bytes`, or the word `default`.
    BytesOrDefault,
    /// A duration in nanoseconds, or a text with a unit.
    Nanoseconds,
    /// true or false.
    Flag,
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
    /// What it is.
    pub about: &'static str,
}

/// Every factor, in the order that cells are made: the last one varies fastest.
pub const FACTORS: [Factor; 15] = [
    Factor {
        name: "file_system",
        kind: Kind::Word(&["directory", "jffs2", "ubifs", "scmfs", "scmfs-fuse", "tmpfs", "ext4"]),
        default: None,
        about: "file system under test",
    },
    Factor {
        name: "compression",
        kind: Kind::Word(&["default", "none", "lzo", "zlib", "zstd"]),
        default: Some("default"),
        about: "the file system's compressor (mount option compr); default leaves it to the file system",
    },
    Factor {
        name: "bulk_read",
        kind: Kind::Flag,
        default: Some("false"),
        about: "UBIFS's own read-ahead (mount option bulk_read); other file systems have only false",
    },
    Factor {
        name: "data",
        kind: Kind::Word(&["random", "compressible"]),
        default: Some("random"),
        about: "file content",
    },
    Factor {
        name: "workload",
        kind: Kind::Word(&["read", "files"]),
        default: Some("read"),
        about: "read() on one file with the page cache cold, or operations on files with caches warm",
    },
    Factor {
        name: "operation",
        kind: Kind::Word(&["read", "write", "append", "create", "delete", "look-up"]),
        default: Some("read"),
        about: "what a request does",
    },
    Factor {
        name: "sync",
        kind: Kind::Word(&["none", "each"]),
        default: Some("none"),
        about: "fsync never, or in each request that changes a file",
    },
    Factor { name: "files", kind: Kind::Count, default: Some("1"), about: "number of files" },
    Factor { name: "file_bytes", kind: Kind::Bytes, default: None, about: "size of a file" },
    Factor {
        name: "pattern",
        kind: Kind::Word(&["sequential", "random"]),
        default: Some("sequential"),
        about: "order of offsets",
    },
    Factor { name: "request_bytes", kind: Kind::Bytes, default: Some("4096"), about: "bytes per request" },
    Factor { name: "requests", kind: Kind::Count, default: None, about: "number of requests" },
    Factor {
        name: "inter_arrival_ns",
        kind: Kind::Nanoseconds,
        default: Some("0"),
        about: "pause between two requests",
    },
    Factor {
        name: "read_ahead_by",
        kind: Kind::Word(&["mount", "file"]),
        default: Some("mount"),
        about: "set through the bdi of the mount, or by posix_fadvise on the file",
    },
    Factor {
        name: "read_ahead_bytes",
        kind: Kind::BytesOrDefault,
        default: Some("default"),
        about: "largest read-ahead window; 0 is off, default leaves what the machine has",
    },
];

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
            (Kind::Count, toml::Value::Integer(n @ 1..)) => Ok((*n).into()),
            (Kind::Count, _) => Err(wrong("a number from 1 on")),
            (Kind::BytesOrDefault, toml::Value::String(text)) if text == "default" => Ok(text.clone().into()),
            (_, toml::Value::Integer(n @ 0..)) => Ok((*n).into()),
            (Kind::Bytes | Kind::BytesOrDefault, toml::Value::String(text)) => Ok(parse_bytes(text)?.into()),
            (Kind::Nanoseconds, toml::Value::String(text)) => Ok(parse_ns(text)?.into()),
            (Kind::Nanoseconds, _) => Err(wrong("a duration, such as \"10ms\"")),
            _ => Err(wrong("a size, such as \"4KiB\"")),
        }
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
