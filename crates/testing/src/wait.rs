//! Waiting for what comes soon, but on a busy machine not at once. The limits are long: they end a test that is stuck,
//! and say nothing about speed.

use std::time::{Duration, Instant};

/// How long to wait for what is sure to come.
pub const LONG: Duration = Duration::from_secs(60);

/// Asks again and again until there is an answer; `None` when none came in time.
pub fn poll<T>(limit: Duration, mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let deadline = Instant::now() + limit;
    loop {
        if let Some(answer) = ask() {
            return Some(answer);
        }
        if Instant::now() >= deadline {
            return None;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Waits until something holds.
///
/// # Panics
///
/// If it does not for a minute.
#[track_caller]
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    assert!(poll(LONG, || holds().then_some(())).is_some(), "in {LONG:?} this did not come true: {what}");
}

/// Tries again while it fails in a way that passes; any other outcome, or the last one, is returned.
///
/// A process that another test has just started holds all that is open here, with its locks, until it runs its
/// program: for that long a file that was closed here is still in use.
///
/// # Errors
///
/// The `E` that does not pass, or that of the last try.
pub fn retry<T, E>(passes: impl Fn(&E) -> bool, mut act: impl FnMut() -> Result<T, E>) -> Result<T, E> {
    let mut last = None;
    let settled = poll(LONG, || match act() {
        Err(error) if passes(&error) => {
            last = Some(Err(error));
            None
        }
        outcome => Some(outcome),
    });
    settled.or(last).expect("at least one try")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_tried_again_and_what_does_not_is_told_at_once() {
        let mut tries = 0;
        let mut count = |end: Result<u32, &'static str>| {
            tries += 1;
            if tries % 3 == 0 { end } else { Err("busy") }
        };
        assert_eq!(retry(|error| *error == "busy", || count(Ok(7))), Ok(7));
        assert_eq!(retry(|error| *error == "busy", || count(Err("gone"))), Err("gone"));
        assert_eq!(tries, 6);
    }

    #[test]
    fn nothing_is_waited_for_longer_than_the_limit() {
        assert_eq!(poll(Duration::ZERO, || None::<()>), None);
        assert_eq!(poll(Duration::ZERO, || Some(1)), Some(1));
    }
}
