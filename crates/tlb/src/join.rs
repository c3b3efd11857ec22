//! Which counts belong to which calls: a virtual machine's instructions are its time, and whoever measures calls reads
//! the clock at their start and end. Each of these readings is a mark ([`crate::marks`]); the call log has what was
//! read there. Both clocks run alike, so one constant lies between them, and every time in the call log must have its
//! mark at that distance, to the clock's tick.

use crate::Counts;
use crate::marks::{Mark, MarkKind};
use pocketstone_core::{Error, Result};

/// A clock that counts instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// What an instruction takes.
    pub instruction_ns: u64,
    /// Its resolution.
    pub tick_ns: u64,
}

/// What was counted during calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Joined {
    /// From the first call's start to the last one's end.
    pub run: Counts,
    /// In each call, from its start to its end: by all that the machine did meanwhile.
    pub calls: Vec<Counts>,
    /// Switches to another thread during the run.
    pub switches: u64,
}

/// Joins marks with calls, each by its start and end on the machine's clock, in any order.
///
/// # Errors
/// `ErrorKind::Board` if there is no call, if the clocks do not fit each other, or do so in several ways.
pub fn join(marks: &[Mark], calls: &[(u64, u64)], clock: Clock) -> Result<Joined> {
    let readings: Vec<&Mark> = marks.iter().filter(|m| m.kind == MarkKind::Clock).collect();
    let time = |mark: &Mark| (mark.instructions * clock.instruction_ns) as i64;
    let first = calls.iter().map(|call| call.0).min().ok_or_else(|| Error::board("no call was measured"))?;
    let last = calls.iter().map(|call| call.1).max().unwrap_or(first);
    // The reading at a time, if the constant between the clocks is `apart`.
    let find = |at_ns: u64, apart: i64| {
        let (from, tick) = (at_ns as i64 - apart - clock.tick_ns as i64, clock.tick_ns as i64);
        let index = readings.partition_point(|mark| time(mark) <= from);
        readings.get(index).filter(|mark| time(mark) < from + 2 * tick).copied()
    };
    let fits =
        |apart: &i64| calls.iter().all(|(from, to)| find(*from, *apart).is_some() && find(*to, *apart).is_some());
    let mut apart = readings.iter().map(|mark| first as i64 - time(mark)).filter(fits);
    let misfit = |why: &str| {
        let what = format!("TLB misses cannot be joined with calls: {why}");
        Error::board(what).hint("run the cell without the factor `tlb`, or report this with the cell's plan")
    };
    let Some(the) = apart.next() else { return Err(misfit("the times of the calls are not those of the machine")) };
    if apart.any(|other| the.abs_diff(other) >= 2 * clock.tick_ns) {
        return Err(misfit("their times fit several moments"));
    }
    let at = |at_ns: u64| find(at_ns, the).ok_or_else(|| misfit("a time was lost"));
    let between = |from: u64, to: u64| Ok(at(to)?.counts.since(&at(from)?.counts));
    let (begin, end) = (at(first)?.instructions, at(last)?.instructions);
    let is_switch = |m: &&Mark| m.kind == MarkKind::Switch && (begin..end).contains(&m.instructions);
    Ok(Joined {
        run: between(first, last)?,
        calls: calls.iter().map(|(from, to)| between(*from, *to)).collect::<Result<_>>()?,
        switches: marks.iter().filter(is_switch).count() as u64,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLOCK: Clock = Clock { instruction_ns: 2, tick_ns: 16 };

    fn mark(instructions: u64, kind: MarkKind) -> Mark {
        Mark {
            instructions,
            kind,
            counts: Counts { accesses: instructions, walks: instructions / 10, ..Counts::default() },
        }
    }

    /// What a clock shows that began at 5,000,003 ns and has ticks of 16 ns.
    fn shown(instructions: u64) -> u64 {
        (2 * instructions + 11) / 16 * 16 + 5_000_003
    }

    fn marks() -> Vec<Mark> {
        let clock = [100, 1000, 1500, 1720, 4000, 9000].map(|n| mark(n, MarkKind::Clock));
        let mut marks: Vec<Mark> = clock.into_iter().chain([mark(1600, MarkKind::Switch)]).collect();
        marks.sort_by_key(|m| m.instructions);
        marks.push(mark(10_000, MarkKind::End));
        marks
    }

    #[test]
    fn calls_get_what_was_counted_between_their_readings_of_the_clock() {
        let calls = [(shown(1500), shown(1720)), (shown(1000), shown(1500)), (shown(1720), shown(4000))];
        let joined = join(&marks(), &calls, CLOCK).unwrap();
        let walks: Vec<u64> = joined.calls.iter().map(|c| c.walks).collect();
        assert_eq!(walks, [22, 50, 228]);
        assert_eq!((joined.run.accesses, joined.run.walks, joined.switches), (3000, 300, 1));
    }

    #[test]
    fn a_time_without_its_reading_and_two_ways_to_fit_are_errors() {
        let late = [(shown(1000), shown(1500)), (shown(1720), shown(4000) + 32)];
        assert!(join(&marks(), &late, CLOCK).unwrap_err().chain().contains("not those of the machine"));
        let even: Vec<Mark> = [100, 200, 300].map(|n| mark(n, MarkKind::Clock)).to_vec();
        let error = join(&even, &[(shown(100), shown(200))], CLOCK).unwrap_err();
        assert!(error.chain().contains("several moments"), "{}", error.chain());
        assert!(join(&marks(), &[], CLOCK).is_err());
    }
}
