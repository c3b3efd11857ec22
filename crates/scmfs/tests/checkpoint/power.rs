//! Losses of power while checkpoints are taken, and targets that are full.

use super::{Files, options, restored, tracked};
use crate::support::{amount, seed};
use pocketstone_random::Random;
use pocketstone_scmfs::checkpoint::{Checkpoints, Folder, Input, Output};
use pocketstone_scmfs::{Meta, Operations, ROOT, Rename, Volume};
use std::collections::{BTreeMap, HashMap};
use std::io::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex};

/// What was asked of a folder.
#[derive(Clone)]
pub(super) enum Step {
    Create(String, usize),
    Write(usize, u64, Vec<u8>),
    SyncFile(usize),
    Rename(String, String),
    Remove(String),
    Sync,
}

/// Names and contents, as they are without a loss.
#[derive(Default)]
struct State {
    names: BTreeMap<String, usize>,
    contents: Vec<Vec<u8>>,
    steps: Vec<Step>,
    /// So many bytes more can be written.
    room: Option<usize>,
}

fn put(content: &mut Vec<u8>, at: u64, bytes: &[u8]) {
    let end = at as usize + bytes.len();
    content.resize(content.len().max(end), 0);
    content[at as usize..end].copy_from_slice(bytes);
}

impl State {
    fn name(&mut self, step: &Step) {
        match step {
            Step::Create(name, file) => drop(self.names.insert(name.clone(), *file)),
            Step::Rename(from, to) => {
                let file = self.names.remove(from).unwrap();
                self.names.insert(to.clone(), file);
            }
            Step::Remove(name) => drop(self.names.remove(name)),
            Step::Write(..) | Step::SyncFile(_) | Step::Sync => {}
        }
    }
}

/// A folder in memory that remembers what was asked of it.
#[derive(Clone, Default)]
pub(super) struct Recorded(Arc<Mutex<State>>);

struct Open(Recorded, usize);

impl Recorded {
    /// What a loss of power after so many steps may leave: what was synced, of the names any beginning of what came
    /// later, of the contents any part.
    fn lost_after(&self, steps: usize, random: &mut Random) -> Recorded {
        let state = self.0.lock().unwrap();
        let steps = &state.steps[..steps];
        let mut left = State { contents: vec![Vec::new(); state.contents.len()], ..State::default() };
        let last_sync = steps.iter().rposition(|step| matches!(step, Step::Sync)).map_or(0, |at| at + 1);
        let named = last_sync + random.below((steps.len() - last_sync) as u64 + 1) as usize;
        steps[..named].iter().for_each(|step| left.name(step));
        let mut synced = HashMap::new();
        for (number, step) in steps.iter().enumerate() {
            if let Step::SyncFile(file) = step {
                synced.insert(*file, number);
            }
        }
        for (number, step) in steps.iter().enumerate() {
            let Step::Write(file, at, bytes) = step else { continue };
            if synced.get(file).is_some_and(|synced| number < *synced) {
                put(&mut left.contents[*file], *at, bytes);
            } else if random.below(2) == 0 {
                let part = random.below(bytes.len() as u64 + 1) as usize;
                put(&mut left.contents[*file], *at, &bytes[..part]);
            }
        }
        Recorded(Arc::new(Mutex::new(left)))
    }

    /// A folder without names, whose files have what is in this one's.
    pub(super) fn with_its_contents(&self) -> Recorded {
        let contents = self.0.lock().unwrap().contents.clone();
        Recorded(Arc::new(Mutex::new(State { contents, ..State::default() })))
    }

    /// Does to the names what a step does.
    pub(super) fn name(&self, step: &Step) {
        self.0.lock().unwrap().name(step);
    }

    fn step(&self, step: Step) {
        self.name(&step);
        self.0.lock().unwrap().steps.push(step);
    }

    pub(super) fn steps(&self) -> Vec<Step> {
        self.0.lock().unwrap().steps.clone()
    }

    pub(super) fn done(&self) -> usize {
        self.0.lock().unwrap().steps.len()
    }
}

impl Folder for Recorded {
    fn names(&self) -> Result<Vec<String>> {
        Ok(self.0.lock().unwrap().names.keys().cloned().collect())
    }

    fn create(&self, name: &str) -> Result<Box<dyn Output>> {
        let file = {
            let mut state = self.0.lock().unwrap();
            state.contents.push(Vec::new());
            state.contents.len() - 1
        };
        self.step(Step::Create(name.into(), file));
        Ok(Box::new(Open(self.clone(), file)))
    }

    fn open(&self, name: &str) -> Result<Box<dyn Input>> {
        let file = *self.0.lock().unwrap().names.get(name).ok_or(Error::from(ErrorKind::NotFound))?;
        Ok(Box::new(Open(self.clone(), file)))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.step(Step::Rename(from.into(), to.into()));
        Ok(())
    }

    fn remove(&self, name: &str) -> Result<()> {
        self.step(Step::Remove(name.into()));
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.step(Step::Sync);
        Ok(())
    }
}

impl Output for Open {
    fn write_all_at(&self, from: &[u8], at: u64) -> Result<()> {
        {
            let mut state = self.0.0.lock().unwrap();
            if let Some(room) = &mut state.room {
                *room = room.checked_sub(from.len()).ok_or(Error::from(ErrorKind::StorageFull))?;
            }
            put(&mut state.contents[self.1], at, from);
        }
        self.0.step(Step::Write(self.1, at, from.to_vec()));
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.0.step(Step::SyncFile(self.1));
        Ok(())
    }
}

impl Input for Open {
    fn bytes(&self) -> Result<u64> {
        Ok(self.0.0.lock().unwrap().contents[self.1].len() as u64)
    }

    fn read_exact_at(&self, into: &mut [u8], at: u64) -> Result<()> {
        let state = self.0.0.lock().unwrap();
        let from = state.contents[self.1].get(at as usize..at as usize + into.len());
        into.copy_from_slice(from.ok_or(Error::from(ErrorKind::UnexpectedEof))?);
        Ok(())
    }
}

/// A few changes, in the volume and in what is known of it.
pub(super) fn change(volume: &Volume, files: &mut Files, random: &mut Random) {
    for _ in 0..1 + random.below(6) {
        let name = format!("f{}", random.below(6));
        let open = |name: &str| volume.open(volume.lookup(ROOT, name.as_bytes()).unwrap().ino).unwrap();
        match (random.below(6), files.contains_key(&name)) {
            (0, true) => {
                volume.unlink(ROOT, name.as_bytes()).unwrap();
                files.remove(&name);
            }
            (1, true) => {
                let to = format!("f{}", random.below(6));
                volume.rename(ROOT, name.as_bytes(), ROOT, to.as_bytes(), Rename::Replace).unwrap();
                let content = files.remove(&name).unwrap();
                files.insert(to, content);
            }
            (2, true) => {
                let size = random.below(200_000);
                open(&name).truncate(size).unwrap();
                files.get_mut(&name).unwrap().resize(size as usize, 0);
            }
            (_, true) => {
                let mut bytes = vec![0; 1 + random.below(9000) as usize];
                random.fill(&mut bytes);
                let at = random.below(150_000);
                open(&name).write_at(&bytes, at).unwrap();
                put(files.get_mut(&name).unwrap(), at, &bytes);
            }
            (_, false) => {
                drop(volume.create_file(ROOT, name.as_bytes(), &Meta::file(0o600)).unwrap());
                files.insert(name, Vec::new());
            }
        }
    }
}

#[test]
fn a_loss_of_power_leaves_the_last_checkpoint_or_the_one_before() {
    let seed = seed(22);
    let mut random = Random::labelled(seed, "checkpoints");
    let (volume, _) = tracked(&options(), false);
    let folder = Recorded::default();
    let mut series = Checkpoints::in_folder(Box::new(folder.clone()), 2).unwrap();
    let (mut files, mut taken) = (Files::new(), vec![(0, Files::new())]);
    while taken.len() < 40 {
        change(&volume, &mut files, &mut random);
        assert_eq!(volume.checkpoint(&mut series).unwrap().trouble, None);
        taken.push((folder.done(), files.clone()));
    }
    let mut none = 0;
    for cut in 0..amount(20, 200) {
        let steps = random.below(folder.done() as u64 + 1) as usize;
        let left = folder.lost_after(steps, &mut random);
        // Those that had returned are there.
        let whole = taken.iter().rposition(|(end, _)| *end <= steps).unwrap();
        match restored(&left, None) {
            Ok((generation, found)) => {
                assert!((whole..=whole + 1).contains(&(generation as usize)), "seed {seed}, cut {cut}: {generation}");
                assert_eq!(found, taken[generation as usize].1, "seed {seed}, cut {cut}");
            }
            Err(error) => {
                assert_eq!(whole, 0, "seed {seed}, cut {cut}: {error}");
                assert!(error.contains("no checkpoint") || error.contains("cut short"), "{error}");
                none += 1;
            }
        }
    }
    assert!(none <= amount(20, 200) / 2, "most of the cuts have something to find");
}

#[test]
fn a_full_target_keeps_what_it_has_and_the_next_one_has_all() {
    let mut random = Random::labelled(seed(5), "full");
    let (volume, _) = tracked(&options(), false);
    let folder = Recorded::default();
    let mut series = Checkpoints::in_folder(Box::new(folder.clone()), 1).unwrap();
    let (mut files, mut kept) = (Files::new(), Files::new());
    let mut refused = 0;
    for round in 0..60 {
        change(&volume, &mut files, &mut random);
        folder.0.lock().unwrap().room = (round > 0 && round % 3 > 0).then(|| random.below(60_000) as usize);
        match volume.checkpoint(&mut series) {
            Ok(_) => kept = files.clone(),
            Err(error) => {
                let text = pocketstone_scmfs::vfs::chain(&error);
                assert!(text.contains("the target is full"), "{text}");
                refused += 1;
            }
        }
        assert!(folder.names().unwrap().iter().all(|name| !name.ends_with(".part")));
        assert_eq!(restored(&folder, None).unwrap().1, kept, "round {round}");
    }
    assert!(refused > 5, "{refused} of 60 found no room");
}
