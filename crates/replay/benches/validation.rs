//! The model held against published measurements of phones: every predicted row, the median error and the worst one.
//!
//! The tables are those of PocketData's authors and of the Pixel 2's runs, which tests/data has. The aims: a median
//! error of 15 % for the databases' runs, of 10 % for the fixed work.
use pocketstone_replay::device::Device;
use pocketstone_replay::validate::{self, Check};
use std::io::Write;
use std::path::Path;

/// Table, device, the phone's governor, and the median error aimed at.
const TABLES: [(&str, &str, &str, f64); 2] = [
    ("measured_msm8974.csv", "nexus-5", "ondemand-legacy", 0.15),
    ("pixel2_fixed_work.csv", "msm8998", "schedutil", 0.10),
];

fn main() {
    let mut out = std::io::stdout().lock();
    let mut say = |line: String| writeln!(out, "{line}").expect("standard output");
    let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    for (file, device, governor, aim) in TABLES {
        let text = std::fs::read_to_string(project.join("crates/replay/tests/data").join(file)).expect("a table");
        let device = Device::load(&project.join("devices"), device).expect("a profile");
        let checks =
            validate::checks(file, &text, &device, &governor.parse().expect("a governor"), &[]).expect("a table");
        say(format!("{file} on {}: modelled, measured, error", device.name));
        for c in &checks {
            let error = 100.0 * c.error();
            say(format!("  {:<20} {:<10} {:>9.2} {:>9.2} {error:>+7.1} %", c.row, c.quantity, c.predicted, c.measured));
        }
        let mut quantities: Vec<&str> = checks.iter().map(|c| c.quantity).collect();
        quantities.sort_unstable();
        quantities.dedup();
        for quantity in quantities {
            let of: Vec<&Check> = checks.iter().filter(|c| c.quantity == quantity).collect();
            let (median, worst) = validate::errors(of).expect("rows");
            say(format!(
                "  {quantity}: median error {:.1} % (aim {:.0} %), worst {:+.1} % ({})",
                100.0 * median,
                100.0 * aim,
                100.0 * worst.error(),
                worst.row
            ));
        }
    }
}
