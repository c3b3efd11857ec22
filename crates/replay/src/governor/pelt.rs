//! Per-entity load tracking (PELT): how much of the recent past a core was busy, with the older past counting less.
//!
//! Time is cut into periods of 1024 units of 1024 ns: kernels divide by shifting, and call such a unit a microsecond.
//! A period's busy time counts by `y^n` when it is n periods ago, where `y^32 = 1/2`; the period that is not over
//! counts as it is. Utilisation is that sum over the sum of a core that was always busy, times 1024: after n periods of
//! busyness, `1024 (1 - y^n)`. Kernels work it out anew only when a period has ended ("decayed").
//!
//! Frequency-invariant tracking lets the clock run at frequency over maximum while the core is busy. What it falls
//! behind is made up for as idle time when the core idles, so that a job leaves the same trace at every frequency.
//! Kernels do so since 5.1 ("sched/fair: Update scale invariance of PELT"); earlier ones scale what is added.

/// A period in nanoseconds.
const PERIOD_NS: u64 = 1024 * 1024;

/// Powers of y: `2^(-n/32)`.
const Y: [f64; 32] = [
    1.0,
    0.9785720620877001,
    0.9576032806985737,
    0.93708381705515,
    0.9170040432046712,
    0.8973545375015536,
    0.8781260801866497,
    0.859309649061239,
    0.8408964152537145,
    0.8228777390769825,
    0.8052451659746271,
    0.7879904225539432,
    0.7711054127039704,
    0.7545822137967114,
    0.7384130729697497,
    0.7225904034885233,
    std::f64::consts::FRAC_1_SQRT_2,
    0.691954940981916,
    0.6771277734684463,
    0.6626183215798707,
    0.6484197773255048,
    0.6345254785958666,
    0.620928906036742,
    0.6076236799902345,
    0.5946035575013605,
    0.5818624293887887,
    0.5693943173783458,
    0.5571933712979462,
    0.5452538663326288,
    0.5335702003384118,
    0.5221368912137069,
    0.5109485743270583,
];

/// `y^n` for any n: halving is exact.
fn y(n: u64) -> f64 {
    let mut power = Y[(n % 32) as usize];
    // After 64 halvings there is nothing left that could count.
    for _ in 0..(n / 32).min(64) {
        power *= 0.5;
    }
    if n / 32 > 64 { 0.0 } else { power }
}

/// Busy time of a core in nanoseconds, weighted.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pelt {
    sum_ns: f64,
    /// How far the current period is.
    into_ns: u64,
    /// What the clock is behind, by tracking work rather than time.
    behind_ns: u64,
    /// Remainder of the scaling of time, in `ns x kHz`.
    remainder: u64,
}

impl Pelt {
    /// The core was busy for a while at a frequency, of which `most_khz` is the maximum. For tracking that is not
    /// frequency-invariant, both are the same. Whether a period has ended.
    pub(super) fn busy(&mut self, ns: u64, khz: u32, most_khz: u32) -> bool {
        let scaled = u128::from(ns) * u128::from(khz) + u128::from(self.remainder);
        self.remainder = (scaled % u128::from(most_khz)) as u64;
        let advance = (scaled / u128::from(most_khz)) as u64;
        self.behind_ns = (self.behind_ns + ns).saturating_sub(advance);
        self.pass(advance, 1.0)
    }

    /// The same as kernels before 5.1 have it: time is as it is, and what is added is scaled.
    pub(super) fn busy_scaled(&mut self, ns: u64, khz: u32, most_khz: u32) -> bool {
        self.pass(ns, f64::from(khz) / f64::from(most_khz))
    }

    /// The core was idle for a while. Whether a period has ended.
    pub(super) fn idle(&mut self, ns: u64) -> bool {
        if ns == 0 {
            return false;
        }
        let behind_ns = std::mem::take(&mut self.behind_ns);
        self.pass(ns + behind_ns, 0.0)
    }

    /// Time passes of which a share was busy.
    fn pass(&mut self, ns: u64, share: f64) -> bool {
        let end = self.into_ns + ns;
        let periods = end / PERIOD_NS;
        if periods == 0 {
            self.into_ns = end;
            self.sum_ns += ns as f64 * share;
            return false;
        }
        let (first, last) = (PERIOD_NS - self.into_ns, end % PERIOD_NS);
        self.into_ns = last;
        let between = PERIOD_NS as f64 * Y[1] * (1.0 - y(periods - 1)) / (1.0 - Y[1]);
        self.sum_ns = (self.sum_ns + first as f64 * share) * y(periods) + (between + last as f64) * share;
        true
    }

    /// Utilisation, 0 to 1024, rounded down.
    pub(super) fn utilisation(&self) -> u64 {
        let most = PERIOD_NS as f64 * Y[1] / (1.0 - Y[1]) + self.into_ns as f64;
        // The small number keeps rounding errors of the sum from taking a whole unit.
        ((1024.0 * self.sum_ns / most + 1e-6) as u64).min(1024)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn utilisation_halves_in_32_idle_periods_and_reaches_half_in_32_busy_ones() {
        let mut pelt = Pelt::default();
        pelt.busy(32 * PERIOD_NS, 1, 1);
        assert_eq!(pelt.utilisation(), 512);
        pelt.idle(32 * PERIOD_NS);
        assert_eq!(pelt.utilisation(), 256);
        pelt.busy(4000 * PERIOD_NS, 1, 1);
        assert_eq!(pelt.utilisation(), 1024);
    }

    #[test]
    fn a_job_leaves_the_same_trace_at_every_frequency_once_the_core_idles() {
        let (mut slow, mut fast) = (Pelt::default(), Pelt::default());
        slow.busy(20 * PERIOD_NS, 1, 4);
        slow.idle(5 * PERIOD_NS);
        fast.busy(5 * PERIOD_NS, 4, 4);
        fast.idle(20 * PERIOD_NS);
        assert_eq!(slow.utilisation(), fast.utilisation());
        // 1024 (1 - y^5) y^20, by hand: 1024 x 0.10266 x 0.64842 = 68.2.
        assert_eq!(fast.utilisation(), 68);
    }

    #[test]
    fn before_5_1_time_is_as_it_is_and_what_is_added_is_scaled() {
        let mut pelt = Pelt::default();
        assert!(pelt.busy_scaled(32 * PERIOD_NS, 1, 4));
        // A quarter of 1024 (1 - 1/2).
        assert_eq!(pelt.utilisation(), 128);
    }

    #[test]
    fn a_period_ends_on_the_clock_of_tracking() {
        let mut pelt = Pelt::default();
        // At a quarter of the maximum the clock takes four times as long; idling makes up for what it is behind.
        assert!(!pelt.busy(4 * PERIOD_NS - 4, 1, 4));
        assert!(pelt.busy(4, 1, 4));
        assert!(!pelt.busy(PERIOD_NS, 1, 4));
        assert!(pelt.idle(1));
        assert!(!pelt.idle(0));
    }

    #[test]
    fn passing_time_in_pieces_is_passing_it_at_once() {
        let (mut pieces, mut whole) = (Pelt::default(), Pelt::default());
        whole.busy(7_123_456, 3, 7);
        for _ in 0..7_123_456 / 64 {
            pieces.busy(64, 3, 7);
        }
        assert_eq!(pieces.into_ns, whole.into_ns);
        assert!((pieces.sum_ns - whole.sum_ns).abs() < 1.0);
    }
}
