//! Look-ups of names in one folder.

use crate::database::Prepares;
use crate::definition::{Defined, FileWorkload};
use crate::factor::{AnyFactor, Count, Factor, Impossible, Point, blame};
use crate::factors::REQUESTS;
use crate::population::{Caches, Population, Sizes};
use crate::{Data, Operation};
use pocketstone_core::random::Random;
use pocketstone_core::{Error, Result, words};
use serde::{Deserialize, Serialize};

/// Fewest and most names in the folder.
pub const NAMES: (u64, u64) = (20, 1_000_000);

/// The `lookup` workload: asks for the attributes of files by their names, in one folder with so many names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LookupSpec {
    /// Names in the folder, each that of an empty file.
    pub names: u64,
    /// Number of look-ups.
    pub requests: u64,
    /// Whether the kernel has the names in memory before the first one.
    pub names_are: NamesAre,
}

words! {
    /// Whether the kernel has names in its cache.
    NamesAre {
        /// Each name has been looked up: the kernel's cache has what it has room for.
        Cached = "cached",
        /// Nothing has been, as after the machine's start.
        Cold = "cold",
    }
}

const FOLDER_NAMES: Factor<Count> =
    Factor::new("folder_names", "names in the folder that is looked into").default("1000").checked(|names| {
        let (least, most) = NAMES;
        match (least..=most).contains(&names) {
            true => Ok(()),
            false => Err(Error::user(format!("`folder_names` cannot be {names}"))
                .hint(format!("folder_names must be from {least} to {most}"))),
        }
    });
/// Whether names are in the kernel's cache.
pub const NAMES_ARE: Factor<NamesAre> =
    Factor::new("names_are", "whether the kernel's cache has the names before the first look-up").default("cached");

impl Defined for LookupSpec {
    const NAME: &'static str = "lookup";
    const ABOUT: &'static str = "look-ups of names in one folder";
    const SMALL: &'static str = "folder_names = 20\nrequests = 8";
    const FACTORS: &'static [AnyFactor] = &[REQUESTS.any(), FOLDER_NAMES.any(), NAMES_ARE.any()];

    fn of_point(point: &Point, _prepares: &mut dyn Prepares) -> Result<Self, Impossible> {
        let spec = LookupSpec {
            names: point.of(&FOLDER_NAMES)?,
            requests: point.of(&REQUESTS)?,
            names_are: point.of(&NAMES_ARE)?,
        };
        spec.judge().map(|()| spec)
    }
}

impl FileWorkload for LookupSpec {
    fn judge(&self) -> Result<(), Impossible> {
        FOLDER_NAMES.any().check(&self.names.into()).map_err(blame(FOLDER_NAMES.name()))
    }

    fn population(&self, seed: u64) -> Population {
        let caches = match self.names_are {
            NamesAre::Cached => Caches::Warm,
            NamesAre::Cold => Caches::Cold,
        };
        let (data, sizes) = (Data::Random, Sizes::Same);
        Population { files: self.names, file_bytes: 0, data, seed, sizes, caches }
    }

    fn operations(&self, seed: u64) -> Box<dyn Iterator<Item = Operation>> {
        Box::new(look_ups(self, seed))
    }

    fn request_bytes(&self) -> u64 {
        0
    }

    fn writes(&self) -> bool {
        false
    }
}

/// Operations of a `lookup` workload: rounds of all names, each round in another random order. A name is not asked for
/// again before all the others have been.
pub fn look_ups(spec: &LookupSpec, seed: u64) -> impl Iterator<Item = Operation> + use<> {
    let mut random = Random::labelled(seed, "looked up names");
    let mut order: Vec<u32> = (0..spec.names as u32).collect();
    let names = order.len();
    (0..spec.requests).map(move |n| {
        // Fisher and Yates, from the start, as far as look-ups go.
        let turn = (n % names as u64) as usize;
        order.swap(turn, turn + random.below((names - turn) as u64) as usize);
        Operation::LookUp { file: order[turn] }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn spec(names: u64, requests: u64) -> LookupSpec {
        LookupSpec { names, requests, names_are: NamesAre::Cached }
    }

    fn files(names: u64, requests: u64, seed: u64) -> Vec<u32> {
        let of = |operation| match operation {
            Operation::LookUp { file } => file,
            other => panic!("{other:?} is no look-up"),
        };
        spec(names, requests).operations(seed).map(of).collect()
    }

    #[test]
    fn every_round_has_each_name_once_in_an_order_of_its_own() {
        for names in [20, 1000] {
            let found = files(names, 3 * names + 7, 1);
            let rounds: Vec<&[u32]> = found.chunks(names as usize).collect();
            assert_eq!((rounds.len(), rounds[3].len()), (4, 7));
            for round in &rounds {
                assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), round.len());
                assert!(round.iter().all(|file| u64::from(*file) < names));
            }
            assert!(rounds[0] != rounds[1] && rounds[1] != rounds[2]);
            assert_eq!(found, files(names, 3 * names + 7, 1));
            assert_ne!(found, files(names, 3 * names + 7, 2));
        }
    }

    #[test]
    fn every_name_is_as_likely_at_every_turn() {
        // 4,000 seeds: each of 20 names has a turn 200 times, standard deviation sqrt(200 * 0.95) = 13.8; five of them.
        for turn in [0, 1, 19, 20] {
            let mut counts = [0u32; 20];
            (0..4000).for_each(|seed| counts[files(20, turn + 1, seed)[turn as usize] as usize] += 1);
            assert!(counts.iter().all(|count| count.abs_diff(200) <= 69), "turn {turn}: {counts:?}");
        }
    }

    #[test]
    fn the_stream_of_a_seed_never_changes() {
        // By the published generator and shuffle, written once more in Python.
        assert_eq!(files(20, 6, 7), [12, 1, 8, 5, 7, 9]);
    }

    #[test]
    fn its_files_are_empty_and_its_folders_have_a_size() {
        let population = spec(1000, 1).population(1);
        assert_eq!((population.list().len(), population.bytes(), population.caches), (1000, 0, Caches::Warm));
        let cold = LookupSpec { names_are: NamesAre::Cold, ..spec(20, 1) };
        assert_eq!(cold.population(1).caches, Caches::Cold);
        for wrong in [19, 1_000_001] {
            let error = spec(wrong, 1).check().unwrap_err();
            assert!(error.cure().unwrap().contains("folder_names must be from 20 to 1000000"));
        }
        spec(1_000_000, 1).check().unwrap();
    }
}
