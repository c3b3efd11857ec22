//! The prepared workload: statements, values and operations in memory, and the file that holds them.
//!
//! Little-endian; docs/workload-format.md draws the same.
//!
//! ```text
//! 0    magic "PKTTRACE"
//! 8    u32 format = 1        u32 statements S
//! 16   u64 loading steps L   u64 measured steps M
//! 32   u64 values V          u64 text bytes T
//! 48   u64 image bytes D     u64 reserved = 0
//! 64   statement x S (24):   u64 text offset, u32 text bytes, u16 kind, u16 reserved, u64 columns
//!      step x (L + M) (24):  u64 pause_ns, u64 first value, u32 statement, u16 values, u16 flags
//!      value x V (16):       u8 kind, 7 bytes of 0, u64 payload
//!      text (T bytes, UTF-8), image (D bytes), SHA-256 of everything before (32 bytes)
//! ```
//! A value's kinds: 0 null (payload 0), 1 integer (payload: i64), 2 real (payload: f64), 3 text (payload:
//! offset into text << 24 | bytes). Flag 1 of a step: it belongs to the same operation as the step before.
//! Statements' texts end the text, in their order and without gaps; values may share texts before them.
//! Whatever is reserved is 0, so that there is one file for each workload.

use pocketstone_core::bytes::{hexadecimal, u16_at, u32_at, u64_at};
use pocketstone_core::{Error, Result};
use sha2::{Digest, Sha256};

/// A prepared workload: everything that a run needs, made before the clock starts.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// Statements, each once.
    pub statements: Vec<Statement>,
    /// Steps that load the database, then the measured ones; see [`Trace::loading`] and [`Trace::measured`].
    steps: Vec<Step>,
    loading: usize,
    values: Vec<Stored>,
    text: String,
    /// A database file of SQLite to start from; empty where loading starts from nothing.
    pub image: Vec<u8>,
}

/// A statement with a `?` for each value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// SQL text.
    pub text: String,
    /// What it is for engines without SQL.
    pub kind: StatementKind,
    /// For an update: which columns its values are for, bit 0 being the first column, the key.
    pub columns: u64,
}

/// The kind of a statement for engines without SQL. The first column of the table is its key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u16)]
pub enum StatementKind {
    /// SQL that only SQL engines understand.
    Sql = 0,
    /// The row with a key: values are the key.
    Read = 1,
    /// New values of some columns: values are theirs in order of the columns, then the key.
    Update = 2,
    /// A new row: values are all its columns, key first.
    Insert = 3,
    /// Rows from a key on, in order of keys: values are the first key and the number of rows.
    Scan = 4,
    /// As `Scan`, behind a key.
    ScanAfter = 5,
}

const KINDS: [StatementKind; 6] = [
    StatementKind::Sql,
    StatementKind::Read,
    StatementKind::Update,
    StatementKind::Insert,
    StatementKind::Scan,
    StatementKind::ScanAfter,
];

/// One execution of a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Step {
    /// Delay before it.
    pub pause_ns: u64,
    first_value: u64,
    /// Index of its statement.
    pub statement: u32,
    values: u16,
    /// Whether it belongs to the same operation as the step before it.
    pub joined: bool,
}

/// A value of a statement or a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// SQL's NULL.
    Null,
    /// An integer.
    Integer(i64),
    /// A number with a fraction.
    Real(f64),
    /// Text.
    Text(&'a str),
    /// Bytes.
    Blob(&'a [u8]),
}

/// A value as the file has it. The same stored text may be the value of many steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Stored {
    kind: u8,
    payload: u64,
}

pub(super) const MAGIC: &[u8; 8] = b"PKTTRACE";
const FORMAT: u32 = 1;
const HEADER: usize = 64;
const STATEMENT: usize = 24;
const STEP: usize = 24;
const VALUE: usize = 16;
const DIGEST: usize = 32;
const JOINED: u16 = 1;
/// Bytes of a text or blob take 24 bits of a payload.
const MOST_VALUE_BYTES: usize = (1 << 24) - 1;

impl Trace {
    /// Adds a statement and returns its index.
    pub fn add_statement(&mut self, text: impl Into<String>, kind: StatementKind, columns: u64) -> u32 {
        self.statements.push(Statement { text: text.into(), kind, columns });
        (self.statements.len() - 1) as u32
    }

    /// Adds a loading step; all of them come before the first measured one.
    ///
    /// # Errors
    /// `ErrorKind::User` if a value is too long; `ErrorKind::Bug` if measured steps were already added.
    pub fn load(&mut self, statement: u32, values: &[Value<'_>]) -> Result<()> {
        if self.loading != self.steps.len() {
            return Err(Error::bug("loading steps come before measured ones"));
        }
        self.add(0, statement, values, false)?;
        self.loading = self.steps.len();
        Ok(())
    }

    /// Adds a measured step; `joined` makes it part of the operation before.
    ///
    /// # Errors
    /// `ErrorKind::User` if a value is too long.
    pub fn measure(&mut self, pause_ns: u64, statement: u32, values: &[Value<'_>], joined: bool) -> Result<()> {
        self.add(pause_ns, statement, values, joined)
    }

    fn add(&mut self, pause_ns: u64, statement: u32, values: &[Value<'_>], joined: bool) -> Result<()> {
        let first_value = self.values.len();
        for value in values {
            let stored = self.store(value)?;
            self.values.push(stored);
        }
        self.add_step(pause_ns, statement, first_value, joined)
    }

    /// As [`Trace::load`] and [`Trace::measure`], of values that are stored already.
    pub(super) fn add_stored(&mut self, statement: u32, values: &[Stored], joined: bool, loading: bool) -> Result<()> {
        let first_value = self.values.len();
        self.values.extend_from_slice(values);
        self.add_step(0, statement, first_value, joined)?;
        if loading {
            self.loading = self.steps.len();
        }
        Ok(())
    }

    fn add_step(&mut self, pause_ns: u64, statement: u32, first_value: usize, joined: bool) -> Result<()> {
        let values = u16::try_from(self.values.len() - first_value)
            .map_err(|_| Error::user("a statement has more than 65,535 values"))?;
        self.steps.push(Step { pause_ns, first_value: first_value as u64, statement, values, joined });
        Ok(())
    }

    /// Measured steps, for setting their pauses.
    pub(super) fn measured_mut(&mut self) -> &mut [Step] {
        &mut self.steps[self.loading..]
    }

    /// Keeps a value's text, for [`Trace::add_stored`].
    ///
    /// # Errors
    /// `ErrorKind::User` if it is a blob or too long.
    pub(super) fn store(&mut self, value: &Value<'_>) -> Result<Stored> {
        let (kind, text) = match value {
            Value::Null => return Ok(Stored { kind: 0, payload: 0 }),
            Value::Integer(n) => return Ok(Stored { kind: 1, payload: *n as u64 }),
            Value::Real(x) => return Ok(Stored { kind: 2, payload: x.to_bits() }),
            Value::Text(text) => (3, *text),
            Value::Blob(_) => {
                return Err(Error::user("a prepared workload cannot have blobs as values")
                    .hint("write them as literals in the SQL text: x'00ff'"));
            }
        };
        if text.len() > MOST_VALUE_BYTES {
            return Err(Error::user(format!("a value of {} bytes is too long for a workload", text.len()))
                .hint(format!("values are limited to {MOST_VALUE_BYTES} bytes")));
        }
        let payload = (self.text.len() as u64) << 24 | text.len() as u64;
        self.text.push_str(text);
        Ok(Stored { kind, payload })
    }

    /// A workload with the loading steps of this one and no measured steps.
    ///
    /// # Errors
    /// `ErrorKind::User` for values that [`Trace::load`] refuses, which a trace made by this module does not have.
    pub fn loading_only(&self) -> Result<Trace> {
        let used = self.loading().iter().map(|s| s.statement as usize + 1).max().unwrap_or(0);
        let mut trace = Trace { image: self.image.clone(), ..Trace::default() };
        for statement in &self.statements[..used] {
            trace.add_statement(statement.text.clone(), statement.kind, statement.columns);
        }
        for step in self.loading() {
            trace.load(step.statement, &self.values(step).collect::<Vec<_>>())?;
        }
        Ok(trace)
    }

    /// Steps that load the database.
    pub fn loading(&self) -> &[Step] {
        &self.steps[..self.loading]
    }

    /// Steps that are measured.
    pub fn measured(&self) -> &[Step] {
        &self.steps[self.loading..]
    }

    /// Number of measured operations.
    pub fn operations(&self) -> usize {
        self.measured().iter().filter(|s| !s.joined).count()
    }

    /// The steps of the first operations that are measured.
    pub fn first_operations(&self, count: usize) -> &[Step] {
        let steps = self.measured();
        let end = (0..steps.len()).filter(|n| !steps[*n].joined).nth(count);
        &steps[..end.unwrap_or(steps.len())]
    }

    /// A step's statement.
    pub fn statement(&self, step: &Step) -> &Statement {
        &self.statements[step.statement as usize]
    }

    /// Number of a step's values.
    pub fn value_count(&self, step: &Step) -> usize {
        usize::from(step.values)
    }

    /// A step's values.
    #[inline]
    pub fn values(&self, step: &Step) -> impl ExactSizeIterator<Item = Value<'_>> + Clone {
        let first = step.first_value as usize;
        self.values[first..first + usize::from(step.values)].iter().map(|v| self.value(*v))
    }

    #[inline]
    fn value(&self, stored: Stored) -> Value<'_> {
        match stored.kind {
            1 => Value::Integer(stored.payload as i64),
            2 => Value::Real(f64::from_bits(stored.payload)),
            3 => {
                let (at, bytes) = ((stored.payload >> 24) as usize, (stored.payload as usize) & MOST_VALUE_BYTES);
                Value::Text(&self.text[at..at + bytes])
            }
            _ => Value::Null,
        }
    }

    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let texts: usize = self.statements.iter().map(|s| s.text.len()).sum();
        let length = HEADER
            + self.statements.len() * STATEMENT
            + self.steps.len() * STEP
            + self.values.len() * VALUE
            + self.text.len()
            + texts
            + self.image.len()
            + DIGEST;
        let mut file = Vec::with_capacity(length);
        file.extend(MAGIC);
        file.extend(FORMAT.to_le_bytes());
        file.extend((self.statements.len() as u32).to_le_bytes());
        let counts = [self.loading, self.steps.len() - self.loading, self.values.len(), self.text.len() + texts];
        for count in counts.into_iter().chain([self.image.len(), 0]) {
            file.extend((count as u64).to_le_bytes());
        }
        // Statements' texts lie behind the values' texts.
        let mut offset = self.text.len() as u64;
        for statement in &self.statements {
            file.extend(offset.to_le_bytes());
            file.extend((statement.text.len() as u32).to_le_bytes());
            file.extend((statement.kind as u16).to_le_bytes());
            file.extend([0; 2]);
            file.extend(statement.columns.to_le_bytes());
            offset += statement.text.len() as u64;
        }
        for step in &self.steps {
            file.extend(step.pause_ns.to_le_bytes());
            file.extend(step.first_value.to_le_bytes());
            file.extend(step.statement.to_le_bytes());
            file.extend(step.values.to_le_bytes());
            file.extend((if step.joined { JOINED } else { 0 }).to_le_bytes());
        }
        for value in &self.values {
            file.extend(u64::from(value.kind).to_le_bytes());
            file.extend(value.payload.to_le_bytes());
        }
        file.extend(self.text.as_bytes());
        self.statements.iter().for_each(|s| file.extend(s.text.as_bytes()));
        file.extend(&self.image);
        let digest = Sha256::digest(&file);
        file.extend(digest);
        file
    }

    /// Reads a file's bytes, and checks everything in them.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is not a prepared workload, or damaged; the message includes the place.
    pub fn decode(file: &[u8]) -> Result<Trace> {
        if file.len() < HEADER + DIGEST || &file[..8] != MAGIC {
            return Err(Error::user("it is not a prepared workload (PKTTRACE is not at its start)"));
        }
        let (body, digest) = file.split_at(file.len() - DIGEST);
        if u32_at(body, 8) != FORMAT {
            return Err(Error::user(format!("it has format {}; this pocketstone supports {FORMAT}", u32_at(body, 8)))
                .hint("prepare it again with this version"));
        }
        if Sha256::digest(body)[..] != *digest {
            return Err(Error::user("its SHA-256 is wrong: it is damaged or truncated").hint("prepare it again"));
        }
        let mut reader = Reader { file: body, at: HEADER };
        let counts: [u64; 5] = std::array::from_fn(|n| u64_at(body, 16 + 8 * n));
        let [loading, measured, values, text, image] = counts;
        let statements = reader.take("statements", u64::from(u32_at(body, 12)), STATEMENT)?;
        let total = loading.checked_add(measured).ok_or_else(|| damaged("steps", 16))?;
        let steps = reader.take("steps", total, STEP)?;
        let values = reader.take("values", values, VALUE)?;
        let text_at = reader.at;
        let text = std::str::from_utf8(reader.take("text", text, 1)?).map_err(|_| damaged("text", text_at))?;
        let image = reader.take("image", image, 1)?.to_vec();
        if reader.at != body.len() {
            return Err(damaged("end", reader.at));
        }
        if u64_at(body, 56) != 0 {
            return Err(damaged("header", 56));
        }
        let mut trace = Trace { loading: loading as usize, image, ..Trace::default() };
        // Statements' texts end the text; what comes before them is the values'.
        let lengths = statements.chunks_exact(STATEMENT).map(|record| u64::from(u32_at(record, 8)));
        let mut at = (text.len() as u64).checked_sub(lengths.sum()).ok_or_else(|| damaged("text", text_at))? as usize;
        trace.text = text.get(..at).ok_or_else(|| damaged("text", text_at))?.to_owned();
        for (n, record) in statements.chunks_exact(STATEMENT).enumerate() {
            let wrong = || damaged("statement", n);
            let end = at + u32_at(record, 8) as usize;
            let kind = *KINDS.get(usize::from(u16_at(record, 12))).ok_or_else(wrong)?;
            let own = text.get(at..end).ok_or_else(wrong)?.to_owned();
            if u64_at(record, 0) != at as u64 || u16_at(record, 14) != 0 {
                return Err(wrong());
            }
            trace.statements.push(Statement { text: own, kind, columns: u64_at(record, 16) });
            at = end;
        }
        trace.values.reserve_exact(values.len() / VALUE);
        for (n, record) in values.chunks_exact(VALUE).enumerate() {
            let (kind, payload) = (u64_at(record, 0), u64_at(record, 8));
            let fits = match kind {
                0 => payload == 0,
                1 | 2 => true,
                3 => {
                    let end = (payload >> 24) + (payload & MOST_VALUE_BYTES as u64);
                    end <= trace.text.len() as u64
                        && trace.text.is_char_boundary((payload >> 24) as usize)
                        && trace.text.is_char_boundary(end as usize)
                }
                _ => false,
            };
            if !fits {
                return Err(damaged("value", n));
            }
            trace.values.push(Stored { kind: kind as u8, payload });
        }
        trace.steps.reserve_exact(steps.len() / STEP);
        for (n, record) in steps.chunks_exact(STEP).enumerate() {
            let (values, flags) = (u16_at(record, 20), u16_at(record, 22));
            let (statement, first_value) = (u32_at(record, 16), u64_at(record, 8));
            let end = first_value.checked_add(u64::from(values)).filter(|end| *end <= trace.values.len() as u64);
            if statement as usize >= trace.statements.len() || end.is_none() || flags & !JOINED != 0 {
                return Err(damaged("step", n));
            }
            let joined = flags & JOINED != 0;
            trace.steps.push(Step { pause_ns: u64_at(record, 0), first_value, statement, values, joined });
        }
        Ok(trace)
    }

    /// The digest that names the workload: 64 hexadecimal digits, the file's last 32 bytes.
    pub fn digest(file: &[u8]) -> String {
        hexadecimal(&file[file.len().saturating_sub(DIGEST)..])
    }
}

struct Reader<'a> {
    file: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    fn take(&mut self, what: &str, count: u64, size: usize) -> Result<&'a [u8]> {
        let bytes = usize::try_from(count).ok().and_then(|c| c.checked_mul(size));
        let end = bytes.and_then(|b| self.at.checked_add(b)).ok_or_else(|| damaged(what, self.at))?;
        let part = self.file.get(self.at..end).ok_or_else(|| damaged(what, self.at))?;
        self.at = end;
        Ok(part)
    }
}

fn damaged(what: &str, place: usize) -> Error {
    Error::user(format!("it is damaged: {what} at {place}")).hint("prepare it again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn small() -> Trace {
        let mut trace = Trace::default();
        let create = trace.add_statement("CREATE TABLE t (k INTEGER, v TEXT)", StatementKind::Sql, 0);
        let insert = trace.add_statement("INSERT INTO t VALUES (?, ?)", StatementKind::Insert, 0);
        let read = trace.add_statement("SELECT * FROM t WHERE k = ?", StatementKind::Read, 0);
        trace.load(create, &[]).unwrap();
        trace.load(insert, &[Value::Integer(-1), Value::Text("grüße")]).unwrap();
        trace.measure(0, read, &[Value::Integer(-1)], false).unwrap();
        trace.measure(1_000_000, read, &[Value::Real(0.5)], false).unwrap();
        trace.measure(0, insert, &[Value::Null, Value::Text("")], true).unwrap();
        trace
    }

    #[test]
    fn a_workload_reads_what_it_writes() {
        let trace = small();
        let file = trace.encode();
        let read = Trace::decode(&file).unwrap();
        assert_eq!(read, trace);
        assert_eq!(Trace::digest(&read.encode()), Trace::digest(&file));
        assert_eq!((trace.loading().len(), trace.measured().len(), trace.operations()), (2, 3, 2));
        // The second operation has two steps.
        let steps = [0, 1, 2, 3].map(|operations| trace.first_operations(operations).len());
        assert_eq!(steps, [0, 1, 3, 3]);
        let values: Vec<Value<'_>> = read.values(&read.loading()[1]).collect();
        assert_eq!(values, [Value::Integer(-1), Value::Text("grüße")]);
    }

    proptest! {
        #[test]
        fn every_workload_comes_back_from_its_file(
            texts in prop::collection::vec("[a-zé? ]{0,8}", 1..4),
            steps in prop::collection::vec(
                (any::<u64>(), any::<u32>(), any::<bool>(), any::<i64>(), any::<f64>(), "[a-zé\u{0}]{0,5}"),
                0..12,
            ),
            loading in 0usize..12,
            image in prop::collection::vec(any::<u8>(), 0..9),
        ) {
            let mut trace = Trace { image, ..Trace::default() };
            for (n, text) in texts.iter().enumerate() {
                trace.add_statement(text.as_str(), KINDS[n], n as u64);
            }
            for (n, (pause_ns, statement, joined, integer, real, text)) in steps.iter().enumerate() {
                let values = [Value::Integer(*integer), Value::Real(*real), Value::Text(text), Value::Null];
                let (values, statement) = (&values[..n % 5], statement % texts.len() as u32);
                match n < loading {
                    true => trace.load(statement, values).unwrap(),
                    false => trace.measure(*pause_ns, statement, values, *joined).unwrap(),
                }
            }
            let file = trace.encode();
            let read = Trace::decode(&file).unwrap();
            prop_assert_eq!(read.encode(), file);
            prop_assert_eq!(read, trace);
        }
    }

    #[test]
    fn what_is_loaded_does_not_depend_on_what_is_measured() {
        let trace = small();
        let loading = trace.loading_only().unwrap();
        assert_eq!((loading.loading().len(), loading.measured().len()), (2, 0));
        assert!(loading.loading().iter().zip(trace.loading()).all(|(a, b)| loading.values(a).eq(trace.values(b))));
        let mut other = small();
        other.measure(5, 2, &[Value::Integer(9)], false).unwrap();
        assert_eq!(other.loading_only().unwrap().encode(), loading.encode());
    }

    #[test]
    fn every_changed_byte_is_noticed() {
        let file = small().encode();
        for at in 0..file.len() {
            let mut bad = file.clone();
            bad[at] ^= 1;
            assert!(Trace::decode(&bad).is_err(), "byte {at}");
        }
        assert!(Trace::decode(&file[..file.len() - 1]).is_err());
    }
}
