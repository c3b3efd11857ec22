//! Checksums of contents and `scmfs scrub`, as users meet them.

use pocketstone_testing::{or_skip, program};
use pocketstone_tests::command::{copy_program, run};
use pocketstone_tests::mounted::{MountedVolume, Place, make, open_to_all, scmfs};

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

const PAGE: usize = 4096;

/// A region with `/folder/file` of eight pages, closed.
fn region(place: &Place, more: &[&str]) -> PathBuf {
    let (region, directory) = (place.path("region"), place.folder("first"));
    make(&region, &[&["--size", "64M"], more].concat());
    let volume = MountedVolume::mount(&region, &directory, &[]);
    fs::create_dir(directory.join("folder")).expect("a folder");
    fs::write(directory.join("folder/file"), content()).expect("a file");
    volume.end();
    region
}

/// Every page of another byte.
fn content() -> Vec<u8> {
    (0..8).flat_map(|page| [b'a' + page; PAGE]).collect()
}

/// Changes a byte of the file's fourth page.
fn damage(region: &Path) {
    let mut image = fs::read(region).expect("the region");
    let place = image.windows(PAGE).position(|window| window == [b'd'; PAGE]).expect("the page");
    image[place + 100] ^= 1;
    let file = fs::OpenOptions::new().write(true).open(region).expect("the region");
    file.write_all_at(&image[place + 100..place + 101], (place + 100) as u64).expect("a byte");
}

#[test]
fn a_damaged_page_cannot_be_read_and_scrub_names_it() {
    let place = or_skip!(Place::new());
    let region = region(&place, &["--checksums"]);
    run(scmfs(["df"]).arg(&region)).ends_with(0).says(&["data checksums", "yes"]);
    run(scmfs(["scrub"]).arg(&region)).ends_with(0).says(&["1 file,", "32 KiB of data verified", "0 damaged"]);
    damage(&region);
    run(scmfs(["fsck"]).arg(&region)).ends_with(0).says(&["0 findings"]);
    let found = ["/folder/file: bytes 12288..16384: bytes with a wrong checksum", "1 damaged place\n"];
    run(scmfs(["scrub"]).arg(&region)).ends_with(3).says(&found);

    let directory = place.folder("second");
    let volume = MountedVolume::mount(&region, &directory, &[]);
    let file = fs::File::open(directory.join("folder/file")).expect("the file");
    for page in 0..8 {
        let mut buffer = vec![0; PAGE];
        let got = file.read_exact_at(&mut buffer, (page * PAGE) as u64);
        if page == 3 {
            assert_eq!(got.unwrap_err().raw_os_error(), Some(5), "EIO");
        } else {
            got.expect("a sound page");
            assert_eq!(buffer, content()[page * PAGE..(page + 1) * PAGE]);
        }
    }
    drop(file);
    assert_eq!(fs::read(directory.join("folder/file")).unwrap_err().raw_os_error(), Some(5));
    run(scmfs(["scrub"]).arg(&directory)).ends_with(3).says(&found);
    let ran = run(scmfs(["scrub", "--json"]).arg(&directory)).ends_with(3);
    let report: serde_json::Value = serde_json::from_str(&ran.out).expect("JSON");
    assert_eq!((&report["damaged_places"], &report["complete"]), (&1.into(), &true.into()));
    assert_eq!(report["damaged"][0]["offset"], 3 * PAGE);
    // Writing the page anew heals it.
    let file = fs::OpenOptions::new().write(true).open(directory.join("folder/file")).expect("the file");
    file.write_all_at(&[b'd'; PAGE], 3 * PAGE as u64).expect("a write");
    drop(file);
    assert_eq!(fs::read(directory.join("folder/file")).expect("the file"), content());
    run(scmfs(["scrub"]).arg(&directory)).ends_with(0).says(&["0 damaged"]);
    volume.end();
}

#[test]
fn without_checksums_scrub_says_so() {
    let place = or_skip!(Place::new());
    let region = region(&place, &[]);
    damage(&region);
    run(scmfs(["df"]).arg(&region)).ends_with(0).says(&["data checksums", "no"]);
    run(scmfs(["scrub"]).arg(&region)).ends_with(0).says(&["without data checksums", "0 damaged"]);
}

#[test]
fn only_root_and_the_owner_may_scrub() {
    or_skip!(program("setpriv", "util-linux"));
    or_skip!(program("getfattr", "attr"));
    let place = or_skip!(Place::new());
    let region = region(&place, &["--checksums"]);
    let directory = place.folder("second");
    let copy = place.path("scmfs");
    copy_program(scmfs([""; 0]).get_program(), &copy);
    open_to_all(&place.path(""));
    let volume = MountedVolume::mount(&region, &directory, &[]);
    open_to_all(volume.path());
    let mut nobody = Command::new("setpriv");
    nobody.args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--"]);
    nobody.arg(&copy).arg("scrub").arg(volume.path());
    run(&mut nobody).ends_with(1).complains(&["only root and the owner"]);
    run(scmfs(["scrub"]).arg(volume.path())).ends_with(0);
    // Nor is what it found told to others.
    let mut asks = Command::new("setpriv");
    asks.args(["--reuid", "nobody", "--regid", "nogroup", "--clear-groups", "--"]);
    asks.args(["getfattr", "-n", "user.scmfs.scrub"]).arg(volume.path());
    let ran = run(&mut asks).ends_with(1);
    assert!(!ran.out.contains("report"), "{}", ran.out);
    volume.end();
}
