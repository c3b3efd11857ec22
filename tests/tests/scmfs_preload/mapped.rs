//! Files that programs map without the kernel.

use crate::puppet::Puppet;
use crate::report::{Report, compiled, storing};
use pocketstone_random::Random;
use pocketstone_testing::wait::until;
use pocketstone_testing::{Need, Skip, or_skip, program};
use pocketstone_tests::command::run;
use pocketstone_tests::mounted::{MountedVolume, Place, check, make, scmfs};
use pocketstone_tests::suites::tell;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const OPTIONS: [&str; 2] = ["-o", "preload=map"];

/// A place, python3 and a script that it runs there.
struct Scene {
    place: Place,
    python: PathBuf,
    script: PathBuf,
    report: Report,
}

impl Scene {
    #[track_caller]
    fn new(script: &str) -> Result<Scene, Skip> {
        let python = program("python3", "python3")?;
        let place = storing()?;
        let path = place.path("script.py");
        fs::write(&path, script).expect("a new file");
        let report = Report::at(place.path("report"));
        Ok(Scene { place, python, script: path, report })
    }

    /// With the library, or without.
    fn puppet(&self, file: &Path, loaded: bool) -> Puppet {
        let command = if loaded { self.report.run(&self.python) } else { Command::new(&self.python) };
        Puppet::start(command, &self.script, file)
    }

    /// What a run of the script says.
    #[track_caller]
    fn says(&self, arguments: [&str; 2], loaded: bool) -> String {
        let mut command = if loaded { self.report.run(&self.python) } else { Command::new(&self.python) };
        let ran = run(command.arg(&self.script).args(arguments)).ends_with(0);
        ran.out
    }
}

#[test]
fn a_mapped_process_and_another_see_what_each_other_does() {
    let scene = or_skip!(Scene::new(include_str!("map.py")));
    let volume = scene.place.volume(&OPTIONS);
    let file = volume.path().join("file");
    let mut random = Random::new(21);
    let mut steps = 0;
    for round in 0..12 {
        let mut model = vec![1_u8; 4096 * (1 + random.below(1500) as usize)];
        fs::write(&file, &model).expect("a new file");
        let mut both = [true, false].map(|loaded| scene.puppet(&file, loaded));
        // Holes, some of them as large as a huge page.
        for _ in 0..random.below(4) {
            let at = random.below(model.len() as u64) as usize;
            let bytes = (1 + random.below(4 << 20) as usize).min(model.len() - at);
            both[1].tell("punch", at, bytes, 0);
            model[at..at + bytes].fill(0);
        }
        let mapped = model.len();
        both[0].tell("map", 0, mapped, 0);
        if round % 3 == 2 {
            both[0].tell("fork", 0, 0, 0);
        }
        for _ in 0..150 {
            steps += 1;
            let byte = steps as u8;
            let at = random.below(mapped as u64) as usize;
            let bytes = (1 + random.below(9000) as usize).min(mapped - at);
            let other = usize::from(random.below(2) == 0);
            match random.below(12) {
                0..3 => {
                    both[0].tell("store", at, bytes, byte);
                    model[at..at + bytes].fill(byte);
                }
                3 | 4 => assert!(both[0].tell("load", at, bytes, 0) == model[at..at + bytes], "step {steps}"),
                5 | 6 => {
                    let got = both[other].tell("pread", at, bytes, 0);
                    assert!(got == model[at..at + bytes], "step {steps}: {bytes} bytes at {at} by {other}");
                }
                7 | 8 => {
                    both[other].tell("pwrite", at, bytes, byte);
                    model[at..at + bytes].fill(byte);
                }
                9 if model.len() < 12 << 20 => {
                    let end = model.len() + random.below(300_000) as usize;
                    assert_eq!(both[other].tell("truncate", 0, end, 0), b"");
                    model.resize(end, 0);
                    both[1].tell("pwrite", end, 5000, byte);
                    model.resize(end + 5000, byte);
                }
                10 => {
                    both[other].tell("punch", at, bytes, 0);
                    model[at..at + bytes].fill(0);
                }
                _ => {
                    // EBUSY: the pages are the file's as long as they are mapped.
                    assert_eq!(both[other].tell("truncate", 0, at, 0), b"errno 16");
                    both[0].tell("flush", 0, 0, 0);
                }
            }
        }
        assert!(fs::read(&file).expect("the file") == model, "round {round}");
        both[0].tell("unmap", 0, 0, 0);
        assert_eq!(both[0].tell("truncate", 0, 1, 0), b"");
        both.into_iter().for_each(Puppet::end);
        fs::remove_file(&file).expect("the file");
    }
    assert_eq!(scene.report.maps(), 12, "{}", scene.report.text());
    volume.end();
}

#[test]
fn a_child_keeps_the_pages_of_a_file_that_has_no_name_any_more() {
    let scene = or_skip!(Scene::new(include_str!("map.py")));
    let volume = scene.place.volume(&OPTIONS);
    let file = volume.path().join("file");
    let free = || rustix::fs::statvfs(volume.path()).expect("the mount").f_bavail;
    let (free_before, bytes) = (free(), 3 << 20);
    fs::write(&file, vec![1; bytes]).expect("a new file");
    let mut puppet = scene.puppet(&file, true);
    puppet.tell("map", 0, bytes, 0);
    puppet.tell("store", 5000, 1, 9);
    puppet.tell("fork", 0, 0, 0);
    puppet.ended();
    fs::remove_file(&file).expect("the file");
    // The server looks from time to time whether it is still mapped.
    std::thread::sleep(std::time::Duration::from_secs(6));
    // Others get all other space.
    let mut fill = fs::File::create(volume.path().join("other")).expect("a new file");
    while fill.write_all(&vec![2; 8 << 20]).is_ok() {}
    let mut expected = vec![1; bytes];
    expected[5000] = 9;
    assert!(puppet.tell("load", 0, bytes, 0) == expected);
    puppet.tell("store", 0, bytes, 3);
    let other = fs::read(volume.path().join("other")).expect("it");
    assert!(other.iter().all(|byte| *byte == 2));
    drop(fill);
    drop(puppet);
    fs::remove_file(volume.path().join("other")).expect("it");
    // All but what is kept ready for new files.
    until("its space comes back", || free() + 256 >= free_before);
    volume.end();
}

#[test]
fn who_has_not_the_library_maps_for_itself_alone() {
    let scene = or_skip!(Scene::new(include_str!("map.py")));
    let volume = scene.place.volume(&OPTIONS);
    let file = volume.path().join("file");
    fs::write(&file, vec![b'a'; 10_000]).expect("a new file");
    let script = "
import mmap, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
for how in (mmap.MAP_SHARED, mmap.MAP_PRIVATE):
    try:
        m = mmap.mmap(fd, 0, flags=how)
        print(m[0:3], m[9999:10000])
    except OSError as error:
        print(error.errno)
";
    let shown = || run(Command::new(&scene.python).args(["-c", script]).arg(&file)).ends_with(0).out;
    // ENODEV.
    assert_eq!(shown(), "19\nb'aaa' b'a'\n");
    let mut puppet = scene.puppet(&file, true);
    // To the end of the page, of which there is nothing behind the file's end.
    puppet.tell("map", 0, 10_000, 0);
    let before = fs::metadata(&file).expect("the file").mtime();
    std::thread::sleep(std::time::Duration::from_millis(1100));
    puppet.tell("store", 0, 3, b'b');
    assert_eq!(shown(), "19\nb'bbb' b'a'\n");
    // ENOMEM, EOPNOTSUPP, EINVAL.
    assert_eq!(puppet.tell("odd", 0, 10_000, 0), b"12 95 22");
    puppet.tell("flush", 0, 0, 0);
    assert!(fs::metadata(&file).expect("the file").mtime() > before, "msync(2) notes the time");
    assert_eq!(puppet.tell("load", 0, 3, 0), b"bbb");
    puppet.end();
    assert_eq!(scene.report.maps(), 1);
    volume.end();
}

#[test]
fn what_could_not_be_unmapped_stays_known() {
    let scene = or_skip!(Scene::new(include_str!("map.py")));
    let volume = scene.place.volume(&OPTIONS);
    let file = volume.path().join("file");
    let bytes = 8 << 12;
    fs::write(&file, vec![b'a'; bytes]).expect("a new file");
    let mut puppet = scene.puppet(&file, true);
    puppet.tell("map", 0, bytes, 0);
    // EINVAL, EINVAL, EINVAL, EBADF.
    assert_eq!(puppet.tell("fail", 0, bytes, 0), b"22 22 22 9");
    // As before: ENOMEM, EOPNOTSUPP, EINVAL.
    assert_eq!(puppet.tell("odd", 0, bytes, 0), b"12 95 22");
    assert!(puppet.tell("load", 0, bytes, 0) == vec![b'a'; bytes]);
    puppet.tell("unmap", 0, 0, 0);
    puppet.end();
    assert_eq!(scene.report.maps(), 2, "{}", scene.report.text());
    volume.end();
}

#[test]
fn what_was_replaced_in_part_is_forgotten() {
    let scene = or_skip!(Scene::new(include_str!("map.py")));
    let region = scene.place.path("region");
    make(&region, &["--size", "64M"]);
    let volume = MountedVolume::mount(&region, &scene.place.folder("mount"), &OPTIONS);
    let [file, other] = ["file", "other"].map(|name| volume.path().join(name));
    let bytes = 8 << 12;
    fs::write(&file, vec![b'a'; 2 * bytes]).expect("a new file");
    let mut puppet = scene.puppet(&file, true);
    // The space of the hole is somebody else's, and there is other space then: so the file lies in several pieces.
    puppet.tell("punch", 3 << 12, 2 << 12, 0);
    let mut fill = fs::File::create(&other).expect("a new file");
    while fill.write_all(&[b'b'; 4096]).is_ok() {}
    drop(fill);
    let mut second = scene.puppet(&other, false);
    second.tell("punch", 0, 1 << 20, 0);
    second.end();
    // ENOMEM; what others have there can lose its space, what is left of the file's mappings cannot.
    assert_eq!(puppet.tell("pieces", 0, bytes, 0), b"12 0 -1 -1");
    puppet.end();
    let mut expected = vec![b'a'; 2 * bytes];
    expected[3 << 12..5 << 12].fill(0);
    assert!(fs::read(&file).expect("the file") == expected);
    volume.end();
}

#[test]
fn a_child_notes_the_time_as_well() {
    let scene = or_skip!(Scene::new(include_str!("map.py")));
    let volume = scene.place.volume(&OPTIONS);
    let file = volume.path().join("file");
    fs::write(&file, vec![b'a'; 10_000]).expect("a new file");
    let times = || {
        let found = fs::metadata(&file).expect("the file");
        [(found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec())]
    };
    let mut puppet = scene.puppet(&file, true);
    puppet.tell("map", 0, 10_000, 0);
    for (generation, how) in ["flush", "flush", "unmap"].into_iter().enumerate() {
        // A child, and a child of it. Of the first one nobody asks what it stored to: its parent is gone.
        puppet.tell("fork", 0, 0, 0);
        if generation == 0 {
            puppet.ended();
        }
        let before = times();
        std::thread::sleep(std::time::Duration::from_millis(20));
        puppet.tell("store", 0, 3, b'b');
        assert_eq!(times(), before, "nobody knows of a store");
        puppet.tell(how, 0, 0, 0);
        let after = times();
        assert!((0..2).all(|which| after[which] > before[which]), "{how}: {before:?}, {after:?}");
    }
    drop(puppet);
    volume.end();
}

#[test]
fn threads_handlers_and_children_map_and_unmap_at_once() {
    let compiler = or_skip!(program("cc", "gcc"));
    let place = or_skip!(storing());
    let built = compiled(&compiler, &place, "threads", include_str!("threads.c"), &["-Wall", "-Werror"]);
    let volume = place.volume(&OPTIONS);
    let file = volume.path().join("file");
    fs::write(&file, vec![b'a'; 1 << 20]).expect("a new file");
    let report = Report::at(place.path("report"));
    let ran = run(report.run(&built).arg(&file)).ends_with(0);
    // Each thread counts in words of its own.
    assert_eq!(ran.out, "3 threads, 100 children\n");
    assert!(report.maps() > 300, "{}", report.text());
    volume.end();
}

/// Debian's LMDB, if it is there.
#[track_caller]
fn lmdb() -> Result<Scene, Skip> {
    let scene = Scene::new(include_str!("scripts/lmdb.py"))?;
    let found = Command::new(&scene.python).args(["-c", "import ctypes; ctypes.CDLL('liblmdb.so.0')"]).output();
    match found.is_ok_and(|output| output.status.success()) {
        true => Ok(scene),
        false => Err(Need::Programs.lacks("liblmdb.so.0: apt-get install liblmdb0")),
    }
}

/// What a copy of the database holds that was made by the kernel: the last transaction, and the digest.
#[track_caller]
fn copied(scene: &Scene, folder: &Path) -> (u64, String) {
    let copy = scene.place.path("copy");
    let _ = fs::remove_dir_all(&copy);
    fs::create_dir(&copy).expect("a new folder");
    fs::copy(folder.join("data.mdb"), copy.join("data.mdb")).expect("a copy");
    let said = scene.says(["read", copy.to_str().expect("text")], false);
    let words: Vec<&str> = said.split_whitespace().collect();
    let [last, total, digest] = words[..] else { panic!("{said}") };
    assert_eq!(total, "0", "a part of a transaction: {said}");
    (last.parse().expect("a number"), digest.to_owned())
}

#[test]
fn lmdb_with_a_writable_map_does_what_it_does_elsewhere() {
    let scene = or_skip!(lmdb());
    let volume = scene.place.volume(&OPTIONS);
    let [there, here] = [scene.place.path("there"), volume.path().join("here")];
    [&there, &here].into_iter().for_each(|path| fs::create_dir(path).expect("a new folder"));
    let expected = scene.says(["fill", there.to_str().expect("text")], false);
    let said = scene.says(["fill", here.to_str().expect("text")], true);
    assert_eq!(said, expected);
    // The database and its locks.
    assert_eq!(scene.report.maps(), 2, "{}", scene.report.text());
    let (last, digest) = copied(&scene, &here);
    assert_eq!(format!("{last} 0 {digest}\n"), expected);
    // Another process, with the library.
    assert_eq!(scene.says(["fill", here.to_str().expect("text")], true).split(' ').next(), Some("300"));
    volume.end();
}

#[test]
fn a_database_is_whole_after_its_program_was_killed() {
    let scene = or_skip!(lmdb());
    let volume = scene.place.volume(&OPTIONS);
    let folder = volume.path().join("database");
    fs::create_dir(&folder).expect("a new folder");
    let mut before = 0;
    for round in 0..20 {
        let said = killed_after(&scene, &folder, 20 + round * 13);
        let (last, _) = copied(&scene, &folder);
        assert!(last == said || last == said + 1, "round {round}: {last} after {said} were durable");
        assert!(said > before);
        before = said;
        fs::write(volume.path().join("other"), vec![round as u8; 300_000]).expect("a file");
    }
    tell(&format!("20 programs killed, {before} transactions"));
    volume.end();
}

/// Lets a program say so much, and kills it; the last transaction that it said was durable.
fn killed_after(scene: &Scene, folder: &Path, lines: usize) -> u64 {
    let mut command = scene.report.run(&scene.python);
    command.arg(&scene.script).arg("write").arg(folder).stdout(Stdio::piped());
    let mut child = command.spawn().expect("python3 starts");
    let output = BufReader::new(child.stdout.take().expect("a pipe"));
    let mut said = 0;
    for (number, line) in output.lines().enumerate() {
        said = line.expect("a line").parse().expect("a number");
        if number + 1 >= lines {
            let _ = child.kill();
        }
    }
    child.wait().expect("it ends");
    said
}

#[test]
fn a_mapping_outlives_the_server_and_keeps_others_from_the_volume() {
    let scene = or_skip!(lmdb());
    let mut volume = scene.place.volume(&OPTIONS);
    let folder = volume.path().join("database");
    fs::create_dir(&folder).expect("a new folder");
    for round in 0..4 {
        let mut command = scene.report.run(&scene.python);
        command.arg(&scene.script).arg("write").arg(&folder).stdout(Stdio::piped());
        let mut child = command.spawn().expect("python3 starts");
        let mut lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
        let mut next = || lines.next().expect("a line").expect("a line").parse::<u64>().expect("a number");
        (0..50).for_each(|_| _ = next());
        volume.kill();
        // It goes on: nothing of what it does needs the server.
        let mut said = next();
        (0..50).for_each(|_| said = next());
        let refused = run(scmfs(["mount"]).arg(volume.region()).arg(volume.path()));
        assert!(refused.status != Some(0) && refused.err.contains("use"), "{refused}");
        child.kill().expect("it runs");
        while let Some(Ok(line)) = lines.next() {
            said = line.parse().expect("a number");
        }
        child.wait().expect("it ends");
        let (region, directory) = (volume.region().to_owned(), volume.path().to_owned());
        drop(volume);
        check(&region).says(&["not closed"]);
        volume = MountedVolume::mount(&region, &directory, &OPTIONS);
        let (last, _) = copied(&scene, &folder);
        assert!(last == said || last == said + 1, "round {round}: {last} after {said} were durable");
    }
    volume.end();
}

#[test]
fn a_child_without_its_parent_keeps_others_from_the_volume() {
    let scene = or_skip!(Scene::new(include_str!("map.py")));
    let volume = scene.place.volume(&OPTIONS);
    let file = volume.path().join("file");
    fs::write(&file, vec![1; 100_000]).expect("a new file");
    let mut puppet = scene.puppet(&file, true);
    puppet.tell("map", 0, 100_000, 0);
    puppet.tell("fork", 0, 0, 0);
    puppet.ended();
    volume.kill();
    puppet.tell("store", 0, 100_000, 2);
    let refused = run(scmfs(["mount"]).arg(volume.region()).arg(volume.path()));
    assert!(refused.status != Some(0) && refused.err.contains("use"), "{refused}");
    drop(puppet);
    let (region, directory) = (volume.region().to_owned(), volume.path().to_owned());
    drop(volume);
    // The child ends when nobody tells it anything any more.
    until("the volume is free", || run(scmfs(["fsck"]).arg(&region)).status == Some(0));
    let volume = MountedVolume::mount(&region, &directory, &OPTIONS);
    assert!(fs::read(volume.path().join("file")).expect("the file") == vec![2; 100_000]);
    volume.end();
}
