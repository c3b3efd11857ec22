//! What a replay gives.

use serde::Serialize;

/// A replayed run. Times count from its start.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Replayed {
    /// The operations, by thread and then in order; those of background threads are not among them.
    pub operations: Vec<OperationTimes>,
    /// From the start until the last operation's end.
    pub run_ns: u64,
    /// Time that cores were busy with threads that count.
    pub busy_ns: u64,
    /// Frequency changes in order of time, the start's first, by domain.
    pub frequencies: Vec<FrequencyChange>,
    /// Time that each frequency was in force while a core of its domain was busy, by ascending frequency.
    pub residency: Vec<Residency>,
    /// Number of frequency changes after the start.
    pub transitions: u64,
    /// Energy of the whole run.
    pub energy: Energy,
}

impl Replayed {
    /// Mean latency of the operations; `None` without any.
    pub fn mean_latency_ns(&self) -> Option<f64> {
        self.mean(|o| o.latency_ns)
    }

    /// Mean of the times from when they were wanted until their ends; `None` without any.
    pub fn mean_response_ns(&self) -> Option<f64> {
        self.mean(|o| o.response_ns)
    }

    /// Summed as integers: exact, whatever the order.
    fn mean(&self, of: impl Fn(&OperationTimes) -> u64) -> Option<f64> {
        let sum: u128 = self.operations.iter().map(|o| u128::from(of(o))).sum();
        let number = self.operations.len();
        (number > 0).then(|| sum as f64 / number as f64)
    }

    /// Their 99th percentile by nearest rank: the smallest latency that at least 99 % do not exceed.
    pub fn p99_latency_ns(&self) -> Option<u64> {
        let mut latencies: Vec<u64> = self.operations.iter().map(|o| o.latency_ns).collect();
        let rank = (latencies.len() * 99).div_ceil(100).checked_sub(1)?;
        Some(*latencies.select_nth_unstable(rank).1)
    }
}

/// When an operation ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct OperationTimes {
    /// Its start.
    pub start_ns: u64,
    /// Until its end.
    pub latency_ns: u64,
    /// From the moment that it was wanted until its end.
    pub response_ns: u64,
}

/// A frequency comes into force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct FrequencyChange {
    /// When.
    pub time_ns: u64,
    /// The domain.
    pub domain: u16,
    /// The frequency.
    pub khz: u32,
}

/// How long a frequency was in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Residency {
    /// The frequency.
    pub khz: u32,
    /// Time while a core was busy.
    pub busy_ns: u64,
    /// Time in all.
    pub total_ns: u64,
}

/// Energy in millijoules, by what used it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Energy {
    /// Cores that run.
    pub active_mj: f64,
    /// Cores that are idle.
    pub idle_mj: f64,
    /// What is awake with them: shared parts of clusters and the rest of the device.
    pub awake_mj: f64,
    /// Memory.
    pub memory_mj: f64,
    /// Storage.
    pub flash_mj: f64,
}

impl Energy {
    /// All of it.
    pub fn total_mj(&self) -> f64 {
        self.active_mj + self.idle_mj + self.awake_mj + self.memory_mj + self.flash_mj
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn latencies_are_summed_up_by_nearest_rank() {
        let of = |latencies: &[u64]| Replayed {
            operations: latencies
                .iter()
                .map(|ns| OperationTimes { start_ns: 0, latency_ns: *ns, response_ns: 0 })
                .collect(),
            ..Replayed::default()
        };
        let hundred = of(&(1..=100).rev().collect::<Vec<_>>());
        assert_eq!((hundred.mean_latency_ns(), hundred.p99_latency_ns()), (Some(50.5), Some(99)));
        assert_eq!(of(&[7]).p99_latency_ns(), Some(7));
        assert_eq!((of(&[]).mean_latency_ns(), of(&[]).p99_latency_ns()), (None, None));
    }
}
