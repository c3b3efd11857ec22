//! YCSB's workloads A to F on one table, as its JDBC client makes them.

use super::distribution::hash;
use super::printable::printable;
use super::requests::{Letter, Request, Requests};
use super::trace::{StatementKind, Stored, Trace, Value};
use pocketstone_core::Result;
use pocketstone_core::database::Recipe;
use pocketstone_core::random::Random;

/// A trace being made.
struct Ycsb {
    trace: Trace,
    /// Key of each record, by its number.
    keys: Vec<Stored>,
    fields: usize,
    field_bytes: usize,
    insert: u32,
    /// Values of the step at hand, and the text of one.
    values: Vec<Stored>,
    text: Vec<u8>,
}

pub(super) fn ycsb(letter: Letter, recipe: &Recipe, seed: u64) -> Result<Trace> {
    let (fields, bytes) = (recipe.fields as usize, recipe.field_bytes);
    let columns: String = (0..fields).map(|n| format!(", FIELD{n} VARCHAR({bytes})")).collect();
    let mut trace = Trace::default();
    let create = format!("CREATE TABLE usertable (YCSB_KEY VARCHAR(32) PRIMARY KEY{columns})");
    let create = trace.add_statement(create, StatementKind::Sql, 0);
    let names: String = (0..fields).map(|n| format!(", FIELD{n}")).collect();
    let insert = format!("INSERT INTO usertable (YCSB_KEY{names}) VALUES (?{})", ", ?".repeat(fields));
    let insert = trace.add_statement(insert, StatementKind::Insert, 0);
    trace.load(create, &[])?;
    let mut made = Ycsb {
        trace,
        keys: Vec::with_capacity(recipe.records as usize),
        fields,
        field_bytes: recipe.field_bytes as usize,
        insert,
        values: Vec::with_capacity(fields + 1),
        text: Vec::new(),
    };
    let mut contents = Random::labelled(seed, "database records");
    for _ in 0..recipe.records {
        made.add_record(&mut contents, true)?;
    }
    made.measure(letter, recipe, seed)?;
    Ok(made.trace)
}

impl Ycsb {
    fn measure(&mut self, letter: Letter, recipe: &Recipe, seed: u64) -> Result<()> {
        let scans = letter == Letter::E;
        let writes = matches!(letter, Letter::A | Letter::B | Letter::F);
        let read = match scans {
            true => {
                let text = "SELECT * FROM usertable WHERE YCSB_KEY >= ? ORDER BY YCSB_KEY LIMIT ?";
                self.trace.add_statement(text, StatementKind::Scan, 0)
            }
            false => {
                let text = "SELECT * FROM usertable WHERE YCSB_KEY = ?";
                self.trace.add_statement(text, StatementKind::Read, 0)
            }
        };
        // One statement for each field that an update may change; its column is one behind the key's.
        let first_update = read + 1;
        for field in 0..if writes { self.fields } else { 0 } {
            let text = format!("UPDATE usertable SET FIELD{field} = ? WHERE YCSB_KEY = ?");
            self.trace.add_statement(text, StatementKind::Update, 1 << (field + 1));
        }
        let mut contents = Random::labelled(seed, "database new values");
        let mut fields = Random::labelled(seed, "database fields");
        let requests = Requests::new(letter, recipe.records, recipe.operations, recipe.scan_records, seed);
        for request in requests.take(recipe.operations as usize) {
            match request {
                Request::Insert { .. } => self.add_record(&mut contents, false)?,
                Request::Read { record } => self.step(read, &[self.key(record)], false)?,
                Request::Scan { record, records } => {
                    let limit = self.trace.store(&Value::Integer(records as i64))?;
                    self.step(read, &[self.key(record), limit], false)?;
                }
                Request::Update { record } | Request::ReadModifyWrite { record } => {
                    let joined = matches!(request, Request::ReadModifyWrite { .. });
                    if joined {
                        self.step(read, &[self.key(record)], false)?;
                    }
                    let field = fields.below(self.fields as u64) as u32;
                    let value = self.content(&mut contents)?;
                    self.step(first_update + field, &[value, self.key(record)], joined)?;
                }
            }
        }
        Ok(())
    }

    fn key(&self, record: u64) -> Stored {
        self.keys[record as usize]
    }

    fn step(&mut self, statement: u32, values: &[Stored], joined: bool) -> Result<()> {
        self.trace.add_stored(statement, values, joined, false)
    }

    /// The text of a field.
    fn content(&mut self, random: &mut Random) -> Result<Stored> {
        self.trace.store(&Value::Text(printable(random, self.field_bytes, &mut self.text)))
    }

    /// Inserts the next record.
    fn add_record(&mut self, random: &mut Random, loading: bool) -> Result<()> {
        let key = format!("user{}", hash(self.keys.len() as u64));
        let key = self.trace.store(&Value::Text(&key))?;
        self.keys.push(key);
        self.values.clear();
        self.values.push(key);
        for _ in 0..self.fields {
            let value = self.content(random)?;
            self.values.push(value);
        }
        self.trace.add_stored(self.insert, &self.values, false, loading)
    }
}
