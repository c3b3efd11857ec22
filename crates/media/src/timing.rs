//! What is faster on this processor: measured where rules by its name would be wrong for the next one.

use std::time::{Duration, Instant};

/// The best time of each of these, over some rounds in which all run by turns: what else the machine does makes single
/// ones longer, never shorter.
pub(crate) fn best<const N: usize>(rounds: usize, mut runs: [&mut dyn FnMut(); N]) -> [Duration; N] {
    let mut best = [Duration::MAX; N];
    for _ in 0..rounds {
        for (run, best) in runs.iter_mut().zip(&mut best) {
            let start = Instant::now();
            run();
            *best = start.elapsed().min(*best);
        }
    }
    best
}

/// Whether a time is less than the other by a tenth at least: the rest is noise.
pub(crate) fn is_clearly_less(time: Duration, other: Duration) -> bool {
    time.as_nanos() * 10 < other.as_nanos() * 9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_run_by_turns() {
        let order = std::cell::RefCell::new(Vec::new());
        best(2, [&mut || order.borrow_mut().push(1), &mut || order.borrow_mut().push(2)]);
        assert_eq!(*order.borrow(), [1, 2, 1, 2]);
    }

    #[test]
    fn a_tie_is_not_less() {
        let of = Duration::from_nanos;
        assert!(!is_clearly_less(of(95), of(100)) && is_clearly_less(of(89), of(100)));
    }
}
