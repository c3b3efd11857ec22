//! Claims and text values, evaluated on the results.

use super::model::{ClaimResult, Verdict};
use crate::results::store::Store;
use crate::specification::study::texts::{self, Dropped, Number};
use crate::specification::study::unit::PLACE;
use crate::specification::study::{ClaimSpec, Study, Unit};
use pocketstone_core::error::Context;
use pocketstone_core::origin::Origin;
use pocketstone_core::{Error, Result};
use rusqlite::types::Value;
use std::collections::BTreeMap;
use toml::Spanned;

/// Judges the study's claims.
///
/// # Errors
/// `ErrorKind::User` for a claim with invalid SQL, at its line.
pub fn judge(store: &Store, study: &Study) -> Result<Vec<ClaimResult>> {
    let (study, _) = with_numbers(store, study)?;
    study.claims.iter().map(|claim| judge_one(store, &study, claim)).collect()
}

/// The study with the numbers of this run in its texts, and the paragraphs that lack one.
///
/// # Errors
/// `ErrorKind::User` for a number with invalid SQL, at its line.
pub(crate) fn with_numbers(store: &Store, study: &Study) -> Result<(Study, Vec<Dropped>)> {
    let mut numbers: BTreeMap<&str, (Given, Origin, Unit)> = BTreeMap::new();
    for query in queries(study) {
        let (given, origin) = query.asked(store, study)?;
        numbers.insert(query.name, (given, origin, query.unit));
    }
    let (filled, mut dropped) = texts::with_numbers(study, &|name| match numbers.get(name)? {
        (Given::Number(number), origin, unit) => Some(Number { text: unit.write(*number), origin: *origin }),
        _ => None,
    });
    for name in dropped.iter_mut().flat_map(|dropped| &mut dropped.missing) {
        if matches!(numbers.get(name.as_str()), Some((Given::Several, ..))) {
            *name += ", whose query gives several rows";
        }
    }
    Ok((filled, dropped))
}

/// Checks that each query of a number has one column, and that each claim can hold.
///
/// # Errors
/// `ErrorKind::User` for the first that has not or cannot, at its line.
pub(super) fn check(store: &Store, study: &Study) -> Result<()> {
    for query in queries(study) {
        let columns = store.columns(query.sql.get_ref())?.len();
        if columns != 1 {
            let error = format!("the query of {} `{}` gives {columns} columns", query.kind, query.name);
            return Err(study.error_at(query.sql.span(), Error::user(error).hint("write SQL that returns one number")));
        }
    }
    study.claims.iter().try_for_each(|claim| can_hold(study, claim))
}

fn can_hold(study: &Study, claim: &ClaimSpec) -> Result<()> {
    let wrong = |what: &str| {
        let error = Error::user(format!("claim `{}` cannot be judged: {what}", claim.name));
        Err(study.error_at(claim.value.span(), error))
    };
    match (claim.at_least, claim.at_most) {
        (low, high) if low.into_iter().chain(high).any(|bound| !bound.is_finite()) => wrong("a bound is no number"),
        (Some(low), Some(high)) if low > high => wrong("no number is at least `at_least` and at most `at_most`"),
        _ => Ok(()),
    }
}

/// A query of a study that gives a number.
struct Query<'a> {
    /// What has it.
    kind: &'static str,
    name: &'a str,
    sql: &'a Spanned<String>,
    unit: Unit,
}

/// The queries of a study that give numbers.
fn queries(study: &Study) -> impl Iterator<Item = Query<'_>> {
    let values = study.values.iter().map(|v| Query { kind: "value", name: &v.name, sql: &v.value, unit: v.unit });
    values.chain(study.claims.iter().map(Query::of))
}

impl<'a> Query<'a> {
    fn of(claim: &'a ClaimSpec) -> Self {
        Query { kind: "claim", name: &claim.name, sql: &claim.value, unit: claim.unit }
    }

    /// What it gives, and where that comes from.
    fn asked(&self, store: &Store, study: &Study) -> Result<(Given, Origin)> {
        let (place, sql) = (study.place(self.sql), self.sql.get_ref());
        store
            .with_origin(|store| given(store, sql))
            .user(|| format!("{place}: the query of {} `{}` fails: {sql}", self.kind, self.name))
    }
}

fn judge_one(store: &Store, study: &Study, claim: &ClaimSpec) -> Result<ClaimResult> {
    let query = claim.value.get_ref();
    let (given, origin) = Query::of(claim).asked(store, study)?;
    let quiet = claim.quiet.as_ref().map(|experiment| Quiet::of(store, experiment.get_ref())).transpose()?;
    let (verdict, detail) = match given {
        Given::Nothing => (Verdict::Unavailable, "the results it needs are not in this run".to_owned()),
        Given::Several => (Verdict::Unavailable, "its query gives several rows, not one number".to_owned()),
        Given::Number(v) => {
            let holds = claim.at_least.is_none_or(|low| v >= low) && claim.at_most.is_none_or(|high| v <= high);
            let verdict = match (&quiet, &claim.deviation) {
                _ if holds => Verdict::Holds,
                (Some(quiet), _) if quiet.disturbed > 0 => Verdict::CannotTell,
                (_, Some(_)) => Verdict::Explained,
                (_, None) => Verdict::Unexplained,
            };
            let quiet = quiet.map(|quiet| format!("; {}", quiet.words())).unwrap_or_default();
            (verdict, format!("{}; claimed: {}{quiet}", found(claim, v), bound(claim)))
        }
    };
    Ok(ClaimResult {
        name: claim.name.clone(),
        text: claim.text.clone(),
        verdict,
        detail: if verdict != Verdict::Unavailable { origin.detail(&detail) } else { detail },
        paper: claim.paper.clone(),
        deviation: claim.deviation.clone().filter(|_| verdict == Verdict::Explained),
        origin,
        query: query.clone(),
        required: claim.required,
    })
}

/// What the number of a claim says, in its study's words.
fn found(claim: &ClaimSpec, value: f64) -> String {
    let bounds: Vec<f64> = claim.at_least.into_iter().chain(claim.at_most).collect();
    let number = claim.unit.write_against(value, &bounds);
    match &claim.found {
        Some(words) => words.get_ref().replacen(PLACE, &number, 1),
        None if claim.unit == Unit::Number => format!("the number is {number}"),
        None => number,
    }
}

fn bound(claim: &ClaimSpec) -> String {
    let write = |v: f64| claim.unit.write_bound(v);
    match (claim.at_least, claim.at_most) {
        (Some(low), Some(high)) if low == high => write(low),
        (Some(low), Some(high)) => format!("between {} and {}", write(low), write(high)),
        (Some(low), None) => format!("at least {}", write(low)),
        (None, Some(high)) => format!("at most {}", write(high)),
        (None, None) => String::new(),
    }
}

/// The part of one processor that other programs may use on a machine that counts as quiet.
const QUIET: f64 = 0.1;

/// How quiet the machine was while an experiment was measured.
struct Quiet {
    /// Cells that are done.
    cells: i64,
    /// Those of which it is known.
    known: i64,
    /// Those with more load by other programs than [`QUIET`].
    disturbed: i64,
    /// The largest load.
    largest: Option<f64>,
}

impl Quiet {
    fn of(store: &Store, experiment: &str) -> Result<Quiet> {
        let sql = "SELECT count(*), count(value), count(*) FILTER (WHERE value > ?2), max(value) \
                   FROM cell c LEFT JOIN main.metric m \
                   ON c.id = m.cell AND m.name IN ('others_load', 'traced_others_load') \
                   WHERE c.experiment = ?1 AND c.status = 'done'";
        let found = |row: &rusqlite::Row<'_>| {
            Ok(Quiet { cells: row.get(0)?, known: row.get(1)?, disturbed: row.get(2)?, largest: row.get(3)? })
        };
        let none = || Quiet { cells: 0, known: 0, disturbed: 0, largest: None };
        Ok(store.rows(sql, rusqlite::params![experiment, QUIET], found)?.pop().unwrap_or_else(none))
    }

    fn words(&self) -> String {
        let percent = |load: f64| format!("{:.0} % of a processor", 100.0 * load);
        let Some(largest) = self.largest.map(percent) else {
            return "how quiet the machine was is not known".to_owned();
        };
        let Quiet { cells, known, disturbed, .. } = self;
        if self.disturbed == 0 && known < cells {
            return format!(
                "how quiet the machine was is known of {known} of {cells} cells: in those other programs used at most \
                 {largest}"
            );
        }
        if self.disturbed == 0 {
            return format!("the machine was quiet: other programs used at most {largest}");
        }
        let quiet = percent(QUIET);
        format!(
            "the machine was not quiet: in {disturbed} of {known} cells others used more than {quiet}, up to {largest}"
        )
    }
}

/// What a query gives that is to give one number.
#[derive(Debug, Clone, Copy)]
enum Given {
    Number(f64),
    /// NULL, or no row.
    Nothing,
    /// More rows than one: none of them is the number.
    Several,
}

fn given(store: &Store, query: &str) -> Result<Given> {
    let values = store.limited(query, |db| {
        let mut statement = db.prepare(query)?;
        let rows = statement.query_map([], |row| row.get::<_, Value>(0))?;
        rows.take(2).collect::<rusqlite::Result<Vec<Value>>>()
    })?;
    match &values[..] {
        [] | [Value::Null] => Ok(Given::Nothing),
        [Value::Integer(n)] => Ok(Given::Number(*n as f64)),
        [Value::Real(x)] => Ok(Given::Number(*x)),
        [Value::Text(_) | Value::Blob(_)] => Err(Error::user("it returns text, not a number")),
        _ => Ok(Given::Several),
    }
}
