//! Traces of phones as files: found in folders, unpacked, read, and what they are of. They are ftrace text, which is
//! what a log is, or Perfetto's binary form, which their content tells.

use super::recordings::{BESIDE, Beside, ENDINGS, Recorded};
use flate2::bufread::GzDecoder;
use pocketstone_core::error::Context;
use pocketstone_core::events::EventLog;
use pocketstone_core::units::format_bytes;
use pocketstone_core::{Error, Result};
use pocketstone_probe::analysis::{PhoneRuns, PhoneSummary, phone_summary};
use pocketstone_probe::ftrace::{self, Reading};
use pocketstone_probe::perfetto;
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
    let engine = said.database.as_deref().or(Some(run.name.as_str()));
    let (workload, delay, governor) = (said.workload.as_deref(), said.delay.as_deref(), said.governor.as_deref());
    let words = Recorded::of_words(workload, engine, delay, governor);
    beside.clone().or(words)
}

/// That of a log with one run, or its longest.
///
/// # Errors
/// `ErrorKind::User`, as [`recorded`].
pub fn recorded_with(file: &Path, run: Option<&PhoneSummary>) -> Result<Recorded> {
    let beside = recorded(file)?;
    Ok(run.map_or(beside.clone(), |run| recorded_of(&beside, run)))
}

/// The longest log whose events are all kept at once, unpacked: the published ones have up to some 60 MB of text.
const MOST_LOG_BYTES: u64 = 1 << 30;

/// The whole log of a file, and what its longest run is of.
///
/// # Errors
/// `ErrorKind::User` if it cannot be read, is no trace, or is too long.
pub fn log(file: &Path) -> Result<(EventLog, Recorded)> {
    let log = open(file).and_then(|input| whole(input, MOST_LOG_BYTES)).map_err(unreadable(file))?;
    let of = recorded_with(file, phone_summary(&log).ok().as_ref())?;
    Ok((log, of))
}

/// All events of a log of at most so many bytes.
fn whole(input: Input, most_bytes: u64) -> Result<EventLog> {
    let mut part = input.trace.take(most_bytes);
    let context = ftrace::Context::default();
    let read = match input.is_perfetto {
        true => perfetto::read(&mut part, &context),
        false => ftrace::read(&mut part, &context),
    };
    // One that goes on is cut off for the reader, which may not like it.
    let is_longer = part.limit() == 0;
    let mut rest = part.into_inner();
    match is_longer && !rest.fill_buf().user(|| "cannot read its end".to_owned())?.is_empty() {
        false => read.map(|reading| reading.log),
        true => Err(Error::user(format!("it has more than {}", format_bytes(most_bytes)))
            .hint("keep the part of one run, from its NAME_START to its NAME_END")),
    }
}

/// What a file holds but for its events, and its runs.
///
/// # Errors
/// `ErrorKind::User` if it cannot be read, or is no trace; the message includes the line of a text, and the byte of a
/// Perfetto trace.
pub fn summed(file: &Path) -> Result<(Reading, Result<Vec<PhoneSummary>>)> {
    let mut runs = PhoneRuns::default();
    let (input, context) = (open(file).map_err(unreadable(file))?, ftrace::Context::default());
    let reading = match input.is_perfetto {
        true => perfetto::read_from(input.trace, &context, &mut runs),
        false => ftrace::read_from(input.trace, &context, &mut runs),
    };
    Ok((reading.map_err(unreadable(file))?, runs.end()))
}

fn unreadable(file: &Path) -> impl FnOnce(Error) -> Error {
    move |e| Error::user(format!("{} is not a readable trace", file.display())).because(e)
}

/// A trace, unpacked.
struct Input {
    trace: Box<dyn BufRead>,
    is_perfetto: bool,
}

/// A file's content, or that of standard input, unpacked where it begins as gzip's do.
fn open(file: &Path) -> Result<Input> {
    let failed = || format!("cannot read {}", file.display());
    let input: Box<dyn BufRead> = match file.as_os_str() == "-" {
        true => Box::new(std::io::stdin().lock()),
        false => Box::new(BufReader::with_capacity(1 << 16, File::open(file).user(failed)?)),
    };
    let (first, input) = beginning(input, 2).user(failed)?;
    let unpacked: Box<dyn BufRead> = match first == [0x1f, 0x8b] {
        true => Box::new(BufReader::with_capacity(1 << 16, Members(Some(GzDecoder::new(Box::new(input)))))),
        false => Box::new(input),
    };
    let (first, mut trace) = beginning(unpacked, perfetto::START_BYTES).user(failed)?;
    let mark = "\u{feff}".as_bytes();
    if first.starts_with(mark) {
        trace.read_exact(&mut vec![0; mark.len()]).user(failed)?;
    }
    Ok(Input { trace: Box::new(trace), is_perfetto: perfetto::is_one(&first) })
}

/// The members of a gzip file, one after the other. As for gzip, zeros behind them are the padding of what kept it.
struct Members(Option<GzDecoder<Box<dyn BufRead>>>);

impl Read for Members {
    fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
        while let Some(mut member) = self.0.take() {
            let read = member.read(into)?;
            if read > 0 || into.is_empty() {
                self.0 = Some(member);
                return Ok(read);
            }
            let mut rest = member.into_inner();
            self.0 = skip_zeros(&mut rest)?.then(|| GzDecoder::new(rest));
        }
        Ok(0)
    }
}

/// Takes zeros off an input, and returns whether anything is left.
fn skip_zeros(input: &mut impl BufRead) -> std::io::Result<bool> {
    loop {
        let there = input.fill_buf()?;
        let zeros = there.iter().take_while(|byte| **byte == 0).count();
        if zeros < there.len() || there.is_empty() {
            let more = !there.is_empty();
            input.consume(zeros);
            return Ok(more);
        }
        input.consume(zeros);
    }
}

/// The first bytes of an input, and all of it.
fn beginning(mut input: Box<dyn BufRead>, bytes: usize) -> std::io::Result<(Vec<u8>, impl BufRead)> {
    // A pipe may give one byte first.
    let mut first = Vec::new();
    input.by_ref().take(bytes as u64).read_to_end(&mut first)?;
    let whole = BufReader::with_capacity(1 << 16, std::io::Cursor::new(first.clone()).chain(input));
    Ok((first, whole))
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
    use std::io::Write;

    #[test]
    fn a_log_may_be_packed_padded_and_begin_with_a_byte_order_mark() {
        let packed = |text: &str| {
            let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
            packed.write_all(text.as_bytes()).unwrap();
            packed.finish().unwrap()
        };
        let (start, end) = ("\u{feff}a-1 [000] .... 1.0: print: A_START\n", "a-1 [000] .... 2.0: print: A_END\n");
        let members = [packed(start), packed(end)].concat();
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.trace");
        for content in [[start, end].concat().into_bytes(), members.clone(), [&members[..], &[0; 512]].concat()] {
            std::fs::write(&file, content).unwrap();
            let events = whole(open(&file).unwrap(), MOST_LOG_BYTES).map(|log| log.events.len());
            assert_eq!(events.map_err(|error| error.chain()), Ok(2));
        }
        for wrong in [[&members[..], b"x"].concat(), members[..members.len() - 1].to_vec()] {
            std::fs::write(&file, wrong).unwrap();
            assert!(whole(open(&file).unwrap(), MOST_LOG_BYTES).is_err());
        }
    }

    #[test]
    fn a_log_that_is_too_long_to_be_kept_is_refused() {
        let text = "a-1 [000] .... 1.0: print: A_START\na-1 [000] .... 2.0: print: A_END\n";
        let read = |most_bytes: usize| {
            let trace: Box<dyn BufRead> = Box::new(text.as_bytes());
            whole(Input { trace, is_perfetto: false }, most_bytes as u64)
        };
        assert_eq!(read(text.len()).unwrap().events.len(), 2);
        for most_bytes in [text.len() - 1, text.len() - 20] {
            let error = read(most_bytes).unwrap_err();
            assert!(error.message().contains("more than") && error.cure().is_some(), "{error}");
        }
        // Two packets that hold nothing, of which the second is cut off by the bound, not by its end.
        let packets = b"\x0a\x02\x50\x01\x0a\x02\x50\x01";
        let read = |most_bytes| whole(Input { trace: Box::new(packets.as_slice()), is_perfetto: true }, most_bytes);
        assert!(read(8).unwrap().events.is_empty());
        assert!(read(7).unwrap_err().message().contains("more than 7 B"));
    }
}
