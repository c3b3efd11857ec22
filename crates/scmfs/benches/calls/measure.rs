//! Interleaved measurements, and bars: each round runs every side once, and ratios are taken within a round, so that
//! what else the machine does meets both.

use pocketstone_core::median::median;
use pocketstone_testing::bench::cpu;
use std::io::Write;

/// Nanoseconds of one of so many calls.
pub fn each(calls: u64, mut call: impl FnMut(u64)) -> f64 {
    let start = cpu();
    (0..calls).for_each(&mut call);
    (cpu() - start).as_nanos() as f64 / calls as f64
}

/// A name, and a run that returns the nanoseconds of one call.
pub struct Side<'a>(pub &'static str, pub Box<dyn FnMut() -> f64 + 'a>);

pub fn side<'a>(name: &'static str, run: impl FnMut() -> f64 + 'a) -> Side<'a> {
    Side(name, Box::new(run))
}

/// Nanoseconds of all sides, by round.
#[derive(Default)]
pub struct Times(Vec<(&'static str, Vec<f64>)>);

/// Runs all sides in turn, `rounds` times, after one round that does not count.
pub fn interleave(rounds: usize, mut sides: Vec<Side<'_>>) -> Times {
    let mut times = Times::default();
    for round in 0..=rounds {
        for Side(name, run) in &mut sides {
            let ns = run();
            if round > 0 {
                times.add(name, ns);
            }
        }
    }
    times
}

impl Times {
    /// Adds a round's time of a side.
    pub fn add(&mut self, name: &'static str, ns: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, list)) => list.push(ns),
            None => self.0.push((name, vec![ns])),
        }
    }

    fn of(&self, name: &str) -> &[f64] {
        let found = self.0.iter().find(|(known, _)| *known == name);
        &found.unwrap_or_else(|| panic!("no side {name}")).1
    }

    /// Median nanoseconds of a side.
    pub fn ns(&self, name: &str) -> f64 {
        median(self.of(name).to_vec()).expect("rounds")
    }

    fn ratios(&self, above: &str, below: &str) -> Vec<f64> {
        self.of(above).iter().zip(self.of(below)).map(|(a, b)| a / b).collect()
    }

    fn ratio(&self, above: &str, below: &str) -> f64 {
        median(self.ratios(above, below)).expect("rounds")
    }

    /// One line: the ratio of two sides, and between which rounds' ratios the median of all that could be measured is,
    /// with a probability of at least 95 %.
    #[allow(dead_code, reason = "the bench of checkpoints uses it")]
    pub fn interval(&self, what: &str, above: &str, below: &str) {
        let mut ratios = self.ratios(above, below);
        ratios.sort_by(f64::total_cmp);
        let n = ratios.len();
        // Each ratio is below that median or above it, as a coin falls: the chance that at most `rank` are below.
        // As logarithms, for of many ratios the first chances are too small for a number.
        let mut one = n as f64 * 0.5_f64.ln();
        let (mut rank, mut chance) = (0, one.exp());
        while rank + 1 < n / 2 {
            one += ((n - rank) as f64 / (rank + 1) as f64).ln();
            if chance + one.exp() > 0.025 {
                break;
            }
            chance += one.exp();
            rank += 1;
        }
        let (least, most) = (ratios[rank], ratios[n - 1 - rank]);
        let median = median(ratios).expect("rounds");
        say(&format!("    {what}: {above} over {below} {median:.3}, {least:.3} to {most:.3} ({n} pairs)"));
    }

    /// One line with the medians of all sides.
    pub fn say(&self, what: &str) {
        let sides: Vec<String> = self.0.iter().map(|(name, _)| format!("{name} {}", shown(self.ns(name)))).collect();
        say(&format!("    {what}: {}", sides.join(", ")));
    }

    /// One line: the ratio of two sides, and whether it is at most so much.
    pub fn at_most(&self, most: f64, what: &str, above: &str, below: &str) {
        let ratio = self.ratio(above, below);
        verdict(&format!("{what}: {above} over {below}"), ratio, &format!("at most {most}"), ratio <= most);
    }

    /// One line: the ratio of two sides, and whether it is at least so much.
    pub fn at_least(&self, least: f64, what: &str, above: &str, below: &str) {
        let ratio = self.ratio(above, below);
        verdict(&format!("{what}: {above} over {below}"), ratio, &format!("at least {least}"), ratio >= least);
    }
}

/// One line: a figure, and whether it is at most so much.
#[allow(dead_code, reason = "the bench of checkpoints uses it")]
pub fn figure(what: &str, value: f64, most: f64) {
    verdict(what, value, &format!("at most {most}"), value <= most);
}

fn verdict(what: &str, ratio: f64, bar: &str, met: bool) {
    say(&format!("{:<8}{what}: {ratio:.2} ({bar})", if met { "met" } else { "NOT met" }));
}

/// What an operation is made of: parts that were measured alone, and what is left.
pub fn breakdown(what: &str, whole: f64, parts: &[(&str, f64)]) {
    let rest = whole - parts.iter().map(|(_, ns)| ns).sum::<f64>();
    let parts: Vec<String> = parts.iter().map(|(name, ns)| format!("{name} {}", shown(*ns))).collect();
    say(&format!("    {what} {} = {}, rest {}", shown(whole), parts.join(", "), shown(rest)));
}

/// A time for people.
fn shown(ns: f64) -> String {
    if ns.abs() < 10_000.0 { format!("{ns:.0} ns") } else { format!("{:.1} us", ns / 1e3) }
}

/// Prints a line.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stdout(), "{line}");
}
