//! `pocketstone advise huge-pages`: TLB misses under SCMFS's thresholds.

use crate::arguments::AdviseHugePagesArguments;
use crate::{boards, screen};
use pocketstone_core::units::format_bytes;
use pocketstone_core::{Error, Result};
use pocketstone_replay::tlb::{self, Row, THRESHOLDS_BYTES};
use pocketstone_tlb::{Processor, SMALL_PAGE_BITS};

/// Lengths of records where none are given: IOZONE's.
const RECORDS_BYTES: [u64; 13] = {
    let mut records = [4 << 10; 13];
    let mut n = 1;
    while n < records.len() {
        records[n] = 2 * records[n - 1];
        n += 1;
    }
    records
};
const SMALL_PAGE_BYTES: u64 = 1 << SMALL_PAGE_BITS;
const LARGEST_FILE_BYTES: u64 = 4 << 30;

/// Prints the walks of every pass under every threshold.
///
/// # Errors
/// `ErrorKind::User` if the processor is unknown, or a size is not possible.
pub fn advise(arguments: &AdviseHugePagesArguments) -> Result<u8> {
    let processor = Processor::load(&boards::devices()?, &arguments.processor)?;
    let file_bytes = arguments.file;
    if !(SMALL_PAGE_BYTES..=LARGEST_FILE_BYTES).contains(&file_bytes) {
        let range = format!("--file takes {} to {}", format_bytes(SMALL_PAGE_BYTES), format_bytes(LARGEST_FILE_BYTES));
        return Err(Error::user(format!("a file of {} cannot be compared", format_bytes(file_bytes))).hint(range));
    }
    if let Some(record) = arguments.record.iter().find(|r| **r == 0 || **r % SMALL_PAGE_BYTES != 0 || **r > file_bytes)
    {
        return Err(Error::user(format!("a record of {} cannot be compared", format_bytes(*record)))
            .hint("--record takes multiples of 4 KiB up to the file's size"));
    }
    let records = match arguments.record.is_empty() {
        true => RECORDS_BYTES.into_iter().filter(|r| *r <= file_bytes).collect(),
        false => arguments.record.clone(),
    };
    let rows = tlb::passes(&processor, file_bytes, &records);
    match arguments.json {
        true => {
            let text = serde_json::to_string_pretty(&rows).map_err(|e| Error::bug("no JSON").because(e))?;
            say!("{text}");
        }
        false => print(&processor, file_bytes, &rows),
    }
    Ok(0)
}

fn print(processor: &Processor, file_bytes: u64, rows: &[Row]) {
    say!(
        "{}: page walks of a pass over a file of {}; modelled, not measured",
        processor.description,
        format_bytes(file_bytes)
    );
    for array in processor.levels.iter().flat_map(|level| &level.arrays) {
        say!("{} entries in {} ways: {}", array.entries, array.ways, array.source);
    }
    let mut head = vec!["pass".to_owned(), "record".to_owned(), "4 KiB pages".to_owned()];
    head.extend(THRESHOLDS_BYTES.iter().flatten().map(|t| format!("above {}", format_bytes(*t))));
    let table: Vec<Vec<String>> = rows
        .chunks(THRESHOLDS_BYTES.len())
        .map(|row| {
            let mut cells = vec![row[0].pass.name().to_owned(), format_bytes(row[0].record_bytes)];
            cells.extend(row.iter().map(|r| r.counts.walks.to_string()));
            cells
        })
        .collect();
    say!("\n{}", screen::table(&head, &table, THRESHOLDS_BYTES.len() + 1, false));
    say!("above SIZE: the file moves to pages of 2 MiB when it grows past SIZE (scmfs mkfs --threshold SIZE)");
    say!("a call touches 16 other pages, then by turns its buffer, in pages of 4 KiB, and the file");
}
