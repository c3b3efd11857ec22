//! Where crash exploration starts, and the operations it crashes.

use super::explore::Start;
use super::shape::Shape;
use super::subject::{OpenFiles, apply_both};
use pocketstone_fstest::{BatchPart, Op, Outcome, Target, apply};
use pocketstone_scmfs::{Allocate, FileType, Rename, SetXattr};

fn create(path: &str) -> Op {
    Op::Create(path.into(), FileType::Regular, 0o644, None)
}

fn write(path: &str, offset: u64, bytes: u64) -> Op {
    Op::Write(path.into(), offset, bytes, 5)
}

fn mkdir(path: &str) -> Op {
    Op::Mkdir(path.into(), 0o755)
}

fn rename(from: &str, to: &str, how: Rename) -> Op {
    Op::Rename(from.into(), to.into(), how)
}

fn set_xattr(path: &str, name: &str, bytes: u64) -> Op {
    Op::SetXattr(path.into(), name.into(), bytes, 9, SetXattr::Any)
}

/// Builds a start from operations, which all must succeed.
fn start(name: &'static str, shape: Shape, ops: &[Op], prelude: &[Op]) -> Start {
    let (shared, volume, mut model) = shape.start();
    let mut files = OpenFiles::default();
    for op in ops {
        apply_both(&volume, &mut files, &mut model, op, false).expect("a start can be built");
    }
    drop(files);
    volume.close().expect("a start can be closed");
    model.restart();
    Start { name, shape, image: shared.image(), model, prelude: prelude.to_vec() }
}

fn files() -> Vec<Op> {
    vec![
        create("/a"),
        write("/a", 0, 100),
        create("/b"),
        write("/b", 0, 900),
        create("/c"),
        write("/c", 0, 5000),
        mkdir("/d"),
        create("/d/a"),
        write("/d/a", 0, 300),
        mkdir("/d/f"),
        mkdir("/e"),
    ]
}

fn links() -> Vec<Op> {
    let mut ops = vec![create("/a"), write("/a", 0, 600), mkdir("/d"), mkdir("/e"), mkdir("/e/g"), mkdir("/d/f")];
    ops.extend([Op::Link("/a".into(), "/b".into()), Op::Link("/a".into(), "/d/a".into())]);
    ops.extend([Op::Symlink("/c".into(), "a".into()), set_xattr("/a", "user.a", 30), set_xattr("/e", "user.a", 5)]);
    ops.push(Op::Create("/f".into(), FileType::Fifo, 0o600, None));
    ops
}

fn sparse() -> Vec<Op> {
    let mut ops = vec![create("/a"), Op::Truncate("/a".into(), 6000), write("/a", 3000, 50)];
    ops.extend([create("/b"), Op::Truncate("/b".into(), 700), write("/b", 300, 10)]);
    ops.extend([create("/c"), Op::Allocate("/c".into(), Allocate::KeepSize, 0, 2500), write("/c", 0, 40)]);
    ops.extend([mkdir("/d"), create("/d/a"), Op::Truncate("/d/a".into(), 4096)]);
    ops
}

/// A directory that is about to grow, and one that has grown.
fn many() -> Vec<Op> {
    let mut ops = vec![create("/a"), write("/a", 0, 2000), mkdir("/d"), mkdir("/d/f"), mkdir("/e")];
    for i in 0..13 {
        ops.push(Op::Link("/a".into(), format!("/d/{i}{}", "n".repeat(i))));
    }
    ops.extend((0..3).map(|i| Op::Link("/a".into(), format!("/e/{i}"))));
    ops
}

/// Almost nothing is free.
fn full() -> Start {
    let shape = Shape::tiny(32 << 10);
    let (shared, volume, mut model) = shape.start();
    let mut files = OpenFiles::default();
    let mut go =
        |op: Op, tight| apply_both(&volume, &mut files, &mut model, &op, tight).expect("a full volume can be built");
    for path in ["/a", "/b", "/c"] {
        go(create(path), false);
        go(write(path, 0, 700), false);
    }
    go(mkdir("/d"), false);
    for bytes in [2048, 256, 16] {
        // More appends than the volume has bytes for; those that find no space change nothing.
        for _ in 0..40 {
            go(Op::Append("/c".into(), bytes, 1), true);
            go(Op::Append("/b".into(), bytes, 2), true);
        }
    }
    let refused = apply(&volume, &mut files, &Op::Append("/c".into(), 2048, 1)).expect("no damage");
    assert_eq!(refused, Outcome::Failed(pocketstone_fstest::errno::ENOSPC), "the volume is not full");
    drop(files);
    volume.close().expect("a full volume can be closed");
    Start { name: "full", shape, image: shared.image(), model, prelude: Vec::new() }
}

/// Files with holes in their small pages, and one that lost a part of a huge page.
fn punched() -> Vec<Op> {
    let punch = |path: &str, offset, bytes| Op::Allocate(path.into(), Allocate::PunchHole, offset, bytes);
    let mut ops =
        vec![mkdir("/d"), mkdir("/e"), create("/d/a"), create("/a"), write("/a", 0, 900), punch("/a", 256, 256)];
    ops.extend([create("/b"), write("/b", 0, 5000), punch("/b", 512, 600), punch("/b", 2304, 256)]);
    ops.extend([create("/c"), write("/c", 0, 1000), punch("/c", 0, 512), write("/d/a", 0, 300)]);
    ops
}

/// Every inode is in use, and no free huge page holds zeros.
fn used_up() -> Vec<Op> {
    let garbage = [create("/b"), write("/b", 0, 32_000), Op::Unlink("/b".into())];
    let mut ops = vec![create("/a"), write("/a", 0, 200)];
    ops.extend(garbage);
    ops.push(mkdir("/d"));
    ops
}

/// What is free are single pages: whatever needs more takes them one by one, or others have to move.
fn scattered() -> Start {
    let mut shape = Shape::tiny(40 << 10);
    shape.create.inodes = Some(32);
    let (shared, volume, mut model) = shape.start();
    let mut files = OpenFiles::default();
    let mut go =
        |op: Op, tight| apply_both(&volume, &mut files, &mut model, &op, tight).expect("a volume can be built");
    for op in [create("/a"), write("/a", 0, 200), create("/b"), write("/b", 0, 500), mkdir("/d"), create("/c")] {
        go(op, false);
    }
    for i in 0..12 {
        let path = format!("/d/{i}");
        go(create(&path), false);
        go(write(&path, 0, 200), false);
    }
    for bytes in [2048, 256, 16] {
        for _ in 0..30 {
            go(Op::Append("/c".into(), bytes, 1), true);
        }
    }
    (0..12).step_by(2).for_each(|i| go(Op::Unlink(format!("/d/{i}")), false));
    drop(files);
    volume.close().expect("a volume can be closed");
    Start { name: "scattered", shape, image: shared.image(), model, prelude: Vec::new() }
}

pub fn all() -> Vec<Start> {
    let tiny = || Shape::tiny(48 << 10);
    let slots =
        [Op::Open(0, "/a".into()), Op::Temporary(1), Op::Write(Target::Slot(1), 0, 300, 1), Op::Open(2, "/c".into())];
    let mut growable = Shape::tiny(64 << 10);
    growable.create.bytes = Some(32 << 10);
    // The next inode needs one more huge page for the table.
    let mut few_inodes = tiny();
    few_inodes.create.inodes = Some(3);
    vec![
        start("empty", tiny(), &[], &[]),
        start("files", tiny(), &files(), &[]),
        start("links", tiny(), &links(), &[]),
        start("sparse", tiny(), &sparse(), &[]),
        start("many", tiny(), &many(), &[]),
        start("open files", tiny(), &files(), &slots),
        start("null files", tiny().with_null_files(3), &files()[..6], &[]),
        start("growable", growable, &files()[..4], &[]),
        start("punched", tiny(), &punched(), &[]),
        start("few inodes", few_inodes, &used_up(), &[]),
        scattered(),
        full(),
    ]
}

fn set_acl(path: &str, is_default: bool, mode: u16, named: u16) -> Op {
    Op::SetAcl(path.into(), is_default, mode, named)
}

fn remove_xattr(path: &str, name: &str) -> Op {
    Op::RemoveXattr(path.into(), name.into())
}

/// Lists of access rights, and what changes them, hands them on, or takes them away.
pub fn lists() -> (Start, Vec<Op>) {
    let ops = [
        create("/a"),
        set_acl("/a", false, 0o640, 7),
        create("/b"),
        set_xattr("/b", "user.a", 30),
        mkdir("/d"),
        set_acl("/d", true, 0o751, 5),
        create("/d/a"),
        mkdir("/e"),
    ];
    let start = start("lists", Shape::tiny(48 << 10), &ops, &[]);
    let mut ops = vec![
        set_acl("/a", false, 0o406, 1),
        set_acl("/b", false, 0o664, 2),
        set_acl("/d", false, 0o770, 7),
        set_acl("/d", true, 0o700, 7),
        set_acl("/e", true, 0o755, 7),
        remove_xattr("/a", pocketstone_fstest::acl::ACCESS),
        remove_xattr("/d", pocketstone_fstest::acl::DEFAULT),
        Op::Chmod("/a".into(), 0o4611),
        create("/d/n"),
        mkdir("/d/n"),
        Op::Create("/d/n".into(), FileType::Fifo, 0o666, None),
        Op::Symlink("/d/n".into(), "x".into()),
        Op::Unlink("/d/a".into()),
        rename("/b", "/d/a", Rename::Replace),
    ];
    ops.extend([("/d/a", "/n"), ("/d/a", "/b"), ("/a", "/d/n"), ("/e", "/d/n")].map(|(from, to)| whiteout(from, to)));
    (start, ops)
}

fn whiteout(from: &str, to: &str) -> Op {
    rename(from, to, Rename::Whiteout { replace: true, uid: 0, gid: 0 })
}

/// Starts whose contents have checksums: a wrong one that a crash leaves is a read that fails.
pub fn with_checksums() -> Vec<Start> {
    let tiny = || Shape::tiny(48 << 10).with_checksums();
    vec![
        start("files, checksums", tiny(), &files(), &[]),
        start("sparse, checksums", tiny(), &sparse(), &[]),
        start("null files, checksums", tiny().with_null_files(3), &files()[..6], &[]),
    ]
}

/// The operations of the alphabet that change what files hold.
pub fn content_alphabet(start: &Start) -> Vec<Op> {
    let mut ops = alphabet(start);
    ops.retain(|op| {
        matches!(op, Op::Write(..) | Op::WriteAtomic(..) | Op::Append(..) | Op::Truncate(..) | Op::Allocate(..))
            || matches!(op, Op::WriteBatch(_) | Op::Unlink(..) | Op::Background | Op::Create(..))
    });
    ops
}

fn on_names() -> Vec<Op> {
    let mut ops = vec![create("/n"), create("/d/n"), create("/e/n"), mkdir("/n"), mkdir("/d/n"), mkdir("/d/f/n")];
    ops.push(Op::Create(
        "/d/a-name-that-is-longer-than-a-line-of-the-cache-and-needs-two-slots".into(),
        FileType::Regular,
        0o600,
        None,
    ));
    ops.push(Op::Create("/n".into(), FileType::Socket, 0o600, None));
    ops.extend([Op::Symlink("/n".into(), "x".into()), Op::Symlink("/d/n".into(), "long/".repeat(60))]);
    for (from, to) in [("/a", "/n"), ("/d/a", "/n"), ("/c", "/d/n"), ("/a", "/e/n")] {
        ops.push(Op::Link(from.into(), to.into()));
    }
    ops.extend(["/d/a", "/f", "/d/3nnn"].map(|path| Op::Unlink(path.into())));
    ops.extend(["/d/f", "/e/g", "/e"].map(|path| Op::Rmdir(path.into())));
    let pairs = [
        ("/a", "/n"),
        ("/a", "/b"),
        ("/a", "/c"),
        ("/c", "/a"),
        ("/a", "/d/a"),
        ("/d/a", "/a"),
        ("/b", "/d/n"),
        ("/d/a", "/e/n"),
        ("/d", "/n"),
        ("/d/f", "/n"),
        ("/d/f", "/e/g"),
        ("/d/f", "/e"),
        ("/d", "/e/n"),
        ("/a", "/a-new-name-that-does-not-fit-into-the-slot-that-the-old-name-had-in-its-directory"),
    ];
    ops.extend(pairs.map(|(from, to)| rename(from, to, Rename::Replace)));
    ops.push(rename("/a", "/n", Rename::NoReplace));
    for (one, other) in [("/a", "/b"), ("/a", "/d/a"), ("/a", "/d"), ("/d/f", "/e"), ("/c", "/e")] {
        ops.push(rename(one, other, Rename::Exchange));
    }
    ops.extend([("/a", "/n"), ("/a", "/b"), ("/d/a", "/e/n"), ("/d/f", "/n")].map(|(from, to)| whiteout(from, to)));
    for path in ["/a", "/d"] {
        ops.extend([Op::Chmod(path.into(), 0o4711), Op::Chown(path.into(), 7, 8), set_xattr(path, "user.b", 30)]);
        ops.extend([set_xattr(path, "user.a", 80), Op::RemoveXattr(path.into(), "user.a".into())]);
    }
    ops
}

fn on_contents(path: &str) -> Vec<Op> {
    let mut ops = Vec::new();
    let ranges = [
        (0, 10),
        (50, 100),
        (0, 300),
        (200, 900),
        (0, 3000),
        (900, 200),
        (2040, 20),
        (4990, 700),
        (6100, 10),
        (1500, 8),
    ];
    ops.extend(ranges.map(|(offset, bytes)| write(path, offset, bytes)));
    ops.extend([(0, 64), (10, 500), (0, 1100), (4990, 100)].map(|(o, n)| Op::WriteAtomic(path.into(), o, n, 6)));
    ops.extend([10, 160, 1000, 2100].map(|bytes| Op::Append(path.into(), bytes, 7)));
    ops.extend([0, 50, 300, 1024, 1025, 2048, 3000, 8000].map(|size| Op::Truncate(path.into(), size)));
    let hows = [Allocate::Extend, Allocate::KeepSize, Allocate::PunchHole, Allocate::Zero, Allocate::ZeroKeepSize];
    for how in hows {
        ops.extend([(0, 256), (100, 1000), (1000, 4000)].map(|(o, n)| Op::Allocate(path.into(), how, o, n)));
    }
    // Whole small pages, in small files and in huge pages.
    let ranges = [(256, 256), (512, 2048)];
    for how in [Allocate::PunchHole, Allocate::Collapse, Allocate::Insert] {
        ops.extend(ranges.map(|(o, n)| Op::Allocate(path.into(), how, o, n)));
    }
    ops.extend([set_xattr(path, "user.c", 500), Op::SetSize(path.into(), 600)]);
    ops
}

/// Writes to one file and to two: in place, into holes, beyond the end, overlapping, in one word, shorter and longer.
fn batches() -> Vec<Op> {
    let part =
        |path: &str, writes: &[(u64, u64, u8)], size| BatchPart { path: path.into(), writes: writes.to_vec(), size };
    let op = |parts: &[BatchPart]| Op::WriteBatch(parts.to_vec());
    vec![
        op(&[part("/a", &[(0, 10, 1), (30, 3, 2)], None)]),
        op(&[part("/b", &[(257, 3, 1), (261, 2, 2), (200, 300, 3), (250, 9, 4)], None)]),
        op(&[part("/a", &[(3, 20, 5)], None), part("/b", &[(100, 700, 6)], None)]),
        op(&[part("/c", &[(10, 600, 7), (1300, 30, 8)], Some(1500)), part("/a", &[], Some(7))]),
        op(&[part("/b", &[(0, 256, 9)], Some(300)), part("/c", &[(0, 100, 1)], None)]),
        op(&[part("/a", &[], Some(2100))]),
    ]
}

/// The operations that do something at this start.
pub fn alphabet(start: &Start) -> Vec<Op> {
    // Names are changed in the same way wherever files lie; inodes are all that few of them are about.
    let mut ops = match start.name {
        "punched" | "scattered" => vec![create("/n"), mkdir("/n"), Op::Symlink("/n".into(), "long/".repeat(60))],
        _ => on_names(),
    };
    ops.extend(["/a", "/b", "/c"].map(|path| Op::Unlink(path.into())));
    if start.name != "few inodes" {
        ops.extend(["/a", "/b", "/c"].iter().flat_map(|path| on_contents(path)));
    }
    ops.extend(batches());
    let slot = Target::Slot;
    ops.extend([Op::Sync, Op::Background, Op::Temporary(2), Op::Resize(48 << 10), Op::Resize(64 << 10)]);
    ops.extend([Op::Write(slot(0), 50, 300, 1), Op::Write(slot(1), 200, 2000, 1), Op::Close(0), Op::Close(1)]);
    ops.extend([Op::LinkSlot(1, "/n".into()), Op::LinkSlot(1, "/d/n".into()), Op::Truncate(slot(2), 100)]);
    let mut model = start.model.clone();
    for op in &start.prelude {
        model.apply(op);
    }
    let grows = start.shape.create.bytes.is_some();
    ops.retain(|op| {
        let outcome = model.clone().apply(op);
        let possible = grows || !matches!(op, Op::Resize(_));
        possible && !matches!(outcome, Outcome::Failed(_) | Outcome::Skipped)
    });
    ops
}
