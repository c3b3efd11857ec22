//! Where a run lies in a meter's file: the two have clocks of their own, which start and drift apart.

use super::MeterFile;
use pocketstone_core::{Error, Result};

/// How far two clocks may drift apart before it is no drift: crystals are good to 100 ppm or better.
const MOST_DRIFT_PPM: f64 = 1000.0;
/// Shorter runs do not show a drift: 20 s at 100 ppm are 2 ms.
const SHORT_NS: f64 = 20e9;
/// How far an edge may lie from where the others put it.
const TOLERANCE_NS: f64 = 20e6;
/// Step in which a pattern is looked for, at least.
const STEP_NS: i64 = 10_000_000;
/// Rest around a run that its pattern takes in, where the file has as much.
const AROUND_NS: i64 = 2_000_000_000;
/// A pattern that fits worse is not found.
const LEAST_CORRELATION: f64 = 0.5;
/// A second place that fits this much as well as the best one is as likely.
const RIVAL: f64 = 0.9;

/// From when to when a cell ran, in ns of the board's clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Window {
    /// First operation's start.
    pub start_ns: u64,
    /// Last operation's end.
    pub end_ns: u64,
}

/// How to find the run in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Alignment {
    /// The trigger is high while a cell runs.
    Trigger,
    /// The first cell starts at this time since the first sample.
    Offset {
        /// ns of the meter's clock.
        first_ns: i64,
    },
    /// By the pattern of cells and pauses in the power.
    Pattern,
}

/// Where a run lies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Aligned {
    /// A time of the board's clock in ns...
    board_ns: u64,
    /// ... is this one of the meter's.
    meter_ns: f64,
    /// How much faster the meter's clock is, in parts per million; 0 where it is not known.
    pub drift_ppm: f64,
    /// Largest distance of an edge from where it should be in ns; of a trigger alone.
    pub worst_ns: Option<f64>,
    /// How well the pattern fits (1: perfectly), and how well it does at the best other place; of a pattern alone.
    pub correlation: Option<(f64, f64)>,
}

impl Aligned {
    /// A time of the board's clock by the meter's, in ns since its first sample.
    pub fn meter_ns(&self, board_ns: u64) -> i64 {
        let past = board_ns as f64 - self.board_ns as f64;
        (self.meter_ns + past * (1.0 + self.drift_ppm / 1e6)).round() as i64
    }
}

/// Finds a run's cells in a meter's file. `cells` are in order of time.
///
/// # Errors
/// When there is no cell, when marks do not match cells, when the file is shorter than the run, or when a pattern
/// is not found or found twice.
pub fn align(file: &MeterFile, cells: &[Window], how: Alignment) -> Result<Aligned> {
    let (Some(first), Some(last)) = (cells.first(), cells.last()) else {
        return Err(Error::user("no cell was measured: there is nothing to align"));
    };
    if let Some(n) = cells.windows(2).position(|w| w[1].start_ns < w[0].end_ns) {
        return Err(Error::user(format!("the run's cells {} and {} were measured at the same time", n + 1, n + 2))
            .hint("a meter measures a machine that runs one cell at a time and is not started anew in between"));
    }
    let aligned = match how {
        Alignment::Trigger => by_trigger(file, cells)?,
        Alignment::Pattern => by_pattern(file, cells)?,
        Alignment::Offset { first_ns } => {
            let (board_ns, meter_ns) = (first.start_ns, first_ns as f64);
            Aligned { board_ns, meter_ns, drift_ppm: 0.0, worst_ns: None, correlation: None }
        }
    };
    // A file that does not hold all of the run is refused before anything is taken from it.
    file.energy_uj(aligned.meter_ns(first.start_ns), aligned.meter_ns(last.end_ns))?;
    Ok(aligned)
}

fn by_trigger(file: &MeterFile, cells: &[Window]) -> Result<Aligned> {
    let name = &file.name;
    let pulses = file.pulses.as_ref().ok_or_else(|| {
        Error::user(format!("{name} has no column for the trigger")).hint("give --offset, or name a column `Trigger`")
    })?;
    if pulses.len() != cells.len() {
        let (count, wanted) = (pulses.len(), cells.len());
        // The first pulse too many, or the last one there is.
        let line = pulses.get(wanted).or(pulses.last()).map_or(file.samples[0].line, |p| p.line);
        return Err(Error::user(format!(
            "{name}:{line}: the trigger rises {count} times, and the run has {wanted} cells"
        ))
        .hint(
            "it must be high from start to end of every cell (POCKETSTONE_MARK names the file that drives it), and \
               the file must hold all of one run, whose failed cells raise it too; else give --offset",
        ));
    }
    let origin = cells[0].start_ns;
    // Board's time since the first cell's start, meter's time, line.
    let edges: Vec<(f64, f64, u32)> = cells
        .iter()
        .zip(pulses)
        .flat_map(|(cell, pulse)| {
            let past = |ns: u64| (ns - origin) as f64;
            [
                (past(cell.start_ns), pulse.start_ns as f64, pulse.line),
                (past(cell.end_ns), pulse.end_ns as f64, pulse.line),
            ]
        })
        .collect();
    let number = edges.len() as f64;
    let mean = |value: fn(&(f64, f64, u32)) -> f64| edges.iter().map(value).sum::<f64>() / number;
    let (board, meter) = (mean(|e| e.0), mean(|e| e.1));
    let spread: f64 = edges.iter().map(|e| (e.0 - board) * (e.0 - board)).sum();
    let common: f64 = edges.iter().map(|e| (e.0 - board) * (e.1 - meter)).sum();
    let span = edges[edges.len() - 1].0;
    // Least squares over all edges.
    let slope = if span < SHORT_NS { 1.0 } else { common / spread };
    let aligned = Aligned {
        board_ns: origin,
        meter_ns: meter - slope * board,
        drift_ppm: (slope - 1.0) * 1e6,
        worst_ns: None,
        correlation: None,
    };
    let away = |e: &(f64, f64, u32)| (e.1 - aligned.meter_ns - slope * e.0).abs();
    let (worst, ns) = edges.iter().map(away).enumerate().fold((0, 0.0), |a, b| if b.1 > a.1 { b } else { a });
    let tolerance = TOLERANCE_NS.max(2.0 * file.period_ns as f64);
    if ns > tolerance || aligned.drift_ppm.abs() > MOST_DRIFT_PPM {
        let (line, cell, ms) = (edges[worst].2, worst / 2 + 1, ns / 1e6);
        let drift = aligned.drift_ppm;
        return Err(Error::user(format!(
            "{name}:{line}: the trigger does not fit cell {cell} of the run: it is {ms:.0} ms away where the clocks \
             drift by {drift:.0} ppm"
        ))
        .hint("is the file of this run? The trigger must be high while a cell runs and low else"));
    }
    Ok(Aligned { worst_ns: Some(ns), ..aligned })
}

/// Power in steps: sums of it and of its squares from the file's start on.
struct Steps {
    sums: Vec<f64>,
    squares: Vec<f64>,
}

fn by_pattern(file: &MeterFile, cells: &[Window]) -> Result<Aligned> {
    let (origin, span) = (cells[0].start_ns, (cells[cells.len() - 1].end_ns - cells[0].start_ns) as i64);
    let step = STEP_NS.max(2 * file.period_ns).max(file.end_ns() / 500_000);
    if file.end_ns() < span {
        // Says how long both are.
        file.energy_uj(0, span)?;
    }
    let bins = |ns: i64| (ns / step) as usize;
    let mut steps = Steps { sums: vec![0.0], squares: vec![0.0] };
    for n in 0..bins(file.end_ns()) as i64 {
        let power = (file.energy_until((n + 1) * step) - file.energy_until(n * step)) / step as f64 * 1e6;
        steps.sums.push(steps.sums[n as usize] + power);
        steps.squares.push(steps.squares[n as usize] + power * power);
    }
    let pattern: Vec<(usize, usize)> = cells
        .iter()
        .map(|c| [c.start_ns, c.end_ns].map(|ns| bins((ns - origin) as i64)))
        .map(|[start, end]| (start, end.max(start + 1)))
        .collect();
    let width = pattern[pattern.len() - 1].1;
    let places = steps.sums.len().saturating_sub(width);
    let fits: Vec<f64> = (0..places).map(|place| correlation(&steps, &pattern, bins(AROUND_NS), place)).collect();
    let (best, fit) = fits.iter().copied().enumerate().fold((0, 0.0), |a, b| if b.1 > a.1 { b } else { a });
    // Places around the best one that fit nearly as well are the same place.
    let near = |n: &usize| fits[*n] >= 0.8 * fit;
    let from = (0..best).rev().take_while(near).last().unwrap_or(best);
    let to = (best..places).take_while(near).last().unwrap_or(best);
    let rival = fits.iter().enumerate().filter(|(n, _)| *n < from || *n > to).fold(0.0, |a: f64, b| a.max(*b.1));
    let name = &file.name;
    if fit < LEAST_CORRELATION {
        return Err(Error::user(format!(
            "{name}: the run's cells are not to be seen in its power: they fit by {fit:.2} at best, 1 is perfectly"
        ))
        .hint("give --offset, or let a trigger mark the cells (POCKETSTONE_MARK)"));
    }
    let shortest = cells.iter().map(|c| c.end_ns - c.start_ns).min().unwrap_or(0) as i64;
    if rival > RIVAL * fit || (to - from) as i64 * step > 2 * shortest.max(4 * step) {
        return Err(Error::user(format!(
            "{name}: the run's cells may lie at several places: the best one fits by {fit:.2}, another by {rival:.2}"
        ))
        .hint("give --offset, or let a trigger mark the cells (POCKETSTONE_MARK)"));
    }
    let coarse = best as i64 * step;
    let (meter_ns, drift_ppm) = refined(file, cells, coarse, step);
    Ok(Aligned { board_ns: origin, meter_ns, drift_ppm, worst_ns: None, correlation: Some((fit, rival)) })
}

/// Pearson's correlation of the power with what is 1 in cells and 0 else, where the first cell starts at `place`,
/// over the run and what the file has `around` it; 0 where either is the same all over.
fn correlation(steps: &Steps, pattern: &[(usize, usize)], around: usize, place: usize) -> f64 {
    let width = pattern[pattern.len() - 1].1;
    let (from, to) = (place.saturating_sub(around), (place + width + around).min(steps.sums.len() - 1));
    let sum = |sums: &[f64], from: usize, to: usize| sums[to] - sums[from];
    let (total, squares, number) = (sum(&steps.sums, from, to), sum(&steps.squares, from, to), (to - from) as f64);
    let busy: f64 = pattern.iter().map(|(from, to)| (to - from) as f64).sum();
    let in_cells: f64 = pattern.iter().map(|(from, to)| sum(&steps.sums, place + from, place + to)).sum();
    let spread = (squares - total * total / number) * (busy - busy * busy / number);
    if spread > 0.0 { (in_cells - busy * total / number) / spread.sqrt() } else { 0.0 }
}

/// The place, and the drift of a run that is long enough to have one, at which most energy is in cells.
fn refined(file: &MeterFile, cells: &[Window], coarse: i64, step: i64) -> (f64, f64) {
    let origin = cells[0].start_ns;
    let span = (cells[cells.len() - 1].end_ns - origin) as f64;
    let drifts: Vec<f64> = if span < SHORT_NS { vec![0.0] } else { (-20..=20).map(|n| f64::from(n) * 10.0).collect() };
    let mut best = (f64::NEG_INFINITY, coarse as f64, 0.0);
    for drift in drifts {
        for n in -40..=40 {
            let place = coarse as f64 + f64::from(n) * step as f64 / 20.0;
            let time = |ns: u64| (place + (ns - origin) as f64 * (1.0 + drift / 1e6)).round() as i64;
            let inside = |c: &Window| file.energy_until(time(c.end_ns)) - file.energy_until(time(c.start_ns));
            let energy: f64 = cells.iter().map(inside).sum();
            // Of equals the one that moves least.
            let nearer = f64::abs(n.into()) + f64::abs(drift)
                < f64::abs((best.1 - coarse as f64) / step as f64 * 20.0) + f64::abs(best.2);
            if energy > best.0 * (1.0 + 1e-12) || (energy >= best.0 * (1.0 - 1e-12) && nearer) {
                best = (energy, place, drift);
            }
        }
    }
    (best.1, best.2)
}
