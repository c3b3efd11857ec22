//! Enumerating what a loss of power leaves, fence by fence.

use super::{BULK_LINES, Event, Trace};
use pocketstone_random::{Random, mix};
use std::collections::{BTreeMap, HashSet};
use std::ops::ControlFlow;

const LINE: usize = crate::LINE_BYTES as usize;

/// How far to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many lines (or pieces of bulk data) at a time differ from all the others.
    pub max_lines: usize,
    /// How many combinations to try at each fence, drawn at random when there are more; `None` tries
    /// all.
    pub max_states_per_fence: Option<usize>,
    /// What the random numbers start from.
    pub seed: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { max_lines: 2, max_states_per_fence: None, seed: 0 }
    }
}

/// How much was explored.
#[non_exhaustive]
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Explored {
    /// Moments at which the power was cut: fences, and the end.
    pub moments: usize,
    /// Images handed to the visitor.
    pub states: usize,
    /// At how many moments combinations were drawn, instead of tried in full.
    pub sampled: usize,
}

/// What a crash leaves.
#[non_exhaustive]
#[derive(Debug)]
pub struct CrashState<'a> {
    /// The contents of the medium.
    pub image: &'a [u8],
    /// How many fences had taken effect.
    pub fence: usize,
    /// The last mark before the crash.
    pub last_mark: Option<u64>,
    /// The last mark before the last [`Event::Sync`].
    pub synced_mark: Option<u64>,
    pub(super) pattern: Pattern<'a>,
}

#[derive(Debug)]
pub(super) enum Pattern<'a> {
    /// Only what was durable, but for these.
    Only(&'a [Choice], usize),
    /// Everything stored, but for these.
    AllBut(&'a [Choice], usize),
    /// Pages of this many bytes as at random moments since the last sync; so many of them older.
    Pages { bytes: usize, event: usize, older: usize },
}

/// A line, or a span of bulk data, and how much of what is pending in it has persisted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Choice {
    unit: usize,
    level: usize,
    at: usize,
    bytes: usize,
    of: usize,
}

impl CrashState<'_> {
    /// Where the power was cut and what had persisted, for a test's message.
    pub fn describe(&self) -> String {
        let mark = self.last_mark.map_or(String::new(), |mark| format!(" (after mark {mark})"));
        let list = |chosen: &[Choice]| {
            let part = |c: &Choice| match (c.bytes > LINE, c.level) {
                (true, 0) => format!("nothing of the bulk data {:#x}+{}", c.at, c.bytes),
                (true, 1) => format!("the first half of the bulk data {:#x}+{}", c.at, c.bytes),
                (true, _) => format!("the bulk data {:#x}+{}", c.at, c.bytes),
                (false, n) => format!("{n} of the {} stores to line {:#x}", c.of, c.at),
            };
            chosen.iter().map(part).collect::<Vec<_>>().join(" and ")
        };
        let what = match self.pattern {
            Pattern::Only([], lines) => format!("none of {lines} pending lines persisted"),
            Pattern::AllBut([], lines) => format!("all {lines} pending lines persisted"),
            Pattern::Only(chosen, lines) => format!("of {lines} pending lines persisted only {}", list(chosen)),
            Pattern::AllBut(chosen, lines) => {
                format!("all {lines} pending lines persisted, except {}", list(chosen))
            }
            Pattern::Pages { bytes, event, older } => {
                return format!("event {event}{mark}: {older} pages of {bytes} bytes are older than the crash");
            }
        };
        format!("after {} fences{mark}: {what}", self.fence)
    }
}

/// The pending stores of one line.
struct Line {
    /// The durable contents, then those after each step.
    shots: Vec<[u8; LINE]>,
    /// What each of them adds to the image's hash.
    hashes: Vec<u64>,
    /// Whether the step that led to each is part of bulk data.
    bulk: Vec<bool>,
    /// Steps that were made durable before, so that step numbers stay the same.
    retired: usize,
    /// Up to which step (counted from the very first) a fence makes the line durable.
    covered: usize,
    /// Which shot the state at hand has, if it is the one of this number.
    level: usize,
    state: usize,
}

impl Line {
    fn steps(&self) -> usize {
        self.shots.len() - 1
    }
}

/// Bulk data: for every line it touches, its step there (counted from the line's very first).
struct Bulk {
    lines: Vec<(usize, usize)>,
}

#[derive(Clone, Copy)]
enum Unit {
    Line(usize),
    Bulk(usize),
}

struct Explorer<'a> {
    visit: &'a mut dyn FnMut(&CrashState) -> ControlFlow<()>,
    limits: Limits,
    bytes: usize,
    /// What is durable, and what the processor sees; both padded to whole lines.
    durable: Vec<u8>,
    current: Vec<u8>,
    durable_hash: u64,
    current_hash: u64,
    pending: BTreeMap<usize, Line>,
    bulks: Vec<Bulk>,
    /// Hashes of the images shown since the last mark.
    seen: HashSet<u64>,
    /// Numbers the states that are tried, so that lines know which one their level belongs to.
    state: usize,
    fence: usize,
    last_mark: Option<u64>,
    synced_mark: Option<u64>,
    explored: Explored,
}

impl Trace {
    /// Shows `visit` what a crash could have left: just before every fence and at the end, what was
    /// durable then; that and every choice of up to `max_lines` pending lines, each with every prefix
    /// of its stores; everything stored; and that without every choice of up to `max_lines` lines.
    ///
    /// Images that were seen already are left out, unless a mark came between: what a test expects
    /// of the same image may then be more.
    pub fn crash_states(&self, limits: &Limits, visit: &mut dyn FnMut(&CrashState) -> ControlFlow<()>) -> Explored {
        let mut durable = self.image.clone();
        durable.resize(durable.len().next_multiple_of(LINE), 0);
        let mut explorer = Explorer {
            visit,
            limits: *limits,
            bytes: self.image.len(),
            current: durable.clone(),
            durable,
            // Hashes are sums over lines; where the sum starts does not matter.
            durable_hash: 0,
            current_hash: 0,
            pending: BTreeMap::new(),
            bulks: Vec::new(),
            seen: HashSet::new(),
            state: 0,
            fence: 0,
            last_mark: None,
            synced_mark: None,
            explored: Explored::default(),
        };
        let done = self.events.iter().try_for_each(|event| explorer.event(event));
        if done.is_continue() {
            let _ = explorer.crash();
        }
        explorer.explored
    }
}

impl Explorer<'_> {
    fn event(&mut self, event: &Event) -> ControlFlow<()> {
        match event {
            Event::Store { at, bytes, streamed } => self.store(*at as usize, bytes, *streamed),
            Event::Flush { at, bytes } => {
                let (first, end) = (*at as usize / LINE, (*at + *bytes).div_ceil(LINE as u64) as usize);
                let last = if *bytes == 0 { first } else { end };
                for line in self.pending.range_mut(first..last) {
                    line.1.covered = line.1.retired + line.1.steps();
                }
            }
            Event::Fence => {
                self.crash()?;
                self.retire();
                self.fence += 1;
            }
            // Nothing on power-safe media: the model's fences have done it all.
            Event::Sync => self.synced_mark = self.last_mark,
            Event::Mark(label) => {
                self.last_mark = Some(*label);
                self.seen.clear();
            }
        }
        ControlFlow::Continue(())
    }

    fn store(&mut self, at: usize, bytes: &[u8], streamed: bool) {
        let end = at + bytes.len();
        let (first, last) = (at / LINE, end.div_ceil(LINE));
        let bulk = last - first > BULK_LINES;
        let mut span = Bulk { lines: Vec::new() };
        for number in first..last {
            let (from, to) = (at.max(number * LINE), end.min((number + 1) * LINE));
            let line = self.pending.entry(number).or_insert_with(|| {
                let shot: [u8; LINE] = self.durable[number * LINE..][..LINE].try_into().expect("a line");
                let (shots, hashes, bulk) = (vec![shot], vec![hash(number, &shot)], vec![false]);
                Line { shots, hashes, bulk, retired: 0, covered: 0, level: 0, state: 0 }
            });
            // One step per aligned word, or one for all of the line.
            let mut start = from;
            while start < to {
                let stop = if bulk { to } else { to.min((start / 8 + 1) * 8) };
                let mut shot = *line.shots.last().expect("a line has its durable contents");
                shot[start - number * LINE..stop - number * LINE].copy_from_slice(&bytes[start - at..stop - at]);
                line.shots.push(shot);
                line.hashes.push(hash(number, &shot));
                line.bulk.push(bulk);
                start = stop;
            }
            let steps = line.retired + line.steps();
            if streamed {
                line.covered = steps;
            }
            if bulk {
                span.lines.push((number, steps));
            }
            let newest = line.shots.last().expect("a line has its durable contents");
            let before = hash(number, self.current[number * LINE..][..LINE].try_into().expect("a line"));
            self.current_hash = self.current_hash.wrapping_add(hash(number, newest)).wrapping_sub(before);
            self.current[number * LINE..][..LINE].copy_from_slice(newest);
        }
        if bulk {
            self.bulks.push(span);
        }
    }

    /// A fence has taken effect: what was flushed before it is durable.
    fn retire(&mut self) {
        let (durable, durable_hash) = (&mut self.durable, &mut self.durable_hash);
        self.pending.retain(|&number, line| {
            let count = line.covered.saturating_sub(line.retired);
            if count > 0 {
                durable[number * LINE..][..LINE].copy_from_slice(&line.shots[count]);
                *durable_hash = durable_hash.wrapping_add(line.hashes[count]).wrapping_sub(line.hashes[0]);
                line.shots.drain(..count);
                line.hashes.drain(..count);
                line.bulk.drain(..count);
                line.retired += count;
            }
            line.steps() > 0
        });
        let pending = &self.pending;
        // A line that was forgotten starts its count anew, so what is left of a span must go with it.
        self.bulks.retain_mut(|bulk| {
            bulk.lines.retain(|(number, step)| pending.get(number).is_some_and(|line| *step > line.retired));
            !bulk.lines.is_empty()
        });
    }

    /// What can be chosen, and how many levels each has besides none.
    fn units(&self) -> Vec<(Unit, Choice)> {
        let mut units = Vec::new();
        for (&number, line) in &self.pending {
            // A line that only bulk data touched is chosen with its span.
            if line.bulk[1..].contains(&false) {
                let choice = Choice { at: number * LINE, bytes: LINE, of: line.steps(), ..Choice::default() };
                units.push((Unit::Line(number), choice));
            }
        }
        for (index, bulk) in self.bulks.iter().enumerate() {
            let (first, last) = (bulk.lines[0].0, bulk.lines[bulk.lines.len() - 1].0);
            // Never the length of a line, by which a message tells the two apart.
            let bytes = ((last + 1 - first) * LINE).max(LINE + 1);
            units.push((Unit::Bulk(index), Choice { at: first * LINE, bytes, of: 2, ..Choice::default() }));
        }
        for (index, unit) in units.iter_mut().enumerate() {
            unit.1.unit = index;
        }
        units
    }

    /// The power is cut now.
    fn crash(&mut self) -> ControlFlow<()> {
        self.explored.moments += 1;
        let units = self.units();
        self.state(&units, &[], false)?;
        self.state(&units, &[], true)?;
        let total = combinations(&units, self.limits.max_lines).saturating_mul(2);
        match self.limits.max_states_per_fence {
            Some(most) if (most as u64) < total => {
                self.explored.sampled += 1;
                self.sample(&units, most)
            }
            _ => self.all(&units),
        }
    }

    fn all(&mut self, units: &[(Unit, Choice)]) -> ControlFlow<()> {
        let mut chosen = Vec::new();
        self.every(units, 0, false, &mut chosen)?;
        self.every(units, 0, true, &mut chosen)
    }

    fn every(
        &mut self,
        units: &[(Unit, Choice)],
        from: usize,
        all_but: bool,
        chosen: &mut Vec<Choice>,
    ) -> ControlFlow<()> {
        if chosen.len() == self.limits.max_lines {
            return ControlFlow::Continue(());
        }
        for index in from..units.len() {
            for option in 0..units[index].1.of {
                chosen.push(Choice { level: option + usize::from(!all_but), ..units[index].1 });
                let done = self.state(units, chosen, all_but);
                let done = if done.is_continue() { self.every(units, index + 1, all_but, chosen) } else { done };
                chosen.pop();
                done?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Draws `most` combinations; singles first, as long as they are no more than half.
    fn sample(&mut self, units: &[(Unit, Choice)], most: usize) -> ControlFlow<()> {
        let mut random = Random::labelled(self.limits.seed, &format!("crash at fence {}", self.fence));
        let singles = combinations(units, 1).saturating_mul(2);
        let (mut left, mut smallest) = (most, 1);
        if singles <= most as u64 / 2 {
            let limits = self.limits;
            self.limits.max_lines = 1;
            let done = self.all(units);
            self.limits = limits;
            done?;
            (left, smallest) = (most - singles as usize, 2);
        }
        // There are more combinations than `most`, so there are units, and of choices larger than
        // singles if those are done.
        let largest = self.limits.max_lines.min(units.len()) as u64;
        for _ in 0..left {
            let all_but = random.below(2) == 1;
            let size = smallest + random.below(largest + 1 - smallest);
            let mut chosen: Vec<Choice> = Vec::new();
            while (chosen.len() as u64) < size {
                let (_, choice) = units[random.below(units.len() as u64) as usize];
                if chosen.iter().all(|c| c.unit != choice.unit) {
                    let level = random.below(choice.of as u64) as usize + usize::from(!all_but);
                    chosen.push(Choice { level, ..choice });
                }
            }
            self.state(units, &chosen, all_but)?;
        }
        ControlFlow::Continue(())
    }

    /// Shows one state, unless it was seen.
    fn state(&mut self, units: &[(Unit, Choice)], chosen: &[Choice], all_but: bool) -> ControlFlow<()> {
        self.state += 1;
        let this = self.state;
        let mut touched: Vec<(usize, usize)> = Vec::new();
        let mut state_hash = if all_but { self.current_hash } else { self.durable_hash };
        // Which shot each line has: of several choices for one line, the one furthest from the rest.
        let mut set = |pending: &mut BTreeMap<usize, Line>, number: usize, to: usize| {
            let line = pending.get_mut(&number).expect("chosen lines are pending");
            if line.state == this {
                line.level = if all_but { line.level.min(to) } else { line.level.max(to) };
            } else {
                (line.level, line.state) = (to, this);
                touched.push((number, if all_but { line.steps() } else { 0 }));
            }
        };
        for choice in chosen {
            match units[choice.unit].0 {
                Unit::Line(number) => set(&mut self.pending, number, choice.level),
                Unit::Bulk(index) => {
                    let lines = &self.bulks[index].lines;
                    let persisted = [0, lines.len() / 2, lines.len()][choice.level];
                    // Those that persisted are chosen in one case, those that did not in the other.
                    let range = if all_but { persisted..lines.len() } else { 0..persisted };
                    for &(number, step) in &lines[range] {
                        let step = step - self.pending[&number].retired;
                        set(&mut self.pending, number, if all_but { step - 1 } else { step });
                    }
                }
            }
        }
        for &(number, rest) in &touched {
            let line = &self.pending[&number];
            state_hash = state_hash.wrapping_add(line.hashes[line.level]).wrapping_sub(line.hashes[rest]);
        }
        if !self.seen.insert(state_hash) {
            return ControlFlow::Continue(());
        }
        let image = if all_but { &mut self.current } else { &mut self.durable };
        for &(number, _) in &touched {
            let line = &self.pending[&number];
            image[number * LINE..][..LINE].copy_from_slice(&line.shots[line.level]);
        }
        let lines = self.pending.len();
        let pattern = if all_but { Pattern::AllBut(chosen, lines) } else { Pattern::Only(chosen, lines) };
        let (fence, last_mark, synced_mark) = (self.fence, self.last_mark, self.synced_mark);
        let crash = CrashState { image: &image[..self.bytes], fence, last_mark, synced_mark, pattern };
        self.explored.states += 1;
        let done = (self.visit)(&crash);
        for &(number, rest) in &touched {
            image[number * LINE..][..LINE].copy_from_slice(&self.pending[&number].shots[rest]);
        }
        done
    }
}

/// How many choices of 1 to `most` units there are, each with one of its levels.
fn combinations(units: &[(Unit, Choice)], most: usize) -> u64 {
    // by_size[k]: choices of exactly k units among those looked at so far.
    let mut by_size = vec![0u64; most + 1];
    by_size[0] = 1;
    for (_, choice) in units {
        for size in (1..=most).rev() {
            by_size[size] = by_size[size].saturating_add(by_size[size - 1].saturating_mul(choice.of as u64));
        }
    }
    by_size[1..].iter().fold(0, |sum, &n| sum.saturating_add(n))
}

/// A line's share of its image's hash; the image's is the sum, so that it changes with each line.
fn hash(number: usize, line: &[u8; LINE]) -> u64 {
    line.chunks_exact(8).fold(mix(number as u64 + 1), |sum, word| {
        mix(sum.rotate_left(5) ^ u64::from_le_bytes(word.try_into().expect("8 bytes")))
    })
}
