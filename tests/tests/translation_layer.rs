//! Managed flash with a translation layer: what a cell takes is what its commands and the operations of the chip take.

use pocketstone_testing::or_skip;
use pocketstone_tests::command::{lab, write};
use pocketstone_tests::project;
use pocketstone_tests::results::{self, value};

/// The shipped board with 16 MiB, 64 erase blocks of 256 KiB and 7 spare ones, and pages that take so long that the
/// processor's time is little beside them.
fn profile() -> String {
    let shipped = std::fs::read_to_string(project().join("devices/virt-sd-ftl.toml")).expect("the profile");
    let changes = [
        ("mib = 256", "mib = 16"),
        ("block_pages = 256", "block_pages = 16"),
        ("spare_percent = 7", "spare_percent = 10"),
        ("program_us = 1333", "program_us = 6000"),
    ];
    changes.iter().fold(shipped, |text, (from, to)| {
        assert_eq!(text.matches(from).count(), 1, "{from}");
        text.replace(from, to)
    })
}

/// Overwrites of 4 KiB in a file that is most of the device, each made durable: more than the chip has room for.
const STUDY: &str = r#"title = "t"
board = "card.toml"
[[experiment]]
name = "overwrite"
traced = "each"
[experiment.factors]
file_system = "ext4-block"
workload = "files"
operation = "write"
pattern = "random"
file_bytes = "9MiB"
requests = 200
request_bytes = 4096
sync = "each"
[[experiment]]
name = "cut"
traced = "each"
[experiment.factors]
file_system = "ext4-block"
workload = "files"
operation = "write"
pattern = "random"
files = 4
file_bytes = "16KiB"
requests = 12
request_bytes = 4096
sync = "each"
power_cuts = 2
"#;

/// By the kernel's tracer the commands, by the device's server the operations of its chip, and by the board's clock the
/// time: all three fit the profile, within 2 %. And after a cut of the power what was promised is there.
#[test]
#[ignore = "boots another board: make torture"]
fn a_cell_takes_what_its_commands_and_the_chips_operations_take() {
    or_skip!(pocketstone_tests::qemu());
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "card.toml", &profile());
    write(home.path(), "study.toml", STUDY);
    lab(home.path(), &["run", "study.toml", "--output", "a"]).ends_with(0);
    let run = home.path().join("a");
    let of = |experiment: &str, name: &str| results::metric(&run, name, &format!("experiment = '{experiment}'"));
    let metric = |name: &str| of("overwrite", name);

    let bytes = metric("device_read_request_bytes") + metric("device_written_request_bytes");
    let commands = ["device_reads", "device_writes", "device_flushes", "device_discards"].map(metric);
    // Each command takes 526 us, and its bytes go at 100 a microsecond.
    let commands_us = commands.iter().sum::<f64>() * 526.0 + bytes / 100.0;
    let [reads, programs, erases] = ["device_page_reads", "device_page_programs", "device_block_erases"].map(metric);
    let chip_us = reads * 100.0 + programs * 6000.0 + erases * 5000.0;
    let sql = "SELECT CAST(outcome ->> '$.end_ns' - outcome ->> '$.start_ns' AS REAL) / 1000 FROM cell
               WHERE traced AND experiment = 'overwrite'";
    let run_us: f64 = value(&run, sql);
    let off = run_us / (commands_us + chip_us) - 1.0;
    assert!(off.abs() <= 0.02, "{run_us} us, and not {commands_us} + {chip_us}: {off:.4}");

    let moved = metric("device_moved_pages");
    assert!(moved > 0.0 && erases > 0.0, "garbage was collected: {moved} pages moved, {erases} blocks erased");
    // A page for each that is moved, and at least one for each write, which may begin and end in the middle of one.
    let least = metric("device_writes") + moved;
    assert!(programs >= least, "{programs} programs, and at least {least}");
    // Both recorders saw the same bytes.
    let amplification = programs * 16_384.0 / metric("device_written_request_bytes");
    assert!((metric("write_amplification") / amplification - 1.0).abs() < 1e-9, "{amplification}");

    results::repeats(home.path(), "experiment = 'overwrite'");

    assert_eq!(of("cut", "power_cuts"), 2.0);
    assert_eq!(of("cut", "cuts_with_broken_promises"), 0.0);
    assert!(of("cut", "promises") > 0.0);
}

#[test]
fn a_layer_that_cannot_be_is_refused_before_anything_is_run() {
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "card.toml", &profile().replace("spare_percent = 10", "spare_percent = 1"));
    write(home.path(), "study.toml", STUDY);
    let refused = lab(home.path(), &["study", "check", "study.toml"]).ends_with(1);
    refused.complains(&["[block.translation] spare_percent = 1", "set it to more than 1"]);
}
