//! Images of YAFFS2: Debian's `unyaffs` extracts ours, ours extracts those of others, and nothing that is in an image
//! can do harm. `tests/yaffs2` has the writer that knows nothing of ours.

use pocketstone_random::Random;
use pocketstone_testing::{or_skip, program, root};
use pocketstone_tests::command::{Ran, run};
use pocketstone_tests::mounted::Place;
use pocketstone_tests::yaffs2::{assert_expected, extract, write_image, yaffs2};
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

fn image(folder: &Path, file: &Path, more: &[&str]) -> Ran {
    run(yaffs2(["image"]).args(more).args([folder, file])).ends_with(0)
}

fn scratch() -> tempfile::TempDir {
    tempfile::tempdir().expect("a temporary folder")
}

fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Bytes without a pattern, from a number.
fn noise(bytes: usize, seed: u64) -> Vec<u8> {
    let mut noise = vec![0; bytes];
    Random::new(seed).fill(&mut noise);
    noise
}

/// A folder with one of everything: sizes around a page, deep folders, long and odd names, all kinds of objects.
fn plant(top: &Path) {
    fs::create_dir_all(top.join("sub/deep/deeper")).expect("folders");
    fs::create_dir(top.join("bare")).expect("a folder");
    for (at, bytes) in [0, 1, 2047, 2048, 2049, 4096, 100_000, 3_000_000].into_iter().enumerate() {
        fs::write(top.join("sub").join(format!("file{at}")), noise(bytes, at as u64 + 1)).expect("a file");
    }
    let odd: [&[u8]; 4] = [b"\xfe\x01 odd\n", "naïve %".as_bytes(), &[b'n'; 255], b" "];
    for name in odd {
        fs::write(top.join("sub/deep/deeper").join(OsStr::from_bytes(name)), name).expect("a file");
    }
    fs::set_permissions(top.join("sub/file1"), fs::Permissions::from_mode(0o4711)).expect("permissions");
    fs::set_permissions(top.join("bare"), fs::Permissions::from_mode(0o1700)).expect("permissions");
    symlink("../sub/file2", top.join("sub/soft")).expect("a link");
    symlink("x".repeat(159), top.join("sub/far")).expect("a link");
    fs::hard_link(top.join("sub/file6"), top.join("hard")).expect("a link");
    fs::hard_link(top.join("sub/file6"), top.join("sub/deep/hard")).expect("a link");
    let kinds = [("pipe", rustix::fs::FileType::Fifo, 0), ("null", rustix::fs::FileType::CharacterDevice, 0x103)];
    for (name, kind, rdev) in &kinds[..if is_root() { 2 } else { 1 }] {
        let mode = rustix::fs::Mode::from_raw_mode(0o640);
        rustix::fs::mknodat(rustix::fs::CWD, top.join(name), *kind, mode, *rdev).expect("a special file");
    }
    if is_root() {
        std::os::unix::fs::chown(top.join("sub/file3"), Some(1000), Some(100)).expect("another owner");
    }
    let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_234_567_890);
    let file = fs::File::options().write(true).open(top.join("sub/file4")).expect("a file");
    file.set_times(fs::FileTimes::new().set_modified(time).set_accessed(time)).expect("times");
}

/// What is below a folder, by path: kind and mode, owners, times of all but directories, contents, the first name of
/// the same object, numbers of devices.
fn shape(top: &Path) -> BTreeMap<PathBuf, String> {
    let mut found = BTreeMap::new();
    let mut first: BTreeMap<u64, PathBuf> = BTreeMap::new();
    let mut folders = vec![PathBuf::new()];
    while let Some(folder) = folders.pop() {
        let mut names: Vec<PathBuf> = fs::read_dir(top.join(&folder))
            .expect("a folder")
            .map(|e| folder.join(e.expect("an entry").file_name()))
            .collect();
        names.sort();
        for name in names {
            let path = top.join(&name);
            let facts = path.symlink_metadata().expect("it is there");
            let kind = facts.file_type();
            let content = match () {
                () if kind.is_dir() => {
                    folders.push(name.clone());
                    Vec::new()
                }
                () if kind.is_file() => fs::read(&path).expect("a file"),
                () if kind.is_symlink() => fs::read_link(&path).expect("a link").as_os_str().as_bytes().to_vec(),
                () if kind.is_char_device() => facts.rdev().to_string().into_bytes(),
                () => Vec::new(),
            };
            let sum = content
                .iter()
                .fold(0xcbf2_9ce4_8422_2325u64, |sum, &byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
            let time = if kind.is_dir() { 0 } else { facts.mtime() };
            // A symbolic link's mode is the kernel's matter.
            let mode = if kind.is_symlink() { 0 } else { facts.mode() };
            let same = first.entry(facts.ino()).or_insert_with(|| name.clone()).clone();
            let (user, group) = (facts.uid(), facts.gid());
            let said = format!("{mode:o} {user} {group} {time} {} bytes {sum:x} {}", content.len(), same.display());
            found.insert(name, said);
        }
    }
    found
}

#[track_caller]
fn assert_same(before: &Path, after: &Path) {
    let (before, after) = (shape(before), shape(after));
    for (path, said) in &before {
        assert_eq!(after.get(path), Some(said), "{}", path.display());
    }
    assert_eq!(before.len(), after.len());
}

#[test]
fn unyaffs_extracts_our_images_byte_for_byte() {
    or_skip!(program("unyaffs", "unyaffs"));
    let folder = scratch();
    let top = folder.path().join("top");
    plant(&top);
    let forms: [(&str, &[&str], &[&str]); 4] = [
        ("plain", &[], &["-c", "2", "-s", "64"]),
        ("large", &["--page", "4K"], &["-c", "4", "-s", "128"]),
        ("linux", &["--spare-layout", "yaffs2utils"], &["-b", "-c", "2", "-s", "64"]),
        // It finds out by itself.
        ("found", &["--page", "8K", "--spare", "512"], &[]),
    ];
    for (name, ours, theirs) in forms {
        let (file, out) = (folder.path().join(name), folder.path().join(format!("{name}.out")));
        image(&top, &file, ours);
        fs::create_dir(&out).expect("a folder");
        run(Command::new("unyaffs").args(theirs).args([&file, &out])).ends_with(0);
        assert_same(&top, &out);
    }
}

#[test]
fn ours_extracts_what_ours_made_in_every_form() {
    let folder = scratch();
    let top = folder.path().join("top");
    plant(&top);
    let forms: [&[&str]; 8] = [
        &[],
        &["--spare-layout", "linux"],
        &["--spare-layout", "linux", "--pages-per-block", "128"],
        &["--spare-layout", "yaffs2utils"],
        &["--inband-tags"],
        &["--no-tags-ecc"],
        &["--page", "1K"],
        &["--page", "4K", "--spare", "224"],
    ];
    for (at, form) in forms.into_iter().enumerate() {
        let (file, out) = (folder.path().join(format!("{at}")), folder.path().join(format!("{at}.out")));
        image(&top, &file, form);
        run(yaffs2(["fsck"]).arg(&file)).ends_with(0).says(&[": 0 errors, 0 leftovers"]);
        extract(&file, &out, &[]).ends_with(0).says(&["; 0 left out"]);
        assert_same(&top, &out);
    }
}

#[test]
fn the_same_names_and_contents_make_the_same_image() {
    let folder = scratch();
    let names = ["first", "second"].map(|name| folder.path().join(name));
    let images = names.each_ref().map(|top| {
        plant(top);
        fs::File::open(top.join("sub/file2")).expect("a file").set_modified(SystemTime::now()).expect("a time");
        let file = top.with_extension("image");
        run(yaffs2(["image", "--times", "fixed"]).args([top, &file]).env("SOURCE_DATE_EPOCH", "1700000000"))
            .ends_with(0);
        fs::read(file).expect("an image")
    });
    assert!(images[0] == images[1], "the images differ");
    // Nor is what makes an image in it, if that lies in the folder.
    let within = names[0].join("within");
    run(yaffs2(["image", "--times", "fixed"]).args([&names[0], &within]).env("SOURCE_DATE_EPOCH", "1700000000"))
        .ends_with(0);
    assert!(fs::read(within).expect("an image") == images[0], "it holds itself");
    let own = folder.path().join("own");
    run(yaffs2(["image", "--times", "fixed", "--root-owned"]).args([&names[0], &own])).ends_with(0);
    let listed = run(yaffs2(["ls", "-l"]).args([&*own, Path::new("sub")])).ends_with(0);
    listed.says(&["-rws--x--x   1     0     0          1 1970-01-01 00:00:00 file1", "soft -> ../sub/file2"]);
}

#[test]
fn ours_extracts_images_that_ours_did_not_make() {
    or_skip!(root());
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let mut forms: Vec<Vec<&str>> = Vec::new();
    for layout in
        ["", "--page 4096 --spare 128", "--spare-offset 2", "--inband", "--no-tags-ecc", "--page 1024 --spare 32"]
    {
        forms.push(["plain"].into_iter().chain(layout.split_whitespace()).collect());
    }
    for live in [
        "--seed 1",
        "--seed 2 --checkpoint 4",
        "--seed 3 --checkpoint 8 --spare-offset 2 --bad 3,7",
        "--seed 4 --inband",
        "--seed 5 --page 4096 --spare 128 --no-tags-ecc",
        "--seed 6 --ending shadow --no-summary",
        "--seed 7 --flips 20 --garbage 0.05",
    ] {
        forms.push(["live"].into_iter().chain(live.split_whitespace()).collect());
    }
    for (at, form) in forms.into_iter().enumerate() {
        let (file, expected, out) = (path(&format!("{at}")), path("expected"), path(&format!("{at}.out")));
        or_skip!(write_image(&form, &file, &expected));
        extract(&file, &out, &[]).ends_with(0).says(&["; 0 left out"]);
        or_skip!(assert_expected(&out, &expected, &form));
        run(yaffs2(["fsck"]).arg(&file)).ends_with(0);
        run(yaffs2(["dump", "--summary"]).arg(&file)).ends_with(0);
    }
}

#[test]
fn what_is_no_image_is_refused_with_a_cure() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let top = path("top");
    plant(&top);
    image(&top, &path("whole"), &["--spare-layout", "linux"]);
    let stat = run(yaffs2(["stat"]).arg(path("whole"))).ends_with(0);
    let count = |name: &str| -> u64 {
        let value = stat.out.lines().find_map(|line| line.strip_prefix(name)).expect("the row");
        value.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number")
    };
    let parts = ["pages in use", "pages free or garbage", "pages for summaries"].map(count);
    assert_eq!(parts.iter().sum::<u64>(), count("blocks") * count("pages in a block"), "{stat}");
    let nowhere = run(yaffs2(["image"]).args([&top, &path("no/image")])).ends_with(1);
    assert!(!nowhere.err.contains(".new"), "{nowhere}");
    let whole = fs::read(path("whole")).expect("an image");
    fs::write(path("empty"), b"").expect("a file");
    fs::write(path("random"), noise(100 * 2112, 5)).expect("a file");
    fs::write(path("zeros"), vec![0; 64 * 2112]).expect("a file");
    fs::write(path("erased"), vec![0xFF; 64 * 2112]).expect("a file");
    fs::write(path("text"), "no image\n".repeat(1000)).expect("a file");
    fs::write(path("cut"), &whole[..77]).expect("a file");
    for name in ["empty", "random", "zeros", "erased", "text", "cut", "top", "missing"] {
        for command in ["fsck", "ls", "stat", "dump"] {
            run(yaffs2([command]).arg(path(name))).ends_with(1).complains(&["error: "]);
        }
        let refused = extract(&path(name), &path("out"), &[]).ends_with(1);
        assert!(name == "missing" || refused.err.contains("hint: "), "{refused}");
        assert!(!path("out").exists(), "{name} left a folder behind");
    }
    // Another layout than the image has: nothing makes sense, and nothing is made of it.
    run(yaffs2(["fsck", "--page", "2048", "--spare", "64", "--spare-offset", "0"]).arg(path("whole")))
        .ends_with(1)
        .complains(&["no page can be decoded", "hint: "]);
}

#[test]
fn images_of_big_endian_machines_are_read_and_not_written() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let forms: [(&str, &str); 8] = [
        ("plain", "; of a big-endian machine"),
        ("plain --spare-offset 2", "; of a big-endian machine"),
        ("plain --inband --spare 0", "; of a big-endian machine"),
        ("plain --page 4096 --spare 128 --no-tags-ecc", "; of a big-endian machine"),
        ("plain --little-endian-tags", "; big-endian headers"),
        ("live --seed 1", "; of a big-endian machine"),
        ("live --seed 2 --spare-offset 2 --bad 3,7 --flips 10 --garbage 0.03", "; of a big-endian machine"),
        ("live --seed 3 --inband", "; of a big-endian machine"),
    ];
    for (at, (form, named)) in forms.into_iter().enumerate() {
        let (file, expected, out) = (path(&format!("{at}")), path("expected"), path(&format!("{at}.out")));
        let form: Vec<&str> = form.split(' ').chain(["--big-endian"]).collect();
        or_skip!(write_image(&form, &file, &expected));
        extract(&file, &out, &[]).ends_with(0).says(&["; 0 left out"]);
        or_skip!(assert_expected(&out, &expected, &form));
        run(yaffs2(["stat"]).arg(&file)).ends_with(0).says(&[named]);
        run(yaffs2(["fsck"]).arg(&file)).ends_with(0);
        run(yaffs2(["dump", "--summary"]).arg(&file)).ends_with(0);
        let before = fs::read(&file).expect("the image");
        run(yaffs2(["mount", "--foreground", "--pages-per-block", "64"]).arg(&file).arg(folder.path()))
            .ends_with(1)
            .complains(&["big-endian machine", "hint: ", "read only"]);
        assert!(fs::read(&file).expect("the image") == before, "{form:?}");
    }
}

#[test]
fn an_image_that_was_cut_off_gives_what_it_has() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    plant(&path("top"));
    image(&path("top"), &path("whole"), &["--spare-layout", "linux"]);
    let whole = fs::read(path("whole")).expect("an image");
    let pages = whole.len() / 2112;
    let used = (0..pages).rev().find(|page| whole[page * 2112..][..2112].iter().any(|byte| *byte != 0xFF));
    let cut = (used.expect("a page") - 1) * 2112 + 77;
    fs::write(path("cut"), &whole[..cut]).expect("a file");
    fs::write(path("at-a-page"), &whole[..cut - 77]).expect("a file");
    for command in ["fsck", "ls", "stat", "dump"] {
        let ran =
            run(yaffs2([command]).arg(path("cut"))).complains(&["the last 77 bytes are left out, as pages have 2112"]);
        assert!(ran.status == Some(0), "{ran}");
    }
    extract(&path("cut"), &path("cut.out"), &[]).ends_with(0).complains(&["warning: ", "was cut off"]);
    extract(&path("at-a-page"), &path("page.out"), &[]).ends_with(0);
    let same = run(std::process::Command::new("diff")
        .args(["-r", "--no-dereference", "-x", "pipe"])
        .args([path("cut.out"), path("page.out")]));
    same.ends_with(0).says(&[]);
    run(yaffs2(["mount", "--foreground"]).arg(path("cut")).arg(folder.path())).ends_with(1).complains(&["error: "]);
}

#[test]
fn files_whose_headers_are_lost_are_counted() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    fs::create_dir(path("top")).expect("a folder");
    fs::write(path("top/kept"), "kept").expect("a file");
    fs::write(path("top/nameless"), "what has no name any more").expect("a file");
    image(&path("top"), &path("image"), &["--spare-layout", "linux"]);
    let mut bytes = fs::read(path("image")).expect("an image");
    let at = bytes.windows(8).position(|part| part == b"nameless").expect("its header");
    bytes[at / 2112 * 2112..][..2112].fill(0xFF);
    fs::write(path("image"), &bytes).expect("an image");
    extract(&path("image"), &path("out"), &[])
        .ends_with(3)
        .says(&["; 0 left out, 1 in lost+found"])
        .complains(&["objects in lost+found that have lost their names or directories: 1"]);
    assert_eq!(fs::read(path("out/kept")).expect("it"), b"kept");
    let lost = fs::read_dir(path("out/lost+found")).expect("a folder").flatten().next().expect("a file");
    assert!(fs::read(lost.path()).expect("it").starts_with(b"what has no name any more"));
}

#[test]
fn damaged_images_are_read_as_far_as_they_go() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    plant(&path("top"));
    image(&path("top"), &path("whole"), &["--spare-layout", "linux"]);
    let whole = fs::read(path("whole")).expect("an image");
    let layout = ["--page", "2K", "--spare", "64", "--pages-per-block", "64"];
    for seed in 0..12 {
        let mut damaged = whole.clone();
        if seed % 3 == 0 {
            damaged.truncate(2112 * (50 + seed as usize * 100));
        }
        for (at, byte) in noise(damaged.len(), seed + 100).into_iter().enumerate() {
            if byte == 7 && at % (4 << (seed % 4)) == 0 {
                damaged[at] ^= 1 << (seed % 8);
            }
        }
        fs::write(path("damaged"), damaged).expect("a file");
        let outcomes = [
            run(yaffs2(["fsck"]).args(layout).arg(path("damaged"))),
            run(yaffs2(["dump", "--summary"]).args(layout).arg(path("damaged"))),
            extract(&path("damaged"), &path(&format!("out{seed}")), &layout),
        ];
        for outcome in outcomes {
            assert!(matches!(outcome.status, Some(0 | 1 | 3)), "{outcome}");
            assert!(!outcome.err.contains("panicked"), "{outcome}");
        }
    }
}

/// An image with names changed behind the maker's back: nothing protects data in an image file.
fn renamed(from: &Path, to: &Path, names: &[(&[u8], &[u8])]) {
    let mut bytes = fs::read(from).expect("an image");
    for (old, new) in names {
        assert_eq!(old.len(), new.len());
        let places: Vec<usize> =
            (0..bytes.len() - old.len()).filter(|&at| &bytes[at..at + old.len()] == *old).collect();
        assert_eq!(places.len(), 1, "{}", String::from_utf8_lossy(old));
        bytes[places[0]..places[0] + new.len()].copy_from_slice(new);
    }
    fs::write(to, bytes).expect("an image");
}

#[test]
fn nothing_is_written_outside_the_folder() {
    let folder = scratch();
    let path = |name: &str| folder.path().join(name);
    let (top, outside) = (path("top"), path("outside"));
    fs::create_dir_all(top.join("directory")).expect("folders");
    fs::create_dir(&outside).expect("a folder");
    fs::write(top.join("directory/inner"), "evil").expect("a file");
    for name in ["AAAAAAA1", "BB", "C", "DDDDDDDDD", "good"] {
        fs::write(top.join(name), "evil").expect("a file");
    }
    fs::create_dir(top.join("EE")).expect("a folder");
    fs::write(top.join("EE/FFFFFFFF"), "evil").expect("a file");
    symlink(&outside, top.join("directorz")).expect("a link");
    image(&top, &path("image"), &[]);
    let names: [(&[u8], &[u8]); 6] = [
        (b"AAAAAAA1", b"../evil1"),
        (b"BB\0", b"..\0"),
        (b"C\0\0\0\0", b".\0\0\0\0"),
        (b"DDDDDDDDD", b"/tmp/evil"),
        (b"FFFFFFFF", b"../../e\0"),
        // A link and a directory of one name: whichever comes first, no file goes through the link.
        (b"directorz", b"directory"),
    ];
    // Of the last one only the second place counts: the directory has the name already.
    renamed(&path("image"), &path("evil"), &names[..5]);
    let bytes = fs::read(path("evil")).expect("an image");
    let at = bytes.windows(10).position(|window| window == b"directorz\0").expect("the link");
    let mut bytes = bytes;
    bytes[at..at + 9].copy_from_slice(b"directory");
    fs::write(path("evil"), bytes).expect("an image");
    let ran = extract(&path("evil"), &path("out"), &[]).ends_with(3);
    assert!(ran.err.matches("left out: ").count() >= 6, "{ran}");
    assert_eq!(fs::read_dir(&outside).expect("a folder").count(), 0);
    assert!(!Path::new("/tmp/evil").exists());
    assert_eq!(fs::read_to_string(path("out/good")).expect("a file"), "evil");
    let left: Vec<_> =
        fs::read_dir(folder.path()).expect("a folder").map(|e| e.expect("an entry").file_name()).collect();
    let mut left: Vec<String> = left.into_iter().map(|name| name.to_string_lossy().into_owned()).collect();
    left.sort();
    assert_eq!(left, ["evil", "image", "out", "outside", "top"]);
    run(yaffs2(["fsck"]).arg(path("evil"))).ends_with(3).says(&["name that cannot be", "duplicate name"]);
    // Nothing is ever overwritten, either.
    extract(&path("image"), &path("out"), &[]).ends_with(1).complains(&["is not empty", "hint: "]);
}

#[test]
fn a_volume_is_made_mounted_filled_and_found_whole() {
    let place = or_skip!(Place::new());
    let (top, volume, directory) = (place.path("top"), place.path("volume"), place.folder("at"));
    plant(&top);
    let made = |more: &[&str], status: i32| run(yaffs2(["mkfs"]).args(more).arg(&volume)).ends_with(status);
    made(&[], 1).complains(&["no size", "hint: "]);
    made(&["--size", "100K"], 1).complains(&["multiple of the block size", "hint: "]);
    made(&["--size", "64M", "--pages-per-block", "128"], 0).says(&["an empty volume of 64 MiB"]);
    made(&["--size", "64M"], 1).complains(&["exists", "--force"]);
    run(yaffs2(["fsck"]).arg(&volume)).ends_with(0).says(&["256 blocks"]);
    for round in 0..2 {
        run(yaffs2(["mount", "-o", "noatime"]).args([&volume, &directory])).ends_with(0);
        run(yaffs2(["fsck"]).arg(&volume)).ends_with(1).complains(&["in use", "hint: "]);
        if round == 0 {
            run(Command::new("cp").arg("-a").arg(top.join(".")).arg(&directory)).ends_with(0);
        }
        run(yaffs2(["umount"]).arg(&directory)).ends_with(0);
        run(yaffs2(["fsck"]).arg(&volume)).ends_with(0).says(&["; with a checkpoint", ": 0 errors, 0 leftovers"]);
    }
    let out = place.path("out");
    extract(&volume, &out, &[]).ends_with(0);
    assert_same(&top, &out);
    let json = run(yaffs2(["fsck", "--json"]).arg(&volume)).ends_with(0);
    let report: serde_json::Value = serde_json::from_str(&json.out).expect("JSON");
    assert_eq!((report["errors"].as_u64(), report["checkpoint"].as_bool()), (Some(0), Some(true)));
    run(yaffs2(["mount", "-o", "compress"]).args([&volume, &directory])).ends_with(1).complains(&["supported: ro"]);
}

/// A block of which half, or a quarter, is written looks like a whole one of a chip with smaller blocks; and by a wrong
/// layout nearly nothing may look like a volume that is nearly empty.
#[test]
fn a_volume_is_written_to_by_its_own_layout_alone() {
    let place = or_skip!(Place::new());
    let (volume, directory) = (place.path("volume"), place.folder("at"));
    run(yaffs2(["mkfs", "--size", "64M"]).arg(&volume)).ends_with(0);
    let mounted = |write: &dyn Fn(&Path)| {
        run(yaffs2(["mount"]).args([&volume, &directory])).ends_with(0);
        write(&directory);
        run(yaffs2(["umount"]).arg(&directory)).ends_with(0);
        run(yaffs2(["fsck"]).arg(&volume)).ends_with(0).says(&["512 blocks", "; with a checkpoint", ": 0 errors"]);
    };
    // With headers, 32 and 16 pages.
    for pages in [29, 13] {
        mounted(&|directory| fs::write(directory.join("f"), noise(pages * 2048, 7)).expect("a file"));
    }
    mounted(&|directory| assert!(fs::read(directory.join("f")).expect("it is there") == noise(13 * 2048, 7)));
    let before = fs::read(&volume).expect("the volume");
    let wrong: [&[&str]; 6] = [
        &["--page", "1024"],
        &["--page", "4096"],
        &["-o", "inband-tags"],
        &["-o", "tags-ecc-off"],
        &["--pages-per-block", "128"],
        &["--page", "2048", "--pages-per-block", "32"],
    ];
    for layout in wrong {
        let refused = run(yaffs2(["mount"]).args(layout).args([&volume, &directory])).ends_with(1);
        refused.complains(&["pages of 2048 bytes", "64 in a block", "another layout was given", "hint: omit"]);
    }
    assert!(fs::read(&volume).expect("the volume") == before);
}

#[test]
fn help_man_pages_and_completions_are_there() {
    let folder = scratch();
    run(&mut yaffs2(["man"])).ends_with(2);
    run(yaffs2(["man"]).arg(folder.path())).ends_with(0).says(&["yaffs2.1"]);
    let help = run(&mut yaffs2(["--help"])).ends_with(0);
    for command in ["mkfs", "mount", "umount", "fsck", "image", "extract", "ls", "stat", "dump"] {
        assert!(help.out.contains(&format!("\n  {command} ")), "{help}");
        assert!(folder.path().join(format!("yaffs2-{command}.1")).exists(), "{command}");
    }
    run(&mut yaffs2(["completions", "bash"])).ends_with(0).says(&["_yaffs2"]);
}
