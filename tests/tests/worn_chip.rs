//! Raw NAND with faults: what the simulator breaks, what the kernel puts right, and what is on the volume afterwards.

use pocketstone_testing::or_skip;
use pocketstone_tests::command::{lab, write};
use pocketstone_tests::results::{self, repeats_with};
use std::path::Path;

const STUDY: &str = r#"title = "t"
board = "virt-nand-small"
[[experiment]]
name = "read"
traced = "none"
[experiment.factors]
file_system = "jffs2"
compression = "none"
file_bytes = "4MiB"
requests = 1024
faults = ["bitflips=0", "bitflips=1"]
[[experiment]]
name = "write"
traced = "none"
[experiment.factors]
file_system = "ubifs"
workload = "files"
operation = "write"
pattern = "random"
file_bytes = "4MiB"
requests = 800
request_bytes = 4096
sync = "each"
faults = "weakblocks=20%:0"
[[experiment]]
name = "yaffs2"
traced = "none"
[experiment.factors]
file_system = "yaffs2"
workload = "files"
operation = "write"
pattern = "random"
file_bytes = "6MiB"
requests = 3000
request_bytes = 4096
sync = "each"
faults = ["weakblocks=20%:0", "weakpages=1%:1"]
"#;

/// A metric of an experiment's cell.
fn of(run: &Path, experiment: &str, faults: &str, metric: &str) -> f64 {
    results::metric(run, metric, &format!("experiment = '{experiment}' AND faults = '{faults}'"))
}

/// The simulator says itself what it broke: each flipped bit of data or its code is one that the kernel's error
/// correction put right, and each block that could not be erased is marked bad. What was written is there.
#[test]
#[ignore = "boots another board: make torture"]
fn what_the_chip_breaks_is_put_right_or_left_out_and_the_contents_stay() {
    or_skip!(pocketstone_tests::qemu());
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "study.toml", STUDY);
    lab(home.path(), &["run", "study.toml", "--output", "a"]).ends_with(0);
    let run = home.path().join("a");
    let all = ["flipped_bits", "corrected_bits", "failed_corrections", "grown_bad_blocks", "worn_wrong_contents"];

    assert_eq!(all.map(|metric| of(&run, "read", "bitflips=0", metric)), [0.0; 5]);
    let [flipped, corrected, failed, bad, wrong] = all.map(|metric| of(&run, "read", "bitflips=1", metric));
    // One in 1024 loads of a page flips a bit. JFFS2 reads 2048 pages several times in parts, and a bit in a part that
    // is not moved, or in the spare area beside the code, is not corrected.
    assert!((1.0..=60.0).contains(&flipped) && corrected <= flipped, "{flipped} flipped, {corrected} corrected");
    assert!(corrected >= 1.0, "{flipped} flipped");
    assert_eq!([failed, bad, wrong], [0.0; 3]);

    let weak = "weakblocks=20%:0";
    let [_, _, failed, bad, wrong] = all.map(|metric| of(&run, "write", weak, metric));
    let unerased = of(&run, "write", weak, "unerased_blocks");
    // 20 % of 128 blocks are 26, of which no more can be bad than could not be erased.
    assert!((1.0..=26.0).contains(&bad) && bad <= unerased, "{bad} bad, {unerased} erases failed");
    assert_eq!([failed, wrong], [0.0; 2]);
    assert_eq!(of(&run, "write", weak, "worn_read_only_mounts"), 0.0);

    // YAFFS2 marks a block whose erase failed twice, and writes elsewhere what a page does not take.
    for (faults, broken) in [(weak, "unerased_blocks"), ("weakpages=1%:1", "unprogrammed_pages")] {
        let [_, _, failed, bad, wrong] = all.map(|metric| of(&run, "yaffs2", faults, metric));
        let broken = of(&run, "yaffs2", faults, broken);
        assert!(broken >= 1.0 && bad <= broken, "{faults}: {bad} bad, {broken} failed");
        assert_eq!([failed, wrong], [0.0; 2], "{faults}");
        assert_eq!(of(&run, "yaffs2", faults, "worn_refused_mounts"), 0.0, "{faults}");
    }
    let worn = |run: &Path| -> String {
        results::value(run, "SELECT outcome ->> '$.worn' FROM cell WHERE point ->> '$.faults' = 'bitflips=1'")
    };
    let expected = worn(&run);
    repeats_with(home.path(), "faults = 'bitflips=1'", |run| assert_eq!(worn(run), expected));
}

#[test]
fn faults_of_a_chip_that_is_not_there_are_refused_when_the_study_is_checked() {
    let home = tempfile::tempdir().unwrap();
    let elsewhere = STUDY.replace("\"ubifs\"", "\"ext4-block\"").replace("virt-nand-small", "virt-emmc");
    write(home.path(), "study.toml", &elsewhere);
    let refused = lab(home.path(), &["study", "check", "study.toml"]).ends_with(1);
    refused.complains(&["is not on raw NAND", "omit faults", "study.toml"]);
}
