//! All that can happen, the shortest ways first.

use crate::model::{Invariant, Model, State};
use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};

/// What was found.
pub struct Explored {
    /// States that can be reached, or were before something did not hold.
    pub states: usize,
    /// What does not hold, and the steps that lead there.
    pub broken: Option<(Invariant, Vec<String>)>,
}

/// Cheap where nothing is optimised, and nobody picks the keys.
#[derive(Default)]
struct Mix(u64);

impl Hasher for Mix {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_ne_bytes(word));
        }
    }

    fn write_u8(&mut self, byte: u8) {
        self.write_u64(u64::from(byte));
    }

    fn write_u16(&mut self, value: u16) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0 ^ value).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(29);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

/// Goes through all states. What does not hold ends it.
pub fn explore(model: &Model) -> Explored {
    let start = model.start();
    let mut seen: HashSet<State, BuildHasherDefault<Mix>> = HashSet::default();
    seen.insert(start);
    // Each with where it came from.
    let mut states: Vec<(State, u32, u8)> = vec![(start, 0, 0)];
    let mut at = 0;
    while at < states.len() {
        let state = states[at].0;
        let mut broken = model.check(&state).err().map(|invariant| (invariant, None));
        if model.clients_stand_still && broken.is_none() {
            broken = match model.goes_on_without_clients(&state) {
                Ok(true) => None,
                Ok(false) => Some((Invariant::ServerWaits, None)),
                Err(invariant) => Some((invariant, None)),
            };
        }
        let (mut stuck, mut open) = (true, false);
        for p in 0..model.processes() {
            open |= !model.is_done(&state, p);
            let stepped = match model.step(&state, p) {
                Ok(stepped) => stepped,
                Err(invariant) => {
                    broken = broken.or(Some((invariant, Some(p))));
                    None
                }
            };
            stuck &= stepped.is_none();
            for next in stepped.into_iter().chain(model.die(&state, p)) {
                if seen.insert(next) {
                    states.push((next, at as u32, p as u8));
                }
            }
        }
        if stuck && open && broken.is_none() {
            broken = Some((Invariant::Deadlock, None));
        }
        if let Some((invariant, last)) = broken {
            let mut steps: Vec<String> = last.map(|p| model.describe(&state, p)).into_iter().collect();
            let mut now = at;
            while now != 0 {
                let (_, from, p) = states[now];
                steps.push(model.describe(&states[from as usize].0, p.into()));
                now = from as usize;
            }
            steps.reverse();
            return Explored { states: states.len(), broken: Some((invariant, steps)) };
        }
        at += 1;
    }
    Explored { states: states.len(), broken: None }
}
