use super::*;
use crate::{KernelTree, ScmfsTree, Yaffs2Tree, populate, run};
use pocketstone_core::pattern::Pattern;
use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions};
use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs::{CreateOptions, OpenOptions, Volume};
use pocketstone_testing::Need;
use pocketstone_workload::androsh::{Media, Script};
use pocketstone_workload::calls::Selection;
use pocketstone_workload::filebench::{Personality, Picks};
use pocketstone_workload::fileset::Distribution;
use pocketstone_workload::postmark::program::ProgramSpec;
use pocketstone_workload::tree::Tree as Folders;
use pocketstone_workload::{
    AndroshSpec, AppStartSpec, CallsSpec, CapacitySpec, Data, FileOperation, FilebenchSpec, FilesSpec, FioSpec,
    IozoneSpec, LookupSpec, NamesAre, Passes, PostmarkSpec, ReadSpec, Sync, file_name,
};
use std::collections::BTreeMap;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

fn spec(operation: FileOperation, request_bytes: u64) -> FilesSpec {
    FilesSpec {
        operation,
        pattern: Pattern::Random,
        requests: 40,
        request_bytes,
        files: 50,
        file_bytes: 20_000,
        inter_arrival_ns: 0,
        data: Data::Random,
        sync: Sync::Each,
        threads: 1,
    }
}

/// FNV-1a.
fn digest(bytes: &[u8], start: u64) -> u64 {
    bytes.iter().fold(start, |h, b| (h ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3))
}

/// What the calls of a workload moved, and what the files then hold.
fn outcome<T: Tree>(tree: &T, workload: &dyn FileWorkload) -> (u64, u64) {
    populate(tree, &workload.population(3)).unwrap();
    let mut executors = Executor::all(tree, workload, 3).unwrap();
    let executor = &mut executors[0];
    let mut moved = 1;
    for operation in workload.operations(3) {
        if operation.is_logged() {
            moved = digest(&executor.execute(&operation).unwrap().to_le_bytes(), moved);
            moved = digest(&executor.buffer, moved);
        }
    }
    drop(executors);
    let mut held = 1;
    for name in workload.names(3) {
        let name = c_name(&name).unwrap();
        let Ok(bytes) = tree.stat(&name) else { continue };
        let file = tree.open(&name, Purpose::Read).unwrap();
        let mut content = vec![0; bytes as usize];
        assert_eq!(tree.read(&file, &mut content, 0).unwrap() as u64, bytes);
        held = digest(&content, digest(name.to_bytes(), held));
    }
    (moved, held)
}

fn scmfs() -> ScmfsTree {
    let home = tempfile::tempdir().unwrap();
    let (path, options) = (home.path().join("region"), MapOptions::default());
    let region = Mapped::create(&path, 64 << 20, &options).unwrap();
    Volume::create(Box::new(region), &CreateOptions::default()).unwrap();
    let region = Mapped::open(&path, &options).unwrap();
    // The mapping keeps the file that has no name any more.
    ScmfsTree::new(Volume::open(Box::new(region), &OpenOptions::default()).unwrap())
}

fn yaffs2() -> Yaffs2Tree {
    let geometry = Geometry { page_bytes: 2048, spare_bytes: 64, pages_per_block: 64, blocks: 256 };
    let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
    let volume = pocketstone_yaffs2::Volume::open(Box::new(chip), &pocketstone_yaffs2::OpenOptions::default());
    Yaffs2Tree::new(volume.unwrap())
}

fn on_kernel(workload: &dyn FileWorkload) -> (u64, u64) {
    let folder = tempfile::tempdir().unwrap();
    outcome(&KernelTree::open(folder.path()).unwrap(), workload)
}

#[test]
fn every_operation_does_the_same_on_every_way_to_a_volume() {
    let unchanged = on_kernel(&spec(FileOperation::LookUp, 1)).1;
    for operation in FileOperation::ALL {
        let spec = spec(operation, 700);
        let kernel = on_kernel(&spec);
        assert_eq!(outcome(&scmfs(), &spec), kernel, "{operation:?}");
        assert_eq!(outcome(&yaffs2(), &spec), kernel, "{operation:?}");
        let (before, after) = (spec.writes() && operation != FileOperation::MakeDirectory, kernel.1 != unchanged);
        assert_eq!(before, after, "{operation:?} leaves what it should");
    }
}

#[test]
fn whole_programs_do_too() {
    let postmark = PostmarkSpec {
        files: 30,
        least_file_bytes: 500,
        file_bytes: 10_000,
        transactions: 100,
        request_bytes: 512,
        data: Data::Random,
        program: None,
    };
    let whole = |buffered| {
        let (bias_read, bias_create, subdirectories) = (Some(5), Some(4), 3);
        let program = ProgramSpec { write_bytes: 700, bias_read, bias_create, subdirectories, buffered };
        // Sizes that are whole blocks, too: then a call moves nothing.
        PostmarkSpec { least_file_bytes: 512, file_bytes: 514, program: Some(program), ..postmark.clone() }
    };
    let (buffered, unbuffered) = (whole(true), whole(false));
    let start = AppStartSpec { files: 40, libraries: 0, request_bytes: 65_536, data: Data::Compressible };
    let read = ReadSpec { file_bytes: 1 << 20, ..ReadSpec::new(Pattern::Random, 20) };
    let iozone = |pass, timed_close| {
        let (file_bytes, record_bytes, timed_fsync, data) = (1 << 20, 65_536, true, Data::Random);
        IozoneSpec { pass, file_bytes, record_bytes, timed_fsync, timed_close, data }
    };
    let (passes, random_write) = (iozone(Passes::All, true), iozone(Passes::RandomWrite, false));
    let lookup = LookupSpec { names: 300, requests: 400, names_are: NamesAre::Cached };
    let programs = [&postmark as &dyn FileWorkload, &lookup, &buffered, &unbuffered, &start, &passes, &random_write];
    for workload in programs.into_iter().chain([&read as &dyn FileWorkload]) {
        let kernel = on_kernel(workload);
        assert_eq!((outcome(&scmfs(), workload), outcome(&yaffs2(), workload)), (kernel, kernel));
    }
}

#[test]
fn scripts_do_the_same_on_every_way_to_a_volume() {
    for script in Script::ALL {
        let tree = if script == Script::ReadTree { Folders::Nested } else { Folders::Root };
        let compresses = matches!(script, Script::CompressOne | Script::CompressMany);
        let androsh = AndroshSpec {
            script,
            media: Media::Song,
            tree,
            tree_file_bytes: 70_000,
            names_are: NamesAre::Cached,
            rounds: Some(2),
            scale: 32,
            request_bytes: if compresses { 64 << 10 } else { 10_000 },
            data: Data::Compressible,
        };
        let kernel = on_kernel(&androsh);
        assert_eq!((outcome(&scmfs(), &androsh), outcome(&yaffs2(), &androsh)), (kernel, kernel), "{script:?}");
    }
}

#[test]
fn a_volume_is_filled_until_nothing_fits() {
    fn filled<T: Tree>(tree: &T, spec: &CapacitySpec) -> u64 {
        populate(tree, &spec.population(3)).unwrap();
        let operations: Vec<Operation> = spec.operations(3).collect();
        let mut executors = Executor::all(tree, spec, 3).unwrap();
        run(&mut executors, &operations).unwrap();
        let sizes = spec.names(3).into_iter().map(|name| tree.stat(&c_name(&name).unwrap()).unwrap());
        let bytes = executors[0].filled_bytes().unwrap();
        assert_eq!(sizes.sum::<u64>(), bytes);
        bytes
    }
    let spec = CapacitySpec { files: 100, file_bytes: 1 << 20, request_bytes: 65_536, data: Data::Random };
    // Volumes of 64 and 32 MiB: nearly all of it is the files', and no more than there is.
    assert!((50 << 20..64 << 20).contains(&filled(&scmfs(), &spec)));
    assert!((20 << 20..32 << 20).contains(&filled(&yaffs2(), &spec)));
    let few = CapacitySpec { files: 3, ..spec };
    assert_eq!(filled(&scmfs(), &few), 3 << 20);
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(filled(&KernelTree::open(folder.path()).unwrap(), &few), 3 << 20);
}

fn server(personality: Personality, threads: u32) -> FilebenchSpec {
    FilebenchSpec {
        personality,
        files: 200,
        file_bytes: 4096,
        distribution: Distribution::Lognormal,
        directory_width: 20,
        threads,
        picks: Picks::Uniform,
        loops: 40,
        request_bytes: 64 << 10,
        data: Data::Random,
    }
}

#[test]
fn servers_do_the_same_on_every_way_to_a_volume() {
    for personality in Personality::ALL {
        let one = server(personality, 1);
        let kernel = on_kernel(&one);
        assert_eq!((outcome(&scmfs(), &one), outcome(&yaffs2(), &one)), (kernel, kernel), "{personality:?}");
    }
}

#[test]
fn threads_of_a_server_leave_the_files_that_its_operations_say() {
    fn left<T: Tree>(tree: &T, spec: &FilebenchSpec) -> (u64, u64) {
        populate(tree, &spec.population(3)).unwrap();
        let operations: Vec<Operation> = spec.operations(3).collect();
        let recording = run(&mut Executor::all(tree, spec, 3).unwrap(), &operations).unwrap();
        assert_eq!(recording.calls.len(), operations.iter().filter(|o| o.is_logged()).count());
        let names = spec.names(3);
        let sizes = names.iter().filter(|name| *name != "log").flat_map(|name| tree.stat(&c_name(name).unwrap()));
        sizes.fold((0, 0), |(files, sum), bytes| (files + 1, sum + bytes))
    }
    for personality in Personality::ALL {
        let spec = server(personality, 30);
        let totals = spec.totals(3);
        let expected = (totals.present, totals.present_bytes);
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(left(&KernelTree::open(folder.path()).unwrap(), &spec), expected, "{personality:?}");
        assert_eq!((left(&scmfs(), &spec), left(&yaffs2(), &spec)), (expected, expected), "{personality:?}");
    }
}

#[test]
fn mappings_are_there_where_files_are_memory() {
    let start = AppStartSpec { files: 40, libraries: 2, request_bytes: 65_536, data: Data::Compressible };
    assert_eq!(outcome(&scmfs(), &start), on_kernel(&start));
    let tree = yaffs2();
    populate(&tree, &start.population(3)).unwrap();
    let operations: Vec<Operation> = start.operations(3).collect();
    let error = run(&mut Executor::all(&tree, &start, 3).unwrap(), &operations).unwrap_err();
    assert!(error.chain().contains("mapping is unsupported on yaffs2 in process"), "{}", error.chain());
    assert!(error.cure().unwrap().contains("fuse"));
}

#[test]
fn space_is_reserved_where_there_is_a_way_to() {
    fn begun<T: Tree>(tree: &T) -> (u64, u64) {
        let spec = FioSpec::read("[j]\nfilename=f\nsize=1m\nrw=write\n", "jobs.fio", "", Data::Random).unwrap();
        populate(tree, &spec.population(3)).unwrap();
        let free = tree.free_bytes().unwrap();
        let _executors = Executor::all(tree, &spec, 3).unwrap();
        (tree.stat(c"f").unwrap(), free - tree.free_bytes().unwrap().min(free))
    }
    let (bytes, taken) = begun(&scmfs());
    assert!(bytes == 1 << 20 && taken >= 1 << 20, "{bytes} {taken}");
    assert_eq!(begun(&yaffs2()).0, 0);
    let folder = tempfile::tempdir().unwrap();
    let bytes = begun(&KernelTree::open(folder.path()).unwrap()).0;
    let found = std::fs::metadata(folder.path().join("f")).unwrap();
    // A file system without fallocate() leaves it empty.
    assert!(bytes == 0 || bytes == 1 << 20 && found.blocks() * 512 >= 1 << 20, "{found:?}");
}

#[test]
fn threads_share_the_requests_and_leave_what_one_would() {
    for operation in [FileOperation::Create, FileOperation::Delete, FileOperation::Rename, FileOperation::Read] {
        let one = spec(operation, 100);
        let four = FilesSpec { threads: 4, ..one.clone() };
        let names = |spec: &FilesSpec| {
            let folder = tempfile::tempdir().unwrap();
            let tree = KernelTree::open(folder.path()).unwrap();
            populate(&tree, &spec.population(3)).unwrap();
            let mut executors = Executor::all(&tree, spec, 3).unwrap();
            assert_eq!(executors.len(), spec.threads as usize);
            let operations: Vec<Operation> = spec.operations(3).collect();
            let recording = run(&mut executors, &operations).unwrap();
            assert_eq!(recording.calls.len(), operations.len());
            let mut names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
            names.sort();
            names
        };
        assert_eq!(names(&one), names(&four), "{operation:?}");
    }
}

#[test]
fn calls_are_recorded_and_a_folder_with_other_files_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let spec = spec(FileOperation::LookUp, 1);
    let tree = KernelTree::open(folder.path()).unwrap();
    populate(&tree, &spec.population(1)).unwrap();
    let operations: Vec<Operation> = spec.operations(1).collect();
    let recording = run(&mut Executor::all(&tree, &spec, 1).unwrap(), &operations).unwrap();
    assert_eq!(recording.calls.len(), 40);
    let refused = |spec: FilesSpec| Executor::all(&tree, &spec, 1).map(|_| ()).unwrap_err().chain();
    assert!(refused(FilesSpec { file_bytes: 20_001, ..spec.clone() }).contains("has 20000 bytes, not 20001"));
    assert!(refused(FilesSpec { files: 51, ..spec }).contains("cannot find"));
}

#[test]
fn recorded_calls_may_pass_by_the_page_cache() {
    let folder = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
    let tree = KernelTree::open(folder.path()).unwrap();
    if tree.open_with(c"probe", crate::kernel::CREATE | rustix::fs::OFlags::DIRECT).is_err() {
        return Need::Kernel.lacks("O_DIRECT on the file system of the sources").end();
    }
    std::fs::remove_file(folder.path().join("probe")).unwrap();
    let text = "pocketstone-calls 1\nfile 8192 a\nopen 0 direct\nwrite 0 512 1024\nread 0 4096 4096\nclose 0\n";
    let selection = Selection { below: String::new(), pauses: true };
    let calls = pocketstone_workload::calls::read(text.as_bytes(), "t", &selection).unwrap();
    let spec = CallsSpec::new(&calls, String::new(), Data::Random, false).with(text.as_bytes()).unwrap();
    populate(&tree, &spec.population(3)).unwrap();
    let mut executors = Executor::all(&tree, &spec, 3).unwrap();
    assert_eq!(executors[0].buffer.as_ptr().addr() % 512, 0);
    let operations: Vec<Operation> = spec.operations(3).collect();
    assert_eq!(run(&mut executors, &operations).unwrap().calls.len(), 4);
}

fn bytes_of(path: &Path) -> u64 {
    std::fs::metadata(path).unwrap().len()
}

#[test]
fn transactions_leave_the_files_that_their_operations_say() {
    let folder = tempfile::tempdir().unwrap();
    let tree = KernelTree::open(folder.path()).unwrap();
    let (least_file_bytes, file_bytes, request_bytes) = (500, 10_000, 512);
    let data = Data::Random;
    let spec =
        PostmarkSpec { files: 30, least_file_bytes, file_bytes, transactions: 100, request_bytes, data, program: None };
    populate(&tree, &spec.population(3)).unwrap();
    let operations: Vec<Operation> = spec.operations(3).collect();
    let recording = run(&mut Executor::all(&tree, &spec, 3).unwrap(), &operations).unwrap();
    assert_eq!(recording.calls.len(), operations.iter().filter(|o| o.is_logged()).count());
    let there = spec.population(3).list();
    let mut sizes: BTreeMap<u32, u64> = (0u32..).zip(there.iter().map(|f| f.bytes)).collect();
    for operation in operations {
        match operation {
            Operation::Create { file } => assert!(sizes.insert(file, 0).is_none()),
            Operation::Append { file, bytes } => *sizes.get_mut(&file).unwrap() += bytes,
            Operation::Delete { file } => assert!(sizes.remove(&file).is_some()),
            _ => {}
        }
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), sizes.len());
    sizes.iter().for_each(|(file, bytes)| assert_eq!(bytes_of(&folder.path().join(file_name(*file))), *bytes));
}

#[test]
fn an_application_starts_and_what_is_not_there_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let tree = KernelTree::open(folder.path()).unwrap();
    let spec = AppStartSpec { files: 40, libraries: 2, request_bytes: 65_536, data: Data::Compressible };
    populate(&tree, &spec.population(1)).unwrap();
    assert_eq!(bytes_of(&folder.path().join("lib/library-01")), 1 << 20);
    let operations: Vec<Operation> = spec.operations(1).collect();
    let measured = || run(&mut Executor::all(&tree, &spec, 1).unwrap(), &operations);
    assert_eq!(measured().unwrap().calls.len(), operations.len());
    std::fs::remove_file(folder.path().join("part-0001/file-00000033")).unwrap();
    let error = measured().unwrap_err();
    assert!(error.chain().contains("Open { file: 33, purpose: Read }"), "{}", error.chain());
}

#[test]
fn recorded_calls_do_the_same_on_every_way_to_a_volume() {
    // Every call that a file of calls has.
    let text = "pocketstone-calls 1\nfile 9000 a\nfile 100 b\nname new\nname log\nname a\nopen 0 write\nopen 4 read\n\
                write 0 8990 500\nread 4 9000 490\nread 4 9490 0\nsync-data 0\nopen 2 new\nwrite 2 20 30\nclose 2\n\
                create 3\nappend 3 70\nsync 3\nclose 3\nopen 3 append\nappend 3 5\nset-owner 3\n\
                sync-folder\ntruncate 0 9100\n\
                rename 2 1\nopen 1 read\nread 1 0 50\nclose 1\nlook-up 0\nmake-folder 7\nlist\ndelete 3\nread 3 0 75\n\
                close 0\nclose 4\n";
    let selection = Selection { below: String::new(), pauses: true };
    let calls = pocketstone_workload::calls::read(text.as_bytes(), "t", &selection).unwrap();
    let spec = CallsSpec::new(&calls, String::new(), Data::Random, false).with(text.as_bytes()).unwrap();
    let kernel = on_kernel(&spec);
    assert_eq!((outcome(&scmfs(), &spec), outcome(&yaffs2(), &spec)), (kernel, kernel));
    let folder = tempfile::tempdir().unwrap();
    outcome(&KernelTree::open(folder.path()).unwrap(), &spec);
    let names =
        std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut found: Vec<String> = names.collect();
    found.sort();
    assert_eq!(found, ["a", "b", "directory-00000007"]);
    assert_eq!((bytes_of(&folder.path().join("a")), bytes_of(&folder.path().join("b"))), (9100, 50));
}
