//! The SQLite workload of the read-ahead paper (Olivier, Boukhobza and Senn, "Revisiting read-ahead
//! efficiency for raw NAND flash storage in embedded Linux", 2014, section 3.1.2): contacts, looked up one
//! by one by their number.

use super::printable::printable;
use super::trace::{StatementKind, Trace, Value};
use pocketstone_core::Result;
use pocketstone_core::database::Recipe;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::random::Random;

/// Integers beside the number that identifies a contact; with it they are 12.
const INTEGERS: [&str; 11] = [
    "account",
    "photo",
    "times_contacted",
    "last_contacted",
    "starred",
    "pinned",
    "visible",
    "has_number",
    "to_voicemail",
    "version",
    "changed",
];

const TEXTS: [&str; 5] = ["name", "sort_name", "lookup", "ringtone", "notes"];

/// Values of a contact.
const COLUMNS: u64 = 1 + INTEGERS.len() as u64 + TEXTS.len() as u64;

pub(super) fn contacts(recipe: &Recipe, seed: u64) -> Result<Trace> {
    let mut trace = Trace::default();
    let bytes = recipe.field_bytes;
    let integers: String = INTEGERS.iter().map(|name| format!(", {name} INTEGER")).collect();
    let texts: String = TEXTS.iter().map(|name| format!(", {name} VARCHAR({bytes})")).collect();
    let create = format!("CREATE TABLE contacts (id INTEGER PRIMARY KEY{integers}{texts})");
    let create = trace.add_statement(create, StatementKind::Sql, 0);
    let names = INTEGERS.iter().chain(&TEXTS).map(|name| format!(", {name}")).collect::<String>();
    let marks = ", ?".repeat(COLUMNS as usize - 1);
    let insert = format!("INSERT INTO contacts (id{names}) VALUES (?{marks})");
    let insert = trace.add_statement(insert, StatementKind::Insert, 0);
    let read = trace.add_statement("SELECT * FROM contacts WHERE id = ?", StatementKind::Read, 0);
    trace.load(create, &[])?;
    let mut random = Random::labelled(seed, "database records");
    let (mut values, mut text) = (Vec::new(), Vec::new());
    for id in 1..=recipe.records {
        values.clear();
        values.push(trace.store(&Value::Integer(id as i64))?);
        for _ in INTEGERS {
            values.push(trace.store(&Value::Integer(random.below(1 << 31) as i64))?);
        }
        for _ in TEXTS {
            values.push(trace.store(&Value::Text(printable(&mut random, bytes as usize, &mut text)))?);
        }
        trace.add_stored(insert, &values, false, true)?;
    }
    let mut keys = Random::labelled(seed, "database keys");
    for n in 0..recipe.operations {
        let id = 1 + match recipe.pattern {
            Pattern::Sequential => n % recipe.records,
            Pattern::Random => keys.below(recipe.records),
        };
        trace.measure(0, read, &[Value::Integer(id as i64)], false)?;
    }
    Ok(trace)
}
