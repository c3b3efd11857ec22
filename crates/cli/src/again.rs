//! The command that makes the same run again, as a shell takes it.

use crate::arguments::RunArguments;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_study::results::store::Store;
use pocketstone_study::specification::shares::Asked;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The results' fact that holds them.
const FACT: &str = "options";

/// What was asked of a run, over all commands that went on with it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Options {
    /// The study's file, from the root.
    pub study: PathBuf,
    /// The board that it ran on: a name, or a profile's file from the root.
    pub board: String,
    /// The condition on its cells.
    pub only: Option<String>,
    /// Whether each cell began with a boot.
    pub cold: bool,
    /// The directory of the host board's files, from the root.
    pub directory: Option<PathBuf>,
    /// Whether it may have more cells than usual.
    #[serde(default)]
    pub many_cells: bool,
    /// The share of its cells that it has; all without it.
    #[serde(default)]
    pub asked: Option<Asked>,
    /// What was measured instead of a study's file.
    #[serde(default)]
    pub program: Option<Program>,
}

/// A program that was measured, as the user named it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Program {
    /// Where its paths begin, from the root.
    pub folder: PathBuf,
    /// The options that only programs have.
    pub options: Vec<String>,
    /// It and its arguments.
    pub words: Vec<String>,
}

impl Program {
    /// The one that is to be measured; `None` where it is a study.
    ///
    /// # Errors
    /// `ErrorKind::User` if this directory is gone.
    pub fn of(arguments: &RunArguments) -> Result<Option<Self>> {
        if arguments.program.is_empty() {
            return Ok(None);
        }
        let folder = std::env::current_dir().user(|| "this directory is gone".into())?;
        let mut options = Vec::new();
        if let Some(files) = &arguments.files {
            options.extend(["--files".to_owned(), files.to_string_lossy().into_owned()]);
        }
        options.extend(arguments.set.iter().flat_map(|set| ["--set".to_owned(), set.clone()]));
        if let Some(repetitions) = arguments.repetitions {
            options.extend(["--repetitions".to_owned(), repetitions.to_string()]);
        }
        Ok(Some(Program { folder, options, words: arguments.program.clone() }))
    }
}

impl Options {
    /// Those that a run was begun with; `None` where an earlier version began it.
    ///
    /// # Errors
    /// As [`Store::fact`].
    pub fn of(store: &Store) -> Result<Option<Self>> {
        Ok(store.fact(FACT)?.and_then(|text| serde_json::from_str(&text).ok()))
    }

    /// What the run has been asked for once these arguments went on with it: its cells are those of both.
    pub fn and(mut self, arguments: &RunArguments) -> Self {
        self.only = match (self.only, &arguments.only) {
            (Some(a), Some(b)) if a == *b => Some(a),
            (Some(a), Some(b)) => Some(format!("({a}) OR ({b})")),
            _ => None,
        };
        self.many_cells |= arguments.many_cells;
        self
    }

    /// Keeps them in the results, with the command that they make.
    ///
    /// # Errors
    /// `ErrorKind::User` if the results cannot be written.
    pub fn keep(&self, store: &Store) -> Result<()> {
        let text = serde_json::to_string(self).map_err(|e| Error::bug("options are not valid JSON").because(e))?;
        store.set_facts([(FACT, text.as_str()), ("command", &self.command()?)])
    }

    /// The command: it works from any directory, and its results go into a folder of their own.
    pub fn command(&self) -> Result<String> {
        let here = match &self.program {
            Some(program) => program.folder.clone(),
            None => std::env::current_dir().user(|| "this directory is gone".into())?,
        };
        let command = std::env::current_exe().user(|| "cannot find the path of this command".into())?;
        let path = |path: &Path| quote(&path.to_string_lossy());
        let mut words = vec![path(&command), "run".into()];
        if self.program.is_none() {
            words.push(path(&self.study));
        }
        words.extend(["--board".into(), quote(&self.board)]);
        if let Some(only) = &self.only {
            words.extend(["--only".into(), quote(only)]);
        }
        if let Some(directory) = &self.directory {
            words.extend(["--directory".into(), path(directory)]);
        }
        words.extend(self.cold.then(|| "--cold".to_owned()));
        words.extend(self.many_cells.then(|| "--many-cells".to_owned()));
        if let Some(Asked { shard, verify_fraction }) = self.asked {
            words.extend(["--shard".into(), shard.to_string()]);
            let again = || ["--verify-fraction".into(), verify_fraction.to_string()];
            words.extend((verify_fraction > 0.0).then(again).into_iter().flatten());
        }
        if let Some(program) = &self.program {
            words.extend(program.options.iter().map(|word| quote(word)));
            words.push("--".into());
            words.extend(program.words.iter().map(|word| quote(word)));
        }
        Ok(format!("cd {} && {}", path(&here), words.join(" ")))
    }
}

/// This command as it was called, for hints that name another command of it.
pub fn this_command() -> String {
    let name = std::env::args_os().next();
    quote(&name.map_or("pocketstone".into(), |name| name.to_string_lossy().into_owned()))
}

/// The command that goes on with a run; `only` is the condition on its cells.
pub fn resume(folder: &Path, only: Option<&str>) -> String {
    let only = only.map_or_else(String::new, |only| format!(" --only {}", quote(only)));
    format!("{} run --resume {}{only}", this_command(), quote(&folder.to_string_lossy()))
}

/// A word as a shell needs it.
pub fn quote(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:,+%@".contains(c);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Makes `results/latest` lead to a run's folder, where that is in `results/` of this directory. The link is there at
/// every moment: the new one takes the old one's place.
pub fn link_latest(folder: &Path) {
    let absolute = |path: &Path| std::path::absolute(path).ok();
    let results = absolute(Path::new("results"));
    let (Some(results), Some(folder)) = (results, absolute(folder)) else { return };
    let (Some(name), true) = (folder.file_name(), folder.parent() == Some(&results)) else { return };
    let latest = results.join("latest");
    if name == "latest" || latest.symlink_metadata().is_ok_and(|m| !m.is_symlink()) {
        // Somebody's own folder of that name.
        return;
    }
    let new = results.join(format!(".latest-{}", std::process::id()));
    let _ = std::fs::remove_file(&new);
    // The link is for convenience: a disk that has no links has results all the same.
    if std::os::unix::fs::symlink(name, &new).and_then(|()| std::fs::rename(&new, &latest)).is_err() {
        let _ = std::fs::remove_file(&new);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    #[test]
    fn a_run_of_some_cells_goes_on_with_those() {
        let command = super::resume(Path::new("results/it's"), Some("engine = 'lmdb' AND seed"));
        let rest = command.split_once(" run ").expect("the command").1;
        assert_eq!(rest, r"--resume 'results/it'\''s' --only 'engine = '\''lmdb'\'' AND seed'");
        assert!(super::resume(Path::new("r"), None).ends_with(" run --resume r"));
    }

    #[test]
    fn quoted_words_mean_themselves() {
        for word in ["plain", "two words", "it's", "", "a'b'c", "$HOME"] {
            let script = format!("printf %s {}", super::quote(word));
            let output = std::process::Command::new("sh").args(["-c", &script]).output().unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
