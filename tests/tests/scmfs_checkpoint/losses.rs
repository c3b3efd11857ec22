//! What is lost with the memory that a mounted volume is in, while checkpoints of it are taken.

use pocketstone_random::Random;
use pocketstone_testing::or_skip;
use pocketstone_tests::command::run;
use pocketstone_tests::mounted::{MountedVolume, Place, check, make, scmfs};
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Bytes of a record of the log.
const RECORD: usize = 64;
/// Records that have been written, and files that have their name.
#[derive(Default)]
struct Written {
    records: AtomicU64,
    files: AtomicU64,
}

/// Record `number` of the log.
fn record(number: u64) -> Vec<u8> {
    format!("{number:0width$}\n", width = RECORD - 1).into_bytes()
}

/// What file `number` has: more than one page, which tells it from all others.
fn content(number: u64) -> Vec<u8> {
    record(number).repeat(200)
}

/// Appends records and renames files into place until the volume is gone.
fn write(directory: &Path, from: (u64, u64), written: &Written) -> std::io::Result<()> {
    let mut log = File::options().create(true).append(true).open(directory.join("log"))?;
    let (mut records, mut files) = from;
    loop {
        for _ in 0..20 {
            log.write_all(&record(records))?;
            records += 1;
            written.records.store(records, Ordering::SeqCst);
        }
        fs::write(directory.join("new"), content(files))?;
        fs::rename(directory.join("new"), directory.join(files.to_string()))?;
        files += 1;
        written.files.store(files, Ordering::SeqCst);
        // All of them are to fit.
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Checks what there is: whole operations, none before another that it came after; files from number `first` on by
/// what they have. The records and files.
#[track_caller]
fn found(directory: &Path, first: u64) -> (u64, u64) {
    // A checkpoint may be taken before the writer has begun.
    let log = match fs::read(directory.join("log")) {
        Err(error) if error.kind() == ErrorKind::NotFound => Vec::new(),
        log => log.expect("the log"),
    };
    assert_eq!(log.len() % RECORD, 0, "an append is there or not");
    let records = (log.len() / RECORD) as u64;
    assert!(log == (0..records).flat_map(record).collect::<Vec<u8>>(), "the log is what was appended");
    let names = fs::read_dir(directory).expect("the folder").flatten().map(|entry| entry.file_name());
    let files = names.filter(|name| name.to_str().is_some_and(|name| name.parse::<u64>().is_ok())).count() as u64;
    for number in first..files {
        let path = directory.join(number.to_string());
        assert!(fs::read(&path).expect("the file") == content(number), "{} is whole", path.display());
    }
    // Between two files, 20 records are appended.
    assert!((files * 20..=files * 20 + 20).contains(&records), "{files} files and {records} records");
    (records, files)
}

/// A server is killed and its memory lost, `kills` times, while a program writes and checkpoints are taken.
fn lost_again_and_again(kills: u32, size: &str, seed: u64) {
    let place = or_skip!(Place::new());
    let (region, mount, target) = (place.path("region"), place.folder("mount"), place.folder("target"));
    let options = format!("checkpoint={},every=1s", target.display());
    let mut random = Random::new(seed);
    make(&region, &["--size", size]);
    let mut volume = MountedVolume::mount(&region, &mount, &["-o", &options]);
    let (mut at, mut least) = ((0, 0), (0, 0));
    for kill in 0..kills {
        let written = Written::default();
        written.records.store(at.0, Ordering::SeqCst);
        written.files.store(at.1, Ordering::SeqCst);
        let now = || (written.records.load(Ordering::SeqCst), written.files.load(Ordering::SeqCst));
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| write(&mount, at, &written));
            for _ in 0..=random.below(3) {
                std::thread::sleep(Duration::from_millis(random.below(40)));
                let before = now();
                run(scmfs(["checkpoint"]).arg(&mount).arg(&target)).ends_with(0);
                least = before;
            }
            // In the middle of another one, or after it.
            let mut last = scmfs(["checkpoint"]);
            last.arg(&mount).arg(&target).stdout(Stdio::null()).stderr(Stdio::null());
            let mut last = last.spawn().expect("the command runs");
            std::thread::sleep(Duration::from_millis(random.below(30)));
            volume.kill();
            let _ = last.wait();
            assert!(writer.join().expect("the writer").is_err(), "the volume is gone");
        });
        drop(volume);
        fs::remove_file(&region).expect("the memory is lost");
        run(scmfs(["restore"]).arg(&target).arg(&region)).ends_with(0);
        check(&region);
        volume = MountedVolume::mount(&region, &mount, &["-o", &options]);
        // All that there is every now and then: each kill would take longer than the one before.
        let all = kill % 20 == 19;
        at = found(&mount, if all { 0 } else { at.1 });
        assert!(
            at.0 >= least.0 && at.1 >= least.1,
            "kill {kill}: {at:?} is there, and {least:?} was when one was taken"
        );
        if all {
            // So would it if the volume grew.
            fs::read_dir(&mount).expect("the folder").flatten().for_each(|entry| {
                fs::remove_file(entry.path()).expect("it is there");
            });
            at = (0, 0);
            continue;
        }
        // A file that had not its name yet.
        let _ = fs::remove_file(mount.join("new"));
        at.0 = at.1 * 20;
        let log = File::options().create(true).truncate(false).write(true).open(mount.join("log")).expect("the log");
        log.set_len(at.0 * RECORD as u64).expect("cut back");
        least = (0, 0);
    }
    run(scmfs(["checkpoint", "--verify"]).arg(&target)).ends_with(0);
    volume.end();
}

#[test]
fn twenty_losses_of_a_volumes_memory_cost_what_came_after_the_last_checkpoint() {
    lost_again_and_again(20, "256M", 1);
}

#[test]
#[ignore = "takes minutes: make torture"]
fn two_hundred_losses_of_a_volumes_memory_cost_what_came_after_the_last_checkpoint() {
    lost_again_and_again(200, "512M", 2);
}

/// A volume that is unmounted and lost is there again with the next mount, by itself.
#[test]
fn a_mount_takes_a_last_checkpoint_and_restores_an_empty_region() {
    let place = or_skip!(Place::new());
    let (region, mount, target) = (place.path("region"), place.folder("mount"), place.folder("target"));
    let options = format!("checkpoint={},every=1h,restore", target.display());
    make(&region, &["--size", "64M"]);
    let volume = MountedVolume::mount(&region, &mount, &["-o", &options]);
    fs::write(mount.join("file"), content(7)).expect("a file");
    volume.end();
    fs::remove_file(&region).expect("the memory is lost");
    let volume = MountedVolume::mount(&region, &mount, &["-o", &options]);
    assert!(fs::read(mount.join("file")).expect("the file") == content(7));
    volume.end();
    // A target that is damaged is named, and the region stays as it is: not there.
    let generation = fs::read_dir(&target).expect("the target").flatten().map(|entry| entry.path());
    let generation = generation.filter(|path| path.to_string_lossy().contains("/checkpoint-")).max();
    let generation = generation.expect("a checkpoint");
    let mut bytes = fs::read(&generation).expect("a checkpoint");
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&generation, bytes).expect("damaged");
    fs::remove_file(&region).expect("the memory is lost");
    let name = generation.file_name().expect("a name").to_string_lossy().into_owned();
    let refused = run(scmfs(["mount", "-o", &options]).arg(&region).arg(&mount));
    assert_ne!(refused.status, Some(0));
    refused.complains(&[&name]);
    assert!(!region.exists() || fs::metadata(&region).expect("the region").len() == 0);
}
