//! From a recipe to a prepared workload.

use super::analysis::{Analysis, analysis};
use super::contacts::contacts;
use super::pocketdata::{self, pocketdata};
use super::published::from_published;
use super::requests::Letter;
use super::trace::{MAGIC, Trace};
use super::ycsb::ycsb;
use pocketstone_core::database::{DatabaseWorkload, Delay, Recipe};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};

/// Longest field in characters: H2's VARCHAR has no longer ones.
const LONGEST_FIELD: u64 = 1 << 20;
/// Fields beside the key; an update's columns are 64 bits with the key's.
const MOST_FIELDS: u64 = 62;
/// Texts of all values together: a workload has to fit the memory of whoever prepares it.
const MOST_TEXT_BYTES: u64 = 4 << 30;

/// Prepares a workload: the same bytes for the same recipe and seed on every machine.
///
/// # Errors
/// `ErrorKind::User` if a number in the recipe is out of range; `ErrorKind::Bug` if the workload comes from a file,
/// which [`from_file`] reads.
pub fn prepare(recipe: &Recipe, seed: u64) -> Result<Trace> {
    check(recipe)?;
    let mut trace = match recipe.workload {
        DatabaseWorkload::YcsbA => ycsb(Letter::A, recipe, seed),
        DatabaseWorkload::YcsbB => ycsb(Letter::B, recipe, seed),
        DatabaseWorkload::YcsbC => ycsb(Letter::C, recipe, seed),
        DatabaseWorkload::YcsbD => ycsb(Letter::D, recipe, seed),
        DatabaseWorkload::YcsbE => ycsb(Letter::E, recipe, seed),
        DatabaseWorkload::YcsbF => ycsb(Letter::F, recipe, seed),
        DatabaseWorkload::PocketdataA => pocketdata(Letter::A, recipe, seed),
        DatabaseWorkload::PocketdataB => pocketdata(Letter::B, recipe, seed),
        DatabaseWorkload::PocketdataC => pocketdata(Letter::C, recipe, seed),
        DatabaseWorkload::PocketdataD => pocketdata(Letter::D, recipe, seed),
        DatabaseWorkload::PocketdataE => pocketdata(Letter::E, recipe, seed),
        DatabaseWorkload::PocketdataF => pocketdata(Letter::F, recipe, seed),
        DatabaseWorkload::PocketdataIa => analysis(Analysis::A, recipe, seed),
        DatabaseWorkload::PocketdataIb => analysis(Analysis::B, recipe, seed),
        DatabaseWorkload::PocketdataIc => analysis(Analysis::C, recipe, seed),
        DatabaseWorkload::Contacts => contacts(recipe, seed),
        DatabaseWorkload::File => Err(Error::bug("a workload from a file is prepared from the file's bytes")),
        DatabaseWorkload::Null => Ok(Trace::default()),
    }?;
    trace.set_delays(recipe.delay.unwrap_or(Delay::None), seed);
    Ok(trace)
}

/// Reads a workload file, a prepared one or one in the published JSON form; `name` is for messages. A
/// `delay` replaces the file's own pauses.
///
/// # Errors
/// `ErrorKind::User` if it is neither of them, or damaged; the message includes the place.
pub fn from_file(bytes: &[u8], name: &str, delay: Option<Delay>, seed: u64) -> Result<Trace> {
    let read = match bytes.starts_with(MAGIC) {
        true => Trace::decode(bytes).map(|mut trace| {
            if let Some(delay) = delay {
                trace.set_delays(delay, seed);
            }
            trace
        }),
        false => from_published(bytes, delay, seed),
    };
    read.user(|| format!("{name} is not a workload"))
}

/// What a workload needs of its recipe, for the check.
struct Needs {
    /// Name and value of what must be from 1 to a largest number.
    counts: Vec<(&'static str, u64, u64)>,
    /// Bytes of text that a record has, and an operation at most.
    text_bytes: (u64, u64),
}

fn needs(recipe: &Recipe) -> Needs {
    use DatabaseWorkload as W;
    let count = u64::from(u32::MAX);
    let mut counts = vec![("records", recipe.records, count), ("operations", recipe.operations, count)];
    let fields = ("fields", recipe.fields, MOST_FIELDS);
    let field_bytes = ("field_bytes", recipe.field_bytes, LONGEST_FIELD);
    let scans = ("scan_records", recipe.scan_records, count);
    let field = recipe.field_bytes;
    let text_bytes = match recipe.workload {
        W::File | W::Null => return Needs { counts: Vec::new(), text_bytes: (0, 0) },
        W::Contacts => {
            counts.push(field_bytes);
            (field.saturating_mul(5), 0)
        }
        W::YcsbA | W::YcsbB | W::YcsbC | W::YcsbD | W::YcsbE | W::YcsbF => {
            counts.extend([fields, field_bytes]);
            let record = field.saturating_mul(recipe.fields);
            match recipe.workload {
                W::YcsbA | W::YcsbF => (record, field / 2),
                W::YcsbB => (record, field / 20),
                W::YcsbC => (record, 0),
                _ => (record, record / 20),
            }
        }
        _ => (2 * pocketdata::LONGEST_TEXT, 2 * pocketdata::LONGEST_TEXT),
    };
    if matches!(recipe.workload, W::YcsbE | W::PocketdataE | W::PocketdataIa | W::PocketdataIb | W::PocketdataIc) {
        counts.push(scans);
    }
    Needs { counts, text_bytes }
}

/// The first number of a recipe that is out of range: its name, which is its factor's, its value, and the largest one.
pub(super) fn out_of_range(recipe: &Recipe) -> Option<(&'static str, u64, u64)> {
    needs(recipe).counts.into_iter().find(|(_, value, most)| *value == 0 || value > most)
}

/// Validates a recipe like [`prepare`], without preparing it.
///
/// # Errors
/// `ErrorKind::User` if a number in the recipe is out of range.
pub fn check(recipe: &Recipe) -> Result<()> {
    if let Some((name, value, most)) = out_of_range(recipe) {
        return Err(Error::user(format!("the workload {} cannot have {name} = {value}", name_of(recipe)))
            .hint(format!("`{name}` must be from 1 to {most}")));
    }
    let (record, operation) = needs(recipe).text_bytes;
    let bytes = recipe.records.saturating_mul(record).saturating_add(recipe.operations.saturating_mul(operation));
    if bytes > MOST_TEXT_BYTES {
        return Err(Error::user(format!("the workload {} would contain {bytes} bytes of text", name_of(recipe)))
            .hint(format!("at most {MOST_TEXT_BYTES}: use fewer or smaller records, or fewer operations")));
    }
    Ok(())
}

/// The workload's name as studies write it.
fn name_of(recipe: &Recipe) -> String {
    let name = serde_json::to_value(recipe.workload).ok();
    name.as_ref().and_then(|n| n.as_str()).unwrap_or("?").to_owned()
}

#[cfg(test)]
mod tests;
