//! Any program as a workload: a command line, run by the shell in a folder of the volume.

use crate::conditions::{self, CORES, FREQUENCY, GOVERNOR, POWER};
use crate::database::{PAGE_CACHE, PageCache, Prepares};
use crate::factor::{AnyFactor, Factor, Impossible, Point, Text, blame};
use pocketstone_core::Error;
use pocketstone_core::database::Conditions;
use serde::{Deserialize, Serialize};

/// The name of such workloads.
pub const NAME: &str = "command";

/// The environment variable that has the cell's seed, for programs that have something random.
pub const SEED_VARIABLE: &str = "POCKETSTONE_SEED";

const COMMAND: Factor<Text> = Factor::new("command", "the command line, run by `sh -c` in a folder of the volume");
const COMMAND_FILES: Factor<Text> = Factor::new(
    "command_files",
    "what is put into that folder before each run: what a folder or a tar file has, or one file",
)
.default("");

/// What a study can vary of it, beside the volume.
pub const FACTORS: [AnyFactor; 7] =
    [COMMAND.any(), COMMAND_FILES.any(), PAGE_CACHE.any(), GOVERNOR.any(), FREQUENCY.any(), CORES.any(), POWER.any()];

/// A command, and what it finds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommandSpec {
    /// The command line, for `sh -c`.
    pub line: String,
    /// Digest of the archive with the files that are in its folder before it runs; `None`: the folder is empty.
    pub files: Option<String>,
    /// Whether the page cache has nothing of those files before it runs.
    pub cold: bool,
    /// What the processors are told while it runs.
    #[serde(default, skip_serializing_if = "is_default")]
    pub conditions: Conditions,
}

fn is_default(conditions: &Conditions) -> bool {
    *conditions == Conditions::default()
}

impl CommandSpec {
    /// Converts a point of a study; its files are packed and kept by `prepares`.
    ///
    /// # Errors
    /// `Impossible` if the command line is empty or has a NUL, or the files cannot be packed.
    pub fn of_point(point: &Point, prepares: &mut dyn Prepares) -> Result<CommandSpec, Impossible> {
        let line = point.of(&COMMAND)?;
        if line.trim().is_empty() || line.contains('\0') {
            let error = Error::user("no command is given").hint("set command = \"./app ARGUMENTS\"");
            return Err(blame(COMMAND.name())(error));
        }
        let files = match point.of(&COMMAND_FILES)? {
            none if none.is_empty() => None,
            path => Some(prepares.files(&path).map_err(blame(COMMAND_FILES.name()))?),
        };
        let cold = point.of(&PAGE_CACHE)? == PageCache::Cold;
        Ok(CommandSpec { line, files, cold, conditions: conditions::of_point(point)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Unprepared;

    fn of(values: &[(&str, &str)]) -> Result<CommandSpec, Impossible> {
        let point: Point = values.iter().map(|(name, value)| ((*name).to_owned(), (*value).into())).collect();
        CommandSpec::of_point(&point, &mut Unprepared)
    }

    #[test]
    fn a_point_makes_a_command() {
        let spec = of(&[("command", "./app -x 'a b'"), ("command_files", "app/"), ("page_cache", "cold")]).unwrap();
        let conditions = Conditions::default();
        let (line, files) = ("./app -x 'a b'".into(), Some("digest of app/".into()));
        let expected = CommandSpec { line, files, cold: true, conditions };
        assert_eq!(spec, expected);
        let conditions = Conditions { governor: Some("powersave".into()), ..Conditions::default() };
        let expected = CommandSpec { line: "true".into(), files: None, cold: false, conditions };
        assert_eq!(of(&[("command", "true"), ("governor", "powersave")]).unwrap(), expected);
        let refused = of(&[("command", "true"), ("frequency", "fast")]).unwrap_err();
        assert_eq!(refused.factor, "frequency");
        for line in ["", "  ", "a\0b"] {
            let refused = of(&[("command", line)]).unwrap_err();
            assert_eq!((refused.factor, refused.error.cure().is_some()), ("command", true), "{line:?}");
        }
    }
}
