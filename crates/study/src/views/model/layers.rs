//! One run from its queries down to the flash: distributions, time lines, and what each query caused.
//!
//! All times are nanoseconds on the run's clock, durations are nanoseconds.

use serde::Serialize;

/// A distribution of latencies, one line for each series.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Distribution {
    /// Identifier, unique in the report, fit for an HTML id.
    pub id: String,
    /// Title.
    pub title: String,
    /// What to see in it.
    pub caption: String,
    /// The lines, such as service time and time since the intended start.
    pub series: Vec<Quantiles>,
}

/// Latencies by percentile.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Quantiles {
    /// Name in the legend.
    pub name: String,
    /// How many latencies there are.
    pub count: u64,
    /// Percentile (0 to 100; 100 is the maximum) and latency in ns, by ascending percentile.
    pub points: Vec<(f64, f64)>,
}

impl Quantiles {
    /// The percentiles of latencies in ns, in any order: ten to each factor of ten by which the rest above
    /// shrinks (0, 20, 37, ... 90, ... 99), as far as the number of latencies bears, and the maximum.
    ///
    /// A percentile is by nearest rank: the smallest latency that at least so many per cent do not exceed.
    pub fn of(name: &str, latencies_ns: &[u64]) -> Quantiles {
        let mut sorted = latencies_ns.to_vec();
        sorted.sort_unstable();
        let count = sorted.len();
        let mut points: Vec<(f64, f64)> = Vec::new();
        for step in 0.. {
            // Above this percentile lies this part of the latencies; below one latency it says nothing.
            let above = 10f64.powf(-f64::from(step) / 10.0);
            if above * (count as f64) < 1.0 - 1e-9 {
                break;
            }
            // At whole nines exact, so that tables say 99.9 and not 99.90000000000001.
            let percentile = match step % 10 {
                0 => 100.0 - 100.0 / 10f64.powi(step / 10),
                _ => 100.0 * (1.0 - above),
            };
            points.push((percentile, sorted[rank(percentile, count)] as f64));
        }
        if let Some(&largest) = sorted.last() {
            let median = (50.0, sorted[rank(50.0, count)] as f64);
            let at = points.partition_point(|p| p.0 < 50.0);
            points.insert(at, median);
            points.push((100.0, largest as f64));
        }
        Quantiles { name: name.to_owned(), count: count as u64, points }
    }
}

/// Index of a percentile among `count` sorted values.
fn rank(percentile: f64, count: usize) -> usize {
    // What is a whole number but for rounding is that number.
    let rank = (percentile / 100.0 * count as f64 - 1e-6).ceil() as usize;
    rank.clamp(1, count) - 1
}

/// A timeline of a run, or part of it.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Timeline {
    /// Identifier, unique in the report, fit for an HTML id.
    pub id: String,
    /// Title.
    pub title: String,
    /// What to see in it.
    pub caption: String,
    /// Left end.
    pub start_ns: u64,
    /// Right end.
    pub end_ns: u64,
    /// Kinds of span, which have a colour each, in the legend's order.
    pub kinds: Vec<String>,
    /// Rows from the top down, such as queries, on a core, file I/O, flash, CPU frequency.
    pub lanes: Vec<Lane>,
}

/// A row of a time line.
#[derive(Debug, Clone, Serialize)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// What it shows.
    pub content: LaneContent,
}

/// What a row shows.
#[derive(Debug, Clone, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum LaneContent {
    /// Spans in any order; spans of one row may touch and overlap.
    Spans(Vec<Span>),
    /// A value that holds until the next one.
    Steps {
        /// Unit of the values, written behind them, such as `MHz`.
        unit: String,
        /// Time and value from then on, by ascending time; `None` where it is not known.
        steps: Vec<(u64, Option<f64>)>,
    },
}

/// Something that took its time, or happened at once where both ends are the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Span {
    /// Its start.
    pub start_ns: u64,
    /// Its end.
    pub end_ns: u64,
    /// Index into [`Timeline::kinds`].
    pub kind: usize,
    /// What it was, such as the file and bytes of a read; its kind is shown beside it. May be empty.
    pub label: String,
}

/// Selectable queries, each with its effects in every layer below.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Chain {
    /// Identifier, unique in the report, fit for an HTML id.
    pub id: String,
    /// Title.
    pub title: String,
    /// What to see in it, and which queries these are.
    pub caption: String,
    /// The queries; some twenty are enough to pick from.
    pub queries: Vec<ChainQuery>,
}

/// One query.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ChainQuery {
    /// Its number among the run's operations, from 0.
    pub number: u64,
    /// Why it is shown, such as `slowest` or `median`; may be empty.
    pub label: String,
    /// Its statement.
    pub sql: String,
    /// Its start.
    pub start_ns: u64,
    /// Time from its start until it returned.
    pub service_ns: u64,
    /// Time from its intended start until it returned.
    pub response_ns: u64,
    /// Part of the service time on a core.
    pub on_core_ns: Option<u64>,
    /// Its system calls in order of time.
    pub calls: Vec<ChainCall>,
    /// System calls that were left out.
    pub more_calls: u64,
    /// The times of those, by name.
    pub more: Vec<ChainSum>,
    /// Pages that came into the page cache outside of its calls, as by page faults.
    pub misses: Vec<ChainMiss>,
    /// Flash operations outside of its calls.
    pub flash: Vec<ChainFlash>,
    /// Block requests outside of its calls.
    pub blocks: Vec<ChainBlock>,
}

/// One system call.
#[derive(Debug, Clone, Default, Serialize)]
pub struct ChainCall {
    /// Its name: `read`, `write`, `sync` and so on.
    pub name: String,
    /// The file; empty where it is not known.
    pub file: String,
    /// Position in the file, where it is known.
    pub offset: Option<u64>,
    /// Bytes asked for, where the call has any.
    pub bytes: Option<u64>,
    /// Its start.
    pub start_ns: u64,
    /// Time until it returned, where the trace has its return.
    pub duration_ns: Option<u64>,
    /// Part of that time on a core.
    pub on_core_ns: Option<u64>,
    /// What it returned.
    pub result: Option<i64>,
    /// Pages that came into the page cache for it.
    pub misses: Vec<ChainMiss>,
    /// Flash operations within it.
    pub flash: Vec<ChainFlash>,
    /// Block requests that it issued.
    pub blocks: Vec<ChainBlock>,
}

/// The times of system calls of one name together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainSum {
    /// Their name.
    pub name: String,
    /// Time until they returned, of those whose return the trace has.
    pub duration_ns: u64,
    /// Part of that time on a core, where all of it is known.
    pub on_core_ns: Option<u64>,
}

/// Pages that came into the page cache.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct ChainMiss {
    /// The file; empty where it is not known.
    pub file: String,
    /// First page number within it.
    pub first_page: u64,
    /// Number of pages.
    pub pages: u64,
}

/// A flash operation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainFlash {
    /// What: `sense`, `program`, `erase`, as [`pocketstone_core::log::FlashKind::name`] says.
    pub kind: String,
    /// Page number on the chip.
    pub page: u64,
    /// When.
    pub time_ns: u64,
}

/// A block request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ChainBlock {
    /// The device, such as `8:0`.
    pub device: String,
    /// Whether it writes.
    pub write: bool,
    /// First sector of 512 bytes.
    pub first_sector: u64,
    /// Number of sectors.
    pub sectors: u64,
    /// When it was issued.
    pub issue_ns: u64,
    /// Time until it was done, where that was seen.
    pub duration_ns: Option<u64>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_by_nearest_rank_and_go_as_far_as_the_count_bears() {
        // 1000 latencies 1..=1000 ns: the p-th percentile by nearest rank is 10 p.
        let latencies: Vec<u64> = (1..=1000).rev().collect();
        let quantiles = Quantiles::of("a", &latencies);
        let at = |p: f64| quantiles.points.iter().find(|q| q.0 == p).map(|q| q.1);
        assert_eq!([at(0.0), at(50.0), at(90.0), at(99.0), at(99.9)], [1.0, 500.0, 900.0, 990.0, 999.0].map(Some));
        assert_eq!((at(99.99), at(100.0), quantiles.count), (None, Some(1000.0), 1000));
        assert!(quantiles.points.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1), "{quantiles:?}");
        assert!(Quantiles::of("none", &[]).points.is_empty());
        assert_eq!(Quantiles::of("one", &[7]).points, [(0.0, 7.0), (50.0, 7.0), (100.0, 7.0)]);
    }
}
