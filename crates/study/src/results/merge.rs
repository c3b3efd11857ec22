//! The results of a study's shards, which become those of one run.

use crate::results::left_out::LeftOut;
use crate::results::resumed::LATER_REVISIONS;
use crate::results::store::{Store, repeated};
use crate::specification::shares::{FACT, PLAN_FACT, Share};
use pocketstone_board::{SAME_MACHINE, another_kind};
use pocketstone_core::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Facts that are the same in all shards of a run.
const SAME_STUDY: [&str; 7] =
    ["study", "study.name", "board", "board.kind", "board.profile", "pocketstone.version", "git.revision"];

/// The results of one shard.
pub struct Part {
    /// Which one.
    pub share: Share,
    /// Its results.
    pub store: Store,
}

impl Part {
    /// How many of its cells are measured, or have failed.
    ///
    /// # Errors
    /// `ErrorKind::User` if the results cannot be read.
    pub fn ended(&self) -> Result<usize> {
        let sql = "SELECT count(*) FROM cell WHERE status IN ('done', 'failed')";
        let number: Vec<i64> = self.store.rows(sql, [], |r| r.get(0))?;
        Ok(number.first().map_or(0, |n| *n as usize))
    }

    /// Reads a shard's results.
    ///
    /// # Errors
    /// `ErrorKind::User` if there are none, or they are no shard's.
    pub fn open(folder: &Path) -> Result<Self> {
        let store = Store::open(folder, false)?;
        let share = store.share()?.ok_or_else(|| {
            Error::user(format!("{} is no shard of a run", folder.display()))
                .hint("shards are made by: pocketstone run STUDY --shard 1/3")
        })?;
        Ok(Part { share, store })
    }

    /// Refuses results of which something cannot be read, before anything is made of them.
    fn check_intact(&self) -> Result<()> {
        let damaged = |what: &str| {
            let what = what.lines().last().unwrap_or_default();
            Error::user(format!("{} is damaged: {what}", self.name()))
                .hint("run that shard again in a new folder, and merge that one")
        };
        let found: Vec<String> =
            self.store.rows("PRAGMA quick_check(1)", [], |r| r.get(0)).map_err(|e| damaged(&e.chain()))?;
        match found.first().map(String::as_str) {
            Some("ok") => Ok(()),
            what => Err(damaged(what.unwrap_or_default())),
        }
    }

    fn name(&self) -> String {
        format!("shard {} ({})", self.share.asked.shard, self.store.folder().display())
    }
}

/// Shards of one run, by their index.
pub struct Parts(Vec<Part>);

impl Parts {
    /// Opens them to be read, and checks that they belong together.
    ///
    /// # Errors
    /// `ErrorKind::User` if one is no shard, or damaged, or of another run than the first one, or is there twice.
    pub fn open(folders: &[PathBuf]) -> Result<Self> {
        let mut parts = folders.iter().map(|folder| Part::open(folder)).collect::<Result<Vec<_>>>()?;
        let index = |part: &Part| part.share.asked.shard.index;
        parts.sort_by_key(index);
        parts.iter().try_for_each(Part::check_intact)?;
        if let Some(pair) = parts.windows(2).find(|pair| index(&pair[0]) == index(&pair[1])) {
            let which =
                format!("{} is there twice: {} and", pair[0].share.asked.shard, pair[0].store.folder().display());
            return Err(
                Error::user(format!("shard {which} {}", pair[1].store.folder().display())).hint("name one of them")
            );
        }
        let parts = Parts(parts);
        parts.check()?;
        Ok(parts)
    }

    /// Refuses shards of other runs.
    fn check(&self) -> Result<()> {
        let Some((first, others)) = self.0.split_first() else { return Err(Error::user("no shards given")) };
        let repeats = first.store.repeats_to_the_bit()?;
        let of_board = SAME_MACHINE.iter().map(|name| format!("fact.{name}"));
        let names: Vec<String> = SAME_STUDY.iter().map(|name| (*name).to_owned()).chain(of_board).collect();
        let facts = first.store.board_facts()?;
        for other in others {
            let foreign = |what: &str| {
                let error = format!("{} and {} are not of one run: {what}", first.name(), other.name());
                Error::user(error).hint("merge the shards of one study, on equal boards, by one pocketstone")
            };
            // Where one measurement does not give what another one gives, only machines that are equal may stand in for
            // each other.
            let kind = match repeats {
                true => None,
                false => another_kind(&facts, &other.store.board_facts()?),
            };
            let kind = kind.map(|name| format!("fact.{name}"));
            for name in names.iter().chain(&kind) {
                let (a, b) = (first.store.fact(name)?, other.store.fact(name)?);
                if a != b {
                    // Whole texts say nothing in a message.
                    let text = |v: Option<String>| v.unwrap_or_else(|| "unavailable".into());
                    let [a, b] = [a, b].map(text);
                    return Err(foreign(&match a.len().max(b.len()) > 200 || a.contains('\n') {
                        true => format!("`{name}` differs"),
                        false => format!("`{name}` is {a} and {b}"),
                    }));
                }
            }
            let (a, b) = (&first.share, &other.share);
            if a.asked.shard.of != b.asked.shard.of {
                return Err(foreign("their numbers of shards differ"));
            }
            if a.plan != b.plan {
                return Err(foreign("their cells differ: --only, --verify-fraction, or files that the study names"));
            }
        }
        Ok(())
    }

    /// The shards.
    pub fn all(&self) -> &[Part] {
        &self.0
    }

    /// The indices of those that are not there.
    pub fn missing(&self) -> Vec<u32> {
        let there: BTreeSet<u32> = self.0.iter().map(|part| part.share.asked.shard.index).collect();
        let of = self.0.first().map_or(0, |part| part.share.asked.shard.of);
        (1..=of).filter(|index| !there.contains(index)).collect()
    }

    /// The facts of the whole: those of all shards, and those in which they differ as `shard.INDEX.NAME`. The run began
    /// when the earliest of them did, and goes on with the files of the first.
    ///
    /// # Errors
    /// `ErrorKind::User` if the results cannot be read.
    pub fn facts(&self) -> Result<Vec<(String, String)>> {
        let mut values: BTreeMap<String, Vec<(u32, String)>> = BTreeMap::new();
        for part in &self.0 {
            for (name, value) in part.store.facts()?.into_iter().filter(|(name, _)| name != FACT) {
                values.entry(name).or_default().push((part.share.asked.shard.index, value));
            }
        }
        let mut facts = vec![("shards".to_owned(), self.0.len().to_string())];
        facts.extend(self.0.first().map(|part| (PLAN_FACT.to_owned(), part.share.plan.clone())));
        for (name, values) in values {
            let same = values.len() == self.0.len() && values.windows(2).all(|pair| pair[0].1 == pair[1].1);
            let whole = match name.as_str() {
                "started_utc" => values.iter().map(|(_, value)| value).min(),
                "study.folder" => values.first().map(|(_, value)| value),
                _ => values.first().map(|(_, value)| value).filter(|_| same),
            };
            let whole = match name.as_str() {
                LATER_REVISIONS => Some(union(values.iter().map(|(_, value)| value.as_str()))),
                _ => whole.cloned(),
            };
            facts.extend(whole.map(|value| (name.clone(), value)));
            if !same {
                facts.extend(values.into_iter().map(|(index, value)| (format!("shard.{index}.{name}"), value)));
            }
        }
        Ok(facts)
    }
}

/// Lists with commas as one, each word once.
fn union<'a>(lists: impl Iterator<Item = &'a str>) -> String {
    let mut words: Vec<&str> = Vec::new();
    for word in lists.flat_map(|list| list.split(", ")) {
        if !words.contains(&word) {
            words.push(word);
        }
    }
    words.join(", ")
}

/// What was put together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Merged {
    /// Cells.
    pub cells: usize,
    /// Those of them that two shards have measured, with the same result.
    pub verified: usize,
}

/// Adds the cells of all shards to new results, each once, and what could not be had.
///
/// # Errors
/// `ErrorKind::User` if two shards have measured a cell with different results, or if it cannot be written.
pub fn merge(parts: &Parts, into: &mut Store) -> Result<Merged> {
    let mut merged = Merged::default();
    let mut different = Vec::new();
    for part in parts.all() {
        let (same, differing) = repeated(into, &part.store)?;
        merged.verified += same;
        different.extend(differing.into_iter().map(|cell| format!("{cell} ({})", part.name())));
        merged.cells += into.take(&part.store)?;
        for LeftOut { what, why, cure } in part.store.left_out()? {
            into.leave_out(&LeftOut { what, why, cure })?;
        }
    }
    match different.first() {
        None => Ok(merged),
        Some(first) => Err(Error::user(format!(
            "{} of {} repeated cells differ from what another shard measured; the first: {first}",
            different.len(),
            different.len() + merged.verified
        ))
        .hint("the machines do not give the same results: run a shard again on each, and compare them")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_knows_all_revisions_that_went_on_with_a_shard() {
        let folder = tempfile::tempdir().unwrap();
        let later = [None, Some("two"), Some("three, two")];
        let folders: Vec<PathBuf> = (1..)
            .zip(later)
            .map(|(index, later)| {
                let path = folder.path().join(index.to_string());
                let share =
                    format!(r#"{{"shard":{{"index":{index},"of":3}},"verify_fraction":0.0,"plan":"p","cells":1}}"#);
                let facts = [(FACT, share.as_str()), ("git.revision", "one")];
                Store::create(&path, facts.into_iter().chain(later.map(|later| (LATER_REVISIONS, later)))).unwrap();
                path
            })
            .collect();
        let facts: BTreeMap<String, String> = Parts::open(&folders).unwrap().facts().unwrap().into_iter().collect();
        assert_eq!(facts[LATER_REVISIONS], "two, three");
        assert_eq!(facts["git.revision"], "one");
        assert_eq!(facts[PLAN_FACT], "p");
    }

    #[test]
    fn a_cell_that_failed_twice_is_no_repeated_one() {
        let folder = tempfile::tempdir().unwrap();
        let [one, two] = ["one", "two"].map(|name| {
            let store = Store::create(&folder.path().join(name), []).unwrap();
            let cell = |seed: u32, status: &str, digest: &str| {
                format!(
                    "INSERT INTO cell VALUES ({seed}, 'e', '{{}}', 0, {seed}, 0, '{status}', '{{}}', NULL, {digest}, \
                     1.0, NULL, NULL, NULL);"
                )
            };
            let third = if name == "one" { cell(3, "done", "'b'") } else { cell(3, "failed", "NULL") };
            store.db.execute_batch(&(cell(1, "done", "'a'") + &cell(2, "failed", "NULL") + &third)).unwrap();
            store
        });
        assert_eq!(repeated(&one, &two).unwrap(), (1, vec!["e:  seed=3".to_owned()]));
    }
}
