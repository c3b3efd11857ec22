//! flashmon around a command, outside any study.

use crate::flashmon::{Flashmon, classic_log, classic_summary, first_nand, totals};
use pocketstone_core::error::Context;
use pocketstone_core::log::FlashLog;
use pocketstone_core::{Error, Result};
use std::fmt::Write as _;
use std::os::unix::process::ExitStatusExt;
use std::path::PathBuf;
use std::process::Command;

/// What to run and what to keep.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Options {
    /// File for the classic per-block summary.
    pub summary: Option<PathBuf>,
    /// File for the classic log of operations.
    pub log: Option<PathBuf>,
    /// Program and arguments.
    pub command: Vec<String>,
}

impl Options {
    /// Reads `[--summary FILE] [--log FILE] -- COMMAND...`.
    ///
    /// # Errors
    /// `ErrorKind::User` for anything else.
    pub fn parse(arguments: &[String]) -> Result<Self> {
        let mut options = Options::default();
        let mut rest = arguments.iter();
        while let Some(word) = rest.next() {
            let mut file =
                || rest.next().map(PathBuf::from).ok_or_else(|| Error::user(format!("{word} requires a file")));
            match word.as_str() {
                "--summary" => options.summary = Some(file()?),
                "--log" => options.log = Some(file()?),
                "--" => {
                    options.command = rest.cloned().collect();
                    break;
                }
                _ => {
                    return Err(Error::user(format!("unknown option `{word}` of flashmon")).hint("flashmon -- COMMAND"));
                }
            }
        }
        Ok(options)
    }
}

/// Runs the command under flashmon. Returns the summary to show and the command's exit status
/// (128 + signal number where a signal ended it).
///
/// # Errors
/// `ErrorKind::User` if there is no command, it cannot be started, or a file cannot be written; `ErrorKind::Board` if
/// flash operations cannot be traced here.
pub fn run(options: &Options) -> Result<(String, u8)> {
    let [program, arguments @ ..] = &options.command[..] else {
        return Err(Error::user("no command given").hint("flashmon -- COMMAND"));
    };
    let geometry = first_nand()?;
    let monitor = Flashmon::new(geometry)?;
    let no_reads = monitor.page_reads_unavailable();
    monitor.start()?;
    let status = Command::new(program).args(arguments).status();
    monitor.stop()?;
    let log = monitor.read()?;
    let status = status.user(|| format!("cannot run `{program}`"))?;
    let keep = |file: &Option<PathBuf>, text: String| match file {
        Some(path) => std::fs::write(path, text).user(|| format!("cannot write {}", path.display())),
        None => Ok(()),
    };
    keep(&options.summary, classic_summary(&log, &geometry))?;
    keep(&options.log, classic_log(&log, &geometry))?;
    let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
    Ok((by_task(&log, no_reads.as_deref()), code as u8))
}

/// A table of operations by task, busiest first.
fn by_task(log: &FlashLog, page_reads_unavailable: Option<&str>) -> String {
    let mut rows: Vec<_> = (0..log.tasks.len())
        .map(|task| {
            (totals(log, page_reads_unavailable.is_none(), |op| usize::from(op.task) == task), &log.tasks[task])
        })
        .collect();
    rows.sort_by_key(|(t, name)| (std::cmp::Reverse(t.page_senses + t.programs + t.erases), name.to_string()));
    let mut text =
        format!("{:<16} {:>11} {:>11} {:>9} {:>7}\n", "task", "page senses", "page reads", "programs", "erases");
    for (t, name) in rows {
        let reads = t.page_reads.map_or("unavailable".into(), |n| n.to_string());
        let _ = writeln!(text, "{name:<16} {:>11} {reads:>11} {:>9} {:>7}", t.page_senses, t.programs, t.erases);
    }
    if let Some(why) = page_reads_unavailable {
        let _ = writeln!(text, "page reads unavailable: {why}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let options = Options::parse(&words("--log l --summary s -- dd --log x")).unwrap();
        assert_eq!(options.log, Some("l".into()));
        assert_eq!(options.summary, Some("s".into()));
        assert_eq!(options.command, ["dd", "--log", "x"]);
        assert!(Options::parse(&words("dd")).unwrap_err().to_string().contains("`dd`"));
        assert!(run(&Options::default()).unwrap_err().to_string().contains("no command"));
    }
}
