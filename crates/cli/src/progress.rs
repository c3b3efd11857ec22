//! Progress on a terminal; nothing where there is none.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use pocketstone_board::{Failed, Measured};
use pocketstone_study::cell::Cell;
use pocketstone_study::run::Observer;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

/// The one line of progress that everything shares.
static BAR: LazyLock<ProgressBar> = LazyLock::new(|| {
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
    bar.set_style(style("{spinner} {msg} ({elapsed})"));
    bar
});

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
    })
}

/// Takes the line away.
pub fn clear() {
    BAR.finish_and_clear();
}

/// Shows a study's progress with the time that is left.
pub struct RunProgress;

impl Observer for RunProgress {
    fn begin(&mut self, _total: usize, todo: usize, states: usize) {
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
    }

    fn cell(&mut self, cell: &Cell, result: &Result<Measured, Failed>, _host_ms: f64) {
        BAR.inc(1);
        if let Err(failed) = result {
            let text = format!("failed: {}: {}", cell.describe(), failed.error.chain());
            match BAR.is_hidden() {
                true => eprintln!("{text}"),
                false => BAR.println(text),
            }
        }
    }
}
