//! The table of workloads: what each of them is, told in its own file.

use crate::command;
use crate::database::{DATABASE_FACTORS, Prepares};
use crate::definition::{Defined, FileWorkload};
use crate::factor::{AnyFactor, Factor, Impossible, Point};
use crate::{
    AndroshSpec, AppStartSpec, CallsSpec, CapacitySpec, CommandSpec, FilebenchSpec, FilesSpec, FioSpec, IozoneSpec,
    LookupSpec, PostmarkSpec, ReadSpec,
};
use pocketstone_core::database::{DatabaseEngine, DatabaseSpec, DatabaseWorkload};
use pocketstone_core::metric::Metric;
use pocketstone_core::words::Word;
use pocketstone_core::{Error, Result};
use serde::{Deserialize, Serialize};

/// A workload's entry in the table.
#[derive(Debug)]
pub struct Definition {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// What a study can vary of it, beside the volume.
    pub factors: &'static [AnyFactor],
    /// The factors that decide whether a combination exists.
    pub deciding: &'static [&'static str],
    /// Whether a combination of values is one at all.
    pub exists: fn(&Point) -> bool,
    /// The metrics that not every workload has.
    pub metrics: &'static [Metric],
    /// Factors of a run of a second, as a study has them.
    pub small: &'static str,
    request: &'static str,
    may_be_cold: bool,
    of_point: fn(&Point, &mut dyn Prepares) -> Result<Workload, Impossible>,
}

/// Whether two texts are the same, while this is compiled.
const fn same(one: &str, other: &str) -> bool {
    let (one, other) = (one.as_bytes(), other.as_bytes());
    let mut at = 0;
    while at < one.len() && at < other.len() && one[at] == other[at] {
        at += 1;
    }
    at == one.len() && at == other.len()
}

macro_rules! workloads {
    ($($(#[$doc:meta])* $variant:ident($spec:ty) = $kind:literal,)*) => {
        /// A workload.
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub enum Workload {
            $($(#[$doc])* #[serde(rename = $kind)] $variant($spec),)*
            /// A command of the user's.
            Command(CommandSpec),
            /// A prepared workload on a database.
            Database(Box<DatabaseSpec>),
        }

        // Plans, which are stored, have the name that studies have.
        $(const _: () = assert!(same($kind, <$spec as Defined>::NAME), "a workload's line has another name than it");)*

        impl Workload {
            /// As a workload on files; `None`: a program of its own does it, a database or a command.
            pub fn on_files(&self) -> Option<&dyn FileWorkload> {
                match self {
                    $(Workload::$variant(spec) => Some(spec),)*
                    Workload::Command(_) | Workload::Database(_) => None,
                }
            }
        }

        /// The workloads on files, in the order they are shown.
        pub const ON_FILES: [Definition; [$($kind,)*].len()] = [$(Definition {
            name: <$spec as Defined>::NAME,
            about: <$spec as Defined>::ABOUT,
            factors: <$spec as Defined>::FACTORS,
            deciding: <$spec as Defined>::DECIDING,
            exists: <$spec as Defined>::exists,
            metrics: <$spec as Defined>::METRICS,
            small: <$spec as Defined>::SMALL,
            request: <$spec as Defined>::REQUEST,
            may_be_cold: <$spec as Defined>::MAY_BE_COLD,
            of_point: |point, prepares| <$spec as Defined>::of_point(point, prepares).map(Workload::$variant),
        },)*];
    };
}

// This is where a new workload on files gets its line.
workloads! {
    /// read() calls on one file.
    Read(ReadSpec) = "read",
    /// One kind of operation on a folder of files.
    Files(FilesSpec) = "files",
    /// PostMark's transactions.
    Postmark(PostmarkSpec) = "postmark",
    /// The reads of a starting application.
    AppStart(AppStartSpec) = "app-start",
    /// IOZONE's six passes over one file.
    Iozone(IozoneSpec) = "iozone",
    /// Look-ups of names in one folder.
    Lookup(LookupSpec) = "lookup",
    /// AndroSH's scripts, as operations of one process.
    Androsh(AndroshSpec) = "androsh",
    /// Filebench's servers.
    Filebench(FilebenchSpec) = "filebench",
    /// Files that fit a volume.
    Capacity(CapacitySpec) = "capacity",
    /// An application's recorded calls.
    Calls(CallsSpec) = "calls",
    /// The jobs of a job file of fio.
    Fio(FioSpec) = "fio",
}

/// The metrics that not every workload has, each once.
pub fn metrics() -> impl Iterator<Item = &'static Metric> {
    let of = |number: usize| ON_FILES[number].metrics.iter();
    let again = move |number: usize, name: &str| (0..number).flat_map(of).any(|earlier| earlier.name == name);
    let of_one = move |number: usize| of(number).filter(move |metric| !again(number, metric.name));
    (0..ON_FILES.len()).flat_map(of_one)
}

/// The factor that says which workload it is.
pub const WORKLOAD: Factor<Name> =
    Factor::new("workload", "the workload: on files, or a database workload's operations").default("read");

/// The name of a workload, on files or on a database.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Name {
    /// The entry of this number in [`ON_FILES`].
    OnFiles(usize),
    /// A command of the user's.
    Command,
    /// One on a database.
    Database(DatabaseWorkload),
}

/// All names: those on files, a command's, those on databases.
const NAMES: [&str; ON_FILES.len() + 1 + DatabaseWorkload::ALL.len()] = {
    let mut names = [command::NAME; ON_FILES.len() + 1 + DatabaseWorkload::ALL.len()];
    let mut n = 0;
    while n < ON_FILES.len() {
        names[n] = ON_FILES[n].name;
        n += 1;
    }
    n = 0;
    while n < DatabaseWorkload::ALL.len() {
        names[ON_FILES.len() + 1 + n] = DatabaseWorkload::ALL[n].name();
        n += 1;
    }
    names
};

impl Word for Name {
    const WORDS: &'static [&'static str] = &NAMES;

    fn word(self) -> &'static str {
        match self {
            Name::OnFiles(number) => ON_FILES[number].name,
            Name::Command => command::NAME,
            Name::Database(workload) => workload.name(),
        }
    }

    fn of_word(word: &str) -> Option<Name> {
        let on_files = ON_FILES.iter().position(|definition| definition.name == word).map(Name::OnFiles);
        on_files
            .or((word == command::NAME).then_some(Name::Command))
            .or_else(|| DatabaseWorkload::of_word(word).map(Name::Database))
    }
}

impl Name {
    /// What a study can vary of it, beside the volume.
    pub fn factors(self) -> impl Iterator<Item = &'static AnyFactor> {
        let (own, workload) = match self {
            Name::OnFiles(number) => (ON_FILES[number].factors, None),
            Name::Command => (&command::FACTORS[..], None),
            Name::Database(workload) => (&[][..], Some(workload)),
        };
        let of = move |(factor, of): &'static (AnyFactor, fn(DatabaseWorkload) -> bool)| {
            workload.is_some_and(of).then_some(factor)
        };
        own.iter().chain(DATABASE_FACTORS.iter().filter_map(of))
    }

    /// Whether a combination of values is one at all.
    pub fn exists(self, point: &Point) -> bool {
        match self {
            Name::OnFiles(number) => (ON_FILES[number].exists)(point),
            Name::Command | Name::Database(_) => true,
        }
    }

    /// Whether the page cache may have nothing of its files before the first operation.
    pub fn may_be_cold(self) -> bool {
        match self {
            Name::OnFiles(number) => ON_FILES[number].may_be_cold,
            Name::Command | Name::Database(_) => true,
        }
    }

    /// What one of its measured calls is, in figures.
    pub fn request(self) -> &'static str {
        match self {
            Name::OnFiles(number) => ON_FILES[number].request,
            Name::Command | Name::Database(_) => "an operation",
        }
    }
}

impl Workload {
    /// What a point makes, with this seed.
    ///
    /// # Errors
    /// `Impossible` if its values contradict each other, or a database workload cannot be prepared.
    pub fn of_point(point: &Point, seed: u64, prepares: &mut dyn Prepares) -> Result<Workload, Impossible> {
        match point.of(&WORKLOAD)? {
            Name::OnFiles(number) => (ON_FILES[number].of_point)(point, prepares),
            Name::Command => CommandSpec::of_point(point, prepares).map(Workload::Command),
            Name::Database(workload) => crate::database::of_point(workload, point, seed, prepares)
                .map(|spec| Workload::Database(Box::new(spec))),
        }
    }

    /// As one on a database.
    pub fn database(&self) -> Option<&DatabaseSpec> {
        match self {
            Workload::Database(spec) => Some(spec),
            _ => None,
        }
    }

    /// The engine of its database, if the board that has the files has to open them.
    pub fn engine_on_the_board(&self) -> Option<DatabaseEngine> {
        self.database().map(|spec| spec.engine).filter(|engine| engine.opens_on_the_board())
    }

    /// Digest of the file that it was prepared as, where it is a database's or recorded calls.
    pub fn trace(&self) -> Option<&str> {
        match self {
            Workload::Database(spec) => Some(&spec.trace),
            Workload::Calls(spec) => Some(&spec.trace),
            _ => None,
        }
    }

    /// As one on files.
    ///
    /// # Errors
    /// `ErrorKind::Bug` for one that a program of its own does.
    pub fn files(&self) -> Result<&dyn FileWorkload> {
        self.on_files().ok_or_else(|| Error::bug("a program's workload has no file operations"))
    }

    /// As recorded calls.
    pub fn calls(&self) -> Option<&CallsSpec> {
        match self {
            Workload::Calls(spec) => Some(spec),
            _ => None,
        }
    }

    /// As a command.
    pub fn command(&self) -> Option<&CommandSpec> {
        match self {
            Workload::Command(spec) => Some(spec),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metrics::Ran;
    use std::collections::BTreeSet;

    #[test]
    fn texts_are_the_same_if_all_their_bytes_are() {
        assert!(same("", "") && same("calls", "calls"));
        assert!(!same("calls", "call") && !same("call", "calls") && !same("calls", "cells") && !same("", "a"));
    }

    #[test]
    fn names_are_unique_and_every_factor_has_one_definition() {
        assert_eq!(NAMES.iter().collect::<BTreeSet<_>>().len(), NAMES.len());
        let mut known: Vec<&AnyFactor> = Vec::new();
        for name in NAMES {
            for factor in Name::of_word(name).unwrap().factors() {
                match known.iter().find(|f| f.name == factor.name) {
                    // `threads` is of files and of databases, and of files it is a later one.
                    Some(same) => assert_eq!((same.kind, same.default), (factor.kind, factor.default), "{name}"),
                    None => known.push(factor),
                }
            }
        }
    }

    #[test]
    fn metrics_have_one_definition_each() {
        let mut known: Vec<&Metric> = Vec::new();
        for metric in ON_FILES.iter().flat_map(|definition| definition.metrics) {
            match known.iter().find(|other| other.name == metric.name) {
                Some(same) => assert_eq!(*same, metric),
                None => known.push(metric),
            }
        }
        assert_eq!(metrics().collect::<Vec<_>>(), known);
    }

    #[test]
    fn a_default_is_a_value_of_its_factor_and_a_value_one_of_a_metric() {
        for name in NAMES {
            let mut point = Point::default();
            point.insert("workload".into(), name.into());
            for (factor, bytes) in [("file_bytes", 4096u64), ("requests", 1)] {
                point.insert(factor.into(), bytes.into());
            }
            if name == command::NAME {
                point.insert("command".into(), "true".into());
            }
            if name == CallsSpec::NAME {
                point.insert("calls_file".into(), "calls".into());
            }
            if name == FioSpec::NAME {
                point.insert("fio_file".into(), "jobs.fio".into());
            }
            // Nothing but defaults: a workload from a file needs one.
            let made = Workload::of_point(&point, 1, &mut crate::testing::Unprepared);
            let made = match made {
                Ok(workload) => workload,
                Err(_) if name == "prepared" => continue,
                Err(impossible) => panic!("{name}: {}", impossible.error.chain()),
            };
            // And it has values of no metrics but those that it names.
            let (Some(workload), Some(Name::OnFiles(number))) = (made.on_files(), Name::of_word(name)) else {
                continue;
            };
            let values = workload.metrics(&Ran { seed: 1, calls: &[], filled_bytes: Some(1) });
            let named = |metric: &str| ON_FILES[number].metrics.iter().any(|own| own.name == metric);
            assert!(values.iter().all(|(metric, _)| named(metric)), "{name}: {values:?}");
        }
    }
}
