//! What a metric is: its name, unit, direction, source and label.

use crate::origin::Origin;
use crate::units::{digits_that_tell, format_bytes, format_bytes_rounded, format_ns_to, format_uj_to};
use serde::Serialize;

/// The unit of a metric.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unit {
    /// Time.
    Nanoseconds,
    /// A number of events or things; the label says of which.
    Count,
    /// Bytes.
    Bytes,
    /// Throughput.
    BytesPerSecond,
    /// Operations, transactions and the like in a second.
    PerSecond,
    /// A fraction, 1 being the whole.
    Share,
    /// Energy by meters.
    Microjoules,
    /// Energy by models.
    Millijoules,
    /// Power.
    Milliwatts,
}

/// Digits that any two numbers differ in.
const MOST_DIGITS: usize = 17;

impl Unit {
    /// All of them.
    pub const ALL: [Unit; 9] = [
        Unit::Nanoseconds,
        Unit::Count,
        Unit::Bytes,
        Unit::BytesPerSecond,
        Unit::PerSecond,
        Unit::Share,
        Unit::Microjoules,
        Unit::Millijoules,
        Unit::Milliwatts,
    ];

    /// The unit of a name in results.
    pub fn named(name: &str) -> Option<Unit> {
        Unit::ALL.into_iter().find(|unit| unit.name() == name)
    }

    /// The unit as it stands behind a label; nothing where values are written with theirs, or have none.
    pub fn suffix(self) -> &'static str {
        match self {
            Unit::Nanoseconds | Unit::Count | Unit::Bytes | Unit::PerSecond | Unit::Share => "",
            Unit::BytesPerSecond => " (bytes per second)",
            Unit::Microjoules => " (uJ)",
            Unit::Millijoules => " (mJ)",
            Unit::Milliwatts => " (mW)",
        }
    }

    /// A value with its unit, as tables have it.
    pub fn write(self, value: f64) -> String {
        self.with_digits(value, self.digits())
    }

    /// Two values that stand against each other: as tables have them, or, where that would not tell one from the other,
    /// with as many more digits as do; bytes to the byte.
    pub fn write_both(self, a: f64, b: f64) -> [String; 2] {
        let write = |value, digits| self.with_digits(value, digits);
        let digits = digits_that_tell(a, &[b], self.digits()..MOST_DIGITS, write);
        [a, b].map(|value| self.with_digits(value, digits))
    }

    fn with_digits(self, value: f64, digits: usize) -> String {
        let is_whole = value == value.trunc();
        let number = || if is_whole { format!("{value:.0}") } else { format!("{value:.digits$}") };
        match self {
            Unit::Nanoseconds => format_ns_to(value, digits),
            Unit::Bytes if digits > self.digits() && value >= 0.0 && is_whole => format_bytes(value as u64),
            Unit::Bytes if digits == self.digits() && (value >= 1024.0 || value >= 0.0 && is_whole) => {
                format_bytes_rounded(value.round() as u64)
            }
            Unit::Microjoules => format_uj_to(value, digits),
            Unit::Millijoules => format_uj_to(1e3 * value, digits),
            Unit::Bytes | Unit::BytesPerSecond | Unit::Milliwatts => format!("{} {}", number(), self.name()),
            Unit::Share => format!("{:.digits$} %", 100.0 * value),
            Unit::Count => number(),
            Unit::PerSecond => format!("{}/s", number()),
        }
    }

    /// Digits of values in tables: behind the point, or, of times and energies, those that say something.
    fn digits(self) -> usize {
        if self == Unit::Share { 1 } else { 3 }
    }

    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Unit::Nanoseconds => "ns",
            Unit::Count => "count",
            Unit::Bytes => "bytes",
            Unit::BytesPerSecond => "bytes/s",
            Unit::PerSecond => "1/s",
            Unit::Share => "share",
            Unit::Microjoules => "uJ",
            Unit::Millijoules => "mJ",
            Unit::Milliwatts => "mW",
        }
    }
}

/// Which of two values of a metric is the better one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Better {
    /// The smaller one.
    Less,
    /// The larger one.
    More,
    /// None: the metric describes.
    Neither,
}

impl Better {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Better::Less => "less",
            Better::More => "more",
            Better::Neither => "neither",
        }
    }

    /// By which fraction of a baseline a value is better than it; below 0 it is worse. `None` without a direction, or
    /// where the baseline is not above 0: what is a difference of two measurements may be below, and is no fraction of
    /// that.
    pub fn improvement(self, value: f64, baseline: f64) -> Option<f64> {
        match self {
            _ if baseline <= 0.0 => None,
            Better::Less => Some(1.0 - value / baseline),
            Better::More => Some(value / baseline - 1.0),
            Better::Neither => None,
        }
    }
}

/// The source of a metric's values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Source {
    /// The clock around each operation of an untraced run.
    Calls,
    /// The kernel's account of the database's process, in an untraced run.
    Process,
    /// Counters of the processor and the kernel, in an untraced run.
    Counters,
    /// The machine's own meters, in an untraced run.
    Meter,
    /// A meter beside the machine.
    BenchMeter,
    /// The clock around each operation of a traced twin.
    TracedCalls,
    /// The flash operations of a traced twin.
    Flash,
    /// The kernel's events in a traced twin.
    Events,
    /// What a fresh board finds after the power of a traced twin was cut.
    Cuts,
    /// What the simulator and the kernel say of an untraced run on a chip with faults, and what was on the volume then.
    Faults,
    /// Several runs: no single one has it.
    Runs,
    /// A model, computed from what was measured.
    Model,
    /// The model of a data TLB, from every access of a run.
    Tlb,
}

impl Source {
    /// Its name in results.
    pub fn name(self) -> &'static str {
        match self {
            Source::Calls => "calls",
            Source::Process => "process",
            Source::Counters => "counters",
            Source::Meter => "meter",
            Source::BenchMeter => "bench-meter",
            Source::TracedCalls => "traced-calls",
            Source::Flash => "flash",
            Source::Events => "events",
            Source::Cuts => "power-cuts",
            Source::Faults => "faults",
            Source::Runs => "runs",
            Source::Model => "model",
            Source::Tlb => "tlb-model",
        }
    }
}

/// The one definition of a metric.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Metric {
    /// Its name in studies and results; a unit of time, energy or rate stands last.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Which direction is better.
    pub better: Better,
    /// The source of its values.
    pub source: Source,
    /// Its name for people, without the unit; `read()` stands for what the workload's operations are.
    pub label: &'static str,
}

impl Metric {
    /// Whether its values are measured or a model's.
    pub fn origin(&self) -> Origin {
        match self.source {
            Source::Model | Source::Tlb => Origin::Modelled,
            Source::Calls | Source::Process | Source::Counters | Source::TracedCalls => Origin::Measured,
            Source::Meter | Source::BenchMeter | Source::Flash | Source::Events => Origin::Measured,
            Source::Cuts | Source::Faults | Source::Runs => Origin::Measured,
        }
    }

    /// Its label with the unit.
    pub fn label_with_unit(&self) -> String {
        format!("{}{}", self.label, self.unit.suffix())
    }
}

/// A metric with these properties.
pub const fn metric(name: &'static str, unit: Unit, better: Better, source: Source, label: &'static str) -> Metric {
    Metric { name, unit, better, source, label }
}

#[cfg(test)]
mod tests {
    use super::Unit::{Bytes, BytesPerSecond, Count, Microjoules, Millijoules, Nanoseconds, PerSecond, Share};

    #[test]
    fn values_are_written_in_their_unit() {
        let written = [
            (Nanoseconds, 1_534_000.0, "1.53 ms"),
            (Count, 3.0, "3"),
            (Count, 12.5, "12.500"),
            (Bytes, 131_072.0, "128 KiB"),
            (Bytes, 0.5, "0.500 bytes"),
            (Bytes, 1_572_874_196.0, "1.5 GiB"),
            (Bytes, 1_536.5, "1.5 KiB"),
            (BytesPerSecond, 1e6, "1000000 bytes/s"),
            (PerSecond, 0.25, "0.250/s"),
            (Share, 0.0123, "1.2 %"),
            (Microjoules, 7.25, "7.25 uJ"),
            (Microjoules, 0.003, "3 nJ"),
            (Microjoules, -0.004, "-4 nJ"),
            (Millijoules, 4.5e-7, "0.450 nJ"),
            (Millijoules, 15_000_000.0, "15000 J"),
        ];
        for (unit, value, text) in written {
            assert_eq!(unit.write(value), text);
        }
    }
    #[test]
    fn values_that_stand_against_each_other_are_told_apart() {
        let written = [
            (Bytes, [104_857_600.0, 104_857_601.0], ["100 MiB", "104857601 B"]),
            (Bytes, [104_857_600.0, 104_857_600.5], ["100 MiB", "104857600.5000 bytes"]),
            (Bytes, [104_857_600.0, 209_715_201.0], ["100 MiB", "200.0 MiB"]),
            (Bytes, [1_536.5, 1_536.5], ["1.5 KiB", "1.5 KiB"]),
            (Nanoseconds, [1_534_000.0, 1_534_010.0], ["1.53400 ms", "1.53401 ms"]),
            (Nanoseconds, [1e6, 1_000_400.0], ["1 ms", "1.0004 ms"]),
            (Count, [12.0, 12.000_1], ["12", "12.0001"]),
            (Share, [0.5, 0.500_01], ["50.000 %", "50.001 %"]),
            (Microjoules, [7.25, 7.252], ["7.250 uJ", "7.252 uJ"]),
            (PerSecond, [1000.0, 500.0], ["1000/s", "500/s"]),
        ];
        for (unit, [a, b], texts) in written {
            assert_eq!(unit.write_both(a, b), texts);
        }
    }
}
