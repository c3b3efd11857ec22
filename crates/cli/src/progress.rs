//! Progress: one line on a terminal, and where there is none (a log, a pipe) a line now and then.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pocketstone_board::{Failed, Measured};
use pocketstone_cli::tell;
use pocketstone_core::words::counted;
use pocketstone_study::run::Observer;
use pocketstone_study::specification::cell::Cell;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Between lines where there is no terminal. What is done sooner says nothing.
const EVERY: Duration = Duration::from_secs(15);

/// The one line of progress that everything shares.
static BAR: LazyLock<ProgressBar> = LazyLock::new(|| {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(style("{spinner} {msg} ({elapsed})"));
    bar
});

/// What is said without a terminal.
static SAID: Mutex<Said> = Mutex::new(Said { at: None, turn: 0 });

/// When something was last said.
struct Said {
    /// Or would have been for the first time.
    at: Option<Instant>,
    /// How often there was something to say.
    turn: u64,
}

impl Said {
    /// Something is to be said: its turn, and after how long it may be.
    fn wish(&mut self, now: Instant) -> (u64, Duration) {
        self.turn += 1;
        let wait = EVERY.saturating_sub(now.duration_since(*self.at.get_or_insert(now)));
        if wait.is_zero() {
            self.at = Some(now);
        }
        (self.turn, wait)
    }

    /// Whether nothing else was to be said since a turn; then it is said now.
    fn is_still(&mut self, turn: u64, now: Instant) -> bool {
        let still = self.turn == turn;
        if still {
            self.at = Some(now);
        }
        still
    }

    fn wished(now: Instant) -> (u64, Duration) {
        SAID.lock().unwrap_or_else(PoisonError::into_inner).wish(now)
    }
}

fn say_now_and_then(text: impl FnOnce() -> String) {
    if BAR.is_hidden() && Said::wished(Instant::now()).1.is_zero() {
        tell(&text());
    }
}

/// Says what is being done, unless it is done before its time comes.
fn say_if_it_lasts(stage: &str) {
    if !BAR.is_hidden() {
        return;
    }
    let (turn, wait) = Said::wished(Instant::now());
    if wait.is_zero() {
        tell(stage);
        return;
    }
    let stage = stage.to_owned();
    // It wakes up once: what this machine measures meanwhile is not disturbed more than by saying it.
    std::thread::spawn(move || {
        std::thread::sleep(wait);
        let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
        if !BAR.is_finished() && said.is_still(turn, Instant::now()) {
            tell(&stage);
        }
    });
}

fn style(template: &str) -> ProgressStyle {
    // A template that is wrong would show in the first run of any command; the default one does.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// A line that says what is being done while it takes long.
pub fn stage_line() -> Arc<dyn Fn(&str) + Send + Sync> {
    Arc::new(|stage| {
        if BAR.is_finished() {
            // Taken away before, perhaps as a bar.
            BAR.reset();
            BAR.set_style(style("{spinner} {msg} ({elapsed})"));
        }
        BAR.enable_steady_tick(Duration::from_millis(120));
        BAR.set_message(stage.to_owned());
        say_if_it_lasts(stage);
    })
}

/// Takes the line away.
pub fn clear() {
    BAR.finish_and_clear();
}

/// Shows how many shards are there, and how many jobs are at the others.
pub fn shards(there: usize, all: usize, running: usize) {
    let text = format!("{there} of {all} shards, {running} jobs running");
    BAR.set_style(style("{msg} {wide_bar} {elapsed}"));
    BAR.set_length(all as u64);
    BAR.set_position(there as u64);
    BAR.set_message(text.clone());
    say_now_and_then(|| text);
}

/// Shows a study's progress with the time that is left.
#[derive(Default)]
pub struct RunProgress {
    todo: usize,
    done: usize,
    /// Those that are made, and all.
    states: (usize, usize),
}

impl RunProgress {
    /// What is done, and how long the rest takes.
    fn tell(&mut self, left: Option<Duration>) {
        let left = left.map_or_else(String::new, |left| format!(", {} left", in_words(left)));
        let (done, todo) = (self.done, self.todo);
        let text = match self.states.1 > self.states.0 {
            true => format!("state {} of {}, before {}{left}", self.states.0 + 1, self.states.1, counted(todo, "cell")),
            false => format!("{done} of {}{left}", counted(todo, "cell")),
        };
        BAR.set_position((self.states.0 + done) as u64);
        BAR.set_message(text.clone());
        say_now_and_then(|| text);
    }
}

impl Observer for RunProgress {
    fn begin(&mut self, todo: usize, states: usize) {
        (self.todo, self.done, self.states) = (todo, 0, (0, states));
        BAR.set_style(style("{msg} {wide_bar}"));
        BAR.set_length((todo + states) as u64);
        BAR.enable_steady_tick(Duration::from_millis(200));
        self.tell(None);
    }

    fn state(&mut self, left: Option<Duration>) {
        self.states.0 += 1;
        self.tell(left);
    }

    fn replays(&mut self, done: usize, total: usize) {
        BAR.set_style(style("{msg} {pos}/{len} {wide_bar}"));
        BAR.set_message("replays");
        BAR.set_length(total as u64);
        BAR.set_position(done as u64);
        say_now_and_then(|| format!("replayed {done} of {}", counted(total, "run")));
    }

    fn cell(&mut self, cell: &Cell, result: &Result<Measured, Failed>, left: Option<Duration>) {
        self.done += 1;
        self.tell(left);
        if let Err(failed) = result {
            let text = format!("failed: {}: {}", cell.describe(), failed.error.chain());
            match BAR.is_hidden() {
                true => tell(&text),
                false => BAR.println(text),
            }
        }
    }
}

/// A time for people who wait.
pub fn in_words(time: Duration) -> String {
    match time.as_secs_f64().ceil() as u64 {
        s @ 0..=90 => format!("{s} s"),
        s @ 91..=5400 => format!("{} min", s.div_ceil(60)),
        s @ 5401..=172_800 => format!("{:.1} h", s as f64 / 3600.0),
        s => format!("{} days", s.div_ceil(86_400)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_as_exact_as_people_need() {
        let words = |s: f64| in_words(Duration::from_secs_f64(s));
        assert_eq!(
            [0.2, 90.0, 91.0, 5400.0, 9000.0, 500_000.0].map(words),
            ["1 s", "90 s", "2 min", "90 min", "2.5 h", "6 days"]
        );
    }

    #[test]
    fn what_lasts_is_said_and_what_follows_soon_is_not() {
        let mut said = Said { at: None, turn: 0 };
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        // The first stage waits as long as any; the second one takes its turn.
        let (first, wait) = said.wish(start);
        assert_eq!(wait, EVERY);
        let (second, wait) = said.wish(after(5));
        assert_eq!(wait, EVERY - Duration::from_secs(5));
        assert!(!said.is_still(first, after(15)));
        assert!(said.is_still(second, after(15)));
        // It was said at 15 s.
        assert_eq!(said.wish(after(20)).1, EVERY - Duration::from_secs(5));
        assert_eq!(said.wish(after(30)).1, Duration::ZERO);
        assert_eq!(said.wish(after(31)).1, EVERY - Duration::from_secs(1));
    }
}
