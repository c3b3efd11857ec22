//! Which threads take messages, and how long they look for the next one before they sleep.
//!
//! To wake a thread on another processor takes longer than most answers. So a thread that had a message a moment ago
//! looks for the next one for a while; whoever asks then has nobody to wake. That works only where nobody sleeps in
//! read(2), whom the kernel would wake all the same: as long as one thread keeps up, the others wait here. One that is
//! about to do what may take longer calls another one first, and so does one that finds more than it can do.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So many messages that were there at once are more than one thread can do.
const MANY: u32 = 2;

/// The threads of one connection.
#[derive(Default)]
pub(super) struct Readers {
    state: Mutex<State>,
    called: Condvar,
}

#[derive(Default)]
struct State {
    /// Threads that look for a message, or sleep in read(2).
    receiving: usize,
    /// Threads that wait here.
    idle: usize,
    /// Of these so many have been called.
    calls: usize,
    ended: bool,
}

impl Readers {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread is about to receive.
    pub fn begin(&self) {
        self.state().receiving += 1;
    }

    /// A thread has received something. `more`: another one has to receive meanwhile.
    pub fn got(&self, more: bool) {
        let mut state = self.state();
        state.receiving -= 1;
        if more && state.receiving == 0 && state.calls < state.idle {
            state.calls += 1;
            drop(state);
            self.called.notify_one();
        }
    }

    /// A thread that receives has found nothing. If another one receives as well, it waits until it is called. Whether
    /// it did, or it is over.
    pub fn step_back(&self) -> bool {
        let mut state = self.state();
        if state.receiving < 2 && !state.ended {
            return false;
        }
        state.receiving -= 1;
        state.idle += 1;
        while state.calls == 0 && !state.ended {
            state = self.called.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.calls = state.calls.saturating_sub(1);
        state.idle -= 1;
        state.receiving += 1;
        true
    }

    /// There is nothing more to receive: nobody waits here any more.
    pub fn end(&self) {
        self.state().ended = true;
        self.called.notify_all();
    }
}

/// How one thread looks for messages.
#[derive(Default)]
pub(super) struct Patience {
    /// The last message came soon.
    looks: bool,
    /// Messages in sequence that were there at once.
    at_once: u32,
}

impl Patience {
    /// Whether it is worth looking for a message.
    pub fn looks(&self) -> bool {
        self.looks
    }

    /// Looks for a message until there is one (or an error), for so long at most.
    pub fn look<T>(&mut self, most: Duration, mut receive: impl FnMut() -> Option<T>) -> Option<T> {
        let begin = Instant::now();
        self.at_once = self.at_once.saturating_add(1);
        loop {
            if let Some(received) = receive() {
                return Some(received);
            }
            self.at_once = 0;
            if begin.elapsed() >= most {
                return None;
            }
            // Others have something to do, perhaps.
            std::thread::yield_now();
        }
    }

    /// A message came after it was waited for so long, without looking or after looking in vain, by who looks for so
    /// long at most.
    pub fn slept(&mut self, waited: Duration, most: Duration) {
        (self.looks, self.at_once) = (waited < most, 0);
    }

    /// Whether there is more than this thread can do.
    pub fn is_behind(&self) -> bool {
        self.at_once >= MANY
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const MOST: Duration = Duration::from_millis(20);

    #[test]
    fn who_had_nothing_for_long_does_not_look_and_who_had_something_soon_does() {
        let mut patience = Patience::default();
        assert!(!patience.looks());
        patience.slept(MOST / 2, MOST);
        assert!(patience.looks());
        patience.slept(MOST * 2, MOST);
        assert!(!patience.looks());
        assert_eq!(patience.look(MOST, || Some(7)), Some(7));
        let (mut looks, begin) = (0, Instant::now());
        let nothing = patience.look(MOST, || {
            looks += 1;
            None::<()>
        });
        assert!(nothing.is_none() && looks > 1 && begin.elapsed() >= MOST, "{looks}");
    }

    #[test]
    fn one_is_behind_after_messages_that_were_there_at_once() {
        let mut patience = Patience { looks: true, at_once: MANY };
        assert!(patience.is_behind());
        let mut looks = 0;
        let later = patience.look(Duration::from_secs(30), || {
            looks += 1;
            (looks > 20).then_some(())
        });
        assert!(later.is_some() && !patience.is_behind());
        patience.at_once = MANY;
        patience.slept(Duration::ZERO, MOST);
        assert!(!patience.is_behind());
    }

    #[test]
    fn the_last_who_receives_does_not_step_back() {
        let readers = Readers::default();
        readers.begin();
        assert!(!readers.step_back());
        readers.end();
        assert!(readers.step_back(), "it is over");
    }

    #[test]
    fn who_steps_back_comes_again_when_called_and_only_where_nobody_receives() {
        let readers = Arc::new(Readers::default());
        readers.begin();
        readers.begin();
        let back = Arc::new(AtomicUsize::new(0));
        let wait = || {
            let (same, came) = (readers.clone(), back.clone());
            std::thread::spawn(move || {
                assert!(same.step_back());
                came.fetch_add(1, Ordering::SeqCst);
            })
        };
        let thread = wait();
        let counts = || {
            let state = readers.state();
            (state.receiving, state.idle)
        };
        let until = |what: &str, holds: &dyn Fn() -> bool| {
            let begin = Instant::now();
            while !holds() {
                assert!(begin.elapsed() < Duration::from_secs(30), "{what}");
                std::thread::yield_now();
            }
        };
        until("it steps back", &|| counts() == (1, 1));
        // This thread has a message that is answered soon, and receives again.
        readers.got(false);
        readers.begin();
        assert_eq!((counts(), back.load(Ordering::SeqCst)), ((1, 1), 0));
        // And one that takes longer.
        readers.got(true);
        thread.join().unwrap();
        assert_eq!(counts(), (1, 0), "it receives, alone");
        // At the end nobody waits.
        readers.begin();
        let thread = wait();
        until("it steps back", &|| counts() == (1, 1));
        readers.end();
        thread.join().unwrap();
        assert_eq!((counts().1, back.load(Ordering::SeqCst)), (0, 2));
    }
}
