//! A run's results, as tests look at them.

use crate::HostLoad;
use crate::command::lab;
use pocketstone_testing::{amount, say};
use rusqlite::types::FromSql;
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::path::Path;

fn open(results: &Path, flags: OpenFlags) -> rusqlite::Result<Connection> {
    let db = Connection::open_with_flags(results.join("results.sqlite"), flags)?;
    db.busy_timeout(std::time::Duration::from_secs(10))?;
    Ok(db)
}

/// The results in a folder, to read.
///
/// # Errors
///
/// The `rusqlite::Error` of opening them when there are none yet: nothing is ever created, as that would be in the way
/// of a run that is just beginning.
pub fn begun(results: &Path) -> rusqlite::Result<Connection> {
    open(results, OpenFlags::SQLITE_OPEN_READ_ONLY)
}

/// The results in a folder, to read.
#[track_caller]
pub fn read(results: &Path) -> Connection {
    begun(results).unwrap_or_else(|e| panic!("{}: {e}", results.display()))
}

/// The results in a folder, to change. After a crash the first to open them undoes what was half written, and so
/// must be able to write.
#[track_caller]
pub fn change(results: &Path) -> Connection {
    open(results, OpenFlags::SQLITE_OPEN_READ_WRITE).unwrap_or_else(|e| panic!("{}: {e}", results.display()))
}

/// What is stored of the finished cells, by their number: how long each took, and its outcome.
pub fn finished(results: &Path) -> BTreeMap<u32, (f64, String)> {
    // Where a run has just begun there is nothing to read.
    let Ok(db) = begun(results) else { return BTreeMap::new() };
    let Ok(mut query) = db.prepare("SELECT id, host_ms, outcome FROM cell WHERE status = 'done'") else {
        return BTreeMap::new();
    };
    let row = |row: &rusqlite::Row<'_>| Ok((row.get(0)?, (row.get(1)?, row.get(2)?)));
    let rows = query.query_map([], row).expect("the cells");
    rows.map(|row| row.expect("a cell")).collect()
}

/// One value of a run's results.
#[track_caller]
pub fn value<T: FromSql>(results: &Path, sql: &str) -> T {
    let value = read(results).query_row(sql, [], |r| r.get(0));
    value.unwrap_or_else(|e| panic!("{}: {sql}: {e}", results.display()))
}

/// What a metric is of the cells that a condition selects, which is one number.
#[track_caller]
pub fn metric(results: &Path, name: &str, only: &str) -> f64 {
    value(results, &format!("SELECT median FROM summary WHERE metric = '{name}' AND {only}"))
}

/// Runs `study.toml` of a folder, whose results are in `a`, once more into `b`: in `make torture` all of it, and then a
/// hundred times, half of them on a loaded host, the cells that match `some`; otherwise these once. What both have is
/// the same to the bit.
#[track_caller]
pub fn repeats(home: &Path, some: &str) {
    repeats_with(home, some, |_| ());
}

/// The same; `same` looks at what else is to be the same, in a folder of results of which only `some` is of interest.
#[track_caller]
pub fn repeats_with(home: &Path, some: &str, same: impl Fn(&Path)) {
    let again = |output: &str, more: &[&str]| {
        lab(home, &[&["run", "study.toml", "--output", output], more].concat()).ends_with(0);
        let compared = lab(home, &["compare", "a", output]).ends_with(0).says(&["identical"]);
        assert_eq!(compared.out.contains("in only one of the runs"), !more.is_empty(), "{compared}");
        same(&home.join(output));
    };
    let some = &["--only", some][..];
    again("b", if amount(0, 1) == 1 { &[] } else { some });
    let more = amount(0, 100);
    for run in 0..more {
        let _load = (run >= more / 2).then(HostLoad::on_every_core);
        again("again", some);
        std::fs::remove_dir_all(home.join("again")).expect("the results are removed");
    }
    if more > 0 {
        say(&format!("{more} of {more} repetitions are the same: {}", some[1]));
    }
}
