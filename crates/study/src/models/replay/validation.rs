//! The model held against published tables, kept in the results.

use super::{Devices, recorded, replayable};
use crate::results::left_out::LeftOut;
use crate::results::store::{Store, StoredCell};
use crate::specification::study::{OWN, Study, ValidationSpec};
use pocketstone_core::error::Context;
use pocketstone_core::{Error, Result};
use pocketstone_replay::device::Device;
use pocketstone_replay::validate::{self, Check, Recording};
use rusqlite::params;
use std::path::Path;

/// Environment variable that names the folder of published tables: they are their authors', not this project's.
/// The command reads it; here it is only in what is said to the user.
pub const REFERENCE: &str = "POCKETSTONE_REFERENCE";

/// Brings the results' validations up to date. Where a table is not there, what the results have of it stays.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read or written. A missing table is skipped and reported with the fix.
pub(in crate::models) fn refresh(
    store: &mut Store,
    study: &Study,
    devices: &Devices,
    folder: Option<&Path>,
) -> Result<()> {
    for spec in &study.validations {
        let name = spec.name.get_ref();
        match checks(store, spec, devices, folder) {
            Ok((checks, unknown)) => {
                put(store, name, &checks)?;
                if !unknown.is_empty() {
                    store.leave_out(&LeftOut {
                        what: format!("rows of validation `{name}`"),
                        why: format!("no published workload is known as {}", unknown.join(", ")),
                        cure: "record that workload in the experiment `recordings` of the validation".to_owned(),
                    })?;
                }
            }
            Err(error) => {
                let kept: i64 =
                    store.rows("SELECT count(*) FROM validation WHERE name = ?1", [name], |r| r.get(0))?.remove(0);
                if kept == 0 {
                    store.leave_out(&LeftOut::new(format!("validation `{name}`"), &error))?;
                }
            }
        }
    }
    Ok(())
}

fn checks(
    store: &Store,
    spec: &ValidationSpec,
    devices: &Devices,
    folder: Option<&Path>,
) -> Result<(Vec<Check>, Vec<String>)> {
    let table = spec.table.get_ref();
    let cure = || format!("set {REFERENCE} to the folder with the published {table}");
    let folder = folder.ok_or_else(|| Error::user(format!("{REFERENCE} is not set")).hint(cure()))?;
    let path = folder.join(table);
    let text = std::fs::read_to_string(&path)
        .map_err(|e| Error::user(format!("cannot read {}", path.display())).because(e).hint(cure()))?;
    let device = &devices[spec.device.get_ref()];
    let recordings = recordings(store, spec, device)?;
    let checks = validate::checks(table, &text, device, spec.governor.get_ref(), &recordings)?;
    Ok((checks, validate::unknown_workloads(table, &text, &recordings)?))
}

/// The recordings of the experiment's published workloads without delays.
fn recordings(store: &Store, spec: &ValidationSpec, device: &Device) -> Result<Vec<Recording>> {
    let Some(experiment) = &spec.recordings else { return Ok(Vec::new()) };
    let published = |c: &StoredCell| c.experiment == *experiment.get_ref() && c.digest.is_some();
    let mut found = Vec::new();
    for cell in replayable(store, published)? {
        let delay = cell.point.get("delay").and_then(|delay| delay.as_str());
        let Some(workload) = workload(&cell).filter(|_| matches!(delay, None | Some("none" | OWN))) else { continue };
        let engine = match cell.point.get("engine").and_then(|e| e.as_str()) {
            Some("sqlite") => "sql".to_owned(),
            other => other.unwrap_or_default().to_owned(),
        };
        found.push(Recording { workload, engine, activity: recorded::activity(store, &cell, device)?.0 });
    }
    Ok(found)
}

/// The published workload of a cell by its letter: of a recipe `pocketdata-a`, or of a file `a.json` or
/// `workload_a_0ms.json`.
fn workload(cell: &StoredCell) -> Option<String> {
    let word = |factor: &str| cell.point.get(factor).and_then(|value| value.as_str());
    let file = || {
        let stem = Path::new(word("workload_file")?).file_stem()?.to_str()?;
        stem.split('_').find(|part| part.len() == 1)
    };
    let letter = word("workload")?.strip_prefix("pocketdata-").or_else(file)?;
    Some(letter.to_uppercase())
}

fn put(store: &mut Store, name: &str, checks: &[Check]) -> Result<()> {
    let folder = store.folder().display().to_string();
    let failed = || format!("cannot write the validations of {folder}");
    let transaction = store.db.transaction().user(failed)?;
    transaction.execute("DELETE FROM validation WHERE name = ?1", [name]).user(failed)?;
    for c in checks {
        let row = params![name, c.row, c.quantity, c.predicted, c.measured, c.error()];
        transaction.execute("INSERT INTO validation VALUES (?1, ?2, ?3, ?4, ?5, ?6)", row).user(failed)?;
    }
    transaction.commit().user(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    const STUDY: &str = r#"
title = "t"
board = "host"
[[experiment]]
name = "e"
[experiment.factors]
file_system = "directory"
file_bytes = "1MiB"
requests = 1
[[validation]]
name = "v"
table = "t.csv"
device = "nexus-5"
governor = "powersave"
"#;

    #[test]
    fn a_table_is_predicted_and_what_is_kept_outlives_the_table() {
        let folder = tempfile::tempdir().unwrap();
        let study = Study::parse("s.toml", STUDY).unwrap();
        let devices = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../devices");
        let mut store = Store::create(&folder.path().join("results"), []).unwrap();
        let devices = super::super::devices(&study, &devices, None).unwrap();
        super::super::check(&study, &devices).unwrap();
        let rows = |store: &Store| -> Vec<(String, String, f64, f64)> {
            let sql = "SELECT row, quantity, predicted, measured FROM validation ORDER BY row, quantity";
            store.rows(sql, [], |r| Ok((r.get(0)?, r.get(1)?, r.get(2)?, r.get(3)?))).unwrap()
        };
        let left_out = |store: &Store| {
            store
                .rows("SELECT why, cure FROM left_out", [], |r| Ok((r.get::<_, String>(0)?, r.get::<_, String>(1)?)))
                .unwrap()
        };
        for (at, why) in [(None, "is not set"), (Some(folder.path()), "cannot read")] {
            store.clear_left_out().unwrap();
            refresh(&mut store, &study, &devices, at).unwrap();
            let (said, cure) = left_out(&store).remove(0);
            assert!(rows(&store).is_empty() && said.contains(why) && cure.contains("t.csv"), "{said} {cure}");
        }
        store.clear_left_out().unwrap();
        let table = "workload,delay,governor,sql_cpu_s,sql_wall_s\nC,0ms,clean,1,1\nC,1ms,real,7,9\n";
        std::fs::write(folder.path().join("t.csv"), table).unwrap();
        refresh(&mut store, &study, &devices, Some(folder.path())).unwrap();
        let found = rows(&store);
        // By hand: of a second at 2265.6 MHz the 82 % that scale take 7.552 times as long at 300 MHz.
        assert!(found.len() == 2 && found[0].1 == "cpu_s" && (found[0].2 - 6.373).abs() < 0.01, "{found:?}");
        refresh(&mut store, &study, &devices, None).unwrap();
        assert!(rows(&store) == found && left_out(&store).is_empty());
        // A workload that nobody knows leaves the others as they are, and is named.
        std::fs::write(folder.path().join("t.csv"), format!("{table}X,0ms,clean,1,1\nX,1ms,real,7,9\n")).unwrap();
        refresh(&mut store, &study, &devices, Some(folder.path())).unwrap();
        let (why, _) = left_out(&store).remove(0);
        assert!(rows(&store) == found && why.ends_with("as X"), "{why}");
    }

    #[test]
    fn mistakes_are_shown_where_they_are() {
        let twice = STUDY
            .replace("[[validation]]", &format!("{}[[validation]]", &STUDY[STUDY.find("[[validation]]").unwrap()..]));
        for (text, word) in [
            (twice, "duplicate validation"),
            (STUDY.replace("powersave", "turbo"), "turbo"),
            (format!("{STUDY}recordings = 'other'\n"), "unknown experiment `other`"),
        ] {
            let error = Study::parse("s.toml", &text).unwrap_err();
            assert!(error.chain().contains(word) && error.chain().contains("s.toml:"), "{}", error.chain());
        }
    }
}
