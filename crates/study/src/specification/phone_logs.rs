//! Logs of phones as files: found in folders, unpacked, read, and what they are of.

use super::recordings::{BESIDE, Beside, ENDINGS, Recorded};
use flate2::bufread::MultiGzDecoder;
use pocketstone_core::error::Context;
use pocketstone_core::events::EventLog;
use pocketstone_core::units::format_bytes;
use pocketstone_core::{Error, Result};
use pocketstone_probe::analysis::{PhoneRuns, PhoneSummary, phone_summary};
use pocketstone_probe::ftrace::{self, Reading};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// What a log is of, by its file's name and the TOML beside it.
///
/// # Errors
/// `ErrorKind::User` if that TOML cannot be read, or is wrong.
pub fn recorded(file: &Path) -> Result<Recorded> {
    let name = file.file_name().unwrap_or_default().to_string_lossy();
    let beside = file.parent().unwrap_or(Path::new("")).join(BESIDE);
    let said = match beside.is_file() {
        true => {
            let text = std::fs::read_to_string(&beside).user(|| format!("cannot read {}", beside.display()))?;
            Beside::parse(&text).map_err(|e| Error::user(format!("{} is not usable", beside.display())).because(e))?
        }
        false => Beside::default(),
    };
    Ok(said.of(&name).or(Recorded::of_name(&name)))
}

/// That, and where neither says anything, what the app wrote of the run.
pub fn recorded_of(beside: &Recorded, run: &PhoneSummary) -> Recorded {
    let said = &run.parameters;
    let word = |word: &'static str| match word {
        "workload" => said.workload.as_deref(),
        "engine" => said.database.as_deref().or(Some(run.name.as_str())),
        "delay" => said.delay.as_deref(),
        _ => said.governor.as_deref(),
    };
    let words = Recorded::of_words(word("workload"), word("engine"), word("delay"), word("governor"));
    beside.clone().or(words)
}

/// That of a log with one run, or its longest.
///
/// # Errors
/// As [`recorded`].
pub fn recorded_with(file: &Path, run: Option<&PhoneSummary>) -> Result<Recorded> {
    let beside = recorded(file)?;
    Ok(run.map_or(beside.clone(), |run| recorded_of(&beside, run)))
}

/// The longest text whose events are all kept at once, unpacked: the published logs have up to some 60 MB.
const MOST_LOG_BYTES: u64 = 1 << 30;

/// The whole log of a file, and what its longest run is of.
///
/// # Errors
/// `ErrorKind::User` if it cannot be read, is not ftrace text, or is too long.
pub fn log(file: &Path) -> Result<(EventLog, Recorded)> {
    let log = whole(open(file)?, MOST_LOG_BYTES).map_err(unreadable(file))?;
    let of = recorded_with(file, phone_summary(&log).ok().as_ref())?;
    Ok((log, of))
}

/// All events of a text of at most so many bytes.
fn whole(input: impl BufRead, most_bytes: u64) -> Result<EventLog> {
    let mut part = input.take(most_bytes);
    let reading = ftrace::read(&mut part, &ftrace::Context::default())?;
    let rest = part.into_inner().fill_buf().user(|| "cannot read its end".to_owned())?.len();
    match rest {
        0 => Ok(reading.log),
        _ => Err(Error::user(format!("it has more than {} of text", format_bytes(most_bytes)))
            .hint("keep the lines of one run, from its NAME_START to its NAME_END")),
    }
}

/// What a file holds but for its events, and its runs.
///
/// # Errors
/// `ErrorKind::User` if it cannot be read, or is not ftrace text; the message includes the line.
pub fn summed(file: &Path) -> Result<(Reading, Result<Vec<PhoneSummary>>)> {
    let mut runs = PhoneRuns::default();
    let reading = ftrace::read_from(open(file)?, &ftrace::Context::default(), &mut runs).map_err(unreadable(file))?;
    Ok((reading, runs.end()))
}

fn unreadable(file: &Path) -> impl FnOnce(Error) -> Error {
    move |e| Error::user(format!("{} is not a readable trace", file.display())).because(e)
}

/// A file's text, or that of standard input, unpacked where it begins as gzip's do.
fn open(file: &Path) -> Result<Box<dyn BufRead>> {
    let failed = || format!("cannot read {}", file.display());
    let mut input: Box<dyn BufRead> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(BufReader::with_capacity(1 << 16, File::open(file).user(failed)?)),
    };
    // A pipe may give one byte first.
    let mut first = Vec::new();
    input.by_ref().take(2).read_to_end(&mut first).user(failed)?;
    let packed = first == [0x1f, 0x8b];
    let whole = BufReader::with_capacity(1 << 16, std::io::Cursor::new(first).chain(input));
    Ok(if packed { Box::new(BufReader::with_capacity(1 << 16, MultiGzDecoder::new(whole))) } else { Box::new(whole) })
}

/// The logs in a folder and those below it, in the order of their names. Links are not followed, and a pipe is no log:
/// it might never end.
///
/// # Errors
/// `ErrorKind::User` if a folder cannot be read.
pub fn logs_below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let failed = || format!("cannot read {}", folder.display());
    let mut entries: Vec<_> = std::fs::read_dir(folder).user(failed)?.collect::<std::io::Result<_>>().user(failed)?;
    entries.sort_by_key(|entry| entry.file_name());
    for entry in entries {
        let name = entry.file_name().to_string_lossy().to_lowercase();
        let stem = name.strip_suffix(".gz").unwrap_or(&name);
        let kind = entry.file_type().user(failed)?;
        if kind.is_dir() {
            logs_below(&entry.path(), found)?;
        } else if kind.is_file() && ENDINGS.iter().any(|ending| stem.ends_with(ending)) {
            found.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_that_is_too_long_to_be_kept_is_refused() {
        let text = "a-1 [000] .... 1.0: print: A_START\na-1 [000] .... 2.0: print: A_END\n";
        let read = |most_bytes: usize| whole(text.as_bytes(), most_bytes as u64);
        assert_eq!(read(text.len()).unwrap().events.len(), 2);
        for most_bytes in [text.len() - 1, text.len() - 20] {
            let error = read(most_bytes).unwrap_err();
            assert!(error.message().contains("more than") && error.cure().is_some(), "{error}");
        }
    }
}
