//! Recorded calls on files: what a file of them has, and those of a traced cell.

use crate::arguments::ExportArguments;
use pocketstone_core::error::Context;
use pocketstone_core::units::{format_bytes, format_ns};
use pocketstone_core::words::counted;
use pocketstone_core::{Error, Result};
use pocketstone_study::results::layers::Layers;
use pocketstone_study::results::store::Store;
use pocketstone_workload::calls::{Calls, Selection, events, read, text};
use std::path::Path;

/// Prints what of a recording is replayed.
///
/// # Errors
/// `ErrorKind::User` if the file cannot be read or is not understood.
pub fn show(file: &Path, operations: usize, below: Option<&str>) -> Result<()> {
    let bytes = std::fs::read(file).user(|| format!("cannot read {}", file.display()))?;
    let selection = Selection { below: below.unwrap_or_default().to_owned(), pauses: true };
    let calls = read(&bytes, &file.display().to_string(), &selection)?;
    print(&calls);
    let shown = text::encode(&Calls {
        operations: calls.operations.into_iter().take(operations).collect(),
        ..Calls::default()
    });
    shown.lines().skip(2).for_each(|line| say!("  {line}"));
    Ok(())
}

/// Writes a traced cell's calls as a file that the workload `calls` replays.
///
/// # Errors
/// `ErrorKind::User` if there is no such cell, its calls have no positions, or the file cannot be written.
pub fn export(arguments: &ExportArguments, path: &Path) -> Result<u8> {
    let store = Store::open(&arguments.folder, false)?;
    let cell = store.traced_cell(arguments.only.as_deref())?;
    let selection = Selection { below: String::new(), pauses: true };
    let calls = events::calls(&Layers::of(&store, cell.id)?.events, &selection)
        .map_err(|e| Error::user(format!("cell {} cannot be replayed", cell.id)).because(e))?;
    std::fs::write(path, text::encode(&calls)).user(|| format!("cannot write {}", path.display()))?;
    say!("{}", path.display());
    print(&calls);
    Ok(0)
}

fn print(calls: &Calls) {
    let bytes: u64 = calls.files.iter().fold(0, |sum, file| sum.saturating_add(file.bytes));
    let (files, names) = (counted(calls.files.len(), "file"), counted(calls.names.len(), "more name"));
    say!("{files} of {} at first, {names}", format_bytes(bytes));
    for (name, total) in calls.totals() {
        let moved = if total.bytes > 0 { format!(" of {}", format_bytes(total.bytes)) } else { String::new() };
        say!("  {:>8} {name}{moved}", total.calls);
    }
    say!("{} of pauses", format_ns(calls.pauses_ns() as f64));
    if !calls.left_out.is_empty() {
        say!("not replayed:");
        calls.left_out.iter().for_each(|(why, times)| say!("  {times:>8} {why}"));
    }
}
