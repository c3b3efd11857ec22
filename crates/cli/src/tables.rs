//! `pocketstone export --csv`, `--json` and `--parquet`: a run's tables for other programs.

use crate::columns;
use pocketstone_core::Result;
use pocketstone_core::error::Context;
use pocketstone_study::results::store::Store;
use pocketstone_study::results::store::dump::{Field, Line, TABLES};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

/// The form of the files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Comma-separated values, with a line of names; what is unavailable is empty.
    Csv,
    /// An array of objects; what is unavailable is null.
    Json,
    /// Columns with a type each; what is unavailable is null.
    Parquet,
}

impl Form {
    /// What names of its files end in.
    fn extension(self) -> &'static str {
        match self {
            Form::Csv => "csv",
            Form::Json => "json",
            Form::Parquet => "parquet",
        }
    }
}

/// Writes each table of a run into a folder, `NAME.csv`, `NAME.json` or `NAME.parquet`; a file of that name is replaced
/// when the new one is whole.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read, or a file cannot be written.
pub fn export(results: &Path, form: Form, folder: &Path) -> Result<u8> {
    let store = Store::open(results, false)?;
    fs::create_dir_all(folder).user(|| format!("cannot make {}", folder.display()))?;
    store.at_one_moment(folder, |store| {
        TABLES.iter().try_for_each(|(name, sql)| table(store, form, folder, name, sql))
    })?;
    Ok(0)
}

fn table(store: &Store, form: Form, folder: &Path, name: &str, sql: &str) -> Result<()> {
    let path = folder.join(format!("{name}.{}", form.extension()));
    let failed = || format!("cannot write {}", path.display());
    // As the user's own files are, not as a temporary one.
    let mode = fs::Permissions::from_mode(0o666);
    let temporary = tempfile::Builder::new().permissions(mode).tempfile_in(folder).user(failed)?;
    let out = BufWriter::new(temporary.as_file().try_clone().user(failed)?);
    let rows = match form {
        Form::Csv => csv(store, sql, out, &path),
        Form::Json => json(store, sql, out, &path),
        Form::Parquet => columns::parquet(store, sql, out, &path),
    }?;
    temporary.persist(&path).map_err(|e| e.error).user(failed)?;
    say!("{rows:>9} {}", path.display());
    Ok(())
}

/// Writes a query's rows; how many.
fn csv(store: &Store, sql: &str, out: BufWriter<File>, path: &Path) -> Result<u64> {
    let failed = || format!("cannot write {}", path.display());
    let (mut out, mut rows) = (csv::Writer::from_writer(out), 0);
    let text = |field: &Field<'_>| match field {
        Field::Nothing => String::new(),
        Field::Integer(n) => n.to_string(),
        Field::Real(x) => x.to_string(),
        Field::Text(text) => (*text).to_owned(),
    };
    store.dump(sql, |line| match line {
        Line::Names(names) => out.write_record(names).user(failed),
        Line::Fields(fields) => {
            rows += 1;
            out.write_record(fields.iter().map(text)).user(failed)
        }
    })?;
    out.flush().user(failed)?;
    Ok(rows)
}

fn json(store: &Store, sql: &str, mut out: BufWriter<File>, path: &Path) -> Result<u64> {
    let failed = || format!("cannot write {}", path.display());
    // What stands before each value: a bracket or comma, and the column's name.
    let (mut rows, mut names): (u64, Vec<String>) = (0, Vec::new());
    let value = |field: &Field<'_>| match field {
        Field::Nothing => Value::Null,
        Field::Integer(n) => Value::from(*n),
        Field::Real(x) => Value::from(*x),
        Field::Text(text) => Value::from(*text),
    };
    store.dump(sql, |line| match line {
        Line::Names(columns) => {
            let ahead = std::iter::once("{").chain(std::iter::repeat(","));
            names = columns.iter().zip(ahead).map(|(name, ahead)| format!("{ahead}{}:", Value::from(*name))).collect();
            Ok(())
        }
        Line::Fields(fields) => {
            out.write_all(if rows == 0 { b"[\n" } else { b",\n" }).user(failed)?;
            rows += 1;
            names
                .iter()
                .zip(fields)
                .try_for_each(|(name, field)| write!(out, "{name}{}", value(field)))
                .user(failed)?;
            out.write_all(b"}").user(failed)
        }
    })?;
    out.write_all(if rows == 0 { b"[]\n" } else { b"\n]\n" }).and_then(|()| out.flush()).user(failed)?;
    Ok(rows)
}
