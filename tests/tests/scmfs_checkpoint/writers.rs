//! Checkpoints of a mount whose files are stored to by mappings, and by a program that needs no kernel for it.

use pocketstone_random::Random;
use pocketstone_testing::{Need, or_skip, program, seed, wait};
use pocketstone_tests::command::run;
use pocketstone_tests::mounted::{MountedVolume, Place, check, make, scmfs};
use pocketstone_tests::suites::{command, tell};
use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command};
use std::time::Duration;

const PAGE: usize = 4096;
const PAGES: u64 = 64;
const ROUNDS: u32 = 10;

/// `writers.py`, at work on a file.
struct Writer {
    child: Child,
    progress: File,
}

impl Writer {
    fn start(mut command: Command, script: &Path, kind: &str, file: &Path, progress: &Path) -> Writer {
        fs::write(file, vec![0; PAGE * PAGES as usize]).expect("a new file");
        fs::write(progress, [0; 16]).expect("a new file");
        let progress_file = File::options().read(true).write(true).open(progress).expect("it is there");
        let child = command.arg(script).arg(kind).arg(file).arg(progress).spawn().expect("it starts");
        let writer = Writer { child, progress: progress_file };
        // Every page has a number.
        wait::until("the writer stores", || writer.stored() > PAGES);
        writer
    }

    /// The last number that it has stored.
    fn stored(&self) -> u64 {
        let mut word = [0; 8];
        self.progress.read_exact_at(&mut word, 0).expect("a word");
        u64::from_le_bytes(word)
    }

    fn end(mut self) {
        self.progress.write_all_at(&[1], 8).expect("it is told");
        assert!(self.child.wait().expect("it ends").success());
    }
}

fn numbers(file: &Path) -> Vec<u64> {
    let content = fs::read(file).expect("the file");
    assert_eq!(content.len(), PAGE * PAGES as usize);
    content.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().expect("eight bytes"))).collect()
}

/// What was stored to a mapping before the checkpoint was asked for is there; what came later may be.
#[track_caller]
fn has_mapped(file: &Path, before: u64, after: u64) {
    for number in numbers(file) {
        assert!((before..=after + 1).contains(&number), "{number} is there, not one of {before} to {after}");
    }
}

/// Pages are whole, and are the last ones that were written at one moment: before none that is there, one is missing.
#[track_caller]
fn has_written(file: &Path, before: u64, after: u64) {
    let numbers = numbers(file);
    let mut pages: Vec<u64> = Vec::new();
    for (place, page) in numbers.chunks_exact(PAGE / 8).enumerate() {
        assert!(page.iter().all(|number| *number == page[0]), "page {place} has all of a write or nothing");
        assert_eq!(page[0] % PAGES, place as u64);
        pages.push(page[0]);
    }
    let last = pages.iter().max().copied().expect("a page");
    assert!((before..=after + 1).contains(&last), "{last} is the last one, not one of {before} to {after}");
    pages.sort_unstable();
    assert_eq!(pages, (last + 1 - PAGES..=last).collect::<Vec<_>>(), "all that were written before {last}");
}

#[test]
fn images_have_what_is_stored_by_mappings_and_whole_stores_without_the_kernel() {
    let python = or_skip!(program("python3", "python3"));
    if !pocketstone_mount::stores_directly() {
        return Need::Kernel.lacks("direct stores: FUSE is ready for them from Linux 6.16 on").end();
    }
    let place = or_skip!(Place::new());
    let (region, mount, target) = (place.path("region"), place.folder("mount"), place.folder("target"));
    let (script, report) = (place.path("writers.py"), place.path("report"));
    fs::write(&script, include_str!("writers.py")).expect("a new file");
    make(&region, &["--size", "64M"]);
    let options = format!("preload=write,checkpoint={},every=1h", target.display());
    let volume = MountedVolume::mount(&region, &mount, &["-o", &options]);
    let mapping =
        Writer::start(command(&python), &script, "map", &mount.join("mapped"), &place.path("mapping's progress"));
    let mut direct = scmfs(["run", "--report"]);
    // It goes by the kernel while pages are copied, and without it again right after.
    direct.arg(&report).arg(&python).env("SCMFS_PRELOAD_REST_MS", "0");
    let direct = Writer::start(direct, &script, "write", &mount.join("written"), &place.path("direct's progress"));
    let (image, at) = (place.path("image"), place.folder("at"));
    let mut random = Random::new(seed(5));
    for _ in 0..ROUNDS {
        std::thread::sleep(Duration::from_millis(random.below(60)));
        let before = [mapping.stored(), direct.stored()];
        run(scmfs(["checkpoint"]).arg(&mount).arg(&target)).ends_with(0);
        let after = [mapping.stored(), direct.stored()];
        run(scmfs(["restore", "--force"]).arg(&target).arg(&image)).ends_with(0);
        check(&image);
        let restored = MountedVolume::mount(&image, &at, &[]);
        has_mapped(&at.join("mapped"), before[0], after[0]);
        has_written(&at.join("written"), before[1], after[1]);
        restored.end();
    }
    let stored = [mapping.stored(), direct.stored()];
    mapping.end();
    direct.end();
    let said = fs::read_to_string(&report).expect("a report");
    let writes = said.lines().find_map(|line| line.split("writes direct: ").nth(1)).unwrap_or_default();
    let writes: u64 = writes.split(|c: char| !c.is_ascii_digit()).next().and_then(|n| n.parse().ok()).unwrap_or(0);
    tell(&format!("{} rounds of stores to a mapping; {} writes, {writes} without the kernel", stored[0], stored[1]));
    assert!(writes > 10 * PAGES, "{said}");
    volume.end();
}
