//! Which counts belong to which calls: a virtual machine's instructions are its time, and whoever measures calls reads
//! the clock at their start and end. Each of these readings is a mark ([`crate::marks`]); the call log has what was
//! read there. Both clocks run alike, so one constant lies between them, and every time in the call log must have its
//! mark at that distance, to the clock's tick.

use crate::Counts;
use crate::marks::{Mark, MarkKind};
use pocketstone_core::events::{EventKind, EventLog, Window};
use pocketstone_core::{Error, Result};

/// Resolution of the times in the kernel's trace, which is a text.
const TRACE_RESOLUTION_NS: u64 = 1000;

/// The longest time from the event of a switch to the switch: the kernel writes the event first, then changes over.
const SWITCHED_NS: u64 = 50_000;

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
    /// From the first call's start to the last one's end, on the machine's clock.
    pub window: Window,
    /// What was counted from the run's start to each switch to another thread during it, and when that was.
    pub switches: Vec<(u64, Counts)>,
}

impl Joined {
    /// What was counted in a run as a whole: of its calls, its time and its threads nothing is known.
    pub fn of_run(run: Counts) -> Joined {
        Joined { run, calls: Vec::new(), window: Window { start_ns: 0, end_ns: 0 }, switches: Vec::new() }
    }

    /// What was counted while each of the threads had the processor, in their order, and while others had it. The
    /// kernel's events say when one of them came and left. Their clock is the same.
    ///
    /// # Errors
    /// `ErrorKind::Board` if an event is no switch of the machine, or a thread leaves the processor which another one
    /// has.
    pub fn by_thread(&self, threads: &[u32], events: &EventLog) -> Result<(Vec<Counts>, Counts)> {
        let (mut own, mut others) = (vec![Counts::default(); threads.len()], Counts::default());
        let place = |thread: u32| threads.iter().position(|t| *t == thread);
        let mut add = |thread: Option<u32>, counts: Counts| match thread.and_then(place) {
            Some(place) => own[place].add(&counts),
            None => others.add(&counts),
        };
        let mut switches = self.switches.iter().peekable();
        let (mut before, mut on) = (Counts::default(), None);
        for event in events.events.iter().filter(|event| self.window.holds(event.time_ns)) {
            let EventKind::Switch { prev, next, .. } = event.kind else { continue };
            // Switches between others are in no event.
            while switches.next_if(|(at_ns, _)| at_ns + TRACE_RESOLUTION_NS < event.time_ns).is_some() {}
            let Some((_, counts)) = switches.next().filter(|(at_ns, _)| *at_ns <= event.time_ns + SWITCHED_NS) else {
                return Err(Error::board(format!("the machine made no switch from thread {prev} to {next}")));
            };
            if on.is_some_and(|on| on != prev && place(on).is_some()) {
                return Err(Error::board(format!("thread {prev} leaves the processor, which another one has")));
            }
            add(Some(prev), counts.since(&before));
            (before, on) = (*counts, Some(next));
        }
        add(on, self.run.since(&before));
        Ok((own, others))
    }
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
    let start = at(first)?.counts;
    let switch = |m: &Mark| ((time(m) + the) as u64, m.counts.since(&start));
    Ok(Joined {
        run: between(first, last)?,
        calls: calls.iter().map(|(from, to)| between(*from, *to)).collect::<Result<_>>()?,
        window: Window { start_ns: first, end_ns: last },
        switches: marks.iter().filter(is_switch).map(switch).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::events::Event;

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
        assert_eq!((joined.run.accesses, joined.run.walks, joined.switches.len()), (3000, 300, 1));
        let switch = |n: u64, prev, next| Event {
            time_ns: shown(n),
            cpu: 0,
            pid: prev,
            kind: EventKind::Switch { prev, state: b'R', next },
        };
        let log = |events: Vec<Event>| EventLog { events, ..EventLog::default() };
        // Before the run, within it right before the machine's switch, and after it.
        let events = log(vec![switch(500, 9, 7), switch(1590, 7, 8), switch(5000, 8, 9)]);
        let split = |events: &EventLog| joined.by_thread(&[7, 8], events);
        let (own, others) = split(&events).unwrap();
        assert_eq!((own[0].walks, own[1].walks, others.walks), (60, 240, 0));
        let (own, others) = joined.by_thread(&[8], &events).unwrap();
        assert_eq!((own[0].walks, others.walks), (240, 60));
        let more = log(vec![switch(1590, 7, 8), switch(1650, 8, 7)]);
        assert!(split(&more).unwrap_err().chain().contains("no switch from thread 8 to 7"));
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
