//! The file of a bench meter at the machine's supply: CSV with a head line, as a Monsoon exports it (`Time (s)`,
//! `Main(mA)`, `Main Voltage(V)` or `Main Avg Power (mW)`), as Open-PEOPLE's files are (`time;power`), or any other
//! whose head names time, power, or current and voltage, and perhaps a trigger, with their units.
//!
//! Units stand in the head, in parentheses or brackets or behind the last blank or underscore; a column without one
//! is in s, W, A or V. Columns are parted by `,`, `;` or tabs; with the latter two a comma may be the decimal point.

mod align;
mod head;

pub use align::{Aligned, Alignment, Window, align};

use csv::StringRecord;
use head::{Head, Role};
use pocketstone_core::{Error, Result};

/// A gap between samples of more than this many usual ones, and of more than 100 ms, is a hole.
const HOLE_PERIODS: i64 = 10;
const HOLE_NS: i64 = 100_000_000;

/// A sample.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Sample {
    /// Time since the first sample in ns, by the meter's clock.
    pub time_ns: i64,
    /// Power in mW.
    pub power_mw: f64,
    /// Energy since the first sample in uJ: power changes evenly between samples.
    pub energy_uj: f64,
    /// Its line.
    pub line: u32,
}

/// A pulse of the trigger, from its rising to its falling edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    /// Time of the first sample that is high in ns.
    pub start_ns: i64,
    /// Time of the first sample that is low again in ns.
    pub end_ns: i64,
    /// Line of the rising edge.
    pub line: u32,
}

/// What a meter recorded.
#[derive(Debug, Clone, PartialEq)]
pub struct MeterFile {
    /// What it is called in messages.
    pub name: String,
    /// Samples, at least two, in order of time.
    pub samples: Vec<Sample>,
    /// Pulses of the trigger; `None` where there is no such column.
    pub pulses: Option<Vec<Pulse>>,
    /// What was read from which column with which unit.
    pub columns: String,
    /// Usual time between samples in ns (the median).
    pub period_ns: i64,
}

impl MeterFile {
    /// Reads a file's text; `name` is what messages call it.
    ///
    /// # Errors
    /// `ErrorKind::User` if it is not a meter's file; the message includes the line, the hint what would be right.
    pub fn parse(name: &str, bytes: &[u8]) -> Result<MeterFile> {
        let text = std::str::from_utf8(bytes).map_err(|e| {
            let line = bytes[..e.valid_up_to()].iter().filter(|b| **b == b'\n').count() + 1;
            Error::user(format!("{name}:{line}: not text")).hint("export the measurement as CSV")
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let (mut records, decimal_comma) = head::reader(text);
        let mut record = StringRecord::new();
        if !head::next(&mut records, &mut record)? {
            return Err(
                Error::user(format!("{name} is empty")).hint("export the measurement as CSV with its header line")
            );
        }
        let head = Head::read(&record, decimal_comma).map_err(|e| placed(name, head::line(&record), e))?;
        let (mut samples, mut levels) = (Vec::new(), Vec::new());
        let mut first_s = None;
        while head::next(&mut records, &mut record)? {
            let line = head::line(&record);
            let row = head.row(&record).map_err(|e| placed(name, line, e))?;
            let start = *first_s.get_or_insert(row.time_s);
            let ns = (row.time_s - start) * 1e9;
            // 100 years: beyond, ns do not fit.
            if ns.abs() >= 3e18 {
                return Err(placed(name, line, Error::user("invalid time")));
            }
            let (time_ns, mut energy_uj) = (ns.round() as i64, 0.0);
            if let Some(Sample { time_ns: then, power_mw, energy_uj: before, .. }) = samples.last() {
                if time_ns <= *then {
                    let error = Error::user("the time does not increase from the previous line");
                    return Err(placed(name, line, error.hint("use one measurement per file, in order of time")));
                }
                // mW times ns is pJ.
                energy_uj = before + (power_mw + row.power_mw) / 2.0 * (time_ns - then) as f64 / 1e6;
            }
            samples.push(Sample { time_ns, power_mw: row.power_mw, energy_uj, line });
            levels.extend(row.trigger);
        }
        if samples.len() < 2 {
            return Err(Error::user(format!("{name} has {} samples", samples.len())).hint("at least two are required"));
        }
        let mut steps: Vec<i64> = samples.windows(2).map(|w| w[1].time_ns - w[0].time_ns).collect();
        let middle = steps.len() / 2;
        let (_, period_ns, _) = steps.select_nth_unstable(middle);
        let period_ns = *period_ns;
        let pulses = head.has(Role::Trigger).then(|| pulses(name, &samples, &levels)).transpose()?;
        Ok(MeterFile { name: name.to_owned(), samples, pulses, columns: head.columns, period_ns })
    }

    /// Time of the last sample since the first in ns.
    pub fn end_ns(&self) -> i64 {
        self.samples.last().map_or(0, |s| s.time_ns)
    }

    /// Energy from the first sample to a time in uJ; the time is held to the file's.
    fn energy_until(&self, time_ns: i64) -> f64 {
        let at = self.samples.partition_point(|s| s.time_ns <= time_ns);
        let Some(before) = at.checked_sub(1).map(|n| self.samples[n]) else { return 0.0 };
        let Some(after) = self.samples.get(at) else { return before.energy_uj };
        let (past, step) = ((time_ns - before.time_ns) as f64, (after.time_ns - before.time_ns) as f64);
        let power = before.power_mw + (after.power_mw - before.power_mw) * past / step;
        before.energy_uj + (before.power_mw + power) / 2.0 * past / 1e6
    }

    /// Energy between two times of the meter's clock in uJ.
    ///
    /// # Errors
    /// `ErrorKind::User` if the file does not reach that far, or has a hole there.
    pub fn energy_uj(&self, from_ns: i64, to_ns: i64) -> Result<f64> {
        let seconds = |ns: i64| ns as f64 / 1e9;
        if from_ns < 0 || to_ns > self.end_ns() || to_ns < from_ns {
            let (from, to, end) = (seconds(from_ns), seconds(to_ns), seconds(self.end_ns()));
            let (line, name) = (self.samples[self.samples.len() - 1].line, &self.name);
            return Err(Error::user(format!(
                "{name}:{line}: the measurement ends {end:.3} s after its start; the run needs {from:.3} s to {to:.3} s"
            ))
            .hint("start the meter before the run and stop it after its end"));
        }
        let first = self.samples.partition_point(|s| s.time_ns <= from_ns).max(1);
        for pair in self.samples[first - 1..].windows(2).take_while(|w| w[0].time_ns < to_ns) {
            let gap = pair[1].time_ns - pair[0].time_ns;
            if gap > HOLE_NS && gap > self.period_ns.saturating_mul(HOLE_PERIODS) {
                let (name, line) = (&self.name, pair[1].line);
                return Err(Error::user(format!(
                    "{name}:{line}: samples are missing: {:.3} s between this one and the previous one",
                    seconds(gap)
                ))
                .hint("measure again; a lower sampling rate may keep the meter from losing samples"));
            }
        }
        Ok(self.energy_until(to_ns) - self.energy_until(from_ns))
    }

    /// As [`MeterFile::energy_uj`], of a machine that takes energy.
    ///
    /// # Errors
    /// As that, and if more energy flows back than it takes.
    pub fn taken_uj(&self, from_ns: i64, to_ns: i64) -> Result<f64> {
        let energy_uj = self.energy_uj(from_ns, to_ns)?;
        let between = self.samples.iter().filter(|s| (from_ns..=to_ns).contains(&s.time_ns));
        let least = between.min_by(|a, b| a.power_mw.total_cmp(&b.power_mw));
        match least.filter(|_| energy_uj < 0.0) {
            None => Ok(energy_uj),
            Some(Sample { line, power_mw, .. }) => Err(Error::user(format!(
                "{}:{line}: the power is negative ({power_mw} mW), and so is the energy from {:.3} s to {:.3} s",
                self.name,
                from_ns as f64 / 1e9,
                to_ns as f64 / 1e9
            ))
            .hint("the meter's leads are swapped, or it shows a battery that is charging: measure the supply")),
        }
    }
}

fn placed(name: &str, line: u32, error: Error) -> Error {
    let placed = Error::user(format!("{name}:{line}: {}", error.message()));
    match error.cure() {
        Some(cure) => placed.hint(cure),
        None => placed,
    }
}

/// Pulses of a trigger: high is above the middle of its least and largest value.
fn pulses(name: &str, samples: &[Sample], levels: &[f64]) -> Result<Vec<Pulse>> {
    let least = levels.iter().copied().fold(f64::INFINITY, f64::min);
    let most = levels.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    // A line that never changes marks nothing.
    let high = |level: f64| most > least && level > least / 2.0 + most / 2.0;
    let mut all = Vec::new();
    let mut up: Option<&Sample> = None;
    for (n, (sample, level)) in samples.iter().zip(levels).enumerate() {
        match (up, high(*level)) {
            (None, true) if n == 0 => {
                return Err(Error::user(format!(
                    "{name}:{}: the trigger is high from the first sample on",
                    sample.line
                ))
                .hint("start the meter before the run, with the mark low"));
            }
            (None, true) => up = Some(sample),
            (Some(start), false) => {
                all.push(Pulse { start_ns: start.time_ns, end_ns: sample.time_ns, line: start.line });
                up = None;
            }
            _ => {}
        }
    }
    match up {
        Some(start) => Err(Error::user(format!("{name}:{}: the trigger rises and never falls", start.line))
            .hint("stop the meter after the run's end")),
        None => Ok(all),
    }
}

#[cfg(test)]
mod tests;
