//! A crash at any moment of the largest atomic write, on pages of the default sizes, leaves all of it or
//! nothing.

use crate::support::explore::{Case, Effort, Start, explore_all};
use crate::support::shape::Shape;
use crate::support::subject::{OpenFiles, apply_both};
use crate::support::{amount, say, seed};
use pocketstone_fstest::Op;
use pocketstone_scmfs::{FileType, Operations, Volume};

const MIB: u64 = 1 << 20;

fn start() -> Start {
    let mut shape = Shape::normal();
    shape.region_bytes = 72 * MIB;
    shape.create.inodes = Some(64);
    let (shared, volume, mut model) = shape.start();
    let mut files = OpenFiles::default();
    let ops = [
        Op::Create("/a".into(), FileType::Regular, 0o644, None),
        Op::Write("/a".into(), 0, 3 * MIB, 1),
        Op::Create("/b".into(), FileType::Regular, 0o644, None),
        Op::Write("/b".into(), 0, 100, 2),
    ];
    for op in &ops {
        apply_both(&volume, &mut files, &mut model, op, false).expect("a start can be built");
    }
    drop(files);
    volume.close().expect("a start can be closed");
    model.restart();
    Start { name: "two files", shape, image: shared.image(), model, prelude: Vec::new() }
}

#[test]
fn a_mebibyte_is_written_whole_or_not_at_all() {
    let (start, seed) = (start(), seed(1));
    let volume = Volume::open(crate::support::region::Shared::from_image(&start.image).region(), &start.shape.open);
    let volume = volume.expect("a start opens");
    let file = volume.open(volume.resolve("/a").expect("a name")).expect("a file opens");
    assert_eq!(file.atomic_max(), MIB);
    drop(file);
    volume.abandon();
    // Across two huge pages at odd bytes, beyond the end, and of a file that moves to huge pages for it.
    let writes = [("/a", 2 * MIB - 300_001), ("/a", 3 * MIB - 7), ("/b", 12_345)];
    let cases = writes.map(|(path, offset)| Case {
        start: &start,
        ops: vec![Op::WriteAtomic(path.into(), offset, MIB, 3)],
        close: false,
        seed,
    });
    let effort = Effort { lines: 1, states_per_fence: amount(3, 100) as usize, recrash_every: 0 };
    let (count, failures) = explore_all(&cases, &effort, &|| {});
    say(&format!("atomic writes of 1 MiB, seed {seed}: {count:?}"));
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
    assert!(count.states.into_inner() >= 3 * 6, "hardly any crash states");
}
