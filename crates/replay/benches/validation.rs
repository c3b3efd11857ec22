//! The model held against published measurements of phones: every predicted row, the median error and the worst one.
//!
//! The tables are those of PocketData's authors and of the Pixel 2's runs, which tests/data has. A run's processor
//! seconds and its wall seconds, and runs with other delays, are never pooled: most of the wall seconds are known
//! sleep.
use pocketstone_replay::device::Device;
use pocketstone_replay::validate::{self, Check};
use std::io::Write;
use std::path::Path;

/// Table, device and the phone's governor.
const TABLES: [(&str, &str, &str); 2] =
    [("measured_msm8974.csv", "nexus-5", "ondemand-legacy"), ("pixel2_fixed_work.csv", "msm8998", "schedutil")];

/// Quantity, and the median and the worst error aimed at.
const AIMS: [(&str, f64, Option<f64>); 4] =
    [("cpu_s", 0.08, Some(0.25)), ("wall_s", 0.05, None), ("runtime_s", 0.06, None), ("energy_uah", 0.06, Some(0.15))];

/// The delay in a row's words, where it has one.
fn delay(check: &Check) -> &str {
    check.row.split(' ').nth(1).filter(|word| ["0ms", "1ms", "log"].contains(word)).unwrap_or("all rows")
}

fn main() {
    let mut out = std::io::stdout().lock();
    let mut say = |line: String| writeln!(out, "{line}").expect("standard output");
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, device, governor) in TABLES {
        let text = std::fs::read_to_string(project.join("crates/replay/tests/data").join(file)).expect("a table");
        let device = Device::load(&project.join("devices"), device).expect("a profile");
        let checks =
            validate::checks(file, &text, &device, &governor.parse().expect("a governor"), &[]).expect("a table");
        say(format!("{file} on {}: modelled, measured, error", device.name));
        for c in &checks {
            let error = 100.0 * c.error();
            say(format!("  {:<20} {:<10} {:>9.2} {:>9.2} {error:>+7.1} %", c.row, c.quantity, c.predicted, c.measured));
        }
        let mut groups: Vec<(&str, &str)> = checks.iter().map(|c| (c.quantity, delay(c))).collect();
        groups.sort_unstable();
        groups.dedup();
        for (quantity, of) in groups {
            let rows = checks.iter().filter(|c| c.quantity == quantity && delay(c) == of);
            let (median, worst) = validate::errors(rows).expect("rows");
            let (_, aim, worst_aim) = AIMS.into_iter().find(|(q, ..)| *q == quantity).expect("a known quantity");
            let worst_aim = worst_aim.map_or("none".to_owned(), |aim| format!("{:.0} %", 100.0 * aim));
            let (median, aim, error) = (100.0 * median, 100.0 * aim, 100.0 * worst.error());
            say(format!(
                "  {quantity}, {of}: median error {median:.1} % (aim {aim:.0} %), worst {error:+.1} % ({}; aim \
                 {worst_aim})",
                worst.row
            ));
        }
    }
}
