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
    let mut words = rest.split_terminator(' ');
    let mut number = |what| words.next().and_then(|word| word.parse::<u64>().ok()).ok_or(what);
    let named = (calls.files.len() + calls.names.len()) as u64;
    let file = |number: u64| (number < named).then_some(number as u32).ok_or("has a file that has no name");
    match word {
        "" => return Ok(()),
        "threads" | "file" | "name" | "left-out" if !calls.operations.is_empty() => {
            return Err("comes after the first call");
        }
        "threads" => {
            calls.threads = u32::try_from(number("has no number of threads")?).unwrap_or(0);
            return (1..=1024).contains(&calls.threads).then_some(()).ok_or("is not from 1 to 1024 threads");
        }
        "file" | "name" => {
            let place = if word == "file" { rest.split_once(' ').ok_or("has no size and name")? } else { ("0", rest) };
            let bytes = size(place.0.parse().map_err(|_| "has no size in bytes")?)?;
            if place.1.is_empty()
                || place.1.len() > 255
                || place.1.contains(['/', '\0'])
                || [".", ".."].contains(&place.1)
            {
                return Err("has no name of a file");
            }
            if named as usize == MOST_FILES {
                return Err("is one file too many");
            }
            match word {
                "file" if !seen.files.insert(place.1.to_owned()) => return Err("has the name of another file"),
                "file" if calls.names.is_empty() => calls.files.push(NewFile { name: place.1.to_owned(), bytes }),
                "file" => return Err("comes after a name"),
                _ => calls.names.push(place.1.to_owned()),
            }
            return Ok(());
        }
        "left-out" => {
            let (times, what) = rest.split_once(' ').ok_or("has no number and reason")?;
            calls.left_out.insert(what.to_owned(), times.parse().map_err(|_| "has no number")?);
            return Ok(());
        }
        _ => {}
    }
    let of = "has no file's number";
    let operation = match word {
        "pause" => Operation::Pause { ns: pause(number("has no nanoseconds")?)? },
        "sync-folder" => Operation::SyncFolder,
        "list" => Operation::List,
        "make-folder" => {
            Operation::MakeDirectory { directory: u32::try_from(number(of)?).map_err(|_| "has too large a number")? }
        }
        "open" => {
            let (file, word) = (file(number(of)?)?, words.next().unwrap_or_default());
            Operation::Open { file, purpose: Purpose::of_word(word).ok_or("is not for read, write, append or new")? }
        }
        "create" => Operation::Create { file: file(number(of)?)? },
        "close" => Operation::Close { file: file(number(of)?)? },
        "sync" => Operation::Sync { file: file(number(of)?)? },
        "sync-data" => Operation::SyncData { file: file(number(of)?)? },
        "set-owner" => Operation::SetOwner { file: file(number(of)?)? },
        "delete" => Operation::Delete { file: file(number(of)?)? },
        "look-up" => Operation::LookUp { file: file(number(of)?)? },
        "rename" => Operation::Rename { file: file(number(of)?)?, to: file(number(of)?)? },
        "truncate" => Operation::Truncate { file: file(number(of)?)?, bytes: size(number("has no size")?)? },
        "append" => Operation::Append { file: file(number(of)?)?, bytes: moved(number("has no bytes")?)? },
        "read" | "write" => {
            let (file, offset) = (file(number(of)?)?, number("has no offset")?);
            let bytes = moved(number("has no bytes")?)?;
            size(offset.saturating_add(bytes))?;
            match word {
                "read" => Operation::Read { file, offset, bytes },
                _ => Operation::Write { file, offset, bytes },
            }
        }
        _ => return Err("is no call"),
    };
    if words.next().is_some() {
        return Err("has words behind it");
    }
    if calls.threads == 1 {
        seen.follow(&operation)?;
    }
    calls.operations.push(operation);
    Ok(())
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
