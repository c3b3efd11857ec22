//! What kernels have in common below their governors: their version, their ticks, and how often they change clocks.

use pocketstone_core::Result;

use super::tunables::Tunables;
use crate::device::Cluster;

/// The version that is replayed where none is said: the one of today's rules.
const TODAY: Version = Version(6, 12);
/// Ticks a second of a device that names none.
pub(crate) const DEFAULT_HZ: u32 = 250;
/// The phone era's.
const LEGACY_HZ: u64 = 100;
/// Two milliseconds, the longest time between two changes that is derived from a latency in 6.9 to 6.11.
const LONGEST_US: u64 = 2000;

/// Major and minor version of a kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Version(pub u64, pub u64);

impl Version {
    /// The tunable `kernel`, such as `4.19`. A user error if it is something else.
    pub(super) fn of(tunables: &Tunables) -> Result<Version> {
        let Some(text) = tunables.text("kernel") else { return Ok(TODAY) };
        let parsed = text.split_once('.').and_then(|(major, minor)| Some((major.parse().ok()?, minor.parse().ok()?)));
        parsed
            .map(|(major, minor)| Version(major, minor))
            .ok_or_else(|| tunables.wrong("kernel", "give a version's first two numbers, such as 4.19"))
    }
}

/// Time between two changes of frequency that a kernel derives from how long one takes, in us: the default of
/// schedutil's `rate_limit_us`, and since 4.14 what the governors that sample begin with.
///
/// 1000 times the latency until 4.13, that but at most 10 ms until 6.8 ("cpufreq: Cap the default transition delay
/// value to 10 ms"), at most 2 ms until 6.11 unless one change takes longer ("cpufreq: Change default transition
/// delay to 2ms"), and 1.5 times the latency since 6.12 ("cpufreq: Remove LATENCY_MULTIPLIER"). A latency below a
/// microsecond stands for none, and 1 ms is taken.
pub(super) fn between_changes_us(latency_ns: u64, version: Version) -> u64 {
    let latency_us = latency_ns / 1000;
    match (latency_us, version) {
        (0, _) => 1000,
        (_, v) if v >= Version(6, 12) => latency_us + latency_us / 2,
        (LONGEST_US.., v) if v >= Version(6, 9) => latency_us,
        (_, v) if v >= Version(6, 9) => (latency_us * 1000).min(LONGEST_US),
        (_, v) if v >= Version(4, 14) => latency_us.saturating_mul(1000).min(10_000),
        _ => latency_us.saturating_mul(1000),
    }
}

/// The period of today's governors that sample: the tunable `sampling_rate` for the tunables `kernel` and `hz`. A
/// user error if one is out of its range.
///
/// Since 4.14 the default is [`between_changes_us`], and neither it nor a setting is shorter than two ticks
/// ("cpufreq: governor: Drop min_sampling_rate"); before, `before_us` of the ticks a second took the place of the two
/// ticks: [`ten_ms_us`] or [`twenty_ticks_us`].
pub(super) fn sampling_ns(tunables: &Tunables, cluster: &Cluster, before_us: fn(u64) -> u64) -> Result<u64> {
    let (version, hz) = (Version::of(tunables)?, hz(tunables, u64::from(DEFAULT_HZ))?);
    let least_us = if version >= Version(4, 14) { 2_000_000 / hz } else { before_us(hz) };
    let default_us = between_changes_us(cluster.transition_latency_ns, version).clamp(least_us, 3_600_000_000);
    Ok(tunables.time_ns("sampling_rate", default_us, 1)?.max(least_us * 1000))
}

/// The period of the phone era's governors that sample: 1000 times the transition latency, at least `least_us` of the
/// ticks a second. A user error if `sampling_rate` is out of its range.
pub(super) fn legacy_sampling_ns(tunables: &Tunables, cluster: &Cluster, least_us: fn(u64) -> u64) -> Result<u64> {
    let least_us = least_us(hz(tunables, LEGACY_HZ)?);
    // 1000 times a latency in ns, in us, is the same number.
    let default_us = cluster.transition_latency_ns.clamp(least_us, 3_600_000_000);
    Ok(tunables.time_ns("sampling_rate", default_us, 1)?.max(least_us * 1000))
}

/// The shortest period of ondemand before 4.14: its idle time is exact.
pub(super) fn ten_ms_us(_hz: u64) -> u64 {
    10_000
}

/// The shortest period of conservative before 4.14, whose kernels say that it is bound to ticks: twice ten of them.
pub(super) fn twenty_ticks_us(hz: u64) -> u64 {
    20_000_000 / hz
}

/// What timers run on: ticks, which timers run at, counted from the replay's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Wheel {
    hz: u64,
}

impl Wheel {
    /// Timers that run when they are due.
    pub(super) const EXACT: Wheel = Wheel { hz: 1_000_000_000 };

    /// The timers of the phone era's kernels, for the tunable `hz`. A user error if it is out of its range.
    pub(super) fn legacy(tunables: &Tunables) -> Result<Wheel> {
        Ok(Wheel { hz: hz(tunables, LEGACY_HZ)? })
    }

    /// From one tick to the next, cut to whole nanoseconds.
    pub(super) fn tick_ns(self) -> u64 {
        1_000_000_000 / self.hz
    }

    /// A delay in whole ticks, rounded up.
    pub(super) fn ticks_ns(self, delay_ns: u64) -> u64 {
        // By the rate, not by the cut length of a tick: 50 ms are 15 ticks of 300 Hz.
        (u128::from(delay_ns) * u128::from(self.hz)).div_ceil(1_000_000_000) as u64 * self.tick_ns()
    }

    /// When a timer runs that is armed now: its delay counts from the tick that was last.
    pub(super) fn after_ns(self, now_ns: u64, delay_ns: u64) -> u64 {
        now_ns / self.tick_ns() * self.tick_ns() + self.ticks_ns(delay_ns)
    }

    /// When one runs whose delay ends at a whole multiple of itself, as all cores' do that sample together.
    pub(super) fn together_ns(self, now_ns: u64, delay_ns: u64) -> u64 {
        let period_ns = self.ticks_ns(delay_ns);
        (now_ns / period_ns + 1) * period_ns
    }
}

/// The tunable `hz`. A user error if it is out of its range.
pub(super) fn hz(tunables: &Tunables, default: u64) -> Result<u64> {
    tunables.number("hz", default, 1, 10_000)
}
