//! Volumes as they come from devices that others made: YAFFS1, spare areas of all kinds, partitions behind others,
//! dumps that end too early. What must be in them is what `tests/yaffs2` says, which knows nothing of ours.

use pocketstone_testing::{or_skip, root};
use pocketstone_tests::command::run;
use pocketstone_tests::mounted::Place;
use pocketstone_tests::yaffs2::{assert_expected, extract, write_image, yaffs2};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

#[test]
fn volumes_of_yaffs1_are_read_and_named() {
    or_skip!(root());
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let mut forms = Vec::new();
    for place in ["spread", "packed"] {
        for more in ["", " --age 1", " --age 2 --big-endian", " --age 3", " --big-endian --little-endian-tags"] {
            forms.push(format!("plain --page 512 --spare 16 --yaffs1 {place}{more}"));
        }
    }
    for (at, form) in forms.iter().enumerate() {
        let (file, expected, out) = (path(&format!("{at}")), path("expected"), path(&format!("{at}.out")));
        let form: Vec<&str> = form.split(' ').collect();
        or_skip!(write_image(&form, &file, &expected));
        run(yaffs2(["stat"]).arg(&file)).ends_with(0).says(&["YAFFS1 tags in the spare area"]);
        extract(&file, &out, &[]).ends_with(0).says(&["; 0 left out"]);
        or_skip!(assert_expected(&out, &expected, &form));
        let checked = run(yaffs2(["fsck"]).arg(&file)).ends_with(0);
        assert_eq!(checked.out.contains("bad block"), form.contains(&"--age"), "{checked}");
        run(yaffs2(["dump"]).arg(&file)).ends_with(0).says(&["block 0: YAFFS1"]);
        let before = fs::read(&file).expect("the image");
        run(yaffs2(["mount", "--foreground"]).args([&file, folder.path()])).ends_with(1).complains(&[
            "YAFFS1",
            "hint: ",
            "read only",
        ]);
        assert!(fs::read(&file).expect("the image") == before, "{form:?}");
        // As somebody says it who knows the chip.
        let offset = if form.contains(&"packed") { "8" } else { "0" };
        let layout = ["--page", "512", "--spare", "16", "--spare-offset", offset];
        let given = path(&format!("{at}.given"));
        extract(&file, &given, &layout).ends_with(0);
        or_skip!(assert_expected(&given, &expected, &form));
    }
}

#[test]
fn tags_behind_error_correction_and_in_large_spare_areas_are_found() {
    or_skip!(root());
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let forms = [
        "plain --spare-offset 26",
        "plain --spare-offset 30 --big-endian",
        "plain --page 4096 --spare 224 --spare-offset 90",
        "plain --page 8192 --spare 448",
        "plain --page 8192 --spare 448 --spare-offset 2",
        "live --seed 11 --spare-offset 26",
        "live --seed 12 --page 8192 --spare 448 --operations 100",
    ];
    for (at, form) in forms.into_iter().enumerate() {
        let (file, expected, out) = (path(&format!("{at}")), path("expected"), path(&format!("{at}.out")));
        let form: Vec<&str> = form.split(' ').collect();
        or_skip!(write_image(&form, &file, &expected));
        extract(&file, &out, &[]).ends_with(0).says(&["; 0 left out"]);
        or_skip!(assert_expected(&out, &expected, &form));
        run(yaffs2(["fsck"]).arg(&file)).ends_with(0);
    }
}

/// The block in which the checkpoint is said to go on, as its first page's tags have it.
fn goes_on_after(file: &Path) -> u32 {
    let dump = run(yaffs2(["dump"]).arg(file)).ends_with(0);
    let line = dump.out.lines().find(|line| line.contains("checkpoint page 1,")).expect("a checkpoint");
    line.rsplit(' ').next().and_then(|word| word.parse().ok()).expect("a block")
}

#[test]
fn checkpoints_count_blocks_from_where_the_partition_begins() {
    let place = or_skip!(Place::new());
    let (expected, directory) = (place.path("expected"), place.folder("at"));
    let forms: [(&str, u32); 4] = [
        ("live --seed 4 --checkpoint 4 --start-block 100", 100),
        // The second block is what the next-door numbers are mistaken for.
        ("live --seed 5 --checkpoint 8 --start-block 2 --hint-next", 2),
        ("live --seed 6 --checkpoint 8 --start-block 4000 --no-summary", 4000),
        ("live --seed 8 --checkpoint 8", 1),
    ];
    for (at, (form, first)) in forms.into_iter().enumerate() {
        let (file, out) = (place.path(&format!("{at}")), place.path(&format!("{at}.out")));
        let form: Vec<&str> = form.split(' ').collect();
        or_skip!(write_image(&form, &file, &expected));
        run(yaffs2(["stat"]).arg(&file)).ends_with(0).says(&["a checkpoint"]);
        run(yaffs2(["fsck"]).arg(&file)).ends_with(0).says(&["; with a checkpoint", ": 0 errors, 0 leftovers"]);
        extract(&file, &out, &[]).ends_with(0).says(&["; 0 left out"]);
        or_skip!(assert_expected(&out, &expected, &form));
        // What ours leaves counts from there, too: the device that it goes back to takes it for true.
        let chip = ["--pages-per-block", "32"];
        run(yaffs2(["mount"]).args(chip).args([&file, &directory])).ends_with(0);
        fs::write(directory.join("more"), "more").expect("a file");
        run(yaffs2(["umount"]).arg(&directory)).ends_with(0);
        run(yaffs2(["fsck"]).arg(&file)).ends_with(0).says(&["; with a checkpoint", ": 0 errors, 0 leftovers"]);
        let after = goes_on_after(&file);
        assert!((first + 1..=first + 64).contains(&after), "{form:?}: {after}");
    }
}

#[test]
fn without_a_checkpoint_nothing_says_where_a_partition_begins_and_none_is_left() {
    let place = or_skip!(Place::new());
    let (file, directory) = (place.path("chip"), place.folder("at"));
    or_skip!(write_image(&["live", "--seed", "9", "--start-block", "100"], &file, &place.path("expected")));
    run(yaffs2(["mount", "--pages-per-block", "32"]).args([&file, &directory])).ends_with(0);
    fs::write(directory.join("more"), "more").expect("a file");
    run(yaffs2(["umount"]).arg(&directory)).ends_with(0);
    run(yaffs2(["fsck"]).arg(&file)).ends_with(0).says(&["; no checkpoint", ": 0 errors, 0 leftovers"]);
}

#[test]
fn a_size_that_the_checkpoint_alone_has_is_no_damage() {
    or_skip!(root());
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let form = ["live", "--seed", "7", "--checkpoint", "8", "--grown"];
    or_skip!(write_image(&form, &path("chip"), &path("expected")));
    let note = "note: size known to the checkpoint alone: object ";
    run(yaffs2(["fsck"]).arg(path("chip"))).ends_with(0).says(&[note, ": 0 errors, 0 leftovers"]);
    extract(&path("chip"), &path("out"), &[]).ends_with(0);
    or_skip!(assert_expected(&path("out"), &path("expected"), &form));
}

#[test]
fn what_a_dump_lacks_is_told() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir_all(path("top/sub")).expect("folders");
    let contents: Vec<u8> = (0..100_000u32).map(|at| (at * 7 + at / 2048) as u8).collect();
    fs::write(path("top/first"), &contents).expect("a file");
    fs::write(path("top/sub/last"), &contents).expect("a file");
    run(yaffs2(["image"]).args([path("top"), path("whole")])).ends_with(0);
    let whole = fs::read(path("whole")).expect("an image");
    // The root, a header and 49 pages, a folder and a header are before the last file's 49 pages.
    assert_eq!(whole.len(), (3 + 49 + 1 + 49) * 2112);
    for (name, more) in [("at-a-page", 0), ("in-a-page", 100)] {
        fs::write(path(name), &whole[..(3 + 49 + 1 + 20) * 2112 + more]).expect("a file");
        let out = path(&format!("{name}.out"));
        extract(&path(name), &out, &[]).ends_with(3).says(&["; 0 left out, 1 incomplete"]).complains(&[
            "was it cut off",
            "pages, which read as zeros: 1",
            "incomplete: sub/last: it lacks pages",
        ]);
        assert!(fs::read(out.join("first")).expect("a file") == contents);
        let last = fs::read(out.join("sub/last")).expect("a file");
        assert!(last[..20 * 2048] == contents[..20 * 2048] && last[20 * 2048..].iter().all(|&byte| byte == 0));
        assert_eq!(last.len(), contents.len());
        run(yaffs2(["ls"]).arg(path(name))).ends_with(0).complains(&["was it cut off"]);
        run(yaffs2(["fsck"]).arg(path(name))).ends_with(3).says(&["pages missing", "lacks 29 of its chunks"]);
    }
    // The root alone, and a part of the next page.
    fs::write(path("root"), &whole[..2112 + 100]).expect("a file");
    let left = "the last 100 bytes are left out, as pages have 2112";
    run(yaffs2(["ls"]).arg(path("root"))).ends_with(0).complains(&[left]);
    assert_eq!(run(yaffs2(["ls"]).arg(path("whole"))).ends_with(0).err, "");
    // A dump of a chip that a kernel wrote has whole blocks.
    or_skip!(write_image(&["live", "--seed", "4"], &path("chip"), &path("expected")));
    assert_eq!(run(yaffs2(["ls"]).arg(path("chip"))).ends_with(0).err, "");
    let chip = fs::read(path("chip")).expect("a dump");
    fs::write(path("cut-chip"), &chip[..(32 * 30 + 5) * 2112]).expect("a file");
    run(yaffs2(["ls"]).arg(path("cut-chip"))).ends_with(0).complains(&["its last block has 5 of 32 pages"]);
}

#[test]
fn a_mount_in_the_foreground_ends_when_it_is_told_and_leaves_a_whole_volume() {
    let place = or_skip!(Place::new());
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let (file, directory) = (place.path("chip"), place.folder("at"));
        run(yaffs2(["mkfs", "--force", "--size", "16M"]).arg(&file)).ends_with(0);
        let mut server = yaffs2(["mount", "-f"]).args([&file, &directory]).spawn().expect("it starts");
        let begin = Instant::now();
        let waited = || assert!(begin.elapsed() < Duration::from_secs(120), "it takes too long");
        while run(std::process::Command::new("mountpoint").arg("-q").arg(&directory)).status != Some(0) {
            waited();
            std::thread::sleep(Duration::from_millis(20));
        }
        fs::write(directory.join("kept"), "kept").expect("a file");
        // Somebody uses it.
        let open = fs::File::open(directory.join("kept")).expect("a file");
        kill_process(Pid::from_child(&server), signal).expect("it runs");
        let status = loop {
            waited();
            match server.try_wait().expect("a child") {
                Some(status) => break status,
                None => std::thread::sleep(Duration::from_millis(20)),
            }
        };
        drop(open);
        assert_eq!(status.code(), Some(0), "{signal:?}");
        run(yaffs2(["fsck"]).arg(&file)).ends_with(0).says(&["1 file ", ": 0 errors, 0 leftovers"]);
        fs::remove_dir(&directory).expect("it is not mounted");
    }
}
