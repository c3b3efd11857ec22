//! Managed flash of virtual boards: the times of its requests, what file systems ask of it, and that a repetition is
//! the same to the bit.

use pocketstone_board::Board;
use pocketstone_core::block::BlockOp;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::{FileSystem, Medium, Volume};
use pocketstone_study::results::store::log_digest;
use pocketstone_testing::{amount, or_skip, say};
use pocketstone_tests::command::{lab, write};
use pocketstone_tests::results::{repeats, value};
use pocketstone_tests::{HostLoad, managed_flash_board, measure, plan};
use pocketstone_workload::plan::Plan;

const SIZES: [u64; 9] = [4096, 8192, 16_384, 32_768, 65_536, 131_072, 262_144, 524_288, 1_048_576];

/// The output of a script on a board.
fn run(board: &Board, script: &str) -> String {
    let argv = ["sh", "-c", script].map(str::to_owned);
    let (output, status) = board.exec(&argv).map_err(|f| f.error.chain()).expect("the script runs");
    let text = String::from_utf8(output).expect("text");
    assert_eq!(status, 0, "{text}");
    text
}

/// What is published of a device: microseconds for a command, and megabytes a second.
struct Published {
    board: &'static str,
    read: (f64, f64),
    write: (f64, f64),
    flush_us: f64,
    discard_us: f64,
}

/// The numbers of the profiles, once more.
const EMMC: Published =
    Published { board: "virt-emmc", read: (75.0, 250.0), write: (44.0, 125.0), flush_us: 1000.0, discard_us: 500.0 };
const EMMC_ARM64: Published = Published { board: "virt-emmc-arm64", ..EMMC };
const SD: Published =
    Published { board: "virt-sd", read: (626.0, 100.0), write: (1590.0, 10.0), flush_us: 2000.0, discard_us: 2000.0 };
const UFS: Published =
    Published { board: "virt-ufs", read: (94.0, 350.0), write: (116.0, 150.0), flush_us: 500.0, discard_us: 300.0 };

impl Published {
    fn us(&self, op: &str, bytes: u64) -> f64 {
        let of = |(command_us, rate): (f64, f64)| command_us + bytes as f64 / rate;
        match op {
            "read" => of(self.read),
            "write" => of(self.write),
            "flush" => self.flush_us,
            "discard" => self.discard_us,
            other => panic!("no such operation: {other}"),
        }
    }

    /// Every request of the device takes its time, within 2 %.
    fn check(&self) {
        let board = or_skip!(managed_flash_board(self.board, false));
        let text = run(&board, "pocketstone-runner block-times /dev/nbd0 25");
        let mut seen = 0;
        for line in text.lines() {
            let [op, bytes, ns] = line.split_whitespace().collect::<Vec<_>>()[..] else { panic!("{line}") };
            let (bytes, us) = (bytes.parse().expect("bytes"), ns.parse::<f64>().expect("ns") / 1000.0);
            let expected = self.us(op, bytes);
            let off = us / expected - 1.0;
            assert!(off.abs() <= 0.02, "{op} of {bytes} bytes takes {us:.1} us, and not {expected:.1}");
            seen += 1;
        }
        assert_eq!(seen, 3 * SIZES.len() + 1, "{text}");
        // A program that knows nothing of the lab, by the board's clock; what it takes to start it is not of its reads.
        let script = "clock() { sed -n 's/^now at \\([0-9]*\\) nsecs/\\1/p' /proc/timer_list | head -1; }
            for n in 100 300; do
                a=$(clock); dd if=/dev/nbd0 of=/dev/null bs=256k count=$n iflag=direct 2>/dev/null; b=$(clock)
                echo $((b - a))
            done";
        let text = run(&board, script);
        let times: Vec<f64> = text.lines().filter_map(|line| line.parse().ok()).collect();
        let [few, many] = times[..] else { panic!("not understood: {text}") };
        let us = (many - few) / 200_000.0;
        let expected = self.us("read", 262_144);
        assert!((us / expected - 1.0).abs() <= 0.02, "dd's reads take {us:.1} us each, and not {expected:.1}");
    }
}

#[test]
fn requests_to_emmc_take_their_time() {
    EMMC.check();
}

#[test]
#[ignore = "boots another board: make torture"]
fn requests_to_emmc_of_a_64_bit_board_take_their_time() {
    EMMC_ARM64.check();
}

#[test]
#[ignore = "boots another board: make torture"]
fn requests_to_an_sd_card_take_their_time() {
    SD.check();
}

#[test]
#[ignore = "boots another board: make torture"]
fn requests_to_ufs_take_their_time() {
    UFS.check();
}

/// 4 KiB reads of a file, traced.
fn reads(file_system: FileSystem, pattern: Pattern, requests: u64, read_ahead_bytes: u64) -> Plan {
    let plan = plan(file_system, pattern, requests, read_ahead_bytes, 1);
    let volume = Volume { medium: Medium::Block, ..plan.volume };
    Plan { volume, trace: true, ..plan }
}

#[test]
fn every_file_system_reads_the_files_bytes_from_the_device() {
    let board = or_skip!(managed_flash_board("virt-emmc", false));
    for file_system in [FileSystem::Ext4, FileSystem::F2fs, FileSystem::Btrfs, FileSystem::Exfat] {
        let name = file_system.name();
        // Without read-ahead every call is a request of its own, and some more are of the file system.
        let measured = measure(&board, &reads(file_system, Pattern::Random, 16, 0));
        let counts = measured.outcome.block.expect("the cell is traced");
        assert!((16..=32).contains(&counts.workload.reads), "{name}: {counts:?}");
        assert_eq!(counts.workload.writes + counts.workload.discards, 0, "{name}: {counts:?}");
        let log = measured.block.expect("a log");
        let all = counts.workload.reads + counts.background.reads;
        assert_eq!(log.requests.iter().filter(|r| r.op == BlockOp::Read).count() as u64, all, "{name}");
        // Each takes as long as the device does, at least: 91 us.
        let least = measured.calls.iter().map(|call| call.latency_ns).min();
        assert!(least.is_some_and(|ns| ns > 85_000), "{name}: {least:?}");
        // A whole file of 5 MiB in windows of 128 KiB.
        let counts = measure(&board, &reads(file_system, Pattern::Sequential, 1280, 128 << 10)).outcome.block;
        let counts = counts.expect("the cell is traced");
        let bytes = counts.workload.read_bytes + counts.background.read_bytes;
        assert!((5 << 20..6 << 20).contains(&bytes), "{name}: {counts:?}");
    }
}

/// Digest of a cell: every call's start and latency, and every request.
fn digest(board: &Board, file_system: FileSystem) -> String {
    let measured = measure(board, &reads(file_system, Pattern::Random, 16, 128 << 10));
    let requests = measured.block.as_ref().map_or(0, |log| log.requests.len());
    assert!(measured.calls.len() == 16 && requests >= 16, "the logs are not empty: {requests}");
    log_digest(&measured)
}

/// Repetitions, twice as many as `half`, and a hundred in torture, half of them on a loaded host.
fn repeated(name: &str, file_system: FileSystem, half: u64) {
    let board = or_skip!(managed_flash_board(name, false));
    let expected = digest(&board, file_system);
    let half = amount(half, 50);
    for run in 0..half {
        assert_eq!(digest(&board, file_system), expected, "run {run} on an idle host");
    }
    let _load = HostLoad::on_every_core();
    for run in 0..half {
        assert_eq!(digest(&board, file_system), expected, "run {run} on a loaded host");
    }
    say(&format!("{0} of {0} repetitions are the same: {1} on {name}", 2 * half, file_system.name()));
}

#[test]
fn repetitions_on_ext4_are_the_same() {
    repeated("virt-emmc", FileSystem::Ext4, 10);
}

#[test]
#[ignore = "boots another board: make torture"]
fn repetitions_on_a_64_bit_board_are_the_same() {
    repeated("virt-emmc-arm64", FileSystem::Ext4, 2);
}

#[test]
fn repetitions_on_f2fs_are_the_same() {
    repeated("virt-emmc", FileSystem::F2fs, 2);
}

#[test]
#[ignore = "boots another board: make torture"]
fn repetitions_on_an_sd_card_are_the_same() {
    repeated("virt-sd", FileSystem::Exfat, 1);
}

#[test]
#[ignore = "boots another board: make torture"]
fn repetitions_on_ufs_are_the_same() {
    repeated("virt-ufs", FileSystem::F2fs, 1);
}

const ATOMIC: &str = r#"title = "t"
board = "virt-emmc"
[[experiment]]
name = "sqlite"
[experiment.factors]
file_system = "f2fs"
workload = "ycsb-a"
records = 50
operations = 40
journal_mode = ["delete", "atomic"]
"#;

/// SQLite on F2FS has no journal where it asks for atomic writes, and one where it does not; each transaction ends with
/// the ioctl that commits, and SQLite's own sync. The results are those of any other SQLite, or the cells would fail.
#[test]
fn atomic_writes_of_f2fs_take_the_place_of_sqlites_journal() {
    or_skip!(pocketstone_tests::qemu());
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "study.toml", ATOMIC);
    lab(home.path(), &["run", "study.toml", "--output", "a"]).ends_with(0);
    let of = |what: &str, mode: &str, file: &str| -> i64 {
        let from = "FROM file_cost f JOIN cells c ON c.id = f.cell";
        let sql = format!("SELECT {what} {from} WHERE journal_mode = '{mode}' AND file LIKE '%{file}'");
        value(&home.path().join("a"), &sql)
    };
    let updates: i64 = value(&home.path().join("a"), "SELECT count(*) / 2 FROM operation_cost WHERE writes > 0");
    assert!((10..=30).contains(&updates), "half of 40, about: {updates}");
    assert_eq!(of("count(*)", "atomic", "-journal"), 0);
    assert_eq!(of("sum(syncs)", "atomic", "data.sqlite"), 2 * updates);
    assert_eq!(of("sum(syncs)", "delete", "data.sqlite"), updates);
    assert!(of("sum(writes)", "delete", "-journal") >= 2 * updates);
    // The same pages are written to the database either way.
    assert_eq!(of("sum(written_bytes)", "atomic", "data.sqlite"), of("sum(written_bytes)", "delete", "data.sqlite"));
    repeats(home.path(), "journal_mode = 'atomic'");

    let elsewhere = ATOMIC.replace("\"f2fs\"", "\"ext4-block\"");
    write(home.path(), "elsewhere.toml", &elsewhere);
    let refused = lab(home.path(), &["study", "check", "elsewhere.toml"]).ends_with(1);
    refused.complains(&["ext4-block has no atomic writes of several pages", "f2fs"]);
}

fn cold_as_kept(board: &str) {
    let kept = or_skip!(managed_flash_board(board, false));
    let cold = or_skip!(managed_flash_board(board, true));
    assert_eq!(digest(&cold, FileSystem::Ext4), digest(&kept, FileSystem::Ext4));
}

#[test]
#[ignore = "boots another board: make torture"]
fn a_cold_boot_is_the_same() {
    cold_as_kept("virt-emmc");
}

#[test]
#[ignore = "boots another board: make torture"]
fn a_cold_boot_of_a_64_bit_board_is_the_same() {
    cold_as_kept("virt-emmc-arm64");
}

/// The table of pages that misses are counted with is that of 32-bit kernels.
#[test]
#[ignore = "boots another board: make torture"]
fn tlb_misses_are_not_counted_on_a_64_bit_board() {
    let board = or_skip!(managed_flash_board("virt-emmc-arm64", false));
    let plan = Plan { tlb: Some("cortex-a15".into()), ..reads(FileSystem::Ext4, Pattern::Random, 16, 0) };
    let failed = board.measure(&plan).expect_err("refused");
    assert!(failed.error.chain().contains("is a 64-bit one"), "{}", failed.error.chain());
}
