//! Metrics that a workload has of its own: what they are, and their values from a run's calls. Those that several
//! workloads have are defined here, the others beside their workload.

use pocketstone_core::log::Call;
use pocketstone_core::metric::{Better, Metric, Source, Unit, metric};

/// What a run that was not traced left of itself.
#[derive(Debug, Clone, Copy)]
pub struct Ran<'a> {
    /// The seed of its files and operations.
    pub seed: u64,
    /// Its measured operations, in order.
    pub calls: &'a [Call],
    /// Bytes that fitted the volume, where that was asked.
    pub filled_bytes: Option<u64>,
}

/// Values by the names of their metrics; `None` where a run does not have one.
pub type Values = Vec<(&'static str, Option<f64>)>;

/// Bytes that operations move over the time that they take.
pub(crate) const MOVED: Metric = rate_in_bytes("moved_bytes_per_s", "bytes moved per second");

/// A throughput.
pub(crate) const fn rate_in_bytes(name: &'static str, label: &'static str) -> Metric {
    metric(name, Unit::BytesPerSecond, Better::More, Source::Calls, label)
}

/// Time in calls in nanoseconds.
pub(crate) fn total_ns(calls: &[Call]) -> f64 {
    calls.iter().map(|call| call.latency_ns as f64).sum()
}

/// Bytes, or things, per second; `None` if no time passed.
pub(crate) fn per_s(number: u64, ns: f64) -> Option<f64> {
    (ns > 0.0).then(|| number as f64 * 1e9 / ns)
}
