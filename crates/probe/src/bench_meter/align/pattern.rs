//! Finds a run in a meter's file by its cells' power alone: they take more than what lies between them.

use super::{Aligned, MeterFile, SHORT_NS, Window};
use pocketstone_core::{Error, Result};

/// Step in which a pattern is looked for, at least.
const STEP_NS: i64 = 10_000_000;
/// Rest around a run that its pattern takes in, where the file has as much.
const AROUND_NS: i64 = 2_000_000_000;
/// A pattern that fits worse is not found.
const LEAST_CORRELATION: f64 = 0.5;
/// A second place that fits this much as well as the best one is as likely.
const RIVAL: f64 = 0.9;
/// Drifts that are looked for: two crystals of 100 ppm each.
const MOST_DRIFT_PPM: f64 = 200.0;
/// How many drifts are tried to either side, at most.
const MOST_DRIFTS: i32 = 40;
/// To what a place and a drift are found: meters have 5000 samples a second.
const FINE_NS: f64 = 1e4;
const FINE_PPM: f64 = 0.1;

/// Power in steps: sums of it and of its squares from the file's start on.
struct Steps {
    sums: Vec<f64>,
    squares: Vec<f64>,
}

/// A run's cells around its middle, which a drift leaves where it is.
struct Run<'a> {
    cells: &'a [Window],
    middle_ns: u64,
    span_ns: f64,
}

impl Run<'_> {
    /// A time of the board's clock since the middle, by a meter whose clock drifts so.
    fn past(&self, ns: u64, drift_ppm: f64) -> f64 {
        (ns as f64 - self.middle_ns as f64) * (1.0 + drift_ppm / 1e6)
    }

    /// From which step to which one each cell lasts, counted from the middle.
    fn pattern(&self, drift_ppm: f64, step: i64) -> Vec<(i64, i64)> {
        let at = |ns: u64| (self.past(ns, drift_ppm) / step as f64).floor() as i64;
        self.cells.iter().map(|c| (at(c.start_ns), at(c.end_ns).max(at(c.start_ns) + 1))).collect()
    }
}

/// Finds the cells by their power; see `docs/energy.md`.
pub(super) fn by_pattern(file: &MeterFile, cells: &[Window]) -> Result<Aligned> {
    let (start, end) = (cells[0].start_ns, cells[cells.len() - 1].end_ns);
    let span = (end - start) as i64;
    let step = STEP_NS.max(2 * file.period_ns).max(file.end_ns() / 500_000);
    if file.end_ns() < span {
        // Says how long both are.
        file.energy_uj(0, span)?;
    }
    let steps = steps(file, step);
    let run = Run { cells, middle_ns: start + (end - start) / 2, span_ns: span as f64 };
    let lengths = || cells.iter().map(|c| c.end_ns - c.start_ns);
    let shortest = lengths().min().unwrap_or(0) as i64;
    // Mean by time: cells that take none, such as those of the null workload, do not show in the power either.
    let usual = lengths().map(|l| l as f64 * l as f64).sum::<f64>() / lengths().sum::<u64>().max(1) as f64;
    // A wrong drift moves a run's ends against its middle. As long as that is within this, cells are found.
    let tolerance = (4 * step).max(shortest / 2) as f64;
    let grid_ppm = 2.0 * tolerance / run.span_ns.max(1.0) * 1e6;
    let mut fits = vec![(0.0, 0.0); steps.sums.len()];
    for drift in drifts(run.span_ns, grid_ppm) {
        let pattern = run.pattern(drift, step);
        for (middle, best) in fits.iter_mut().enumerate() {
            let fit = correlation(&steps, &pattern, AROUND_NS / step, middle as i64);
            if fit > best.0 {
                *best = (fit, drift);
            }
        }
    }
    let (best, (fit, drift)) =
        fits.iter().copied().enumerate().fold((0, (0.0, 0.0)), |a, b| if b.1.0 > a.1.0 { b } else { a });
    // Places around the best one that fit nearly as well are the same place.
    let near = |n: &usize| fits[*n].0 >= 0.8 * fit;
    let from = (0..best).rev().take_while(near).last().unwrap_or(best);
    let to = (best..fits.len()).take_while(near).last().unwrap_or(best);
    let rival = fits.iter().enumerate().filter(|(n, _)| *n < from || *n > to).fold(0.0, |a: f64, b| a.max(b.1.0));
    let name = &file.name;
    let refused = |why: String| {
        Error::user(format!("{name}: {why}")).hint("pass --offset, or mark the cells with a trigger (POCKETSTONE_MARK)")
    };
    if fit < LEAST_CORRELATION {
        return Err(refused(format!(
            "the run's cells are not visible in the power: the best correlation is {fit:.2}, 1 is perfect"
        )));
    }
    if rival > RIVAL * fit || (to - from) as f64 * step as f64 > 2.0 * usual.max(4.0 * step as f64) {
        return Err(refused(format!(
            "the run's position is ambiguous: the best one correlates by {fit:.2}, another by {rival:.2}"
        )));
    }
    let radius_ppm = if run.span_ns < SHORT_NS { 0.0 } else { grid_ppm.min(MOST_DRIFT_PPM) };
    let coarse = ((best as i64 * step) as f64, drift);
    let (meter_ns, drift_ppm) = refined(file, &run, coarse, (tolerance + 2.0 * step as f64, radius_ppm));
    Ok(Aligned { board_ns: run.middle_ns, meter_ns, drift_ppm, worst_ns: None, correlation: Some((fit, rival)) })
}

fn steps(file: &MeterFile, step: i64) -> Steps {
    let mut steps = Steps { sums: vec![0.0], squares: vec![0.0] };
    let (mut sum, mut square, mut before) = (0.0, 0.0, 0.0);
    for n in 1..=file.end_ns() / step {
        let energy = file.energy_until(n * step);
        let power = (energy - before) / step as f64 * 1e6;
        (sum, square, before) = (sum + power, square + power * power, energy);
        steps.sums.push(sum);
        steps.squares.push(square);
    }
    steps
}

/// Drifts to try in ppm, the smallest first; short runs have none.
fn drifts(span_ns: f64, grid_ppm: f64) -> Vec<f64> {
    let most = if span_ns < SHORT_NS { 0 } else { MOST_DRIFTS.min((MOST_DRIFT_PPM / grid_ppm).ceil() as i32) };
    let grid_ppm = MOST_DRIFT_PPM / f64::from(most.max(1));
    let both = |n: i32| [f64::from(n) * grid_ppm, f64::from(-n) * grid_ppm];
    std::iter::once(0.0).chain((1..=most).flat_map(both)).collect()
}

/// Pearson's correlation of the power with what is 1 in cells and 0 else, where the run's middle is at a step, over
/// the run and what the file has `around` it; 0 where either is the same all over, or the file does not hold all.
fn correlation(steps: &Steps, pattern: &[(i64, i64)], around: i64, middle: i64) -> f64 {
    let length = steps.sums.len() as i64 - 1;
    let (first, last) = (middle + pattern[0].0, middle + pattern[pattern.len() - 1].1);
    if first < 0 || last > length {
        return 0.0;
    }
    let sum = |sums: &[f64], from: i64, to: i64| sums[to as usize] - sums[from as usize];
    let (from, to) = ((first - around).max(0), (last + around).min(length));
    let (total, squares, number) = (sum(&steps.sums, from, to), sum(&steps.squares, from, to), (to - from) as f64);
    let busy: f64 = pattern.iter().map(|(from, to)| (to - from) as f64).sum();
    let in_cells: f64 = pattern.iter().map(|(from, to)| sum(&steps.sums, middle + from, middle + to)).sum();
    let spread = (squares - total * total / number) * (busy - busy * busy / number);
    if spread > 0.0 { (in_cells - busy * total / number) / spread.sqrt() } else { 0.0 }
}

/// The place of the run's middle in ns and the drift in ppm, each within its radius of a coarse one, at which most
/// energy is in cells. Of a place too early or too late every edge of a cell costs the more the further it is off,
/// so the energy has one maximum in the place for each drift, and what is best for each drift has one in the drift.
fn refined(file: &MeterFile, run: &Run, coarse: (f64, f64), radius: (f64, f64)) -> (f64, f64) {
    let energy = |middle: f64, drift: f64| -> f64 {
        let until = |ns: u64| file.energy_until((middle + run.past(ns, drift)).round() as i64);
        run.cells.iter().map(|c| until(c.end_ns) - until(c.start_ns)).sum()
    };
    let place = |drift: f64| highest(coarse.0, radius.0, FINE_NS, |middle| energy(middle, drift));
    let (drift, _) = highest(coarse.1, radius.1, FINE_PPM, |drift| match drift.abs() <= MOST_DRIFT_PPM {
        true => place(drift).1,
        false => f64::NEG_INFINITY,
    });
    (place(drift).0, drift)
}

/// Where a function with one maximum is highest within `radius` of `from`, to `fine`, and its value there.
fn highest(from: f64, mut radius: f64, fine: f64, value: impl Fn(f64) -> f64) -> (f64, f64) {
    let mut best = (from, value(from));
    while radius >= fine {
        let around = best.0;
        for at in [-1.0, -0.5, 0.5, 1.0].map(|part| around + part * radius) {
            let here = value(at);
            // What is equal but for rounding does not move it.
            if here > best.1 + best.1.abs() * 1e-12 {
                best = (at, here);
            }
        }
        radius /= 2.0;
    }
    best
}
