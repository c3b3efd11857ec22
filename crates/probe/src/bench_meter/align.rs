//! Where a run lies in a meter's file: the two have clocks of their own, which start and drift apart.

mod pattern;

use super::{MeterFile, Pulse};
use pattern::by_pattern;
use pocketstone_core::{Error, Result};

/// How far two clocks may drift apart before it is no drift: crystals are good to 100 ppm or better.
const MOST_DRIFT_PPM: f64 = 1000.0;
/// Shorter runs do not show a drift: 20 s at 100 ppm are 2 ms.
const SHORT_NS: f64 = 20e9;
/// Shorter pulses may not be in the file.
const SHOWN_PERIODS: u64 = 4;
/// How far an edge may lie from where the others put it.
const TOLERANCE_NS: f64 = 20e6;

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
/// `ErrorKind::User` if there is no cell, two cells overlap, marks do not match cells, the file is shorter than the
/// run, or a pattern is not found or found twice.
pub fn align(file: &MeterFile, cells: &[Window], how: Alignment) -> Result<Aligned> {
    let (Some(first), Some(last)) = (cells.first(), cells.last()) else {
        return Err(Error::user("no cell was measured: there is nothing to align"));
    };
    if let Some(n) = cells.windows(2).position(|w| w[1].start_ns < w[0].end_ns) {
        return Err(Error::user(format!("the run's cells {} and {} were measured at the same time", n + 1, n + 2))
            .hint("use a machine that runs one cell at a time and is not restarted in between"));
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
    let all = file.pulses.as_ref().ok_or_else(|| {
        Error::user(format!("{name} has no trigger column")).hint("pass --offset, or name a column `Trigger`")
    })?;
    let (count, wanted) = (all.len(), cells.len());
    // Pulses of a few samples or less may fall between two samples: cells of the null workload take no time.
    let shown = |from: u64, to: u64| count == wanted || to - from >= SHOWN_PERIODS * file.period_ns as u64;
    let cells: Vec<(usize, Window)> =
        cells.iter().copied().enumerate().filter(|(_, c)| shown(c.start_ns, c.end_ns)).collect();
    let pulses: Vec<Pulse> = all.iter().copied().filter(|p| shown(p.start_ns as u64, p.end_ns as u64)).collect();
    if pulses.len() != cells.len() || pulses.is_empty() {
        // The first pulse too many, or the last one there is.
        let line = all.get(wanted).or(all.last()).map_or(file.samples[0].line, |p| p.line);
        return Err(Error::user(format!(
            "{name}:{line}: the trigger rises {count} times, and the run has {wanted} cells"
        ))
        .hint(
            "it must be high from start to end of every cell (POCKETSTONE_MARK names the file that drives it), and \
                the file must contain all of one run, whose failed cells also raise it; otherwise pass --offset",
        ));
    }
    let origin = cells[0].1.start_ns;
    // Board's time since the first cell's start, meter's time, line.
    let edges: Vec<(f64, f64, u32)> = cells
        .iter()
        .zip(&pulses)
        .flat_map(|((_, cell), pulse)| {
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
        let (line, cell, ms) = (edges[worst].2, cells[worst / 2].0 + 1, ns / 1e6);
        let drift = aligned.drift_ppm;
        return Err(Error::user(format!(
            "{name}:{line}: the trigger does not fit cell {cell} of the run: it is {ms:.0} ms away where the clocks \
             drift by {drift:.0} ppm"
        ))
        .hint("is the file from this run? The trigger must be high while a cell runs and low otherwise"));
    }
    Ok(Aligned { worst_ns: Some(ns), ..aligned })
}
