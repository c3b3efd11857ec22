//! The shares of a study's cells that several machines run. The same study and number of shares give the same shares on
//! every machine: nothing that a machine has measured goes into them.

use crate::specification::cell::Cell;
use crate::specification::guess::guess_ms;
use crate::specification::study::Study;
use pocketstone_core::bytes::hexadecimal;
use pocketstone_core::{Error, Result};
use pocketstone_workload::plan::Step;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::str::FromStr;

/// The fact of a shard's results that says which one it is.
pub const FACT: &str = "shard";
/// The fact of merged shards that holds the digest of their plan.
pub const PLAN_FACT: &str = "shards.plan";

/// Most shards that a study has: more than any cluster runs, and few enough to list.
pub const MOST_SHARDS: u32 = 100_000;

/// What a state that cells start from costs beside them, in milliseconds: a guess, as that of a cell is.
const STATE_MS: u64 = 3000;

/// One of a study's shares: `2/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shard {
    /// Which one, from 1 on.
    pub index: u32,
    /// How many there are.
    pub of: u32,
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl FromStr for Shard {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        let parts = text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match parts {
            Some((_, of)) if of > MOST_SHARDS => {
                Err(Error::user(format!("{of} shards are too many"))
                    .hint(format!("share out among at most {MOST_SHARDS}")))
            }
            Some((index, of)) if (1..=of).contains(&index) => Ok(Shard { index, of }),
            _ => Err(Error::user(format!("`{text}` is no shard")).hint("write the first of three as 1/3")),
        }
    }
}

/// What a run of one share was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Which share.
    pub shard: Shard,
    /// Which part of all cells another share measures as well, from 0 to 1.
    pub verify_fraction: f64,
}

/// What the results of a share say of it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// What was asked for.
    #[serde(flatten)]
    pub asked: Asked,
    /// Digest of all cells of the study, and of which share has which.
    pub plan: String,
    /// Number of its cells.
    pub cells: usize,
}

/// The shares of a study.
#[derive(Debug, Clone)]
pub struct Shares {
    /// The share that each cell belongs to, by the cell's number.
    owners: BTreeMap<u64, u32>,
    /// The share that measures a cell as well.
    again: BTreeMap<u64, u32>,
    /// Digest of the cells, and of which share has which.
    pub digest: String,
}

impl Shares {
    /// Shares out cells, with their prepared workloads made.
    ///
    /// What a comparison needs of a seed stays together, traced twins too, so that nobody compares two machines. Cells
    /// that start from the same state stay together as long as they are not more than a share.
    ///
    /// # Errors
    /// `ErrorKind::User` if there is no other share to measure cells again.
    pub fn of(study: &Study, cells: &[Cell], of: u32, verify_fraction: f64) -> Result<Self> {
        let owners = owners(study, cells, of)?;
        let again = again(&owners, of, verify_fraction)?;
        let mut hash = Sha256::new();
        hash.update(format!("{of} {verify_fraction}\n"));
        for cell in cells {
            let parts = (cell.number, &cell.experiment, &cell.point, cell.plan.anywhere(), &owners[&cell.number]);
            hash.update(serde_json::to_vec(&parts).map_err(|e| Error::bug("a cell is not valid JSON").because(e))?);
            hash.update(format!("{:?}\n", again.get(&cell.number)));
        }
        let digest = hexadecimal(&hash.finalize());
        Ok(Shares { owners, again, digest })
    }

    /// Whether a share has a cell, as its own or to measure it again.
    pub fn has(&self, index: u32, cell: &Cell) -> bool {
        self.owners.get(&cell.number) == Some(&index) || self.repeats(index, cell)
    }

    /// Whether a share measures a cell that belongs to another one.
    pub fn repeats(&self, index: u32, cell: &Cell) -> bool {
        self.again.get(&cell.number) == Some(&index)
    }
}

/// Cells of one seed that stay together.
struct Unit {
    seed: u64,
    /// Places of its cells.
    cells: Vec<usize>,
    /// The states that they start from.
    states: BTreeSet<usize>,
    ms: u64,
}

/// Units that start from the same states, or some of those.
struct Part<'a> {
    units: Vec<&'a Unit>,
    ms: u64,
}

/// Which share each cell belongs to.
fn owners(study: &Study, cells: &[Cell], of: u32) -> Result<BTreeMap<u64, u32>> {
    let units = units(study, cells)?;
    let mut groups: BTreeMap<&BTreeSet<usize>, Vec<&Unit>> = BTreeMap::new();
    units.iter().for_each(|unit| groups.entry(&unit.states).or_default().push(unit));
    let states_ms = |states: &BTreeSet<usize>| states.len() as u64 * STATE_MS;
    let cost = |states, units: &[&Unit]| states_ms(states) + units.iter().map(|unit| unit.ms).sum::<u64>();
    let whole: u64 = groups.iter().map(|(states, units)| cost(states, units)).sum();
    let fair = whole.div_ceil(u64::from(of)).max(1);
    let mut parts = Vec::new();
    for (states, mut units) in groups {
        units.sort_by_key(|unit| (unit.seed, unit.cells[0]));
        let number = cost(states, &units).div_ceil(fair);
        let each = units.iter().map(|unit| unit.ms).sum::<u64>().div_ceil(number.max(1));
        let mut rest = &units[..];
        while !rest.is_empty() {
            let mut sum = 0;
            let enough = |unit: &&Unit| {
                sum += unit.ms;
                sum >= each
            };
            let taken = rest.iter().position(enough).map_or(rest.len(), |last| last + 1);
            let (first, others) = rest.split_at(taken);
            parts.push(Part { units: first.to_vec(), ms: cost(states, first) });
            rest = others;
        }
    }
    // The longest first, each to the share that has least.
    parts.sort_by_key(|part| (Reverse(part.ms), part.units[0].cells[0]));
    let mut loads: BTreeSet<(u64, u32)> = (1..=of).map(|index| (0, index)).collect();
    let mut owners = BTreeMap::new();
    for part in parts {
        let Some((ms, index)) = loads.pop_first() else { break };
        loads.insert((ms + part.ms, index));
        let cells = part.units.iter().flat_map(|unit| &unit.cells).map(|place| cells[*place].number);
        owners.extend(cells.map(|number| (number, index)));
    }
    Ok(owners)
}

/// What stays together, whatever else is shared out.
fn units(study: &Study, cells: &[Cell]) -> Result<Vec<Unit>> {
    let mut states: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut known: BTreeMap<(&str, String, u64), usize> = BTreeMap::new();
    let mut units: Vec<Unit> = Vec::new();
    for (place, cell) in cells.iter().enumerate() {
        let compared = study.experiments.iter().find(|e| e.name == cell.experiment).and_then(|e| e.compare.as_ref());
        let mut point = cell.point.clone();
        compared.map(|compare| point.remove(compare.factor));
        let json = |e| Error::bug("a cell is not valid JSON").because(e);
        let key = (cell.experiment.as_str(), serde_json::to_string(&point).map_err(json)?, cell.plan.seed);
        let index = *known.entry(key).or_insert(units.len());
        if index == units.len() {
            units.push(Unit { seed: cell.plan.seed, cells: Vec::new(), states: BTreeSet::new(), ms: 0 });
        }
        let unit = &mut units[index];
        unit.cells.push(place);
        unit.ms += guess_ms(cell) as u64;
        let steps: Vec<Step> = cell.plan.steps();
        if !steps.is_empty() {
            let next = states.len();
            unit.states.insert(*states.entry(serde_json::to_vec(&steps).map_err(json)?).or_insert(next));
        }
    }
    Ok(units)
}

/// Which share measures which cells a second time: every so many-th in an order that nothing of a study follows.
fn again(owners: &BTreeMap<u64, u32>, of: u32, fraction: f64) -> Result<BTreeMap<u64, u32>> {
    if fraction == 0.0 {
        return Ok(BTreeMap::new());
    }
    if of < 2 {
        return Err(Error::user("one shard alone has no other one to repeat cells on").hint("omit --verify-fraction"));
    }
    let mixed = |number: u64| {
        let hash = Sha256::digest(number.to_le_bytes());
        hash.iter().take(8).fold(0u64, |sum, byte| sum << 8 | u64::from(*byte))
    };
    let mut order: Vec<(u64, u64, u32)> = owners.iter().map(|(n, owner)| (mixed(*n), *n, *owner)).collect();
    order.sort_unstable();
    order.truncate((fraction * owners.len() as f64).ceil() as usize);
    let other = |hash: u64, owner: u32| (u64::from(owner) + hash % u64::from(of - 1)) % u64::from(of) + 1;
    Ok(order.into_iter().map(|(hash, number, owner)| (number, other(hash, owner) as u32)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::specification::cell::cells;
    use crate::specification::traces::Traces;
    use std::path::Path;

    fn study(repetitions: u32, experiment: &str) -> (Study, Vec<Cell>) {
        let text = format!(
            "title='t'\nboard='virt-nand'\nrepetitions={repetitions}\n[[experiment]]\nname='e'\n[experiment.factors]\n\
             file_system=['jffs2', 'ubifs']\nrequests=[8, 16]\n{experiment}"
        );
        let study = Study::parse("s.toml", &text).unwrap();
        let cells = cells(&study, "virtual", None, true, &mut Traces::checked(Path::new("."))).unwrap();
        (study, cells)
    }

    fn owners_of(study: &Study, cells: &[Cell], of: u32) -> Vec<u32> {
        let shares = Shares::of(study, cells, of, 0.0).unwrap();
        cells
            .iter()
            .map(|cell| (1..=of).filter(|index| shares.has(*index, cell)).collect::<Vec<_>>()[..].to_vec())
            .map(|owners| {
                assert_eq!(owners.len(), 1);
                owners[0]
            })
            .collect()
    }

    #[test]
    fn shards_are_as_many_as_can_be_listed() {
        assert_eq!("2/3".parse::<Shard>().unwrap(), Shard { index: 2, of: 3 });
        for wrong in ["0/3", "4/3", "1", "1/4000000000"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_cell_is_in_one_share_and_what_starts_from_one_state_is_together() {
        // Of each seed and file system, the file is another; both numbers of requests and all twins start from it.
        let (study, cells) = study(3, "file_bytes='1MiB'\n");
        assert_eq!(cells.len(), 3 * 2 * 2 * 2);
        for of in [1, 2, 3, 6, 50] {
            let owners = owners_of(&study, &cells, of);
            let mut by_state: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
            for (cell, owner) in cells.iter().zip(&owners) {
                by_state.entry(format!("{:?}", cell.plan.steps())).or_default().insert(*owner);
            }
            assert_eq!(by_state.len(), 6);
            assert!(by_state.values().all(|owners| owners.len() == 1 || of > 6), "{of}: {by_state:?}");
            // Six equal states: none has more than its part.
            let most = (1..=of).map(|n| owners.iter().filter(|owner| **owner == n).count()).max().unwrap();
            assert_eq!(most, if of > 6 { 2 } else { 4 * 6usize.div_ceil(of as usize) }, "{of}");
        }
    }

    #[test]
    fn what_is_compared_is_of_one_share_however_many_there_are() {
        let compare = "file_bytes='1MiB'\n[experiment.compare]\nfactor='file_system'\nbaseline='jffs2'\n\
                       candidate='ubifs'\n";
        let (study, cells) = study(3, compare);
        let owners = owners_of(&study, &cells, 50);
        let mut pairs: BTreeMap<(u64, u64), BTreeSet<u32>> = BTreeMap::new();
        for (cell, owner) in cells.iter().zip(&owners) {
            let key = (cell.plan.seed, cell.point["requests"].as_u64().unwrap());
            pairs.entry(key).or_default().insert(*owner);
        }
        assert_eq!(pairs.len(), 6);
        assert!(pairs.values().all(|owners| owners.len() == 1), "{pairs:?}");
        assert_eq!(pairs.values().flatten().collect::<BTreeSet<_>>().len(), 6, "and not more than that");
    }

    #[test]
    fn cells_of_one_state_that_are_more_than_a_share_are_split_by_seed() {
        // A file that is created: all seeds start from an empty file system.
        let (study, cells) = study(6, "workload='files'\noperation='create'\nfile_bytes=4096\n");
        let states: BTreeSet<String> = cells.iter().map(|cell| format!("{:?}", cell.plan.steps())).collect();
        let owners = owners_of(&study, &cells, 4);
        assert!(states.len() <= 12, "{states:?}");
        let load = |n| owners.iter().filter(|owner| **owner == n).count();
        let loads: Vec<usize> = (1..=4).map(load).collect();
        assert!(loads.iter().max().unwrap() - loads.iter().min().unwrap() <= 8, "{loads:?}");
    }

    #[test]
    fn the_plan_is_another_where_anything_of_it_is() {
        let (first, cells) = study(3, "file_bytes='1MiB'\n");
        let digest = |cells: &[Cell], of, again| Shares::of(&first, cells, of, again).unwrap().digest;
        let known = digest(&cells, 3, 0.0);
        assert_eq!(digest(&cells, 3, 0.0), known);
        let mut other = cells.clone();
        other[5].plan.seed += 100;
        let others =
            [digest(&cells, 4, 0.0), digest(&cells, 3, 0.1), digest(&cells[1..], 3, 0.0), digest(&other, 3, 0.0)];
        assert!(others.iter().all(|digest| *digest != known));
        // Where a machine has its files is its own affair.
        let mut moved = cells.clone();
        moved.iter_mut().for_each(|cell| cell.plan.volume.directory = Some("/elsewhere".into()));
        assert_eq!(digest(&moved, 3, 0.0), known);
    }

    #[test]
    fn a_part_of_the_cells_is_measured_by_another_share_too() {
        let (study, cells) = study(3, "file_bytes='1MiB'\n");
        let shares = Shares::of(&study, &cells, 3, 0.25).unwrap();
        let twice: Vec<&Cell> = cells.iter().filter(|c| (1..=3).filter(|n| shares.has(*n, c)).count() == 2).collect();
        assert_eq!(twice.len(), cells.len() / 4);
        let repeats = |c: &Cell| (1..=3).filter(|n| shares.repeats(*n, c)).count();
        assert!(cells.iter().all(|c| repeats(c) == usize::from(twice.contains(&c))));
        let all = Shares::of(&study, &cells, 2, 1.0).unwrap();
        assert!(cells.iter().all(|cell| all.has(1, cell) && all.has(2, cell)));
        assert!(Shares::of(&study, &cells, 1, 0.5).unwrap_err().cure().is_some());
    }

    #[test]
    fn shards_are_read_as_they_are_written() {
        assert_eq!("2/8".parse::<Shard>().unwrap().to_string(), "2/8");
        for wrong in ["0/3", "4/3", "1", "1/0", "a/b", "-1/3", ""] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
