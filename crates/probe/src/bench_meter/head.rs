//! The head line of a meter's file, and its rows.

use csv::{Reader, ReaderBuilder, StringRecord, Trim};
use pocketstone_core::{Error, Result};

/// What a column holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    Time,
    Power,
    Current,
    Voltage,
    Trigger,
}

const ROLES: [(Role, &str); 5] = [
    (Role::Time, "time"),
    (Role::Power, "power"),
    (Role::Current, "current"),
    (Role::Voltage, "voltage"),
    (Role::Trigger, "trigger"),
];

/// Units, what they are of, and how many of the base unit (s, mW, A, V) they are.
const UNITS: [(&str, Role, f64); 14] = [
    ("s", Role::Time, 1.0),
    ("sec", Role::Time, 1.0),
    ("ms", Role::Time, 1e-3),
    ("us", Role::Time, 1e-6),
    ("ns", Role::Time, 1e-9),
    ("w", Role::Power, 1e3),
    ("mw", Role::Power, 1.0),
    ("uw", Role::Power, 1e-3),
    ("a", Role::Current, 1.0),
    ("ma", Role::Current, 1e-3),
    ("ua", Role::Current, 1e-6),
    ("v", Role::Voltage, 1.0),
    ("mv", Role::Voltage, 1e-3),
    ("uv", Role::Voltage, 1e-6),
];

struct Column {
    index: usize,
    role: Role,
    factor: f64,
    title: String,
}

pub(super) struct Head {
    /// Fields are parted by something else than a comma, which may then be a decimal one.
    decimal_comma: bool,
    width: usize,
    used: Vec<Column>,
    pub columns: String,
}

pub(super) struct Row {
    pub time_s: f64,
    pub power_mw: f64,
    pub trigger: Option<f64>,
}

const EXAMPLE: &str =
    "a header line is like `Time (s),Power (mW)`, `time;power` or `Time (s),Main(mA),Main Voltage(V),Trigger`";

/// A reader of a text's records, parted by what parts the titles of its head line; and whether that leaves commas to
/// numbers.
pub(super) fn reader(text: &str) -> (Reader<&[u8]>, bool) {
    let head = text.lines().find(|line| !line.trim().is_empty() && !line.starts_with('#')).unwrap_or_default();
    let separator = [b';', b'\t', b','].into_iter().find(|c| head.as_bytes().contains(c)).unwrap_or(b',');
    let mut builder = ReaderBuilder::new();
    // How many fields a record has is looked at here, where it can be said what is wrong.
    builder.delimiter(separator).comment(Some(b'#')).has_headers(false).flexible(true).trim(Trim::All);
    (builder.from_reader(text.as_bytes()), separator != b',')
}

/// Reads the next record that has anything in it.
pub(super) fn next(records: &mut Reader<&[u8]>, record: &mut StringRecord) -> Result<bool> {
    loop {
        // From text in memory there is always a next record, or the end.
        let found = records.read_record(record).map_err(|e| Error::bug("invalid CSV").because(e))?;
        if !found || record.iter().any(|field| !field.is_empty()) {
            return Ok(found);
        }
    }
}

/// The line that a record begins at.
pub(super) fn line(record: &StringRecord) -> u32 {
    record.position().map_or(0, |p| u32::try_from(p.line()).unwrap_or(u32::MAX))
}

impl Head {
    /// Reads the titles.
    ///
    /// # Errors
    /// `ErrorKind::User` if they are not titles, or do not say where time and power are.
    pub fn read(record: &StringRecord, decimal_comma: bool) -> Result<Head> {
        let titles: Vec<&str> = record.iter().collect();
        if titles.iter().all(|t| t.is_empty() || number(t, decimal_comma).is_some()) {
            return Err(Error::user("the header line is missing: the first line is a sample").hint(EXAMPLE));
        }
        let mut all: Vec<Column> = Vec::new();
        for (index, title) in titles.iter().enumerate() {
            if let Some((role, factor)) = role(title)? {
                all.push(Column { index, role, factor, title: (*title).to_owned() });
            }
        }
        let mut used = Vec::new();
        for (role, word) in ROLES {
            let mut those: Vec<Column> = Vec::new();
            while let Some(at) = all.iter().position(|c| c.role == role) {
                those.push(all.remove(at));
            }
            // A Monsoon has a main output and two that charge; only the first feeds the device.
            if those.len() > 1 && those.iter().any(is_main) {
                those.retain(is_main);
            }
            if those.len() > 1 {
                let titles: Vec<&str> = those.iter().map(|c| c.title.as_str()).collect();
                return Err(Error::user(format!("several columns are {word}: {}", titles.join(", ")))
                    .hint("keep the one that feeds the device"));
            }
            used.extend(those);
        }
        let has = |role: Role| used.iter().any(|c| c.role == role);
        if !has(Role::Time) {
            return Err(Error::user("no column is a time").hint(EXAMPLE));
        }
        if !(has(Role::Power) || has(Role::Current) && has(Role::Voltage)) {
            return Err(Error::user("there is no power column, nor current and voltage").hint(EXAMPLE));
        }
        let shown: Vec<&str> = used.iter().map(|c| c.title.as_str()).collect();
        let columns = shown.join(", ");
        Ok(Head { decimal_comma, width: titles.len(), used, columns })
    }

    pub fn has(&self, role: Role) -> bool {
        self.used.iter().any(|c| c.role == role)
    }

    pub fn row(&self, record: &StringRecord) -> Result<Row> {
        // Some exports end every line with the separator.
        let ends_so = record.len() == self.width + 1 && record.get(self.width) == Some("");
        let width = record.len() - usize::from(ends_so);
        if width != self.width {
            let text = format!("{width} columns, but the header has {}", self.width);
            return Err(Error::user(text).hint("the line is truncated: export the measurement again"));
        }
        let value = |role: Role| -> Result<Option<f64>> {
            let Some(column) = self.used.iter().find(|c| c.role == role) else { return Ok(None) };
            let field = &record[column.index];
            let read = number(field, self.decimal_comma).map(|n| n * column.factor);
            let wrong = || {
                Error::user(format!("`{field}` in column `{}` is not a number", column.title))
                    .hint("remove lines that are not samples, or begin them with #")
            };
            read.filter(|n| n.is_finite()).map(Some).ok_or_else(wrong)
        };
        let power_mw = match value(Role::Power)? {
            Some(power) => power,
            // V times A is W.
            None => value(Role::Current)?.unwrap_or_default() * value(Role::Voltage)?.unwrap_or_default() * 1e3,
        };
        // Enough for any machine, and far from where sums overflow.
        if power_mw.abs() >= 1e12 {
            return Err(
                Error::user(format!("{power_mw} mW is not a plausible power")).hint("check the units in the header")
            );
        }
        let time_s = value(Role::Time)?.unwrap_or_default();
        Ok(Row { time_s, power_mw, trigger: value(Role::Trigger)? })
    }
}

fn is_main(column: &Column) -> bool {
    column.title.to_lowercase().contains("main")
}

fn number(field: &str, decimal_comma: bool) -> Option<f64> {
    match decimal_comma && field.contains(',') {
        true => field.replacen(',', ".", 1).parse().ok(),
        false => field.parse().ok(),
    }
}

/// What a column is by its title: its unit says most, a word of it the rest.
fn role(title: &str) -> Result<Option<(Role, f64)>> {
    let lower = title.to_lowercase().replace(['µ', 'μ'], "u");
    let words: Vec<&str> = lower.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
    let unit = words.last().and_then(|last| UNITS.iter().find(|(name, ..)| name == last));
    let named = ROLES.iter().find(|(_, word)| words.contains(word));
    Ok(match (named, unit) {
        // A trigger may be in V: only its level counts.
        (Some((Role::Trigger, _)), _) => Some((Role::Trigger, 1.0)),
        (Some((role, _)), Some((_, of, factor))) if role == of => Some((*role, *factor)),
        (None, Some((_, of, factor))) => Some((*of, *factor)),
        (Some((role, _)), None) if !lower.contains(['(', '[']) => {
            Some((*role, if *role == Role::Power { 1e3 } else { 1.0 }))
        }
        (Some((role, word)), _) => {
            let of: Vec<&str> = UNITS.iter().filter(|(_, of, _)| of == role).map(|(name, ..)| *name).collect();
            return Err(Error::user(format!("the unit of column `{title}` is not a unit of {word}"))
                .hint(format!("units of {word}: {}", of.join(", "))));
        }
        (None, None) => None,
    })
}
