//! What `mkfs` makes, and what it leaves alone.

use pocketstone_testing::or_skip;
use pocketstone_tests::command::{Ran, run};
use pocketstone_tests::mounted::{MountedVolume, Place, make, scmfs};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

fn mkfs(region: &Path, words: &[&str]) -> Ran {
    run(scmfs(["mkfs"]).args(words).arg(region))
}

#[test]
fn a_new_region_is_its_owners_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let mode = |path: &Path| fs::metadata(path).expect("the region").permissions().mode() & 0o7777;
    let new = folder.path().join("new");
    mkfs(&new, &["--size", "16M"]).ends_with(0);
    assert_eq!(mode(&new), 0o600);
    // Whoever made the file before knew whom it is for.
    let old = folder.path().join("old");
    fs::write(&old, "").expect("a file");
    fs::set_permissions(&old, fs::Permissions::from_mode(0o640)).expect("its mode");
    mkfs(&old, &["--size", "16M"]).ends_with(0);
    assert_eq!(mode(&old), 0o640);
}

#[test]
fn what_cannot_be_made_leaves_everything_as_it_was() {
    let folder = tempfile::tempdir().expect("a folder");
    let long = "a label of more than 32 bytes, which is too long";
    let wrong: [(&[&str], &[&str]); 5] = [
        (&["--max-size", "8M"], &["8 MiB", "--max-size"]),
        (&["--inodes", "4000000"], &["too small", "--inodes"]),
        (&["--small-zone", "1G"], &["small-page zone", "the data area has"]),
        (&["--label", long], &["longer than 32 bytes"]),
        (&["--inodes", "1"], &["1 inodes"]),
    ];
    for (words, says) in wrong {
        let words = [&["--size", "16M", "--force"], words].concat();
        let new = folder.path().join("new");
        mkfs(&new, &words).ends_with(1).complains(says);
        assert!(!new.exists(), "{words:?} leaves a file");
        for held in ["", "a letter"] {
            let old = folder.path().join("old");
            fs::write(&old, held).expect("a file");
            mkfs(&old, &words).ends_with(1).complains(says);
            assert_eq!(fs::read_to_string(&old).expect("the file"), held, "{words:?}");
        }
    }
    // The size itself is no mistake.
    mkfs(&folder.path().join("exact"), &["--size", "16M", "--max-size", "16M"]).ends_with(0);
}

#[test]
fn a_size_that_there_is_no_room_for_destroys_nothing() {
    let folder = tempfile::tempdir().expect("a folder");
    let old = folder.path().join("old");
    fs::write(&old, "a letter").expect("a file");
    mkfs(&old, &["--size", "1048576T", "--max-size", "1048576T", "--force"]).ends_with(1);
    assert_eq!(fs::read_to_string(&old).expect("the file"), "a letter");
}

#[test]
fn nobody_declared_what_was_not_declared() {
    let folder = tempfile::tempdir().expect("a folder");
    let region = folder.path().join("region");
    fs::write(&region, vec![7; 1 << 20]).expect("a file");
    // A command that flushes what it stores knows no more of the memory than any other.
    let ran = run(scmfs(["fsck", "--repair"]).arg(&region)).ends_with(1).complains(&["is not an SCMFS volume"]);
    assert!(!ran.err.contains("declared"), "{}", ran.err);
    mkfs(&region, &["--size", "16M", "--force"]).ends_with(0);
    run(scmfs(["df"]).arg(&region)).ends_with(0).says(&["process-safe"]);
}

#[test]
fn what_only_looks_says_it_in_words() {
    let place = or_skip!(Place::new());
    let (region, directory) = (place.path("region"), place.folder("mount"));
    make(&region, &["--size", "64M", "--label", "r\u{fc}ben"]);
    let volume = MountedVolume::mount(&region, &directory, &[]);
    fs::write(directory.join("a"), [7; 5000]).expect("a file");
    let look = |words: &[&str], at: &Path| run(scmfs(words.iter().take(1)).arg(at).args(&words[1..])).ends_with(0);
    let json = |words: &[&str], at: &Path| -> serde_json::Value {
        serde_json::from_str(&look(words, at).out).expect("JSON alone")
    };
    let both = |at: &Path| {
        look(&["df"], at).says(&["label", "r\u{fc}ben"]);
        assert_eq!(json(&["df", "--json"], at)["label"], "r\u{fc}ben");
        look(&["stat", "a"], at).says(&[
            "mode                    06",
            "written",
            "size                    5000",
            "data",
        ]);
        let a = json(&["stat", "a", "--json"], at);
        assert_eq!((&a["size"], &a["extents"][0]["offset"]), (&5000.into(), &0.into()), "{a}");
    };
    both(&directory);
    let wrong = run(scmfs(["fsck"]).arg(&directory)).ends_with(1);
    wrong.complains(&[&format!("is a mount point of {}", region.display()), "scmfs scrub"]);
    volume.end();
    both(&region);
    for (words, says) in [
        (&["dump"][..], "inode table at"),
        (&["dump", "inode", "1"], "mode "),
        (&["dump", "directory", "1"], "file \"a\""),
    ] {
        let dumped = look(words, &region);
        assert!(dumped.out.contains(says) && !dumped.out.contains(['{', '}']), "{}", dumped.out);
    }
    let other = place.path("other");
    fs::write(&other, vec![7; 1 << 20]).expect("a file");
    let refused = run(scmfs(["df"]).arg(&other)).ends_with(1);
    refused.complains(&[&format!("error: {} is not an SCMFS volume", other.display())]);
}
