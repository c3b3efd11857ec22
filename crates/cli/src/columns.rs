//! A table of a run as a Parquet file. SQLite's columns have a type for each value, Parquet's have one for all of them:
//! the table is read once to learn them, and once more to be written.

use parquet::basic::{ConvertedType, LogicalType, Repetition, Type as Kind};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::types::Type;
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_study::results::store::Store;
use pocketstone_study::results::store::dump::{Field, Line};
use std::fs::File;
use std::io::BufWriter;
use std::path::Path;
use std::sync::Arc;

/// Rows that are in memory at a time, and together in the file.
const GROUP: usize = 1 << 16;

/// The values of a column that are not written yet. A value that is unavailable is in `there` alone.
struct Column {
    name: String,
    values: Values,
    /// For each row whether it has a value: 1, or 0.
    there: Vec<i16>,
}

/// What all values of a column are.
enum Values {
    Integers(Vec<i64>),
    Reals(Vec<f64>),
    Texts(Vec<ByteArray>),
}

/// What the values of a column have been so far.
#[derive(Clone, Copy, Default)]
struct Seen {
    integer: bool,
    real: bool,
    text: bool,
}

impl Seen {
    fn note(&mut self, field: &Field<'_>) {
        match field {
            Field::Nothing => {}
            Field::Integer(_) => self.integer = true,
            Field::Real(_) => self.real = true,
            Field::Text(_) => self.text = true,
        }
    }

    /// Numbers of both kinds are all reals; with a text among them, or without any value, a column has texts.
    fn values(self) -> Values {
        match (self.text, self.real, self.integer) {
            (false, true, _) => Values::Reals(Vec::new()),
            (false, false, true) => Values::Integers(Vec::new()),
            _ => Values::Texts(Vec::new()),
        }
    }
}

impl Column {
    fn push(&mut self, field: &Field<'_>) {
        self.there.push(i16::from(!matches!(field, Field::Nothing)));
        match (&mut self.values, field) {
            (_, Field::Nothing) => {}
            (Values::Integers(all), Field::Integer(n)) => all.push(*n),
            (Values::Reals(all), Field::Integer(n)) => all.push(*n as f64),
            (Values::Reals(all), Field::Real(x)) => all.push(*x),
            (Values::Texts(all), Field::Text(text)) => all.push(ByteArray::from(*text)),
            (Values::Texts(all), Field::Integer(n)) => all.push(ByteArray::from(n.to_string().as_str())),
            (Values::Texts(all), Field::Real(x)) => all.push(ByteArray::from(x.to_string().as_str())),
            // Both readings are of one transaction; a value that does not fit is not invented.
            (Values::Integers(_), _) | (Values::Reals(_), Field::Text(_)) => {
                self.there.pop();
                self.there.push(0);
            }
        }
    }

    fn schema(&self) -> std::result::Result<Type, ParquetError> {
        let of = |kind| Type::primitive_type_builder(&self.name, kind).with_repetition(Repetition::OPTIONAL);
        match &self.values {
            Values::Integers(_) => of(Kind::INT64).build(),
            Values::Reals(_) => of(Kind::DOUBLE).build(),
            Values::Texts(_) => of(Kind::BYTE_ARRAY)
                .with_logical_type(Some(LogicalType::String))
                .with_converted_type(ConvertedType::UTF8)
                .build(),
        }
    }

    /// Writes what there is as the next column of a group, and forgets it.
    fn write(
        &mut self,
        group: &mut SerializedRowGroupWriter<'_, BufWriter<File>>,
    ) -> std::result::Result<(), ParquetError> {
        let there = std::mem::take(&mut self.there);
        let Some(mut column) = group.next_column()? else {
            return Err(ParquetError::General("the schema has fewer columns".into()));
        };
        match &mut self.values {
            Values::Integers(all) => {
                column.typed::<Int64Type>().write_batch(&std::mem::take(all), Some(&there), None)?;
            }
            Values::Reals(all) => {
                column.typed::<DoubleType>().write_batch(&std::mem::take(all), Some(&there), None)?;
            }
            Values::Texts(all) => {
                column.typed::<ByteArrayType>().write_batch(&std::mem::take(all), Some(&there), None)?;
            }
        }
        column.close()
    }
}

/// Writes a query's rows; how many.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read or the file cannot be written.
pub fn parquet(store: &Store, sql: &str, out: BufWriter<File>, path: &Path) -> Result<u64> {
    let failed = |e: ParquetError| Error::user(format!("cannot write {}", path.display())).because(e);
    let mut columns = columns(store, sql)?;
    let fields = columns.iter().map(|column| column.schema().map(Arc::new)).collect::<std::result::Result<Vec<_>, _>>();
    let schema = Type::group_type_builder("table").with_fields(fields.map_err(failed)?).build().map_err(failed)?;
    let properties = WriterProperties::builder().set_created_by(format!("pocketstone {}", env!("CARGO_PKG_VERSION")));
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties.build())).map_err(failed)?;
    let mut rows = 0;
    let mut flush = |columns: &mut Vec<Column>| {
        let mut group = file.next_row_group()?;
        columns.iter_mut().try_for_each(|column| column.write(&mut group))?;
        group.close().map(drop)
    };
    store.dump(sql, |line| {
        let Line::Fields(fields) = line else { return Ok(()) };
        columns.iter_mut().zip(fields).for_each(|(column, field)| column.push(field));
        rows += 1;
        if rows % GROUP as u64 == 0 { flush(&mut columns).map_err(failed) } else { Ok(()) }
    })?;
    if columns.iter().any(|column| !column.there.is_empty()) {
        flush(&mut columns).map_err(failed)?;
    }
    let mut out = file.into_inner().map_err(failed)?;
    std::io::Write::flush(&mut out).user(|| format!("cannot write {}", path.display()))?;
    Ok(rows)
}

/// The columns of a query, by what its values are.
fn columns(store: &Store, sql: &str) -> Result<Vec<Column>> {
    let (mut names, mut seen) = (Vec::new(), Vec::new());
    store.dump(sql, |line| {
        match line {
            Line::Names(columns) => {
                names = columns.iter().map(|name| (*name).to_owned()).collect();
                seen = vec![Seen::default(); columns.len()];
            }
            Line::Fields(fields) => seen.iter_mut().zip(fields).for_each(|(seen, field)| seen.note(field)),
        }
        Ok(())
    })?;
    let column = |(name, seen): (String, Seen)| Column { name, values: seen.values(), there: Vec::new() };
    Ok(names.into_iter().zip(seen).map(column).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::record::Field as Read;

    /// What the crate's reader finds in a file of a query's rows.
    fn written(sql: &str) -> Vec<Vec<Read>> {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::create(&folder.path().join("run"), [("name", "value")]).unwrap();
        let path = folder.path().join("t.parquet");
        let rows = parquet(&store, sql, BufWriter::new(File::create(&path).unwrap()), &path).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "the format's magic number");
        let reader = SerializedFileReader::new(File::open(&path).unwrap()).unwrap();
        let found: Vec<Vec<Read>> = reader
            .get_row_iter(None)
            .unwrap()
            .map(|row| row.unwrap().get_column_iter().map(|(_, field)| field.clone()).collect())
            .collect();
        assert_eq!(found.len() as u64, rows);
        found
    }

    #[test]
    fn columns_have_the_type_of_all_their_values_and_gaps_where_there_is_none() {
        let found = written(
            "SELECT 1 AS i, 2 AS x, 'a' AS t, NULL AS none, 5 AS mixed UNION ALL SELECT NULL, 2.5, NULL, NULL, 'b'",
        );
        let text = |text: &str| Read::Str(text.into());
        assert_eq!(found[0], [Read::Long(1), Read::Double(2.0), text("a"), Read::Null, text("5")]);
        assert_eq!(found[1], [Read::Null, Read::Double(2.5), Read::Null, Read::Null, text("b")]);
        assert!(written("SELECT 1 AS i WHERE 0").is_empty());
    }

    #[test]
    fn a_table_longer_than_a_group_is_whole() {
        let rows = GROUP + 3;
        let sql = format!(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < {}) SELECT i FROM n",
            rows - 1
        );
        let found = written(&sql);
        assert!(found.len() == rows && found.iter().enumerate().all(|(i, row)| row[0] == Read::Long(i as i64)));
    }
}
