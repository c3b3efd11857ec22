//! The memory that the connections to a database in WAL mode share: the index of the WAL, and its locks.

use crate::locks::Busy;
use libsqlite3_sys::SQLITE_SHM_NLOCK;
use std::cell::UnsafeCell;
use std::sync::{Mutex, MutexGuard};

const SLOTS: usize = SQLITE_SHM_NLOCK as usize;

#[derive(Default)]
pub(crate) struct Shm(Mutex<State>);

#[derive(Default)]
struct State {
    regions: Vec<Region>,
    users: usize,
    shared: [usize; SLOTS],
    exclusive: [bool; SLOTS],
}

/// Words, so that they are aligned.
struct Region(Box<[UnsafeCell<u64>]>);

// SAFETY: the bytes are reached by the pointers that SQLite gets alone, and by its rules for them (locks and barriers).
unsafe impl Send for Region {}

/// What a connection holds: a bit for each slot.
#[derive(Default)]
pub(crate) struct User {
    mapped: bool,
    shared: u8,
    exclusive: u8,
}

impl Shm {
    fn state(&self) -> MutexGuard<'_, State> {
        // Every change leaves it whole.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// The region `number` of `bytes` bytes, made of zeros if `extend`. It stays where it is until its last
    /// user leaves.
    pub fn map(&self, user: &mut User, number: usize, bytes: usize, extend: bool) -> Option<*mut u8> {
        let mut state = self.state();
        if !user.mapped {
            user.mapped = true;
            state.users += 1;
        }
        while extend && state.regions.len() <= number {
            state.regions.push(Region((0..bytes.div_ceil(8)).map(|_| UnsafeCell::new(0)).collect()));
        }
        state.regions.get(number).map(|region| region.0.as_ptr().cast_mut().cast())
    }

    /// Takes the slots of a range, shared or exclusively.
    pub fn lock(&self, user: &mut User, slots: std::ops::Range<usize>, exclusive: bool) -> Result<(), Busy> {
        let mut state = self.state();
        let mask = mask(&slots);
        let taken = |slot: usize| {
            let own = usize::from(user.shared >> slot & 1 == 1);
            let others = state.exclusive[slot] && user.exclusive >> slot & 1 == 0;
            others || exclusive && state.shared[slot] > own
        };
        if slots.clone().any(taken) {
            return Err(Busy);
        }
        if exclusive {
            slots.for_each(|slot| state.exclusive[slot] = true);
            user.exclusive |= mask;
        } else if user.shared & mask == 0 {
            slots.for_each(|slot| state.shared[slot] += 1);
            user.shared |= mask;
        }
        Ok(())
    }

    /// Gives the slots of a range back.
    pub fn unlock(&self, user: &mut User, slots: std::ops::Range<usize>) {
        let mut state = self.state();
        for slot in slots.clone() {
            if user.shared >> slot & 1 == 1 {
                state.shared[slot] -= 1;
            }
            if user.exclusive >> slot & 1 == 1 {
                state.exclusive[slot] = false;
            }
        }
        user.shared &= !mask(&slots);
        user.exclusive &= !mask(&slots);
    }

    /// Leaves. With the last user the memory is forgotten: the next one makes the index anew from the WAL.
    pub fn unmap(&self, user: &mut User) {
        self.unlock(user, 0..SLOTS);
        if std::mem::take(&mut user.mapped) {
            let mut state = self.state();
            state.users -= 1;
            if state.users == 0 {
                state.regions.clear();
            }
        }
    }
}

fn mask(slots: &std::ops::Range<usize>) -> u8 {
    slots.clone().fold(0, |mask, slot| mask | 1 << slot)
}
