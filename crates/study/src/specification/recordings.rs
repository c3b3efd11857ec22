//! What a recorded log is of: workload, engine, delay and governor, as its file's name or a TOML beside it says.

use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The file beside logs that says what they are of.
pub const BESIDE: &str = "traces.toml";

/// Endings of logs' names; each may have `.gz` behind it.
pub const ENDINGS: [&str; 7] = [".log", ".ftrace", ".txt", ".trace", ".pftrace", ".perfetto-trace", ".ptrace"];

/// Governors that a file's name may have, as kernels name them.
const GOVERNORS: [&str; 8] =
    ["performance", "powersave", "userspace", "ondemand", "conservative", "interactive", "schedutil", "sched"];

/// What a log is of, as far as it is known.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// The workload: A to F, IA, IB and IC are PocketData's.
    pub workload: Option<String>,
    /// The engine: `sqlite`, `bdb`; `bdb100` is Berkeley DB with PocketData's cache of 100 MB.
    pub engine: Option<String>,
    /// The delay between operations, as studies write it: `none`, `1ms`, `published-log`.
    pub delay: Option<String>,
    /// The governor.
    pub governor: Option<String>,
}

impl Recorded {
    /// What a file's name says: PocketData's are `YCSB_WorkloadA_LogTimingsql.log.gz` and the like, with `NoTiming`,
    /// `TimingA` (1 ms) or `LogTiming` and the engine behind it; a governor may be another word.
    pub fn of_name(name: &str) -> Recorded {
        let name = name.strip_suffix(".gz").unwrap_or(name);
        let stem = ENDINGS.iter().find_map(|ending| name.strip_suffix(ending)).unwrap_or(name);
        let mut recorded = Recorded::default();
        for word in stem.split(['_', '-', ' ']) {
            if let Some(workload) = word.strip_prefix("Workload").filter(|w| !w.is_empty()) {
                recorded.workload = Some(workload.to_owned());
            } else if let Some((before, after)) = word.split_once("Timing") {
                let (letter, engine) = match after.strip_prefix('A') {
                    Some(engine) => ("A", engine),
                    None => ("", after),
                };
                recorded.delay = delay(before).or_else(|| delay(letter));
                recorded.engine = engine_of(engine);
            } else if GOVERNORS.contains(&word.to_lowercase().as_str()) {
                recorded.governor = Some(word.to_lowercase());
            }
        }
        recorded
    }

    /// What the app wrote of its run, in PocketData's words.
    pub fn of_words(workload: Option<&str>, engine: Option<&str>, wait: Option<&str>, governor: Option<&str>) -> Self {
        Recorded {
            workload: workload.map(str::to_owned),
            engine: engine.and_then(engine_of),
            delay: wait.map(|word| delay(word).unwrap_or_else(|| word.to_owned())),
            governor: governor.map(str::to_lowercase),
        }
    }

    /// These, and where they say nothing, the others.
    pub fn or(self, others: Recorded) -> Recorded {
        Recorded {
            workload: self.workload.or(others.workload),
            engine: self.engine.or(others.engine),
            delay: self.delay.or(others.delay),
            governor: self.governor.or(others.governor),
        }
    }
}

fn delay(word: &str) -> Option<String> {
    let of = match word.to_lowercase().as_str() {
        "no" | "0ms" | "none" => "none",
        "a" | "1ms" => "1ms",
        "log" | "lognormal" => "published-log",
        _ => return None,
    };
    Some(of.to_owned())
}

fn engine_of(word: &str) -> Option<String> {
    match word.to_lowercase().as_str() {
        "" => None,
        "sql" | "sqlite" => Some("sqlite".to_owned()),
        other => Some(other.to_owned()),
    }
}

/// What a folder's `traces.toml` says: of all logs beside it, and of some by their files' names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Beside {
    all: Recorded,
    files: BTreeMap<String, Recorded>,
}

impl Beside {
    /// Reads it: `governor = "ondemand"` at its top is of all logs, below `["NAME.log.gz"]` of that one.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is not TOML, or has something else.
    pub fn parse(text: &str) -> Result<Beside> {
        let wrong = |e: toml::de::Error| {
            Error::user(format!("{BESIDE} is wrong: {}", e.to_string().trim())).hint(
                "its keys are workload, engine, delay and governor, at its top or below a log's name: \
                 [\"NAME.log.gz\"]",
            )
        };
        let mut all: toml::Table = text.parse().map_err(wrong)?;
        let named: Vec<String> = all.iter().filter(|(_, value)| value.is_table()).map(|(key, _)| key.clone()).collect();
        let mut files = BTreeMap::new();
        for name in named {
            if let Some(value) = all.remove(&name) {
                files.insert(name, value.try_into().map_err(wrong)?);
            }
        }
        Ok(Beside { all: all.try_into().map_err(wrong)?, files })
    }

    /// What it says of a log.
    pub fn of(&self, file: &str) -> Recorded {
        self.files.get(file).cloned().unwrap_or_default().or(self.all.clone())
    }

    /// Logs that it names.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.files.keys().map(String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(words: [&str; 4]) -> Recorded {
        let [workload, engine, delay, governor] = words.map(|w| Some(w.to_owned()).filter(|w| !w.is_empty()));
        Recorded { workload, engine, delay, governor }
    }

    #[test]
    fn names_of_pocketdatas_logs_say_what_they_are_of() {
        for (name, expected) in [
            ("YCSB_WorkloadA_LogTimingsql.log.gz", ["A", "sqlite", "published-log", ""]),
            ("YCSB_WorkloadIC_NoTimingbdb100.log.gz", ["IC", "bdb100", "none", ""]),
            ("YCSB_WorkloadF_TimingAbdb.log", ["F", "bdb", "1ms", ""]),
            ("YCSB_WorkloadB_1msTimingsql_ondemand.log.gz", ["B", "sqlite", "1ms", "ondemand"]),
            ("nexus.6_WorkloadC_NoTimingsql.log.gz", ["C", "sqlite", "none", ""]),
            ("v1.2 WorkloadE", ["E", "", "", ""]),
            ("trace.log", ["", "", "", ""]),
        ] {
            assert_eq!(Recorded::of_name(name), recorded(expected), "{name}");
        }
        let words = Recorded::of_words(Some("A"), Some("WAL"), Some("lognormal"), Some("Interactive"));
        assert_eq!(words, recorded(["A", "wal", "published-log", "interactive"]));
    }

    #[test]
    fn a_toml_beside_logs_is_of_all_or_of_one() {
        let beside =
            Beside::parse("governor = 'ondemand'\n['x.log.gz']\nworkload = 'mine'\ngovernor = 'powersave'").unwrap();
        assert_eq!(beside.of("x.log.gz"), recorded(["mine", "", "", "powersave"]));
        let other = beside.of("y_WorkloadA.log").or(Recorded::of_name("y_WorkloadA.log"));
        assert_eq!(other, recorded(["A", "", "", "ondemand"]));
        assert_eq!(beside.names().collect::<Vec<_>>(), ["x.log.gz"]);
        for text in ["governer = 'ondemand'", "['x.log.gz']\nspeed = 1", "workload = 5", "workload"] {
            let error = Beside::parse(text).unwrap_err();
            assert!(error.message().contains(BESIDE) && error.cure().is_some(), "{text}");
        }
    }
}
