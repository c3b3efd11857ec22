//! Interleaved measurements: each round runs every side once, and ratios are taken within a round.

use pocketstone_core::median::median;
use std::time::Instant;

/// One thing to time: its name, and a run of it that returns how many operations it did.
pub struct Side<'a> {
    pub name: &'static str,
    pub run: Box<dyn FnMut() -> u64 + 'a>,
}

/// A side from a closure.
pub fn side<'a>(name: &'static str, run: impl FnMut() -> u64 + 'a) -> Side<'a> {
    Side { name, run: Box::new(run) }
}

/// Times of all sides: nanoseconds per operation, by round.
pub struct Times {
    names: Vec<&'static str>,
    rounds: Vec<Vec<f64>>,
}

/// Runs all sides in turn, `rounds` times, after one round that does not count.
pub fn interleave(rounds: usize, mut sides: Vec<Side<'_>>) -> Times {
    let mut all = Vec::new();
    for round in 0..=rounds {
        let mut times = Vec::new();
        for side in &mut sides {
            let start = Instant::now();
            let operations = (side.run)();
            times.push(start.elapsed().as_nanos() as f64 / operations as f64);
        }
        if round > 0 {
            all.push(times);
        }
    }
    Times { names: sides.iter().map(|side| side.name).collect(), rounds: all }
}

impl Times {
    fn index(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|known| *known == name)
    }

    /// Median time of a side, in nanoseconds per operation.
    pub fn ns(&self, name: &str) -> f64 {
        let times = |i: usize| self.rounds.iter().map(|round| round[i]).collect::<Vec<_>>();
        self.index(name).and_then(|i| median(times(i))).unwrap_or(f64::NAN)
    }

    /// Median over the rounds of one side's time over another's. `None` if one was left out.
    pub fn ratio(&self, above: &str, below: &str) -> Option<f64> {
        let (a, b) = (self.index(above)?, self.index(below)?);
        median(self.rounds.iter().map(|round| round[a] / round[b]).collect::<Vec<_>>())
    }

    /// One line with all medians.
    pub fn line(&self) -> String {
        let shown = self.names.iter().map(|name| format!("{name} {}", nanoseconds(self.ns(name))));
        shown.collect::<Vec<_>>().join(", ")
    }
}

/// A time for people.
pub fn nanoseconds(ns: f64) -> String {
    match ns {
        ns if ns < 10_000.0 => format!("{ns:.0} ns"),
        ns if ns < 10_000_000.0 => format!("{:.1} us", ns / 1e3),
        ns => format!("{:.1} ms", ns / 1e6),
    }
}

/// A bar that a ratio should keep, and whether it does.
pub fn bar(what: &str, ratio: Option<f64>, at_most: Option<f64>, at_least: Option<f64>) {
    let Some(ratio) = ratio else { return super::say(&format!("  {what}: left out")) };
    let (kept, wanted) = match (at_most, at_least) {
        (Some(most), _) => (ratio <= most, format!("at most {most}")),
        (_, Some(least)) => (ratio >= least, format!("at least {least}")),
        _ => (true, String::new()),
    };
    super::say(&format!("  {} {what}: {ratio:.2} ({wanted})", if kept { "ok  " } else { "MISS" }));
}
