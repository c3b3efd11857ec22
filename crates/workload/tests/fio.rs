//! The workload `fio` beside fio itself: what both make of the same job file.

use pocketstone_testing::{or_skip, program};
use pocketstone_workload::{Data, FileWorkload, FioSpec, Operation};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// A request: its kind, the number of its file in the order of names, offset and bytes.
type Request = (&'static str, u32, u64, u64);

/// The log of a job file that fio runs in an empty folder.
fn log(fio: &Path, text: &str) -> String {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let folder = folder.path();
    std::fs::write(folder.join("jobs.fio"), text).expect("a job file");
    let mut command = Command::new(fio);
    command.args(["jobs.fio", "--write_iolog=io.log", "--ioengine=psync"]).current_dir(folder);
    let output = command.output().expect("fio runs");
    assert!(output.status.success(), "{text}: {}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(folder.join("io.log")).expect("its log")
}

/// The requests that it logs.
fn logged(fio: &Path, text: &str) -> Vec<Request> {
    let log = log(fio, text);
    let mut files: Vec<&str> = log.lines().filter_map(|line| line.strip_suffix(" add")).map(name).collect();
    files.sort_unstable();
    let numbers: BTreeMap<&str, u32> = files.into_iter().zip(0..).collect();
    let request = |line: &str| -> Option<Request> {
        let words: Vec<&str> = line.split(' ').collect();
        let [_, _, what, offset, bytes] = words[..] else { return None };
        let kind = ["read", "write", "sync", "datasync"].into_iter().find(|kind| *kind == what)?;
        let (offset, bytes) = if kind.ends_with("sync") { ("0", "0") } else { (offset, bytes) };
        Some((kind, numbers[name(line)], offset.parse().ok()?, bytes.parse().ok()?))
    };
    log.lines().filter_map(request).collect()
}

/// The file of a line of the log, which begins with a time.
fn name(line: &str) -> &str {
    line.split(' ').nth(1).expect("a name")
}

/// What the lab makes of it.
fn made(text: &str) -> Vec<Request> {
    let spec = FioSpec::read(text, "jobs.fio", "", Data::Random).unwrap_or_else(|e| panic!("{}", e.chain()));
    let request = |operation| match operation {
        Operation::Read { file, offset, bytes } => Some(("read", file, offset, bytes)),
        Operation::Write { file, offset, bytes } => Some(("write", file, offset, bytes)),
        Operation::Sync { file } => Some(("sync", file, 0, 0)),
        Operation::SyncData { file } => Some(("datasync", file, 0, 0)),
        _ => None,
    };
    spec.operations(1).filter_map(request).collect()
}

#[test]
fn jobs_in_order_are_fios_request_by_request() {
    let fio = or_skip!(program("fio", "fio"));
    for options in [
        "rw=read\nsize=64k",
        "rw=write\nsize=64k\nbs=16k",
        "rw=write\nsize=16k\nfsync=1\nend_fsync=1\nloops=3",
        "rw=write\nsize=64k\nfsync=3",
        "rw=write\nsize=64k\nfdatasync=5\noverwrite=1",
        "rw=read\nsize=60k\nnrfiles=3\nbs=1k",
        "rw=write\nsize=10kib\nbs=500",
        "rw=read\nsize=10000\nbs=4k\nio_size=20k",
        "rw=read\nsize=20000\nio_size=8k",
        "rw=write\nsize=64kib\nnumber_ios=7\nbs=1000",
        "rw=rw\nrwmixread=100\nsize=64k",
        "rw=readwrite\nrwmixwrite=100\nsize=64k\nfsync=4",
        "rw=write\nfilename=a:b\nsize=32k\ninvalidate=0\nfallocate=none",
        "rw=write\nsize=16k\nio_size=40k\nend_fsync=1",
        "rw=write\nsize=16k\nio_size=48k\nfsync=3",
        "rw=write\nsize=16k\nnrfiles=2\nloops=2\nend_fsync=1",
        "rw=write\nsize=16k\nio_size=48k\nnumber_ios=10",
        "rw=read\nsize=24k\nnrfiles=2\nio_size=40k",
    ] {
        let text = format!("[global]\nbs=4k\n[j]\n{options}\n");
        assert_eq!(made(&text), logged(&fio, &text), "{text}");
    }
}

#[test]
fn files_of_a_mixed_job_take_turns_and_each_is_read_and_written_in_order() {
    let fio = or_skip!(program("fio", "fio"));
    let text = "[j]\nrw=rw\nbs=4k\nsize=240k\nnrfiles=3\n";
    let (lab, fio) = (made(text), logged(&fio, text));
    let files = |list: &[Request]| list.iter().map(|request| request.1).collect::<Vec<_>>();
    assert_eq!(files(&lab), files(&fio));
    for list in [lab, fio] {
        let mut next: BTreeMap<(&str, u32), u64> = BTreeMap::new();
        for (kind, file, offset, bytes) in list {
            let next = next.entry((kind, file)).or_default();
            assert_eq!(offset, *next, "{kind} of the file {file}");
            *next += bytes;
        }
    }
}

#[test]
fn the_page_cache_is_emptied_where_fio_opens_its_files_again() {
    let fio = or_skip!(program("fio", "fio"));
    for options in [
        "rw=read\nsize=16k",
        "rw=read\nsize=16k\nloops=3",
        "rw=randread\nsize=16k\nio_size=40k",
        "rw=randread\nsize=16k\nio_size=40k\nnorandommap",
        "rw=randread\nsize=16k\nloops=2\nnorandommap",
        "rw=read\nsize=16k\nnrfiles=2\nio_size=40k",
    ] {
        let text = format!("[j]\nbs=4k\n{options}\n");
        let log = log(&fio, &text);
        let mut opens: BTreeMap<&str, usize> = BTreeMap::new();
        log.lines().filter(|line| line.ends_with(" open")).for_each(|line| *opens.entry(name(line)).or_default() += 1);
        let spec = FioSpec::read(&text, "jobs.fio", "", Data::Random).unwrap_or_else(|e| panic!("{}", e.chain()));
        let emptied = spec.operations(1).filter(|operation| matches!(operation, Operation::Invalidate { .. })).count();
        // The first time the lab has emptied it before.
        assert!(!opens.is_empty());
        assert_eq!(emptied, opens.values().sum::<usize>() - opens.len(), "{text}");
    }
}

/// The size of a job's file when the clock starts, and whether it has all of its space.
fn begun(text: &str) -> (u64, bool) {
    let spec = FioSpec::read(text, "jobs.fio", "", Data::Random).unwrap_or_else(|e| panic!("{}", e.chain()));
    spec.setup().fold((0, false), |before, operation| match operation {
        Operation::Allocate { bytes, .. } => (bytes, true),
        Operation::Truncate { bytes, .. } => (bytes, before.1),
        _ => before,
    })
}

#[test]
fn files_that_are_only_written_begin_as_fios() {
    let fio = or_skip!(program("fio", "fio"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    for option in ["", "fallocate=native", "fallocate=none", "fallocate=0", "fallocate=truncate"] {
        let text = format!("[j]\nfilename=f\nrw=write\nbs=4k\nsize=1m\n{option}\n");
        std::fs::write(folder.path().join("jobs.fio"), &text).expect("a job file");
        // It makes the file and begins no request.
        let mut command = Command::new(&fio);
        command.args(["jobs.fio", "--create_only=1"]).current_dir(folder.path());
        assert!(command.output().expect("fio runs").status.success(), "{text}");
        let file = folder.path().join("f");
        let found = std::fs::metadata(&file).expect("the file is there");
        assert_eq!(begun(&text), (found.len(), found.blocks() * 512 >= 1 << 20), "{text}");
        std::fs::remove_file(file).expect("it can be removed");
    }
}

#[test]
fn random_jobs_are_as_many_of_fios_kinds_at_the_same_places() {
    let fio = or_skip!(program("fio", "fio"));
    for options in [
        "rw=randread\nsize=256k",
        "rw=randwrite\nsize=256k\nfsync=8",
        "rw=randread\nsize=256k\nnrfiles=4\nloops=2",
        "rw=randwrite\nsize=250000\nbs=4096",
        "rw=randrw\nsize=1m\nrwmixread=70\nbs=1k",
        "rw=randread\nsize=1m\nnorandommap\nbs=1k",
        "rw=randwrite\nsize=16k\nio_size=32k\nend_fsync=1",
    ] {
        let text = format!("[j]\n{options}\n");
        let (lab, fio) = (made(&text), logged(&fio, &text));
        let places = |list: &[Request]| -> BTreeMap<(u32, u64, u64), usize> {
            let requests = list.iter().filter(|request| !request.0.ends_with("sync"));
            requests.fold(BTreeMap::new(), |mut places, (_, file, offset, bytes)| {
                *places.entry((*file, *offset, *bytes)).or_default() += 1;
                places
            })
        };
        let count = |list: &[Request], kind| list.iter().filter(|request| request.0 == kind).count();
        match options.contains("norandommap") {
            // 1,024 draws of 1,024 places leave 1 - 1/e of them: 647 +- 10 (standard deviation); five of them.
            true => {
                for list in [&lab, &fio] {
                    assert!(places(list).len().abs_diff(647) < 50, "{text}: {}", places(list).len());
                    assert_eq!(list.len(), 1024);
                }
            }
            false => assert_eq!(places(&lab), places(&fio), "{text}"),
        }
        match options.contains("randrw") {
            // 70 of 100 of 1,024: 717 +- 14.7 (standard deviation); five of them.
            true => {
                let reads = [count(&lab, "read"), count(&fio, "read")];
                assert!(reads.iter().all(|reads| reads.abs_diff(717) < 74), "{text}: {reads:?}");
            }
            false => {
                let kinds = ["read", "write", "sync", "datasync"];
                assert_eq!(kinds.map(|kind| count(&lab, kind)), kinds.map(|kind| count(&fio, kind)), "{text}");
            }
        }
    }
}
