use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn of(text: &str) -> FioSpec {
    FioSpec::read(text, "jobs.fio", "", Data::Random).unwrap_or_else(|e| panic!("{}", e.chain()))
}

fn refused(text: &str) -> String {
    let error = FioSpec::read(text, "jobs.fio", "", Data::Random).expect_err("it is refused");
    assert!(error.cure().is_some(), "{}", error.chain());
    error.chain()
}

fn requests(spec: &FioSpec, seed: u64) -> Vec<Operation> {
    spec.operations(seed).collect()
}

#[test]
fn a_job_in_order_is_what_fio_logs() {
    // As `fio --write_iolog` has it: rw=write, 16 KiB of 4 KiB, fsync=1, end_fsync=1, loops=2 (fio 3.33).
    let spec = of("[global]\nbs=4k\n[j]\nrw=write\nsize=16k\nfsync=1\nend_fsync=1\nloops=2\n");
    let write = |block: u64| Operation::Write { file: 0, offset: block * 4096, bytes: 4096 };
    let sync = Operation::Sync { file: 0 };
    let pass = [write(0), sync, write(1), sync, write(2), sync, write(3), sync];
    // It opens the file for each loop, and asks then for an empty page cache.
    let opened = Operation::Invalidate { file: 0 };
    assert_eq!(requests(&spec, 1), [&pass[..], &[opened, sync], &pass[..]].concat());
    // The file has its size and its space, and no contents.
    assert_eq!(spec.population(1).list(), [NewFile { name: "j.0.0".into(), bytes: 0 }]);
    let open = Operation::Open { file: 0, purpose: Purpose::Write };
    assert_eq!(spec.setup().collect::<Vec<_>>(), [open, Operation::Allocate { file: 0, bytes: 16384 }]);
}

#[test]
fn files_that_are_only_written_are_made_as_fallocate_says() {
    let setup = |options: &str| -> Vec<Operation> {
        let spec = of(&format!("[global]\nfilename=f\nsize=8k\n[w]\nrw=write\n{options}\n"));
        assert_eq!(spec.population(1).list()[0].bytes, 0, "{options}");
        assert_eq!(spec.setup().next(), Some(Operation::Open { file: 0, purpose: Purpose::Write }));
        spec.setup().skip(1).collect()
    };
    let (allocate, truncate) =
        (Operation::Allocate { file: 0, bytes: 8192 }, Operation::Truncate { file: 0, bytes: 8192 });
    assert_eq!(setup("fallocate=native"), [allocate]);
    assert_eq!(setup("fallocate=truncate"), [truncate]);
    assert_eq!(setup("fallocate=none"), []);
    assert_eq!(setup("fallocate=0"), []);
    // The first job decides, but fio finds an empty file too small for the second (fio 3.33: f has 8192 bytes of data).
    assert_eq!(setup("fallocate=truncate\n[x]\nstonewall\nrw=write\nfallocate=none"), [truncate]);
    assert_eq!(setup("fallocate=none\n[x]\nstonewall\nrw=write\nfallocate=native"), [allocate]);
    // A plan of before does what it did, and the usual is said.
    let plan = |options: &str| serde_json::to_value(of(&format!("[w]\nsize=8k\nrw=write\n{options}\n"))).unwrap();
    assert_eq!(plan("")["jobs"][0]["fallocate"], "native");
    let mut before = plan("fallocate=truncate");
    assert_eq!(before["jobs"][0].as_object_mut().unwrap().remove("fallocate"), None);
    let before: FioSpec = serde_json::from_value(before).unwrap();
    assert_eq!(before.setup().nth(1), Some(truncate));
    let read = of("[global]\nfilename=f\nsize=8k\n[w]\nrw=write\nfallocate=none\n[r]\nstonewall\nrw=read\n");
    assert_eq!((read.population(1).list()[0].bytes, read.setup().count()), (8192, 1));
}

#[test]
fn files_take_turns_and_pauses_stand_between_requests() {
    let spec = of("[j]\nsize=4k\nbs=1k\nnrfiles=2\nthinktime=5\nthinktime_blocks=2\ndirectory=/mnt/x\n");
    let read = |file, offset| Operation::Read { file, offset, bytes: 1024 };
    let pause = Operation::Pause { ns: 5000 };
    assert_eq!(requests(&spec, 1), [read(0, 0), read(1, 0), pause, read(0, 1024), read(1, 1024)]);
    assert_eq!(spec.pauses_ns(), 5000);
    // Jobs at once pause at once, those in turn one after the other.
    let jobs = |after: &str| of(&format!("[global]\nsize=4k\nbs=1k\nthinktime=5\n[a]\n[b]\nloops=2\n{after}\n"));
    for (after, pauses) in [("", 7), ("stonewall", 3 + 7)] {
        let spec = jobs(after);
        let of_all = spec.operations(1).filter(|operation| *operation == pause).count();
        assert_eq!((of_all, spec.pauses_ns()), (3 + 7, pauses * 5000), "{after}");
    }
    assert_eq!(spec.names(1), ["mnt/x/j.0.0", "mnt/x/j.0.1"]);
    assert_eq!(spec.population(1).list()[1].bytes, 2048);
}

#[test]
fn what_was_written_is_read_from_the_medium_unless_the_job_says_otherwise() {
    let jobs = |further: &str| {
        of(&format!("[global]\nfilename=f\nsize=8k\n[w]\nrw=write\nend_fsync=1\n[r]\nstonewall\nrw=read\n{further}\n"))
    };
    let write = |block: u64| Operation::Write { file: 0, offset: block * 4096, bytes: 4096 };
    let read = |block: u64| Operation::Read { file: 0, offset: block * 4096, bytes: 4096 };
    let (sync, opened) = (Operation::Sync { file: 0 }, Operation::Invalidate { file: 0 });
    let cold = jobs("");
    assert_eq!(requests(&cold, 1), [write(0), write(1), sync, opened, read(0), read(1)]);
    // fio makes the file for the first job, which needs no contents; the second finds it there.
    assert_eq!(cold.population(1).list()[0].bytes, 0);
    let setup: Vec<Operation> = cold.setup().skip(1).collect();
    assert_eq!(setup, [Operation::Allocate { file: 0, bytes: 8192 }, Operation::Truncate { file: 0, bytes: 8192 }]);
    assert_eq!(cold.population(1).caches, Caches::ColdPages);
    let again = jobs("loops=2");
    assert_eq!(requests(&again, 1)[3..], [opened, read(0), read(1), opened, read(0), read(1)]);
    assert_eq!(requests(&jobs("invalidate=0"), 1), [write(0), write(1), sync, read(0), read(1)]);
    // It needs more of the file than there is: fio makes it again, with contents.
    let larger = jobs("size=12k").population(1);
    assert_eq!(larger.list()[0].bytes, 12288);
    // The one that reads comes first.
    let first = of("[global]\nfilename=f\nsize=8k\n[r]\nrw=read\n[w]\nstonewall\nrw=write\n");
    assert_eq!(first.population(1).list()[0].bytes, 8192);
}

#[test]
fn more_than_the_size_is_passes_with_the_files_opened_for_each() {
    // As `fio --write_iolog` has it (fio 3.33).
    let spec = of("[j]\nrw=write\nbs=4k\nsize=8k\nio_size=12k\nend_fsync=1\n");
    let write = |block: u64| Operation::Write { file: 0, offset: block * 4096, bytes: 4096 };
    let (sync, opened) = (Operation::Sync { file: 0 }, Operation::Invalidate { file: 0 });
    assert_eq!(requests(&spec, 1), [write(0), write(1), sync, opened, write(0), sync]);
    // Places that come again have no end before io_size.
    let random = of("[j]\nrw=randwrite\nnorandommap\nbs=4k\nsize=8k\nio_size=12k\nend_fsync=1\n");
    assert_eq!(requests(&random, 1)[3..], [sync]);
    let loops = of("[j]\nrw=randwrite\nnorandommap\nbs=4k\nsize=8k\nloops=2\nend_fsync=1\n");
    assert_eq!(requests(&loops, 1)[4..], [sync]);
}

#[test]
fn units_are_those_of_fio() {
    // `fio --kb_base=1024`, its default: what looks like a binary prefix is the decimal one.
    for (text, bytes) in [("4096", 4096), ("4k", 4096), ("4KB", 4096), ("4KiB", 4000), ("0x1000", 4096)] {
        assert_eq!(of(&format!("[j]\nbs={text}\nsize=1g\n")).jobs[0].block_bytes, bytes, "{text}");
    }
    assert_eq!(of("[j]\nsize=2g\nnumber_ios=1").jobs[0].file_bytes, 2 << 30);
    for (text, ns) in [("7", 7_000), ("7us", 7_000), ("7ms", 7_000_000), ("7s", 7_000_000_000)] {
        assert_eq!(of(&format!("[j]\nsize=1m\nthinktime={text}\n")).jobs[0].think_ns, ns, "{text}");
    }
}

#[test]
fn what_cannot_be_followed_is_refused_by_name_and_line() {
    for (text, says) in [
        ("[j]\nsize=1m\nverify=crc32c\n", "jobs.fio line 3: `verify=crc32c`: the lab does not verify"),
        ("[j]\nsize=1m\nruntime=10\n", "jobs.fio line 3: `runtime=10`: the lab runs a number of operations"),
        ("[j]\nsize=1m\ntime_based\n", "jobs.fio line 3: `time_based=1`"),
        ("[global]\nrate=1m\n[j]\nsize=1m\n", "jobs.fio line 2: `rate=1m`: the lab has no rates"),
        ("[j]\nsize=1m\n\n# x\nnonsense=3\n", "jobs.fio line 5: `nonsense=3`: the lab does not know this option"),
        ("[j]\nsize=1m\nrw=trim\n", "jobs.fio line 3: `rw=trim`"),
        ("[j]\nsize=1m\nrw=read:8\n", "jobs.fio line 3: `rw=read:8`"),
        ("[j]\nsize=50%\n", "jobs.fio line 2: `size=50%`: not a size"),
        ("[j]\nsize=4ki\n", "jobs.fio line 2: `size=4ki`: fio's manual has 1,000"),
        ("[j]\nsize=1m\nbs=4k,8k\n", "jobs.fio line 3: `bs=4k,8k`: reads and writes have one size"),
        ("[j]\nsize=1m\nbs=2m\n", "jobs.fio line 2: `size=1m`: a file of 1048576 bytes has no room"),
        ("[j]\nsize=1m\nio_size=5000\n", "jobs.fio line 3: `io_size=5000`: not a multiple"),
        ("[j]\nsize=1m\nioengine=libaio\niodepth=8\n", "jobs.fio line 4: `iodepth=8`: with ioengine=libaio"),
        ("[j]\nsize=1m\nioengine=mmap\n", "jobs.fio line 3: `ioengine=mmap`"),
        ("[j]\nsize=${SIZE}\n", "jobs.fio line 2: `size=${SIZE}`: variables"),
        ("[j]\nsize=1m\nfilename=../x\n", "jobs.fio line 3: `filename=../x`: not a path"),
        ("[j]\nsize=1m\nfallocate=posix\n", "jobs.fio line 3: `fallocate=posix`: the lab reserves space by"),
        ("[j]\nsize=1m\nfallocate=keep\n", "jobs.fio line 3: `fallocate=keep`: the lab reserves space by"),
        ("[j]\nrw=read\n", "jobs.fio line 1: the job [j] has no size"),
        ("size=1m\n", "jobs.fio line 1: `size=1m` stands before the first section"),
        ("[global]\nsize=1m\n", "jobs.fio has no job"),
        ("[j\n", "jobs.fio line 1: `[j` is no name"),
        ("include x.fio\n", "jobs.fio line 1: `include` is not supported"),
        ("[a]\nsize=1m\n[b]\nsize=1m\n[c]\nstonewall\nsize=1m\n", "line 5: [c] is one of several jobs at once"),
        ("[a]\nsize=1m\nnumjobs=2\n[b]\nstonewall\nsize=1m\n", "line 4: [b] is one of several jobs at once"),
        ("[a]\nsize=1m\nfilename=x\n[b]\ndirect=1\nsize=1m\nfilename=x\n", "the file x is opened with and without"),
        ("[a]\nsize=1m\nnrfiles=64\nnumjobs=9\n", "5184 files are more than can be open"),
        // What fio 3.33 does with these together is none of what each says (`fio --write_iolog`).
        ("[j]\nsize=16k\nnumber_ios=2\nloops=2\n", "jobs.fio line 3: `number_ios=2`: with loops=2 fio counts it"),
        ("[j]\nsize=16k\nio_size=24k\nloops=2\n", "jobs.fio line 3: `io_size=24k`: with loops=2 fio counts it"),
        ("[j]\nrw=write\nsize=32k\nnrfiles=2\nfsync=1\n", "jobs.fio line 5: `fsync=1`: of several files fio makes"),
        ("[j]\nrw=write\nsize=16k\nfsync=2\nfdatasync=2\n", "jobs.fio line 5: `fdatasync=2`: beside fsync"),
        ("[j]\nsize=4k\ndirectory=a:b\nnumjobs=2\n", "jobs.fio line 3: `directory=a:b`: fio gives each clone"),
        ("[j]\nrw=rw\nsize=16k\nloops=2\n", "jobs.fio line 4: `loops=2`: fio begins again where the reads"),
        ("[j]\nrw=rw\nsize=16k\nio_size=32k\n", "jobs.fio line 4: `io_size=32k`: fio begins again where"),
        ("[j]\nrw=rw\nsize=10000\n", "jobs.fio line 3: `size=10000`: fio makes a request more"),
        ("[j]\nrw=randread\nsize=10000\nnorandommap\n", "jobs.fio line 3: `size=10000`: fio makes a request more"),
        ("[j]\nsize=16g\nbs=4\nrw=randwrite\nnumber_ios=3\n", "jobs.fio line 2: `size=16g`: 4294967296 places in"),
        ("[j]\nsize=9000p\n", "jobs.fio line 2: `size=9000p`: not a size"),
        ("[j]\nsize=4k\nthinktime=999999d\n", "jobs.fio line 3: `thinktime=999999d`: not a duration"),
        ("[a]\nsize=4k\n[b]\nsize=4k\ninvalidate=0\n", "jobs.fio line 3: the job b.0 begins with another `inv"),
        ("[a]\nsize=4k\n[b]\nstonewall\nsize=4k\ninvalidate=0\n", "jobs.fio line 3: the job b.0 begins with anoth"),
    ] {
        assert!(refused(text).contains(says), "{text:?}: {}", refused(text));
    }
}

#[test]
fn comments_begin_anywhere() {
    // fio 3.33 makes the file x of it.
    let spec = of("[j]\nfilename=x#y\nsize=8k;# 1m\n;bs=1\n#bs=1\nrw=write #read\n");
    assert_eq!((spec.names(1), spec.jobs[0].file_bytes), (vec!["x".to_owned()], 8192));
    assert_eq!(spec.jobs[0].mode, Mode::Write);
}

#[test]
fn further_options_replace_those_of_the_file() {
    let read = |further| FioSpec::read("[j]\nsize=1m\nbs=4k ; comment\n", "jobs.fio", further, Data::Random);
    assert_eq!(read("bs=64k --rw=randread").unwrap().jobs[0].requests, 16);
    let wrong = read("bs=64k foo=1").unwrap_err();
    assert!(wrong.chain().contains("fio_options, word 2: `foo=1`"), "{}", wrong.chain());
}

#[test]
fn jobs_at_once_have_a_thread_each_and_waiting_ones_share_it() {
    let both = of("[a]\nsize=8k\n[b]\nsize=4k\nrw=write\n");
    let (turn, read) = (|thread| Operation::Turn { thread }, |offset| Operation::Read { file: 0, offset, bytes: 4096 });
    let write = Operation::Write { file: 1, offset: 0, bytes: 4096 };
    assert_eq!((both.threads(), requests(&both, 1)), (2, vec![turn(0), read(0), read(4096), turn(1), write]));
    let after = of("[a]\nsize=8k\n[b]\nstonewall\nsize=4k\nrw=write\n");
    assert_eq!((after.threads(), requests(&after, 1)), (1, vec![read(0), read(4096), write]));
    assert_eq!(of("[a]\nsize=8k\nnumjobs=3\n").threads(), 3);
}

#[test]
fn a_seed_of_the_job_is_the_same_for_all_of_the_study() {
    let free = of("[j]\nrw=randread\nsize=1m\n");
    assert_ne!(requests(&free, 1), requests(&free, 2));
    let bound = of("[j]\nrw=randread\nsize=1m\nrandseed=42\n");
    assert_eq!(requests(&bound, 1), requests(&bound, 2));
}

proptest! {
    /// Whatever is accepted: requests are inside their files and as many as said, random ones have each place once.
    #[test]
    fn requests_are_what_the_options_say(
        mode in 0usize..6, blocks in 1u64..40, files in 1u64..4, clones in 1u64..4, mix in 0u64..=100,
        loops in 1u64..3, seed in any::<u64>(),
    ) {
        let mode = Mode::ALL[mode];
        // The loops of a mixed job in order are refused.
        let loops = if mode == Mode::ReadWrite { 1 } else { loops };
        let size = blocks * files * 4096;
        let spec = of(&format!(
            "[global]\nrwmixread={mix}\n[j]\nrw={}\nsize={size}\nnrfiles={files}\nnumjobs={clones}\nloops={loops}\n",
            mode.name()
        ));
        let (mut reads, mut writes, mut invalidated, mut places) = (0, 0, 0, BTreeSet::new());
        for operation in spec.operations(seed) {
            match operation {
                Operation::Read { file, offset, bytes } | Operation::Write { file, offset, bytes } => {
                    prop_assert!(bytes == 4096 && offset % 4096 == 0 && offset < blocks * 4096);
                    match operation {
                        Operation::Read { .. } => reads += 1,
                        _ => writes += 1,
                    }
                    places.insert((file, offset));
                }
                Operation::Turn { thread } => prop_assert!(u64::from(thread) < clones && clones > 1),
                Operation::Invalidate { .. } => invalidated += 1,
                other => prop_assert!(false, "{other:?}"),
            }
        }
        prop_assert_eq!(reads + writes, blocks * files * clones * loops);
        prop_assert_eq!(invalidated, files * clones * (loops - 1));
        prop_assert!(mode.reads() || reads == 0);
        prop_assert!(mode.writes() || writes == 0);
        if mode.random() || mode.reads() != mode.writes() {
            prop_assert_eq!(places.len() as u64, blocks * files * clones);
        }
        prop_assert_eq!(spec.operations(seed).collect::<Vec<_>>(), requests(&spec, seed));
    }

    /// No text makes it panic; what is accepted can be checked and begun.
    #[test]
    fn any_text_is_read_or_refused(
        lines in prop::collection::vec("\\[?[a-z_]{1,12}\\]?(=[0-9a-zA-Z:/.]{0,6})?", 0..8)
    ) {
        if let Ok(spec) = FioSpec::read(&lines.join("\n"), "x", "", Data::Random) {
            spec.check().unwrap();
            prop_assert!(spec.operations(1).next().is_some());
        }
    }
}
