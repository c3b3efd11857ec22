//! Delays between operations.

use super::distribution::{Lognormal, published_log_ns};
use super::trace::Trace;
use pocketstone_core::database::Delay;
use pocketstone_core::random::Random;

/// Delays before one operation after the other: none before the first, then what the delay's kind says, from
/// the seed. There is no end to them.
pub fn delays(delay: Delay, seed: u64) -> impl Iterator<Item = u64> {
    let mut random = Random::labelled(seed, "database delays");
    let lognormal = match delay {
        // A mean of 0 has no logarithm, and no delay is what it means.
        Delay::Lognormal { mean_ns, sigma } if mean_ns > 0 => Some(Lognormal::new(mean_ns, sigma)),
        _ => None,
    };
    (0u64..).map(move |number| match delay {
        _ if number == 0 => 0,
        Delay::None => 0,
        Delay::Fixed { ns } => ns,
        Delay::Lognormal { .. } => lognormal.as_ref().map_or(0, |l| l.draw(&mut random)),
        Delay::PublishedLog => published_log_ns(number),
    })
}

impl Trace {
    /// Sets the pause before every measured operation but the first, which gets none; steps that are
    /// joined to the one before them keep theirs.
    pub fn set_delays(&mut self, delay: Delay, seed: u64) {
        let operations = self.measured_mut().iter_mut().filter(|step| !step.joined);
        for (step, pause_ns) in operations.zip(delays(delay, seed)) {
            step.pause_ns = pause_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::database::StatementKind;

    fn pauses(delay: Delay, seed: u64) -> Vec<u64> {
        let mut trace = Trace::default();
        let statement = trace.add_statement("SELECT 1", StatementKind::Sql, 0);
        for joined in [false, false, true, false, false] {
            trace.measure(77, statement, &[], joined).unwrap();
        }
        trace.set_delays(delay, seed);
        trace.measured().iter().map(|s| s.pause_ns).collect()
    }

    #[test]
    fn delays_stand_before_every_operation_but_the_first() {
        assert_eq!(pauses(Delay::None, 1), [0, 0, 77, 0, 0]);
        assert_eq!(pauses(Delay::Fixed { ns: 5 }, 1), [0, 5, 77, 5, 5]);
        // round(ln 1), round(ln 2), round(ln 3) ms.
        assert_eq!(pauses(Delay::PublishedLog, 1), [0, 0, 77, 1_000_000, 1_000_000]);
        assert_eq!(pauses(Delay::Lognormal { mean_ns: 0, sigma: 1.0 }, 1), [0, 0, 77, 0, 0]);
    }

    #[test]
    fn lognormal_delays_come_from_the_seed() {
        let delay = Delay::Lognormal { mean_ns: 6_000_000, sigma: 1.0 };
        let [first, one, _, two, _] = pauses(delay, 1)[..] else { panic!("five steps") };
        assert!(first == 0 && one > 0 && two > 0 && one != two);
        assert_eq!(pauses(delay, 1), pauses(delay, 1));
        assert_ne!(pauses(delay, 1), pauses(delay, 2));
    }
}
