//! Whether a run may go on: what it will measure must be of one kind with what it has.

use crate::results::store::{CellKey, Store, key};
use crate::specification::cell::Cell;
use pocketstone_board::{SAME_MACHINE, another_kind};
use pocketstone_core::outcome::Facts;
use pocketstone_core::{Error, Result};
use pocketstone_workload::plan::Plan;
use std::collections::{BTreeMap, BTreeSet};

/// The revisions that went on with a run, where they are others than the one that began it.
pub const LATER_REVISIONS: &str = "git.revision.resumed";

/// Refuses to go on with a run on another machine than the one that it began on.
///
/// # Errors
/// `ErrorKind::User` if the machine is another one, or the results cannot be read.
pub fn check_machine(store: &Store, now: &Facts) -> Result<()> {
    let before = store.board_facts()?;
    let kind = match store.repeats_to_the_bit()? {
        // Whatever emulates it gives the same numbers.
        true => None,
        false => {
            // What an earlier version began has fewer facts.
            let known = now.iter().filter(|(name, _)| before.contains_key(*name));
            another_kind(&before, &known.map(|(name, value)| (name.clone(), value.clone())).collect())
        }
    };
    let different = SAME_MACHINE.into_iter().find(|name| before.get(*name) != now.get(*name)).or(kind);
    let Some(name) = different else { return Ok(()) };
    let text = |facts: &Facts| facts.get(name).cloned().unwrap_or_else(|| "unavailable".into());
    Err(Error::user(format!(
        "the board has changed since {} began: {name} was {}, is now {}",
        store.folder().display(),
        text(&before),
        text(now)
    ))
    .hint("start a new run; the old results are kept"))
}

/// Refuses to go on with a run of which cells that are done would now be other ones: they would stand in one median
/// with what is measured now.
///
/// # Errors
/// `ErrorKind::User` if a plan is another one, or the results cannot be read.
pub fn check_plans(store: &Store, cells: &[Cell]) -> Result<()> {
    let sql = "SELECT experiment, point, seed, traced, plan FROM cell WHERE status = 'done'";
    let rows = store.rows(sql, [], |r| {
        Ok(((r.get(0)?, r.get(1)?, r.get::<_, i64>(2)? as u64, r.get(3)?), r.get::<_, String>(4)?))
    })?;
    let done: BTreeMap<CellKey, String> = rows.into_iter().collect();
    let keys: Vec<CellKey> = cells.iter().map(key).collect::<Result<_>>()?;
    let missing = keys.iter().filter(|key| !done.contains_key(*key));
    let growing: BTreeSet<_> = missing.map(|(experiment, point, ..)| (experiment, point)).collect();
    for (cell, key) in cells.iter().zip(&keys) {
        let Some(text) = done.get(key).filter(|_| growing.contains(&(&key.0, &key.1))) else { continue };
        // What an earlier version wrote may be no plan today: then nothing can be said.
        let Ok(before) = serde_json::from_str::<Plan>(text) else { continue };
        if before.anywhere() != cell.plan.anywhere() {
            let folder = store.folder().display();
            return Err(Error::user(format!(
                "{} is no longer what it was when {folder} measured it: a file that the study names has changed, or \
                 pocketstone has",
                cell.describe()
            ))
            .hint("start a new run; the old results are kept"));
        }
    }
    Ok(())
}

/// Keeps which revision of this program measures what a run lacks, where it is not the one that began it.
///
/// # Errors
/// `ErrorKind::User` if the results cannot be read or written.
pub fn note_revision(store: &Store, cells: &[Cell], revision: &str) -> Result<()> {
    let done = store.done()?;
    if cells.iter().map(key).collect::<Result<Vec<_>>>()?.iter().all(|key| done.contains(key)) {
        return Ok(());
    }
    let known = store.fact(LATER_REVISIONS)?;
    let earlier = known.as_deref().unwrap_or_default();
    if store.fact("git.revision")?.as_deref() == Some(revision) || earlier.split(", ").any(|known| known == revision) {
        return Ok(());
    }
    let all = if earlier.is_empty() { revision.to_owned() } else { format!("{earlier}, {revision}") };
    store.set_facts([(LATER_REVISIONS, all.as_str())])
}

/// What a report says of a run that several revisions measured.
pub(crate) fn caveat(store: &Store) -> Result<Option<String>> {
    let Some(later) = store.fact(LATER_REVISIONS)? else { return Ok(None) };
    let first = store.fact("git.revision")?.unwrap_or_else(|| "unknown".into());
    Ok(Some(format!("The run was begun by revision {first} of pocketstone and resumed by {later}.")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::left_out::LeftOut;
    use crate::specification::cell::cells;
    use crate::specification::study::Study;
    use crate::specification::traces::Traces;
    use crate::testing::nothing;
    use pocketstone_board::Measured;
    use pocketstone_core::outcome::{Quantity, Unavailable};
    use std::path::Path;

    fn facts(pairs: &[(&str, &str)]) -> Facts {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn a_run_goes_on_on_the_machine_that_it_began_on() {
        let folder = tempfile::tempdir().unwrap();
        let begun = [("fact.machine", "x86_64"), ("fact.cpu", "old"), ("fact.memory", "100000 kB")];
        let store = Store::create(&folder.path().join("a"), begun).unwrap();
        let now = |cpu, memory| facts(&[("machine", "x86_64"), ("cpu", cpu), ("memory", memory), ("cpus", "2")]);
        // Firmware keeps more or less of the memory, and the earlier version did not count processors.
        check_machine(&store, &now("old", "100100 kB")).unwrap();
        for (other, what) in [(now("new", "100000 kB"), "cpu was old, is now new"), (now("old", "50000 kB"), "memory")]
        {
            let error = check_machine(&store, &other).unwrap_err();
            assert!(error.message().contains(what), "{error}");
        }
        // The machine that runs the emulator is no matter.
        store.set_facts([("board.repeats_to_the_bit", "yes")]).unwrap();
        check_machine(&store, &now("new", "50000 kB")).unwrap();
    }

    /// Two points of three seeds, the first `done` cells of which are in a store.
    fn begun(folder: &Path, done: usize) -> (Store, Vec<Cell>) {
        let text = "title='t'\nboard='b'\nrepetitions=3\n[[experiment]]\nname='e'\n[experiment.factors]\n\
                    file_system='tmpfs'\nfile_bytes='5MiB'\nrequests=[8, 16]\n";
        let study = Study::parse("s.toml", text).unwrap();
        let made = cells(&study, "host", None, false, &mut Traces::new(folder, Path::new("."))).unwrap();
        let mut store = Store::create(&folder.join("run"), [("git.revision", "one")]).unwrap();
        for cell in &made[..done] {
            let outcome = nothing(0, 1);
            let measured = Measured::of(outcome);
            store.put(cell, &Ok(measured), 1.0).unwrap();
        }
        (store, made)
    }

    #[test]
    fn what_is_measured_now_is_what_was_measured_before() {
        let folder = tempfile::tempdir().unwrap();
        // Of five, the second point lacks its last seed.
        let (store, made) = begun(folder.path(), 5);
        let with = |change: fn(&mut Cell)| {
            let mut other = made.clone();
            other.iter_mut().for_each(change);
            check_plans(&store, &other)
        };
        with(|_| ()).unwrap();
        with(|cell| cell.plan.volume.directory = Some("/elsewhere".into())).unwrap();
        let error = with(|cell| cell.plan.counters = true).unwrap_err();
        assert!(error.message().contains("requests=16") && error.cure().is_some(), "{error}");
        // Nothing is added to the first point.
        let whole = |cell: &mut Cell| cell.plan.counters = cell.point["requests"].as_u64() == Some(8);
        with(whole).unwrap();
    }

    #[test]
    fn what_earlier_commands_left_out_stays_where_a_later_one_cannot_find_it_again() {
        let folder = tempfile::tempdir().unwrap();
        let (mut store, made) = begun(folder.path(), 1);
        let lack = |what, cure: &str| Unavailable { what, why: "w".into(), cure: cure.into() };
        let mut outcome = nothing(0, 1);
        outcome.unavailable = vec![lack(Quantity::Energy, "buy a meter"), lack(Quantity::SystemCalls, "")];
        let measured = Measured::of(outcome);
        store.put(&made[1], &Ok(measured), 1.0).unwrap();
        let left = |what: &str, cure: &str| LeftOut { what: what.into(), why: "w".into(), cure: cure.into() };
        for known in [left("the board virt-nand", "c"), left("cells on f2fs", "c")] {
            store.leave_out(&known).unwrap();
        }
        store.clear_left_out().unwrap();
        let mut found = store.left_out().unwrap();
        found.sort();
        let expected = [left("energy", "buy a meter"), left("system calls", ""), left("the board virt-nand", "c")];
        assert_eq!(found, expected);
    }

    #[test]
    fn revisions_that_go_on_are_kept_once_each() {
        let folder = tempfile::tempdir().unwrap();
        let (store, made) = begun(folder.path(), 5);
        note_revision(&store, &made, "one").unwrap();
        // Nothing is left to measure.
        note_revision(&store, &made[..5], "two").unwrap();
        assert_eq!(caveat(&store).unwrap(), None);
        ["two", "one", "three", "two"].iter().for_each(|revision| note_revision(&store, &made, revision).unwrap());
        let said = caveat(&store).unwrap().unwrap();
        assert!(said.contains("begun by revision one") && said.ends_with("by two, three."), "{said}");
    }
}
