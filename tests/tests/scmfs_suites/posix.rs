//! What POSIX asks for: pjdfstest, and fsx, which knows what every byte of a file must be.

use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::{changed, run};
use pocketstone_tests::mounted::Place;
use pocketstone_tests::suites::{self, built, cases, command, settings, tell};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

#[test]
fn pjdfstest() {
    let suite = or_skip!(built("pjdfstest"));
    let place = or_skip!(Place::new());
    place.mount_helpers();
    let volume = place.volume(&[]);
    let other = place.folder("other");
    let remounting = place.path("remounting.toml");
    let text = fs::read_to_string(settings("pjdfstest.toml")).expect("the shipped settings");
    fs::write(&remounting, changed(&text, "allow_remount = false", "allow_remount = true")).expect("settings");
    let ran = |settings: &Path, patterns: &[&str]| {
        suites::pjdfstest(&suite, settings, volume.path(), &other, patterns).ends_with(0)
    };
    let all = ran(&settings("pjdfstest.toml"), &[]);
    let (remounts, skipped): (BTreeSet<_>, BTreeSet<_>) =
        cases(&all.out, "skipped").into_iter().partition(|name| name.contains("::erofs_"));
    let alone = ran(&remounting, &["::erofs_"]);
    assert_eq!(cases(&alone.out, "ok"), remounts);
    // The settings say why.
    assert_eq!(skipped, BTreeSet::from(["link::link_count_max"]));
    let passed = cases(&all.out, "ok").len() + remounts.len();
    assert!(passed >= 397, "only {passed} passed: {all}");
    tell(&format!("pjdfstest: {passed} cases passed, none failed, left out: {skipped:?}"));
    volume.end();
}

/// So many operations on each of some files of a volume, all at once, mounted in the ways given.
fn fsx(operations: u64, seeds: std::ops::RangeInclusive<u64>, ways: &[&str]) {
    let suite = or_skip!(built("fsx"));
    let place = or_skip!(Place::new());
    let mut volume = place.volume(&[]);
    for options in ways {
        volume = volume.again(&["-o", options]);
        suites::fsx(&suite, "fsx.toml", &place.path(""), volume.path(), operations, seeds.clone());
        tell(&format!("fsx: {operations} operations with the mount option {options}, seeds {seeds:?}"));
    }
    volume.end();
}

#[test]
fn fsx_for_a_while() {
    fsx(20_000, 1..=1, &["rw"]);
    fsx(2_000, 2..=2, &["direct_io", "writeback"]);
}

#[test]
#[ignore = "takes half an hour: make torture"]
fn fsx_a_million_times() {
    // Five times a million. fsx 0.3.2 never unmaps what it reads by mapping, and a process may have 65,530
    // mappings: it cannot do more than some 430,000 operations at a time.
    for first in [1, 6, 11, 16] {
        fsx(250_000, first..=first + 4, &["rw"]);
    }
    fsx(100_000, 6..=10, &["direct_io", "writeback"]);
}

#[test]
fn stress_ng() {
    let suite = or_skip!(program("stress-ng", "stress-ng"));
    let place = or_skip!(Place::new());
    let volume = place.volume(&[]);
    let mut words = command(suite);
    words.arg("--temp-path").arg(volume.path()).args(["--hdd", "2", "--hdd-bytes", "32m", "--verify"]);
    let ran = run(words.args(["--timeout", "5", "--metrics-brief"])).ends_with(0);
    assert!(!format!("{}{}", ran.out, ran.err).contains("fail:"), "{ran}");
    volume.end();
}
