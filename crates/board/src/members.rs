//! The machines that a board is made of: one, or several equal ones that share the work.

use crate::transport::{Transport, tried};
use crate::{BoardContext, Failed};
use pocketstone_core::board::BoardDescription;
use pocketstone_core::outcome::Facts;
use pocketstone_core::{Error, Result};
use std::collections::VecDeque;
use std::ops::Deref;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Facts in which machines must agree that share work, beside those of their raw flash: what is measured depends on
/// them.
const EQUAL: [&str; 5] = ["kernel.release", "machine", "cpu", "cpus", "page_bytes"];
/// How far their memories may differ, which is what firmware keeps for itself.
const MEMORY_TOLERANCE: f64 = 0.01;
/// Facts that are of one machine whatever others say.
const OWN: [&str; 4] = ["board.name", "board.host", "board.place", "board.serial"];
/// How often a user's Ctrl-C is looked for while all machines are busy.
const LOOK: Duration = Duration::from_millis(100);

/// A machine, and the way to it.
pub struct Member {
    /// The way to it.
    pub transport: Box<dyn Transport>,
    /// Its capabilities and locations.
    pub description: BoardDescription,
    /// Facts about it that others of the same board do not share, or need not.
    pub own: Facts,
}

/// All machines of a board.
pub struct Members {
    all: Vec<Member>,
    turns: Mutex<Turns>,
    /// A turn has come back.
    back: Condvar,
}

/// What of the machines is free.
struct Turns {
    /// A number of a machine for each cell that may be measured there.
    free: VecDeque<usize>,
    /// How many machines have not been left out.
    left: usize,
}

/// A machine that is in use, until this is dropped.
pub struct Turn<'a> {
    members: &'a Members,
    index: usize,
}

impl Members {
    /// Asks machines for their facts; those in which all agree are returned.
    ///
    /// # Errors
    /// `ErrorKind::Board` if one does not answer, or several are not equal.
    pub fn new(transports: Vec<Box<dyn Transport>>) -> Result<(Members, Facts)> {
        let mut all = Vec::new();
        for transport in transports {
            let (description, own) = (transport.describe(), tried(&*transport, || transport.facts())?.0);
            all.push(Member { transport, description, own });
        }
        let facts: Vec<&Facts> = all.iter().map(|member| &member.own).collect();
        let common = common(&facts)?;
        let alone = all.len() == 1;
        for member in &mut all {
            member.own.retain(|name, value| OWN.contains(&&**name) || common.get(name) != Some(value));
        }
        let common = common.into_iter().filter(|(name, _)| alone || !OWN.contains(&&**name)).collect();
        let turns = |(index, member): (usize, &Member)| vec![index; member.description.capabilities.parallel.max(1)];
        let free = all.iter().enumerate().flat_map(turns).collect();
        let turns = Mutex::new(Turns { free, left: all.len() });
        Ok((Members { all, turns, back: Condvar::new() }, common))
    }

    /// The machine that is asked what holds for all.
    pub fn first(&self) -> &Member {
        &self.all[0]
    }

    /// How many cells are measured at once.
    pub fn parallel(&self) -> usize {
        self.all.iter().map(|member| member.description.capabilities.parallel.max(1)).sum()
    }

    /// Waits for a machine that is free.
    ///
    /// # Errors
    /// `ErrorKind::Board` with `lost` set if none is left; `ErrorKind::Interrupted`.
    pub fn take(&self, context: &BoardContext) -> Result<Turn<'_>, Failed> {
        let mut turns = self.turns();
        loop {
            if turns.left == 0 {
                let error = Error::board("all boards were lost").hint("go on once one is back: run --resume DIR");
                return Err(Failed { lost: true, ..error.into() });
            }
            if let Some(index) = turns.free.pop_front() {
                return Ok(Turn { members: self, index });
            }
            context.check()?;
            turns = self.back.wait_timeout(turns, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn turns(&self) -> MutexGuard<'_, Turns> {
        self.turns.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Turn<'_> {
    /// Lets nobody take this machine any more; whether others are left.
    pub fn leave_out(self) -> bool {
        let left = {
            let mut turns = self.members.turns();
            turns.left = turns.left.saturating_sub(1);
            turns.left
        };
        // Its turn does not come back.
        std::mem::forget(self);
        left > 0
    }
}

impl Deref for Turn<'_> {
    type Target = Member;

    fn deref(&self) -> &Member {
        &self.members.all[self.index]
    }
}

impl Drop for Turn<'_> {
    fn drop(&mut self) {
        self.members.turns().free.push_back(self.index);
        self.members.back.notify_one();
    }
}

/// A fact in which two machines differ that could not stand in for each other, if any.
pub fn another_kind(first: &Facts, other: &Facts) -> Option<&'static str> {
    let memory = [first, other].map(|facts| facts.get("memory").and_then(|text| kb(text)));
    let different = EQUAL.into_iter().find(|fact| first.get(*fact) != other.get(*fact));
    different.or(match memory {
        [Some(a), Some(b)] if (a - b).abs() > MEMORY_TOLERANCE * a => Some("memory"),
        _ => None,
    })
}

/// The facts in which all machines agree.
fn common(facts: &[&Facts]) -> Result<Facts> {
    let Some((first, others)) = facts.split_first() else { return Err(Error::bug("a board of no machine")) };
    let name = |facts: &Facts| facts.get("board.name").cloned().unwrap_or_default();
    for other in others {
        let of_flash = |name: &&String| name.starts_with("mtd");
        let mut flash = first.keys().chain(other.keys()).filter(of_flash).map(String::as_str);
        let different = another_kind(first, other).or_else(|| flash.find(|fact| first.get(*fact) != other.get(*fact)));
        if let Some(fact) = different {
            let said = |facts: &Facts| facts.get(fact).cloned().unwrap_or_else(|| "nothing".into());
            let (one, two) = (format!("{}: {}", name(first), said(first)), format!("{}: {}", name(other), said(other)));
            return Err(Error::board(format!("the boards differ in `{fact}` ({one}; {two})"))
                .hint("a pool is of equal boards; run the study on each kind by itself, and compare the runs"));
        }
    }
    let agreed = |(name, value): &(&String, &String)| others.iter().all(|other| other.get(*name) == Some(value));
    Ok(first.iter().filter(agreed).map(|(name, value)| (name.clone(), value.clone())).collect())
}

/// `1000 kB`, as /proc/meminfo has it.
fn kb(text: &str) -> Option<f64> {
    text.strip_suffix("kB")?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Cache;
    use std::sync::Arc;

    fn facts(pairs: &[(&str, &str)]) -> Facts {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn who_waits_for_a_machine_hears_that_none_is_left() {
        let home = tempfile::tempdir().unwrap();
        let cache = Cache::at(home.path()).unwrap();
        let context = &BoardContext::uninterrupted(cache, "/nowhere".into(), Arc::new(|_| {}));
        let turns = Mutex::new(Turns { free: [0, 1].into(), left: 2 });
        let members = &Members { all: Vec::new(), turns, back: Condvar::new() };
        let [one, two] = [(); 2].map(|()| members.take(context).unwrap_or_else(|e| panic!("{}", e.error)));
        std::thread::scope(|scope| {
            let waits = scope.spawn(move || members.take(context).err());
            assert!(one.leave_out());
            assert!(!two.leave_out());
            assert!(waits.join().unwrap().is_some_and(|failed| failed.lost));
        });
    }

    #[test]
    fn boards_that_differ_in_what_is_measured_are_refused() {
        let board = |name, memory, mtd| {
            facts(&[("board.name", name), ("machine", "armv7l"), ("memory", memory), ("mtd0", mtd), ("time", name)])
        };
        let a = board("a", "100000 kB", "data: size 1");
        assert_eq!(common(&[&a]).unwrap(), a);
        let agreed = common(&[&a, &board("b", "100500 kB", "data: size 1")]).unwrap();
        assert_eq!(agreed, facts(&[("machine", "armv7l"), ("mtd0", "data: size 1")]));
        for (other, fact) in
            [(board("b", "90000 kB", "data: size 1"), "`memory`"), (board("b", "100000 kB", "data: size 2"), "`mtd0`")]
        {
            let error = common(&[&a, &other]).unwrap_err();
            assert!(error.chain().contains(fact) && error.chain().contains("b: "), "{}", error.chain());
        }
        let mut no_flash = board("b", "100000 kB", "");
        no_flash.remove("mtd0");
        assert!(common(&[&a, &no_flash]).unwrap_err().chain().contains("b: nothing"));
    }
}
