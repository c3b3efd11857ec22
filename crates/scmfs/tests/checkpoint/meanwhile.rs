//! Targets that are read while checkpoints are taken there.

use super::power::{Recorded, Step, change};
use super::{Files, options, restored, tracked};
use crate::support::{amount, seed};
use pocketstone_random::Random;
use pocketstone_scmfs::checkpoint::{Checkpoints, Folder, Input, Output, verify};
use pocketstone_scmfs::vfs::chain;
use std::collections::BTreeSet;
use std::io::Result;
use std::sync::Mutex;

/// What was done to a folder, done again: some of it each time before something is asked of it.
struct Played {
    folder: Recorded,
    steps: Vec<Step>,
    /// How much of it was done.
    done: Mutex<usize>,
    /// Steps that are done each time, at most.
    pace: u64,
    random: Mutex<Random>,
}

impl Played {
    /// `steps` of what was done to `folder`, of which the first `done` were done already.
    fn new(folder: &Recorded, steps: &[Step], done: usize, pace: u64, random: Random) -> Played {
        let played = Played {
            folder: folder.with_its_contents(),
            steps: steps.to_vec(),
            done: Mutex::new(0),
            pace,
            random: Mutex::new(random),
        };
        played.goes_on(done);
        played
    }

    fn goes_on(&self, steps: usize) {
        let mut done = self.done.lock().unwrap();
        let until = self.steps.len().min(*done + steps);
        self.steps[*done..until].iter().for_each(|step| self.folder.name(step));
        *done = until;
    }

    fn goes_on_at_random(&self) {
        let steps = self.random.lock().unwrap().below(self.pace + 1);
        self.goes_on(steps as usize);
    }
}

impl Folder for Played {
    fn names(&self) -> Result<Vec<String>> {
        self.goes_on_at_random();
        self.folder.names()
    }

    fn open(&self, name: &str) -> Result<Box<dyn Input>> {
        self.goes_on_at_random();
        self.folder.open(name)
    }

    fn create(&self, _: &str) -> Result<Box<dyn Output>> {
        unreachable!("it is read")
    }

    fn rename(&self, _: &str, _: &str) -> Result<()> {
        unreachable!("it is read")
    }

    fn remove(&self, _: &str) -> Result<()> {
        unreachable!("it is read")
    }

    fn sync(&self) -> Result<()> {
        unreachable!("it is read")
    }
}

#[test]
fn whoever_reads_a_target_while_checkpoints_are_taken_there_finds_all_of_them_whole() {
    let seed = seed(23);
    let mut random = Random::labelled(seed, "meanwhile");
    let (volume, _) = tracked(&options(), false);
    let folder = Recorded::default();
    let (mut files, mut taken) = (Files::new(), vec![(0, Files::new())]);
    for keep in [1, 3, 2] {
        let mut series = Checkpoints::in_folder(Box::new(folder.clone()), keep).unwrap();
        for _ in 0..15 {
            change(&volume, &mut files, &mut random);
            assert_eq!(volume.checkpoint(&mut series).unwrap().trouble, None);
            taken.push((folder.done(), files.clone()));
        }
    }
    let steps = folder.steps();
    let is_removed = |at: &usize| matches!(steps[*at], Step::Remove(_));
    let removed: Vec<usize> = (0..steps.len()).filter(is_removed).collect();
    assert!(removed.len() > 20, "{} were removed", removed.len());
    let first = taken[1].0;
    let mut verified = BTreeSet::new();
    for round in 0..amount(300, 3000) {
        let anywhere = first + random.below((steps.len() - first) as u64) as usize;
        let begin = if round % 2 == 0 { anywhere } else { removed[random.below(removed.len() as u64) as usize] };
        let pace = [0, 1, 3, 40][random.below(4) as usize];
        let played = || Played::new(&folder, &steps, begin, pace, Random::new(round));
        let all = verify(&played()).unwrap();
        assert!(!all.is_empty(), "seed {seed}, round {round}");
        for (generation, found) in all {
            let found = found.unwrap_or_else(|error| panic!("seed {seed}, round {round}: {}", chain(&error)));
            assert_eq!(found.generation, generation);
            verified.insert(generation);
        }
        let least = taken.iter().rposition(|(end, _)| *end <= begin).unwrap() as u64;
        let (generation, found) = restored(&played(), None).unwrap_or_else(|error| panic!("round {round}: {error}"));
        assert!(generation >= least, "round {round}: {generation}");
        assert_eq!(found, taken[generation as usize].1, "seed {seed}, round {round}");
    }
    assert!(verified.len() > 20, "{verified:?}");
}
