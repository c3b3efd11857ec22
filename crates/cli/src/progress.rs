//! Progress: one line on a terminal, and where there is none (a log, a pipe) a line now and then.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pocketstone_board::{Failed, Measured};
use pocketstone_study::cell::Cell;
use pocketstone_study::run::Observer;
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

/// When something was last said without a terminal, or would have been for the first time.
static SAID: Mutex<Option<Instant>> = Mutex::new(None);

fn say_now_and_then(text: impl FnOnce() -> String) {
    if !BAR.is_hidden() {
        return;
    }
    let mut said = SAID.lock().unwrap_or_else(PoisonError::into_inner);
    if said.get_or_insert_with(Instant::now).elapsed() >= EVERY {
        *said = Some(Instant::now());
        eprintln!("{}", text());
    }
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
        say_now_and_then(|| stage.to_owned());
    })
}

/// Takes the line away.
pub fn clear() {
    BAR.finish_and_clear();
}

/// Shows a study's progress with the time that is left.
#[derive(Default)]
pub struct RunProgress {
    todo: usize,
    done: usize,
}

impl Observer for RunProgress {
    fn begin(&mut self, _total: usize, todo: usize, states: usize) {
        (self.todo, self.done) = (todo, 0);
        BAR.set_style(style("{msg} {bar:30} {pos}/{len} {eta} left"));
        BAR.set_message("measuring");
        // A state costs about as much as a few cells.
        BAR.set_length(todo as u64 + 4 * states as u64);
        BAR.set_position(0);
        BAR.reset_eta();
        BAR.enable_steady_tick(Duration::from_millis(200));
    }

    fn state(&mut self, done: usize) {
        BAR.set_position(4 * done as u64);
        BAR.set_message("measuring");
    }

    fn replays(&mut self, done: usize, total: usize) {
        BAR.set_style(style("{msg} {bar:30} {pos}/{len}"));
        BAR.set_message(format!("replaying {total} runs"));
        BAR.set_length(total as u64);
        BAR.set_position(done as u64);
        say_now_and_then(|| format!("replayed {done} of {total} runs"));
    }

    fn cell(&mut self, cell: &Cell, result: &Result<Measured, Failed>, _host_ms: f64) {
        BAR.inc(1);
        self.done += 1;
        say_now_and_then(|| {
            let minutes = BAR.eta().as_secs().div_ceil(60);
            format!("measured {} of {} cells, about {minutes} min left", self.done, self.todo)
        });
        if let Err(failed) = result {
            let text = format!("failed: {}: {}", cell.describe(), failed.error.chain());
            match BAR.is_hidden() {
                true => eprintln!("{text}"),
                false => BAR.println(text),
            }
        }
    }
}
