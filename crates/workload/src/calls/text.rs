//! The file of calls: a line for each fact, to be read by people and programs. docs/workload-format.md describes it.

use super::Calls;
use crate::content::NewFile;
use crate::operation::{MOST_FILE_BYTES, MOST_PAUSE_NS};
use crate::{Operation, Purpose};
use pocketstone_core::bytes::hexadecimal;
use pocketstone_core::words::Word;
use pocketstone_core::{Error, Result};
use sha2::{Digest, Sha256};
use std::collections::{HashMap, HashSet};
use std::fmt::Write;

/// What the first line begins with, whatever the version of the format.
pub const KIND: &str = "pocketstone-calls ";

/// The first line.
pub const HEAD: &str = "pocketstone-calls 1";

/// Most bytes that one call moves: Linux's MAX_RW_COUNT with pages of 4 KiB.
pub(super) const MOST_CALL_BYTES: u64 = 0x7fff_f000;

/// What offsets and sizes of direct calls are multiples of, at least.
const SECTOR_BYTES: u64 = 512;

/// Most files and descriptors that a file of calls may have.
const MOST_FILES: usize = 1 << 20;

/// The text of calls; the same calls make the same text.
pub fn encode(calls: &Calls) -> String {
    let mut text = format!("{HEAD}\nthreads {}\n", calls.threads);
    // Writing to a text cannot fail.
    calls.files.iter().for_each(|file| _ = writeln!(text, "file {} {}", file.bytes, file.name));
    calls.names.iter().for_each(|name| _ = writeln!(text, "name {name}"));
    calls.left_out.iter().for_each(|(what, times)| _ = writeln!(text, "left-out {times} {what}"));
    for operation in &calls.operations {
        _ = match *operation {
            Operation::Pause { ns } => writeln!(text, "pause {ns}"),
            Operation::Open { file, purpose } => writeln!(text, "open {file} {}", purpose.word()),
            Operation::Create { file } => writeln!(text, "create {file}"),
            Operation::Close { file } => writeln!(text, "close {file}"),
            Operation::Read { file, offset, bytes } => writeln!(text, "read {file} {offset} {bytes}"),
            Operation::Write { file, offset, bytes } => writeln!(text, "write {file} {offset} {bytes}"),
            Operation::Append { file, bytes } => writeln!(text, "append {file} {bytes}"),
            Operation::Sync { file } => writeln!(text, "sync {file}"),
            Operation::SyncData { file } => writeln!(text, "sync-data {file}"),
            Operation::SetOwner { file } => writeln!(text, "set-owner {file}"),
            Operation::SyncFolder => writeln!(text, "sync-folder"),
            Operation::Truncate { file, bytes } => writeln!(text, "truncate {file} {bytes}"),
            Operation::Delete { file } => writeln!(text, "delete {file}"),
            Operation::Rename { file, to } => writeln!(text, "rename {file} {to}"),
            Operation::LookUp { file } => writeln!(text, "look-up {file}"),
            Operation::MakeDirectory { directory } => writeln!(text, "make-folder {directory}"),
            Operation::List => writeln!(text, "list"),
            other_workloads!() => Ok(()),
        };
    }
    text
}

/// The digest that a file of calls is kept under: SHA-256 of its bytes.
pub fn digest(file: &str) -> String {
    hexadecimal(&Sha256::digest(file))
}

/// Reads a file of calls and checks that it can be executed: numbers have names, sizes and times are those of a
/// machine, and what one thread uses is open. Of several threads each opens for itself.
///
/// # Errors
/// `ErrorKind::User` with `name` and the line.
pub fn decode(text: &str, name: &str) -> Result<Calls> {
    let mut lines = text.lines().enumerate();
    if lines.next().is_none_or(|(_, line)| line != HEAD) {
        return Err(Error::user(format!("{name} line 1: it is not `{HEAD}`"))
            .hint("docs/workload-format.md describes files of calls"));
    }
    let mut calls = Calls { threads: 1, ..Calls::default() };
    let mut seen = Seen::default();
    for (number, line) in lines {
        decode_line(&mut calls, &mut seen, line).map_err(|why| {
            Error::user(format!("{name} line {}: `{line}` {why}", number + 1))
                .hint("docs/workload-format.md describes files of calls")
        })?;
    }
    Ok(calls)
}

/// What the lines so far have said.
#[derive(Default)]
struct Seen {
    /// Names of the files that are there at first.
    files: HashSet<String>,
    /// Numbers that are open, and whether with O_DIRECT.
    open: HashMap<u32, bool>,
}

impl Seen {
    /// Refuses an operation on what is not open, one that opens what is, and a direct one of parts of sectors.
    fn follow(&mut self, operation: &Operation) -> Result<(), &'static str> {
        match *operation {
            Operation::Open { file, .. } | Operation::Create { file } => {
                let before = self.open.insert(file, operation.opens_direct());
                before.is_none().then_some(()).ok_or("opens a number that is open")
            }
            Operation::Close { file } => self.open.remove(&file).map(drop).ok_or("closes a number that is not open"),
            Operation::Read { file, offset, bytes } | Operation::Write { file, offset, bytes } => {
                self.moves(file, [offset, bytes])
            }
            Operation::Append { file, bytes } => self.moves(file, [0, bytes]),
            Operation::Sync { file }
            | Operation::SyncData { file }
            | Operation::SetOwner { file }
            | Operation::Truncate { file, .. } => self.direct(file).map(drop),
            // By a name, of a folder, or none that a file of calls has.
            Operation::Delete { .. }
            | Operation::Rename { .. }
            | Operation::LookUp { .. }
            | Operation::MakeDirectory { .. }
            | Operation::List
            | Operation::SyncFolder
            | Operation::Pause { .. }
            | other_workloads!() => Ok(()),
        }
    }

    /// Whether a number is open with O_DIRECT.
    fn direct(&self, file: u32) -> Result<bool, &'static str> {
        self.open.get(&file).copied().ok_or("needs an open number")
    }

    /// Checks the offset and the bytes of a call.
    fn moves(&self, file: u32, place: [u64; 2]) -> Result<(), &'static str> {
        let parts = place.iter().any(|number| number % SECTOR_BYTES != 0);
        (!(self.direct(file)? && parts)).then_some(()).ok_or("is direct and not of whole sectors of 512 bytes")
    }
}

fn decode_line(calls: &mut Calls, seen: &mut Seen, line: &str) -> Result<(), &'static str> {
    let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
    match word {
        "" => Ok(()),
        "threads" | "file" | "name" | "left-out" if !calls.operations.is_empty() => Err("comes after the first call"),
        "threads" => decode_threads(calls, rest),
        "file" => {
            let (bytes, name) = rest.split_once(' ').ok_or("has no size and name")?;
            decode_file(calls, seen, size(bytes.parse().map_err(|_| "has no size in bytes")?)?, name)
        }
        "name" => decode_name(calls, rest),
        "left-out" => decode_left_out(calls, rest),
        _ => {
            let operation = decode_operation(word, Words::of(rest, calls))?;
            if calls.threads == 1 {
                seen.follow(&operation)?;
            }
            calls.operations.push(operation);
            Ok(())
        }
    }
}

fn decode_threads(calls: &mut Calls, rest: &str) -> Result<(), &'static str> {
    let threads = Words::of(rest, calls).number("has no number of threads")?;
    calls.threads = u32::try_from(threads).unwrap_or(0);
    (1..=1024).contains(&calls.threads).then_some(()).ok_or("is not from 1 to 1024 threads")
}

/// A file that is there at first.
fn decode_file(calls: &mut Calls, seen: &mut Seen, bytes: u64, name: &str) -> Result<(), &'static str> {
    check_name(calls, name)?;
    if !seen.files.insert(name.to_owned()) {
        return Err("has the name of another file");
    }
    if !calls.names.is_empty() {
        return Err("comes after a name");
    }
    calls.files.push(NewFile { name: name.to_owned(), bytes });
    Ok(())
}

/// The name of a file that calls make.
fn decode_name(calls: &mut Calls, name: &str) -> Result<(), &'static str> {
    check_name(calls, name)?;
    calls.names.push(name.to_owned());
    Ok(())
}

/// Refuses what cannot be a file's name in a folder, and one file too many.
fn check_name(calls: &Calls, name: &str) -> Result<(), &'static str> {
    if name.is_empty() || name.len() > 255 || name.contains(['/', '\0']) || [".", ".."].contains(&name) {
        return Err("has no name of a file");
    }
    (named(calls) < MOST_FILES).then_some(()).ok_or("is one file too many")
}

fn decode_left_out(calls: &mut Calls, rest: &str) -> Result<(), &'static str> {
    let (times, what) = rest.split_once(' ').ok_or("has no number and reason")?;
    calls.left_out.insert(what.to_owned(), times.parse().map_err(|_| "has no number")?);
    Ok(())
}

/// Files that have a name.
fn named(calls: &Calls) -> usize {
    calls.files.len() + calls.names.len()
}

/// What follows the first word of a line.
struct Words<'a> {
    words: std::str::SplitTerminator<'a, char>,
    /// Files that have a name.
    named: usize,
}

impl<'a> Words<'a> {
    fn of(rest: &'a str, calls: &Calls) -> Words<'a> {
        Words { words: rest.split_terminator(' '), named: named(calls) }
    }

    /// The next word as a number; `what` is wrong where it is none.
    fn number(&mut self, what: &'static str) -> Result<u64, &'static str> {
        self.words.next().and_then(|word| word.parse().ok()).ok_or(what)
    }

    /// The next word as the number of a file.
    fn file(&mut self) -> Result<u32, &'static str> {
        let number = self.number(NO_FILE)?;
        (number < self.named as u64).then_some(number as u32).ok_or("has a file that has no name")
    }

    /// The next word as the bytes of a call.
    fn moved(&mut self) -> Result<u64, &'static str> {
        moved(self.number("has no bytes")?)
    }
}

const NO_FILE: &str = "has no file's number";

fn decode_operation(word: &str, mut words: Words<'_>) -> Result<Operation, &'static str> {
    let operation = match word {
        "pause" => Operation::Pause { ns: pause(words.number("has no nanoseconds")?)? },
        "sync-folder" => Operation::SyncFolder,
        "list" => Operation::List,
        "make-folder" => {
            let directory = u32::try_from(words.number(NO_FILE)?).map_err(|_| "has too large a number")?;
            Operation::MakeDirectory { directory }
        }
        "open" => {
            let (file, word) = (words.file()?, words.words.next().unwrap_or_default());
            Operation::Open { file, purpose: Purpose::of_word(word).ok_or("is not for read, write, append or new")? }
        }
        "create" => Operation::Create { file: words.file()? },
        "close" => Operation::Close { file: words.file()? },
        "sync" => Operation::Sync { file: words.file()? },
        "sync-data" => Operation::SyncData { file: words.file()? },
        "set-owner" => Operation::SetOwner { file: words.file()? },
        "delete" => Operation::Delete { file: words.file()? },
        "look-up" => Operation::LookUp { file: words.file()? },
        "rename" => Operation::Rename { file: words.file()?, to: words.file()? },
        "truncate" => Operation::Truncate { file: words.file()?, bytes: size(words.number("has no size")?)? },
        "append" => Operation::Append { file: words.file()?, bytes: words.moved()? },
        "read" | "write" => {
            let (file, offset, bytes) = (words.file()?, words.number("has no offset")?, words.moved()?);
            size(offset.saturating_add(bytes))?;
            match word {
                "read" => Operation::Read { file, offset, bytes },
                _ => Operation::Write { file, offset, bytes },
            }
        }
        _ => return Err("is no call"),
    };
    words.words.next().is_none().then_some(operation).ok_or("has words behind it")
}

/// Bytes of a call: the buffer is as large as the largest.
fn moved(bytes: u64) -> Result<u64, &'static str> {
    (bytes <= MOST_CALL_BYTES).then_some(bytes).ok_or("moves more than one call can")
}

fn size(bytes: u64) -> Result<u64, &'static str> {
    (bytes <= MOST_FILE_BYTES).then_some(bytes).ok_or("is beyond what a file can have")
}

fn pause(ns: u64) -> Result<u64, &'static str> {
    (ns <= MOST_PAUSE_NS).then_some(ns).ok_or("lasts longer than 146 years")
}
