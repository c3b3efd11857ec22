//! Power cut in the middle of a run on a virtual board's raw NAND or managed flash, and what a fresh board finds there.

use pocketstone_board::{BlockRecorded, Board, Measured, Record, Recorded};
use pocketstone_core::block::BlockOp;
use pocketstone_core::block_record::BlockChange;
use pocketstone_core::chip::{Change, Cut, Survivor};
use pocketstone_core::log::FlashKind;
use pocketstone_core::pattern::Pattern;
use pocketstone_core::volume::{FileSystem, Medium, Volume};
use pocketstone_media::nand::{Access, ImageLayout, ImageNand};
use pocketstone_testing::{Skip, amount, or_skip, say};
use pocketstone_tests::command::{lab, write};
use pocketstone_tests::results::{repeats_with, value};
use pocketstone_tests::{HostLoad, managed_flash_board, measure, plan, virtual_board_with};
use pocketstone_workload::plan::Plan;
use pocketstone_workload::{Data, FileOperation, FilesSpec, Sync, Workload};
use pocketstone_yaffs2::{OpenOptions, Volume as Yaffs2};
use std::path::Path;

/// A board with 16 MiB of flash, which is read whole in no time.
#[track_caller]
fn board() -> Result<Board, Skip> {
    virtual_board_with(|machine| {
        machine.modules.parameters.insert("nandsim".into(), "parts=128".into());
    })
}

/// Overwrites of 4 KiB in four files of 16 KiB, each made durable or not.
fn overwrites(file_system: FileSystem, sync: Sync, cuts: u32) -> Plan {
    let files = FilesSpec {
        operation: FileOperation::Write,
        pattern: Pattern::Random,
        requests: 12,
        request_bytes: 4096,
        files: 4,
        file_bytes: 16384,
        inter_arrival_ns: 0,
        data: Data::Random,
        sync,
        threads: 1,
    };
    let base = plan(file_system, Pattern::Random, 1, 0, 3);
    let volume = Volume { options: Vec::new(), ..base.volume.clone() };
    Plan { volume, workload: Workload::Files(files), read_ahead: None, trace: true, power_cuts: cuts, ..base }
}

fn record(board: &Board, plan: &Plan) -> (Measured, Recorded) {
    board.record(plan).map_err(|failed| failed.error.chain()).expect("the run is recorded")
}

/// Two recorders of the same kernel agree: flashmon, which counts programs and erases, and the one that has their
/// bytes. And what those lead to is what was read from the chip.
#[track_caller]
fn assert_complete(measured: &Measured, recorded: &Recorded) {
    recorded.check().map_err(|e| e.chain()).expect("the changes lead to the chip's contents");
    let flash = measured.flash.as_ref().expect("the cell is traced");
    let window = measured.outcome.start_ns..measured.outcome.end_ns;
    let counted = |kind: FlashKind| {
        flash
            .ops
            .iter()
            .filter(|op| op.kind == kind && window.contains(&op.time_ns))
            .map(|op| op.page)
            .collect::<Vec<_>>()
    };
    let pages_per_block = recorded.before.geometry().pages_per_block;
    let within = recorded.changes.iter().filter(|changed| window.contains(&changed.time_ns));
    let (mut programs, mut erases) = (Vec::new(), Vec::new());
    for changed in within {
        match changed.change {
            Change::Program { page, .. } => programs.push(page),
            Change::Erase { block } => erases.push(block * pages_per_block),
        }
    }
    assert!(!programs.is_empty());
    assert_eq!(programs, counted(FlashKind::Program));
    assert_eq!(erases, counted(FlashKind::Erase));
}

fn lost(cuts: &[Cut]) -> (u64, u64) {
    (cuts.iter().map(|c| c.verdict.lost_promises).sum(), cuts.iter().map(|c| c.verdict.lost_unpromised).sum())
}

/// What fsync promised is there, on every file system, and the same study twice finds the same.
#[test]
fn what_fsync_promised_is_there_after_every_cut() {
    let board = or_skip!(board());
    for file_system in [FileSystem::Jffs2, FileSystem::Ubifs] {
        let plan = overwrites(file_system, Sync::Each, 2);
        let cuts = measure(&board, &plan).outcome.cuts;
        assert_eq!(cuts.len(), 2);
        for cut in &cuts {
            assert!(cut.kind == "program" && cut.promised == cut.returned && cut.promised < 12, "{cut:?}");
            assert!(cut.found.refused.is_none() && cut.found.unwritable.is_none(), "{cut:?}");
            assert!(!cut.broke_a_promise(), "{file_system:?}: {cut:?}");
        }
        if file_system == FileSystem::Jffs2 {
            found_again(&board, &plan, &cuts);
        }
    }
}

/// The same run has the same cuts, and the same is found after them: once more, and a hundred times in torture, half of
/// them on a loaded host.
fn found_again(board: &Board, plan: &Plan, cuts: &[Cut]) {
    let more = amount(1, 100);
    for run in 0..more {
        let _load = (more > 1 && run >= more / 2).then(HostLoad::on_every_core);
        assert_eq!(measure(board, plan).outcome.cuts, cuts, "run {run}: the same cuts, and the same found");
    }
    let (name, of) = (plan.volume.name(), cuts.len());
    say(&format!("{more} of {more} repetitions are the same: {of} cuts of the power on {name}"));
}

/// UBIFS keeps what nobody synced in memory for seconds: nothing of it reaches the chip, and the run's end is where the
/// power is cut.
#[test]
fn what_nobody_synced_is_lost() {
    let board = or_skip!(board());
    let measured = measure(&board, &overwrites(FileSystem::Ubifs, Sync::None, 2));
    let cuts = &measured.outcome.cuts;
    assert!(cuts.iter().all(|cut| cut.promised == 0 && !cut.broke_a_promise()), "{cuts:?}");
    assert_eq!((cuts.len(), cuts[0].kind.as_str(), cuts[0].returned), (1, "none", 12));
    assert_eq!(lost(cuts), (0, 12));
}

/// The files of a YAFFS2 volume on an image of the chip, by the library on this machine.
fn by_library(image: Vec<u8>) -> Vec<Survivor> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("image");
    std::fs::write(&path, image).expect("the image is written");
    let layout = ImageLayout::linux(2048, 64).expect("a layout");
    let nand = ImageNand::open(&path, Access::Read, Some(&layout)).expect("an image");
    let options = OpenOptions::default().read_only(true);
    let volume = Yaffs2::open(Box::new(nand), &options).expect("a volume").into_file_system();
    (0..4u32)
        .map(|n| {
            let name = format!("pocketstone-files/file-{n:08}");
            let content = volume.read(&name).map_err(|e| e.to_string());
            Survivor { name, content }
        })
        .collect()
}

/// The record of a run on YAFFS2 is complete, and between any two of its programs the library on this machine reads
/// from the computed chip what a fresh board reads.
#[test]
fn the_library_reads_from_the_computed_chip_what_a_fresh_board_does() {
    let board = or_skip!(board());
    let plan = overwrites(FileSystem::Yaffs2, Sync::Each, 1);
    let (measured, recorded) = record(&board, &plan);
    assert_complete(&measured, &recorded);
    let first = recorded.changes.partition_point(|changed| changed.time_ns < measured.outcome.start_ns);
    let middle = (first + recorded.changes.len()) / 2;
    let chip = recorded.chip_after(middle).expect("a chip");
    let (found, survivors) = board.recover(&plan.volume, &chip).map_err(|f| f.error.chain()).expect("a fresh board");
    assert!(found.refused.is_none() && found.unwritable.is_none(), "{found:?}");
    let files: Vec<Survivor> = survivors.into_iter().filter(|s| s.name.starts_with("pocketstone-files/")).collect();
    assert_eq!(files, by_library(chip.image(128)));
    assert_ne!(files, by_library(recorded.before.image(128)), "the run changed them");
    // A chip without the record's first program is another one.
    let without = Recorded { changes: recorded.changes[1..].to_vec(), ..recorded };
    assert!(without.check().is_err());
}

/// The same overwrites on managed flash.
fn on_block(file_system: FileSystem, option: Option<&str>, cuts: u32) -> Plan {
    let plan = overwrites(file_system, Sync::Each, cuts);
    let options = option.into_iter().map(str::to_owned).collect();
    Plan { volume: Volume { medium: Medium::Block, options, ..plan.volume }, ..plan }
}

/// The kernel's tracer and the device's server saw the same requests, and those lead to what the device holds at the
/// end. A fresh board that is given the contents of the end reads what was written last.
#[test]
fn every_request_that_changes_a_block_device_is_recorded() {
    let board = or_skip!(managed_flash_board("virt-emmc-small", false));
    let plan = on_block(FileSystem::Ext4, None, 1);
    let recorded = board.record::<BlockRecorded>(&plan).map_err(|failed| failed.error.chain());
    let (measured, recorded) = recorded.expect("the run is recorded");
    recorded.check().map_err(|e| e.chain()).expect("the changes lead to the device's contents");
    let window = measured.outcome.start_ns..measured.outcome.end_ns;
    let log = measured.block.expect("the cell is traced");
    let traced = log.requests.iter().filter(|r| r.op != BlockOp::Read && window.contains(&r.time_ns));
    let place = |op, from, bytes| if op == BlockOp::Flush { (op, 0, 0) } else { (op, from, bytes) };
    let traced: Vec<_> = traced.map(|r| place(r.op, r.sector * 512, r.bytes)).collect();
    let served = recorded.changes.iter().filter(|change| window.contains(&change.begin_ns));
    let served: Vec<_> = served.map(|change| place(change.op, change.from, change.length)).collect();
    assert_eq!(served, traced);
    let count = |op| served.iter().filter(|request| request.0 == op).count();
    assert!(count(BlockOp::Flush) >= 12 && count(BlockOp::Write) >= 12, "each of 12 calls syncs: {served:?}");

    let found = board.recover_block(&plan.volume, &recorded.after).map_err(|f| f.error.chain());
    let (found, survivors) = found.expect("a fresh board");
    assert!(found.refused.is_none() && found.unwritable.is_none(), "{found:?}");
    let files = survivors.iter().filter(|s| s.name.starts_with("pocketstone-files/"));
    assert_eq!(files.filter(|s| s.content.as_ref().is_ok_and(|bytes| bytes.len() == 16384)).count(), 4);
    let mut without = recorded;
    without.changes.retain(|change| change.op != BlockOp::Write);
    assert!(without.check().is_err());
}

/// A device may lose what no flush followed: what fsync promised is there on file systems that flush, and again. On one
/// that was told not to, promises are broken, and that is seen.
#[test]
fn what_fsync_promised_is_there_on_a_block_device_unless_flushes_are_left_out() {
    let board = or_skip!(managed_flash_board("virt-emmc-small", false));
    for file_system in [FileSystem::Ext4, FileSystem::F2fs] {
        let plan = on_block(file_system, None, 4);
        let cuts = measure(&board, &plan).outcome.cuts;
        assert_eq!(cuts.len(), 4);
        for cut in &cuts {
            assert!(["write", "flush"].contains(&cut.kind.as_str()) && cut.promised == cut.returned, "{cut:?}");
            assert!(cut.found.refused.is_none() && cut.found.unwritable.is_none(), "{cut:?}");
            assert!(!cut.broke_a_promise(), "{file_system:?}: {cut:?}");
        }
        assert!(cuts.last().is_some_and(|cut| cut.promised >= 8), "{cuts:?}");
        if file_system == FileSystem::F2fs {
            found_again(&board, &plan, &cuts);
        }
    }
    let cuts = measure(&board, &on_block(FileSystem::Ext4, Some("barrier=0"), 4)).outcome.cuts;
    assert!(cuts.iter().any(Cut::broke_a_promise), "{cuts:?}");
}

/// F2FS's recovery knows a node that was synced by the footer at the end of its block, and has no checksum of it: an
/// inode whose first sector was lost is taken, and is of no kind. The error has what the kernel said beside it.
#[test]
fn the_kernel_says_why_the_file_of_a_torn_inode_cannot_be_read() {
    let board = or_skip!(managed_flash_board("virt-emmc-small", false));
    let mut plan = on_block(FileSystem::F2fs, None, 1);
    let Workload::Files(files) = &mut plan.workload else { panic!("a workload on files") };
    files.operation = FileOperation::Append;
    let recorded = board.record::<BlockRecorded>(&plan).map_err(|failed| failed.error.chain());
    let (measured, recorded) = recorded.expect("the run is recorded");
    // struct node_footer of include/linux/f2fs_fs.h: the node's number and its inode's, of an inode the same.
    let number = |change: &BlockChange| {
        let footer = change.bytes.len().checked_sub(24).map(|at| &change.bytes[at..at + 8])?;
        (change.bytes.len() == 4096 && footer[..4] == footer[4..])
            .then(|| u32::from_le_bytes(footer[..4].try_into().unwrap()))
    };
    let inodes = recorded.changes.iter().map(|change| number(change).filter(|number| *number != 0));
    let within = |change: &BlockChange| change.begin_ns < measured.outcome.end_ns;
    let mut last =
        inodes.zip(&recorded.changes).enumerate().filter(|(_, (inode, change))| inode.is_some() && within(change));
    let (at, (inode, change)) = last.next_back().expect("an append and its fsync write the inode");
    let before = recorded.image_after(at).expect("an image");
    let mut torn = before.clone();
    torn.write(change.from + 512, &change.bytes[512..]).expect("the sectors behind the first one");
    let mut unreadable = [before, torn, recorded.image_after(at + 1).expect("an image")].map(|image| {
        let (found, survivors) =
            board.recover_block(&plan.volume, &image).map_err(|f| f.error.chain()).expect("a board");
        assert!(found.refused.is_none() && found.unwritable.is_none(), "{found:?}");
        survivors.into_iter().filter_map(|survivor| survivor.content.err()).collect::<Vec<_>>()
    });
    let reason = unreadable[1].pop().expect("one file cannot be read");
    assert!(unreadable.iter().all(Vec::is_empty), "{unreadable:?}");
    assert!(reason.starts_with("Input/output error"), "{reason}");
    let recovered = format!("F2FS-fs (nbd0): recover_inode: ino = {:x},", inode.unwrap_or_default());
    assert!(reason.contains("the kernel's last words: ") && reason.contains(&recovered), "{recovered} {reason}");
}

/// What a profile says of a device's sectors is what its kernel addresses, and what a cut of the power does not tear.
#[test]
#[ignore = "boots another board: make torture"]
fn sectors_are_those_of_the_profile() {
    for (name, sector_bytes) in [("virt-emmc-small", 512), ("virt-emmc-small-4k", 4096)] {
        let board = or_skip!(managed_flash_board(name, false));
        let asked = ["cat", "/sys/block/nbd0/queue/logical_block_size"].map(str::to_owned);
        let (said, status) = board.exec(&asked).map_err(|failed| failed.error.chain()).expect("the board answers");
        assert_eq!((String::from_utf8_lossy(&said).trim(), status), (sector_bytes.to_string().as_str(), 0));
        let recorded = board.record::<BlockRecorded>(&on_block(FileSystem::F2fs, None, 1));
        let (_, recorded) = recorded.map_err(|failed| failed.error.chain()).expect("the run is recorded");
        assert_eq!(recorded.sector_bytes, sector_bytes);
        let sectors = |change: &BlockChange| [change.from, change.length.into()].map(|at| at % sector_bytes as u64);
        assert!(recorded.changes.iter().all(|change| sectors(change) == [0, 0]));
    }
}

const STUDY: &str = r#"title = "t"
board = "virt-nand-small"
[[experiment]]
name = "sqlite"
[experiment.factors]
file_system = "ubifs"
workload = "ycsb-a"
records = 20
operations = 12
journal_mode = ["delete", "memory"]
locking_mode = "exclusive"
synchronous = "full"
power_cuts = 2
[[experiment]]
name = "key-value"
[experiment.factors]
file_system = "ubifs"
workload = "ycsb-a"
records = 20
operations = 12
engine = ["lmdb", "redb"]
power_cuts = 2
"#;

/// The whole command: a study with cuts has their metrics, a row for each in the view, and the same ones again.
#[test]
#[ignore = "boots another board: make torture"]
fn a_study_says_what_of_a_database_is_left() {
    or_skip!(pocketstone_tests::qemu());
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "study.toml", STUDY);
    lab(home.path(), &["run", "study.toml", "--output", "a"]).ends_with(0);
    let of = |sql: &str| value::<i64>(&home.path().join("a"), sql);
    assert_eq!(of("SELECT count(*) FROM power_cut"), 8);
    assert_eq!(of("SELECT CAST(sum(median) AS INTEGER) FROM summary WHERE metric = 'power_cuts'"), 8);
    let sums = ["promised", "lost_promises"].map(|column| of(&format!("SELECT sum({column}) FROM power_cut")));
    let metrics = ["promises", "lost_promises"]
        .map(|metric| of(&format!("SELECT CAST(sum(median) AS INTEGER) FROM summary WHERE metric = '{metric}'")));
    assert_eq!(sums, metrics);
    // What SQLite's documentation promises of a rollback journal, on a file system that keeps what fsync promised.
    let kept = "SELECT count(*) FROM power_cut WHERE journal_mode = 'delete' AND refused IS NULL AND lost_promises = 0
                AND damaged = 0 AND promised > 0";
    assert_eq!(of(kept), 2);
    // LMDB and redb, which sync each transaction, are opened on the board that finds them.
    let kept = "SELECT count(*) FROM power_cut WHERE experiment = 'key-value' AND refused IS NULL AND lost_promises = 0
                AND damaged = 0 AND promised > 0";
    assert_eq!(of(kept), 4);
    let cuts = |run: &Path| -> String {
        let all = "SELECT group_concat(outcome ->> '$.cuts') FROM cell
                   WHERE traced AND point ->> '$.journal_mode' = 'delete'";
        value(run, all)
    };
    let expected = cuts(&home.path().join("a"));
    repeats_with(home.path(), "traced AND journal_mode = 'delete'", |run| assert_eq!(cuts(run), expected));
}

const COLLECTED: &str = r#"title = "t"
board = "virt-nand-small"
[[experiment]]
name = "collected"
[experiment.factors]
file_system = ["jffs2", "ubifs", "yaffs2"]
workload = "files"
operation = "write"
sync = "each"
pattern = "random"
files = 128
file_bytes = "64KiB"
request_bytes = 4096
requests = 1500
power_cuts = 4
"#;

/// Where most of a volume is written anew, blocks are erased while the run goes on, and one of four cuts is of such an
/// erase. What it leaves harms no promise.
#[test]
#[ignore = "takes minutes: make torture"]
fn erases_of_a_run_are_cut_as_well() {
    or_skip!(pocketstone_tests::qemu());
    let home = tempfile::tempdir().unwrap();
    write(home.path(), "study.toml", COLLECTED);
    lab(home.path(), &["run", "study.toml", "--output", "a"]).ends_with(0);
    let rows = |only: &str| {
        let sql = format!("SELECT group_concat(file_system) FROM (SELECT * FROM power_cut ORDER BY cell) WHERE {only}");
        value::<String>(&home.path().join("a"), &sql)
    };
    assert_eq!(rows("kind = 'erase'"), "jffs2,ubifs,yaffs2");
    let kept = "refused IS NULL AND unwritable IS NULL AND lost_promises = 0 AND damaged = 0 AND promised > 0";
    assert_eq!(rows(kept).split(',').count(), 12, "{}", rows(&format!("NOT ({kept})")));
}
