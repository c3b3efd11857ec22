//! Cutting a board's power: what was done to its chip is done again up to an operation, which is interrupted, and a
//! fresh board says what it finds.
//!
//! One run is recorded, with all that changed the chip. As it is deterministic, the chip's contents at any of its
//! operations follow from the contents before it and those changes. That they do is checked each time: after the last
//! change they must be what was read from the board's chip.

mod block;
mod database;
mod files;

pub use block::BlockRecorded;

use crate::measured::Measured;
use pocketstone_core::chip::{CHANGES_FILE, CHIP_FILE, Change, Changed, Cut, Found, Survivor, Verdict, decode_changes};
use pocketstone_core::error::Context;
use pocketstone_core::log::Call;
use pocketstone_core::random::Random;
use pocketstone_core::{Error, Result};
use pocketstone_media::nand::{RawChip, Tear};
use pocketstone_workload::plan::{Order, Plan};
use pocketstone_workload::{Workload, database::Trace};
use std::ops::Range;
use std::sync::Arc;

/// The tracer rounds times to microseconds: what returned so close before an operation may be later than that.
const RESOLUTION_NS: u64 = 1_000;

/// What was done to a board's flash in a run, and what it held before and after.
pub trait Record: Sized {
    /// What the flash holds.
    type Contents;
    /// Names of the files with its contents, and with the log of changes.
    const FILES: [&'static str; 2];

    /// The order that reads the contents.
    fn read() -> Order;

    /// The file of the contents.
    fn encode(contents: &Self::Contents) -> Vec<u8>;

    /// Reads such a file.
    ///
    /// # Errors
    /// `ErrorKind::Board` if it is damaged.
    fn decode(file: &[u8]) -> Result<Self::Contents>;

    /// A run's record, from its log. A block device writes sectors of `sector_bytes` as a whole.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the log is damaged.
    fn of(before: Self::Contents, log: &[u8], after: Self::Contents, sector_bytes: usize) -> Result<Self>;

    /// Checks that the changes lead from the contents before to those after.
    ///
    /// # Errors
    /// `ErrorKind::Board` with the first page that differs.
    fn check(&self) -> Result<()>;

    /// When each change began.
    fn times_ns(&self) -> Vec<u64>;

    /// Indices of changes of a kind that is rare among the others and that cuts are to meet as well, ascending.
    fn rare(&self) -> Vec<usize> {
        Vec::new()
    }

    /// The contents after a cut at a time, when the first `at` changes had begun before, and the next one was
    /// `interrupted` or not; what kind that one is of; and what is left of what was not certain.
    ///
    /// # Errors
    /// `ErrorKind::Board` if a change does not fit the flash.
    fn cut(
        &self,
        at: usize,
        time_ns: u64,
        interrupted: bool,
        seed: u64,
    ) -> Result<(Self::Contents, &'static str, &'static str)>;
}

/// A run's changes of a chip, and what it held before and after them.
#[derive(Debug, Clone)]
pub struct Recorded {
    /// The chip's contents before.
    pub before: RawChip,
    /// All changes, in order.
    pub changes: Vec<Changed>,
    /// The chip's contents after, as they were read.
    pub after: RawChip,
}

impl Recorded {
    /// The chip after the first changes.
    ///
    /// # Errors
    /// `ErrorKind::Board` if the chip has no such page or block.
    pub fn chip_after(&self, changes: usize) -> Result<RawChip> {
        let mut chip = self.before.clone();
        self.changes[..changes].iter().try_for_each(|changed| apply(&mut chip, &changed.change)).map(|()| chip)
    }

    /// The chip as it is left by a cut at the change of this index, and what is left of that; at the end: whole.
    ///
    /// # Errors
    /// As [`Recorded::chip_after`].
    pub fn chip_cut(&self, at: usize, seed: u64) -> Result<(RawChip, &'static str, &'static str)> {
        let mut chip = self.chip_after(at)?;
        let (kind, tear) = match self.changes.get(at).map(|changed| &changed.change) {
            None => ("none", Ok(Tear::Nothing)),
            Some(Change::Program { page, column, bytes }) => {
                ("program", chip.interrupt_program(*page, *column, bytes, seed))
            }
            Some(Change::Erase { block }) => ("erase", chip.interrupt_erase(*block, seed)),
        };
        let left = match tear.board(|| "a recorded change does not fit the chip".into())? {
            Tear::Nothing => "nothing",
            Tear::Part(_) | Tear::Seeded(_) => "part",
            Tear::DataAlone => "data",
            Tear::SpareAlone => "spare",
            Tear::Whole => "whole",
        };
        Ok((chip, kind, left))
    }
}

impl Record for Recorded {
    type Contents = RawChip;
    const FILES: [&'static str; 2] = [CHIP_FILE, CHANGES_FILE];

    fn read() -> Order {
        Order::ReadChip
    }

    fn encode(contents: &RawChip) -> Vec<u8> {
        contents.encode()
    }

    fn decode(file: &[u8]) -> Result<RawChip> {
        RawChip::decode(file).board(|| "the board's chip is damaged".into())
    }

    fn of(before: RawChip, log: &[u8], after: RawChip, _: usize) -> Result<Recorded> {
        Ok(Recorded { before, changes: decode_changes(log)?, after })
    }

    fn check(&self) -> Result<()> {
        let replayed = self.chip_after(self.changes.len())?;
        let pages = 0..self.after.geometry().pages();
        match pages.into_iter().find(|page| replayed.page(*page) != self.after.page(*page)) {
            None => Ok(()),
            Some(page) => {
                let differ = |(a, b): (&[u8], &[u8])| a.iter().zip(b).position(|(a, b)| a != b);
                let byte = replayed.page(page).zip(self.after.page(page)).and_then(differ);
                Err(Error::board(format!(
                    "the recorded changes do not lead to what the chip holds: page {page} differs, from byte {} on",
                    byte.unwrap_or(0)
                ))
                .hint("something wrote to the chip that the probes do not see: the cuts would not be of this run"))
            }
        }
    }

    fn times_ns(&self) -> Vec<u64> {
        self.changes.iter().map(|changed| changed.time_ns).collect()
    }

    /// Erases: a block has many pages, and each is programmed for itself.
    fn rare(&self) -> Vec<usize> {
        let erase = |at: &usize| matches!(self.changes[*at].change, Change::Erase { .. });
        (0..self.changes.len()).filter(erase).collect()
    }

    fn cut(&self, at: usize, _: u64, interrupted: bool, seed: u64) -> Result<(RawChip, &'static str, &'static str)> {
        match interrupted {
            true => self.chip_cut(at, seed),
            false => Ok((self.chip_after(at)?, "none", "nothing")),
        }
    }
}

fn apply(chip: &mut RawChip, change: &Change) -> Result<()> {
    let applied = match change {
        Change::Program { page, column, bytes } => chip.program(*page, *column, bytes),
        Change::Erase { block } => chip.erase(*block),
    };
    applied.board(|| "a recorded change does not fit the chip".into())
}

/// Where to cut: `cuts` changes of `first..end`, one from each of as many equal parts, by the seed. A quarter of them
/// are `rare` ones, of equal parts of those in turn, where there are so many. Where there are fewer changes than cuts,
/// all of them, and the run's end.
fn places(first: usize, end: usize, cuts: u32, rare: &[usize], seed: u64) -> Vec<usize> {
    let (changes, cuts) = (end - first, cuts as usize);
    if changes < cuts {
        return (first..=end).take(cuts).collect();
    }
    let parts = |of: usize, parts: usize| (0..parts).map(move |n| n * of / parts..(n + 1) * of / parts);
    let one = |part: Range<usize>, random: &mut Random| part.start + random.below(part.len() as u64) as usize;
    let mut random = Random::labelled(seed, "power cuts");
    let mut places: Vec<usize> = parts(changes, cuts).map(|part| first + one(part, &mut random)).collect();
    let rare: Vec<usize> = rare.iter().copied().filter(|at| (first..end).contains(at)).collect();
    let mut random = Random::labelled(seed, "power cuts of rare changes");
    for part in parts(rare.len(), rare.len().min(cuts / 4)) {
        let at = rare[one(part, &mut random)];
        if let Some(n) = parts(changes, cuts).position(|part| part.contains(&(at - first))) {
            places[n] = at;
        }
    }
    places
}

/// Cuts the power of a recorded run; `recover` has a fresh board look at what the flash then holds.
///
/// # Errors
/// `ErrorKind::Board` if the record is not complete, or the board fails; `ErrorKind::User` for a workload whose
/// promises are not known.
pub(crate) fn cut<R: Record, E: From<Error>>(
    plan: &Plan,
    measured: &Measured,
    recorded: &R,
    trace: Option<&Arc<Trace>>,
    recover: impl Fn(&R::Contents) -> Result<(Found, Vec<Survivor>), E>,
) -> Result<Vec<Cut>, E> {
    recorded.check()?;
    let judge = Judge::of(plan, trace)?;
    let outcome = &measured.outcome;
    let times_ns = recorded.times_ns();
    let before = |ns: u64| times_ns.partition_point(|time_ns| *time_ns < ns);
    let (first, end) = (before(outcome.start_ns), before(outcome.end_ns));
    let mut cuts = Vec::new();
    for at in places(first, end, plan.power_cuts, &recorded.rare(), plan.seed) {
        let time_ns = if at == end { outcome.end_ns } else { times_ns[at] };
        let seed = Random::labelled(plan.seed, "interrupted operations").next_u64() ^ at as u64;
        let (contents, kind, left) = recorded.cut(at, time_ns, at != end, seed)?;
        let (found, survivors) = recover(&contents)?;
        let progress = Progress::at(&measured.calls, time_ns, at == end);
        let (promised, verdict) = judge.verdict(progress, &found, &survivors)?;
        let change = if at == end { 0 } else { (at - first + 1) as u64 };
        let (kind, left, returned) = (kind.into(), left.into(), progress.returned as u64);
        cuts.push(Cut { change, time_ns, kind, left, returned, promised, found, verdict });
    }
    Ok(cuts)
}

/// What a volume holds after a whole run, beside what it should; nothing was interrupted.
///
/// # Errors
/// `ErrorKind::User` for a workload of which that is not known; `ErrorKind::Board` if it cannot be looked at here.
pub(crate) fn verdict_at_the_end(
    plan: &Plan,
    measured: &Measured,
    trace: Option<&Arc<Trace>>,
    found: &Found,
    survivors: &[Survivor],
) -> Result<Verdict> {
    let progress = Progress::at(&measured.calls, measured.outcome.end_ns, true);
    Judge::of(plan, trace)?.verdict(progress, found, survivors).map(|(_, verdict)| verdict)
}

/// How far a run had come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Progress {
    /// Calls that had returned.
    returned: usize,
    /// Calls that had begun.
    begun: usize,
}

impl Progress {
    fn at(calls: &[Call], time_ns: u64, at_the_end: bool) -> Progress {
        if at_the_end {
            return Progress { returned: calls.len(), begun: calls.len() };
        }
        let returned = calls.iter().filter(|call| call.start_ns + call.latency_ns + RESOLUTION_NS <= time_ns).count();
        let begun = calls.iter().filter(|call| call.start_ns <= time_ns + RESOLUTION_NS).count();
        Progress { returned, begun }
    }
}

/// Who knows what a workload had been promised.
enum Judge {
    Files(files::History),
    Database(database::History),
}

impl Judge {
    fn of(plan: &Plan, trace: Option<&Arc<Trace>>) -> Result<Judge> {
        match (&plan.workload, trace) {
            (Workload::Database(spec), Some(trace)) => database::History::of(spec, trace).map(Judge::Database),
            (workload, _) => match workload.on_files() {
                Some(files) => files::History::of(files, plan.volume.file_system, plan.seed).map(Judge::Files),
                None => Err(Error::user("nobody knows what a command was promised")
                    .hint("omit power_cuts, or choose a workload on files or on SQLite")),
            },
        }
    }

    /// How many calls had a promise, and what became of it.
    fn verdict(&self, progress: Progress, found: &Found, survivors: &[Survivor]) -> Result<(u64, Verdict)> {
        let (promised, mut verdict) = match self {
            Judge::Files(history) => history.verdict(progress, survivors),
            Judge::Database(history) => history.verdict(progress, found, survivors)?,
        };
        if let Some(refused) = &found.refused {
            verdict.damaged = verdict.damaged.max(1);
            verdict.first = Some(refused.message.clone());
        }
        Ok((promised, verdict))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_media::nand::RawGeometry;

    #[test]
    fn places_are_one_of_each_part_and_the_end_is_one_where_there_are_few() {
        let found = places(100, 200, 10, &[], 7);
        assert!(found.iter().zip(0..).all(|(place, n)| (100 + 10 * n..110 + 10 * n).contains(place)), "{found:?}");
        assert_eq!(found, places(100, 200, 10, &[], 7));
        assert_ne!(found, places(100, 200, 10, &[], 8));
        assert_eq!(places(5, 7, 10, &[6], 1), [5, 6, 7]);
        assert_eq!(places(5, 5, 3, &[], 1), [5]);
        assert_eq!(places(5, 8, 3, &[], 1), [5, 6, 7]);
    }

    #[test]
    fn a_quarter_of_the_cuts_are_of_rare_changes_where_there_are_so_many() {
        let without = places(100, 200, 8, &[], 7);
        // 3 and 200 are not of the run.
        let rare = [3, 110, 140, 172, 200];
        let found = places(100, 200, 8, &rare, 7);
        assert!(found.is_sorted() && found.len() == 8, "{found:?}");
        assert!(found.contains(&110) && (found.contains(&140) || found.contains(&172)), "{found:?}");
        assert_eq!(found.iter().filter(|at| rare.contains(at)).count(), 2, "{found:?}");
        assert_eq!(found.iter().filter(|at| without.contains(at)).count(), 6, "{found:?} {without:?}");
        assert!(places(100, 200, 8, &[150], 7).contains(&150));
        assert_eq!(places(100, 200, 3, &rare, 7), places(100, 200, 3, &[], 7));
    }

    #[test]
    fn a_call_that_returned_within_the_clocks_resolution_had_not_returned_for_certain() {
        let call = |start_ns, latency_ns| Call { start_ns, latency_ns, intended_ns: start_ns };
        let calls = [call(0, 1_000), call(2_000, 3_000), call(6_000, 100)];
        let at = |time_ns| Progress::at(&calls, time_ns, false);
        assert_eq!(at(2_000), Progress { returned: 1, begun: 2 });
        assert_eq!(at(5_999), Progress { returned: 1, begun: 3 });
        assert_eq!(at(6_000), Progress { returned: 2, begun: 3 });
        assert_eq!(Progress::at(&calls, 0, true), Progress { returned: 3, begun: 3 });
    }

    #[test]
    fn changes_that_do_not_lead_to_the_chip_are_refused() {
        let geometry = RawGeometry { page_bytes: 8, oob_bytes: 2, pages_per_block: 2, blocks: 2 };
        let before = RawChip::new(geometry);
        let mut after = before.clone();
        after.program(1, 0, &[1, 2]).unwrap();
        let program = |bytes: &[u8]| Changed {
            time_ns: 0,
            change: Change::Program { page: 1, column: 0, bytes: bytes.to_vec() },
        };
        let recorded =
            |changes: Vec<Changed>| Recorded { before: before.clone(), changes, after: after.clone() }.check();
        recorded(vec![program(&[1, 2])]).unwrap();
        let erase = Changed { time_ns: 0, change: Change::Erase { block: 0 } };
        recorded(vec![program(&[0]), erase.clone(), program(&[1, 2])]).unwrap();
        let wrong = recorded(vec![program(&[1, 3])]).unwrap_err();
        assert!(wrong.to_string().contains("page 1 differs, from byte 1 on"), "{wrong}");
        assert!(recorded(vec![program(&[1, 2]), erase]).is_err() && recorded(Vec::new()).is_err());
        let beyond = Changed { time_ns: 0, change: Change::Erase { block: 2 } };
        assert!(recorded(vec![beyond]).is_err());
    }
}
