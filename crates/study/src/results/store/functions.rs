//! Functions that queries of a study have beside SQLite's own.

use crate::results::dip;
use crate::results::stats::Spread;
use pocketstone_core::metric::Unit;
use rusqlite::functions::{Aggregate, Context, FunctionFlags};
use rusqlite::{Connection, Error, Result};

/// An aggregate over the numbers of a group; NULLs do not count, and where it has no result, that is NULL.
struct OfNumbers(fn(&[f64]) -> Option<f64>);

impl Aggregate<Vec<f64>, Option<f64>> for OfNumbers {
    fn init(&self, _: &mut Context<'_>) -> Result<Vec<f64>> {
        Ok(Vec::new())
    }

    fn step(&self, context: &mut Context<'_>, numbers: &mut Vec<f64>) -> Result<()> {
        numbers.extend(context.get::<Option<f64>>(0)?);
        Ok(())
    }

    fn finalize(&self, _: &mut Context<'_>, numbers: Option<Vec<f64>>) -> Result<Option<f64>> {
        Ok((self.0)(&numbers.unwrap_or_default()))
    }
}

/// A number as tables have it, by the name of its unit; NULL is none.
fn written(values: &Context<'_>) -> Result<Option<String>> {
    let (value, unit): (Option<f64>, String) = (values.get(0)?, values.get(1)?);
    let unknown = || {
        let names = Unit::ALL.map(Unit::name).join(", ");
        Error::UserFunctionError(format!("written: unknown unit `{unit}`; units: {names}").into())
    };
    let unit = Unit::named(&unit).ok_or_else(unknown)?;
    Ok(value.map(|value| unit.write(value)))
}

/// What the ends of so many values are; NULL for one, which has none.
fn spread_name(values: &Context<'_>) -> Result<Option<String>> {
    Ok(Spread::known(values.get(0)?, 0.0, 0.0).name())
}

/// Adds the functions to a connection.
pub(super) fn add(db: &Connection) -> Result<()> {
    let flags = FunctionFlags::SQLITE_UTF8 | FunctionFlags::SQLITE_DETERMINISTIC;
    db.create_scalar_function("written", 2, flags, written)?;
    db.create_scalar_function("spread_name", 1, flags, spread_name)?;
    db.create_aggregate_function("dip", 1, flags, OfNumbers(dip::dip))?;
    db.create_aggregate_function("dip_p", 1, flags, OfNumbers(dip::p_value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_write_numbers_as_tables_do() {
        let db = Connection::open_in_memory().unwrap();
        add(&db).unwrap();
        let asked = |sql: &str| db.query_row(sql, [], |row| row.get::<_, Option<String>>(0));
        assert_eq!(asked("SELECT written(1534000, 'ns')").unwrap().as_deref(), Some("1.53 ms"));
        assert_eq!(asked("SELECT written(1572874196, 'bytes')").unwrap().as_deref(), Some("1.5 GiB"));
        assert_eq!(asked("SELECT written(NULL, 'count')").unwrap(), None);
        assert!(
            asked("SELECT written(1, 'miles')").unwrap_err().to_string().contains("unknown unit `miles`; units: ns,")
        );
        assert_eq!(asked("SELECT spread_name(3)").unwrap().as_deref(), Some("range of 3"));
        assert_eq!(asked("SELECT spread_name(1)").unwrap(), None);
    }

    #[test]
    fn queries_can_ask_for_the_dip_of_a_column() {
        let db = Connection::open_in_memory().unwrap();
        add(&db).unwrap();
        let asked = |sql: &str| db.query_row(sql, [], |row| row.get::<_, Option<f64>>(0));
        assert_eq!(asked("SELECT dip(column1) FROM (VALUES (0), (1), (NULL), (0.0), (1))").unwrap(), Some(0.25));
        assert!(asked("SELECT dip_p(column1) FROM (VALUES (0), (1), (0), (1))").unwrap().unwrap() < 0.01);
        assert_eq!(asked("SELECT dip_p(column1) FROM (VALUES (1), (2), (3))").unwrap(), None);
        assert_eq!(asked("SELECT dip(1) WHERE 0").unwrap(), None);
        assert!(asked("SELECT dip('six')").is_err());
    }
}
