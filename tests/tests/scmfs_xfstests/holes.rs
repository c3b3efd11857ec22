//! Space given and taken back: fallocate(2), holes, SEEK_HOLE and SEEK_DATA.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use crate::system::Map;
use pocketstone_testing::wait::LONG;
use rustix::fs::{FallocateFlags, OFlags, SeekFrom, fallocate, seek};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, MetadataExt};

pub const CASES: &[Case] = cases![
    generic_008_zeroed_ranges,
    generic_009_zeroed_at_all_edges,
    generic_012_collapsing,
    generic_033_zeroed_in_large_files,
    generic_058_inserting,
    generic_071_kept_beyond_the_end,
    generic_086_written_into_reserved_space,
    generic_092_kept_then_truncated,
    generic_096_zeroed_around_the_end,
    generic_177_punched_and_synced,
    generic_214_reserved_and_written,
    generic_228_larger_than_allowed,
    generic_255_punched_in_all_states,
    generic_285_holes_are_found,
    generic_286_sparse_copies,
    generic_315_reserved_space_comes_back,
    generic_316_punched_without_extents,
    generic_420_punched_beyond_the_end,
    generic_422_blocks_that_are_counted,
    generic_436_reserved_and_searched,
    generic_438_mapped_and_reserved,
    generic_439_punched_with_an_odd_end,
    generic_445_searched_in_dirty_files,
    generic_448_searched_at_bounds,
    generic_469_kept_and_truncated,
    generic_490_searched_after_the_end,
    generic_511_punched_in_a_page,
    generic_539_searched_after_direct_writes,
    generic_568_odd_ranges_are_reserved,
    generic_615_never_without_blocks,
];

const KEEP: FallocateFlags = FallocateFlags::KEEP_SIZE;
const PUNCH: FallocateFlags = FallocateFlags::PUNCH_HOLE.union(KEEP);
const ZERO: FallocateFlags = FallocateFlags::ZERO_RANGE;
const P: u64 = PAGE as u64;

fn give(file: &File, how: FallocateFlags, offset: u64, len: u64) -> rustix::io::Result<()> {
    fallocate(file, how, offset, len)
}

/// What a range of a model becomes.
fn cleared(model: &mut [u8], offset: u64, len: u64) {
    let end = model.len().min((offset + len) as usize);
    model[end.min(offset as usize)..end].fill(0);
}

fn hole(file: &File, from: u64) -> rustix::io::Result<u64> {
    seek(file, SeekFrom::Hole(from))
}

fn data(file: &File, from: u64) -> rustix::io::Result<u64> {
    seek(file, SeekFrom::Data(from))
}

/// Ranges are zeroed, with and without a new size.
fn generic_008_zeroed_ranges(g: &Ground) -> Done {
    let mut model = bytes(8, 20 * PAGE);
    let file = g.file("file", &model)?;
    for (offset, len) in [(0, P), (5000, 100), (3 * P, 4 * P), (9 * P - 1, P + 2)] {
        give(&file, ZERO, offset, len)?;
        cleared(&mut model, offset, len);
        holds(&g.at("file"), &model);
    }
    give(&file, ZERO | KEEP, 19 * P, 10 * P)?;
    cleared(&mut model, 19 * P, 10 * P);
    holds(&g.at("file"), &model);
    give(&file, ZERO, 19 * P, 10 * P)?;
    model.resize(29 * PAGE, 0);
    holds(&g.at("file"), &model);
    Ok(())
}

/// Zeroed ranges whose edges lie everywhere about pages, of data, holes and reserved space.
fn generic_009_zeroed_at_all_edges(g: &Ground) -> Done {
    let mut numbers = Numbers::new(9);
    let mut model = vec![0; 64 * PAGE];
    let file = g.file("file", b"")?;
    file.set_len(model.len() as u64)?;
    give(&file, FallocateFlags::empty(), 40 * P, 10 * P)?;
    for n in 0..60u64 {
        let edge = |numbers: &mut Numbers| (numbers.below(60) * PAGE + numbers.below(3)).saturating_sub(1);
        let (offset, len) = (edge(&mut numbers), 1 + numbers.below(3 * PAGE));
        if n % 2 == 0 {
            file.write_all_at(&bytes(n, len), offset as u64)?;
            let end = offset + len;
            model[offset..end].copy_from_slice(&bytes(n, len));
        } else {
            give(&file, ZERO, offset as u64, len as u64)?;
            cleared(&mut model, offset as u64, len as u64);
        }
        holds(&g.at("file"), &model);
    }
    Ok(())
}

/// A range cannot be cut out through FUSE: it is refused, and nothing has changed.
fn generic_012_collapsing(g: &Ground) -> Done {
    let file = g.file("file", &bytes(12, 10 * PAGE))?;
    let done = give(&file, FallocateFlags::COLLAPSE_RANGE, P, P);
    let mut wanted = bytes(12, 10 * PAGE);
    if g.kind == Kind::Scmfs {
        fails(done, Errno::OPNOTSUPP);
    } else {
        done?;
        wanted.drain(PAGE..2 * PAGE);
    }
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// Nor can one be put in between.
fn generic_058_inserting(g: &Ground) -> Done {
    let file = g.file("file", &bytes(58, 10 * PAGE))?;
    let done = give(&file, FallocateFlags::INSERT_RANGE, P, P);
    let mut wanted = bytes(58, 10 * PAGE);
    if g.kind == Kind::Scmfs {
        fails(done, Errno::OPNOTSUPP);
    } else {
        done?;
        wanted.splice(PAGE..PAGE, vec![0; PAGE]);
    }
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// Every second piece of a large file is zeroed just after it was written.
fn generic_033_zeroed_in_large_files(g: &Ground) -> Done {
    let mut model = bytes(33, 4 << 20);
    let file = g.file("file", &model)?;
    for piece in (0..64).step_by(2) {
        give(&file, ZERO, piece * 65_536, 65_536)?;
        cleared(&mut model, piece * 65_536, 65_536);
    }
    holds(&g.at("file"), &model);
    Ok(())
}

/// Space kept beyond the end does not show, and is there for what is written next.
fn generic_071_kept_beyond_the_end(g: &Ground) -> Done {
    let file = g.file("file", &bytes(71, PAGE))?;
    give(&file, KEEP, 0, 64 * P)?;
    assert_eq!(file.metadata()?.len(), P);
    assert!(file.metadata()?.blocks() * 512 >= 64 * P);
    file.write_all_at(&bytes(1, 3 * PAGE), 4 * P)?;
    let mut wanted = bytes(71, PAGE);
    wanted.resize(4 * PAGE, 0);
    wanted.extend(bytes(1, 3 * PAGE));
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// Writes into the middle of reserved space, directly and by the cache: zeros about them.
fn generic_086_written_into_reserved_space(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    give(&file, FallocateFlags::empty(), 0, 32 * P)?;
    let mut wanted = vec![0; 32 * PAGE];
    file.write_all_at(&bytes(1, 1000), 5 * P + 7)?;
    wanted[5 * PAGE + 7..5 * PAGE + 1007].copy_from_slice(&bytes(1, 1000));
    file.sync_all()?;
    Map::holding(&bytes(2, 2 * PAGE))?.write_to(0, 2 * PAGE, direct(&g.at("file"))?, 17 * P)?;
    wanted[17 * PAGE..19 * PAGE].copy_from_slice(&bytes(2, 2 * PAGE));
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// Space beyond the end, then a size inside of it and one beyond it: what is there reads as zeros.
fn generic_092_kept_then_truncated(g: &Ground) -> Done {
    let file = g.file("file", &bytes(92, 1000))?;
    give(&file, KEEP, 0, 100 * P)?;
    for size in [50 * P, 100 * P, 200 * P] {
        file.set_len(size)?;
        let found = fs::read(g.at("file"))?;
        assert_eq!(found.len() as u64, size);
        same(&found[..1000], &bytes(92, 1000));
        assert!(found[1000..].iter().all(|byte| *byte == 0));
    }
    Ok(())
}

/// Zeroing at and over the end, and what is written behind it.
fn generic_096_zeroed_around_the_end(g: &Ground) -> Done {
    let mut model = bytes(96, 3 * PAGE + 500);
    let file = g.file("file", &model)?;
    give(&file, ZERO, 3 * P + 400, 2 * P)?;
    cleared(&mut model, 3 * P + 400, 2 * P);
    model.resize(5 * PAGE + 400, 0);
    holds(&g.at("file"), &model);
    file.write_all_at(b"end", 6 * P)?;
    model.resize(6 * PAGE, 0);
    model.extend(b"end");
    holds(&g.at("file"), &model);
    give(&file, ZERO | KEEP, 10 * P, P)?;
    holds(&g.at("file"), &model);
    Ok(())
}

/// Holes beside each other, with a sync in between.
fn generic_177_punched_and_synced(g: &Ground) -> Done {
    let mut model = bytes(177, 64 * PAGE);
    let file = g.file("file", &model)?;
    for (offset, len) in [(2 * P, P), (60 * P, 2 * P), (3 * P, 4 * P), (P + 10, P)] {
        give(&file, PUNCH, offset, len)?;
        file.sync_all()?;
        cleared(&mut model, offset, len);
        holds(&g.at("file"), &model);
    }
    Ok(())
}

/// Reserved space is written in pieces, over its edges and beyond.
fn generic_214_reserved_and_written(g: &Ground) -> Done {
    let mut model = vec![0; 20 * PAGE];
    let file = g.file("file", b"")?;
    give(&file, FallocateFlags::empty(), 0, 20 * P)?;
    for (n, offset) in [(1, 0), (2, 4095), (3, 12_288), (4, 19 * PAGE + 4000)] {
        let piece = bytes(n, 5000);
        model.resize(model.len().max(offset + 5000), 0);
        file.write_all_at(&piece, offset as u64)?;
        model[offset..offset + 5000].copy_from_slice(&piece);
        holds(&g.at("file"), &model);
    }
    Ok(())
}

/// Nothing is reserved beyond the largest file that a process may make.
fn generic_228_larger_than_allowed(g: &Ground) -> Done {
    let script = "ulimit -f 100; trap '' XFSZ; fallocate -l 40K \"$0\" && ! fallocate -l 2M \"$0\"";
    let mut shell = pocketstone_tests::suites::command("bash");
    let ran = pocketstone_tests::command::run(shell.args(["-c", script]).arg(g.at("file")));
    assert!(ran.status == Some(0) && ran.err.contains("File too large"), "{ran}");
    assert_eq!(of(&g.at("file"))?.len(), 40 << 10);
    Ok(())
}

/// Holes in data, in holes, in reserved space, over the edges of all three.
fn generic_255_punched_in_all_states(g: &Ground) -> Done {
    for (case, (data, reserved)) in
        [(None, None), (Some(0), None), (None, Some(0)), (Some(0), Some(10)), (Some(10), Some(0))]
            .into_iter()
            .enumerate()
    {
        let name = format!("file{case}");
        let mut model = vec![0; 30 * PAGE];
        let file = g.file(&name, b"")?;
        file.set_len(30 * P)?;
        if let Some(at) = reserved {
            give(&file, FallocateFlags::empty(), at * P, 10 * P)?;
        }
        if let Some(at) = data {
            file.write_all_at(&bytes(at, 10 * PAGE), at * P)?;
            model[at as usize * PAGE..][..10 * PAGE].copy_from_slice(&bytes(at, 10 * PAGE));
        }
        for (offset, len) in [(5 * P, P), (9 * P, 3 * P), (4 * P + 100, 200), (19 * P, 50 * P)] {
            give(&file, PUNCH, offset, len)?;
            cleared(&mut model, offset, len);
            holds(&g.at(&name), &model);
        }
        assert_eq!(file.metadata()?.len(), 30 * P);
    }
    Ok(())
}

/// Where data begins and ends in a file of alternate pieces.
fn generic_285_holes_are_found(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    let piece = 64 * P;
    file.set_len(8 * piece)?;
    fails(data(&file, 0), Errno::NXIO);
    assert_eq!(hole(&file, 5)?, 5);
    for n in [1, 3, 4] {
        file.write_all_at(&bytes(n, piece as usize), n * piece)?;
    }
    assert_eq!((data(&file, 0)?, hole(&file, 0)?), (piece, 0));
    assert_eq!((data(&file, piece + 9)?, hole(&file, piece + 9)?), (piece + 9, 2 * piece));
    assert_eq!((data(&file, 2 * piece)?, hole(&file, 3 * piece)?), (3 * piece, 5 * piece));
    fails(data(&file, 5 * piece), Errno::NXIO);
    fails(hole(&file, 8 * piece), Errno::NXIO);
    give(&file, PUNCH, 3 * piece + P, P)?;
    assert_eq!((hole(&file, 3 * piece)?, data(&file, 3 * piece + P)?), (3 * piece + P, 3 * piece + 2 * P));
    Ok(())
}

/// A copy of the pieces that hold data is the same file.
fn generic_286_sparse_copies(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    file.set_len(3 << 20)?;
    for n in 0..6u64 {
        file.write_all_at(&bytes(n, 3000 * (n as usize + 1)), n * 500_001)?;
    }
    let (copy, mut at) = (g.file("copy", b"")?, 0);
    copy.set_len(3 << 20)?;
    while let Ok(start) = data(&file, at) {
        let end = hole(&file, start)?;
        assert!(end > start);
        let mut piece = vec![0; (end - start) as usize];
        file.read_exact_at(&mut piece, start)?;
        copy.write_all_at(&piece, start)?;
        at = end;
    }
    holds(&g.at("copy"), &fs::read(g.at("file"))?);
    Ok(())
}

/// Space that was kept beyond the end is free again when the file is gone.
fn generic_315_reserved_space_comes_back(g: &Ground) -> Done {
    let free = || rustix::fs::statvfs(g.top).map(|found| found.f_bfree);
    let before = free()?;
    let file = g.file("file", b"")?;
    give(&file, KEEP, 0, 64 << 20)?;
    file.sync_all()?;
    assert!(free()? + (60 << 20) / P <= before);
    drop(file);
    fs::remove_file(g.at("file"))?;
    let back = pocketstone_tests::command::poll(LONG, || free().ok().filter(|now| *now + (4 << 20) / P >= before));
    assert!(back.is_some(), "{before} blocks were free, {:?} are", free());
    Ok(())
}

/// Punching takes blocks away, and only whole ones.
fn generic_316_punched_without_extents(g: &Ground) -> Done {
    let mut model = bytes(316, 20 * PAGE);
    let file = g.file("file", &model)?;
    file.sync_all()?;
    let full = file.metadata()?.blocks();
    give(&file, PUNCH, 4 * P, 8 * P)?;
    give(&file, PUNCH, 15 * P + 100, P)?;
    cleared(&mut model, 4 * P, 8 * P);
    cleared(&mut model, 15 * P + 100, P);
    holds(&g.at("file"), &model);
    assert_eq!(file.metadata()?.blocks(), full - 8 * P / 512);
    Ok(())
}

/// A hole beyond the end, in space that is kept there.
fn generic_420_punched_beyond_the_end(g: &Ground) -> Done {
    let file = g.file("file", &bytes(420, PAGE))?;
    give(&file, KEEP, 0, 60 * P)?;
    give(&file, PUNCH, 10 * P, 40 * P)?;
    assert_eq!(file.metadata()?.len(), P);
    file.set_len(60 * P)?;
    let mut wanted = bytes(420, PAGE);
    wanted.resize(60 * PAGE, 0);
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// The blocks that stat tells are those that were written, synced or not.
fn generic_422_blocks_that_are_counted(g: &Ground) -> Done {
    let file = g.file("file", &bytes(1, 16 * PAGE))?;
    let count = |file: &File| file.metadata().map(|found| found.blocks() * 512 / P);
    let before = count(&file)?;
    file.write_all_at(&bytes(2, 16 * PAGE), 0)?;
    file.sync_all()?;
    assert_eq!((before, count(&file)?), (16, 16));
    file.set_len(32 * P)?;
    assert_eq!(count(&file)?, 16, "a hole takes none");
    file.write_all_at(&bytes(3, 16 * PAGE), 16 * P)?;
    file.write_all_at(&bytes(4, 16 * PAGE), 16 * P)?;
    file.sync_all()?;
    assert_eq!(count(&file)?, 32);
    Ok(())
}

/// Reserved pieces between data and holes: what is found is never less than the data.
fn generic_436_reserved_and_searched(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    file.set_len(100 * P)?;
    give(&file, FallocateFlags::empty(), 10 * P, 30 * P)?;
    file.write_all_at(&bytes(1, PAGE), 20 * P)?;
    let first = data(&file, 0)?;
    assert!((10 * P..=20 * P).contains(&first), "data begins at {first}");
    assert!((21 * P..=40 * P).contains(&hole(&file, 20 * P)?));
    fails(data(&file, 40 * P), Errno::NXIO);
    Ok(())
}

/// Stores to a mapping while the file grows by fallocate stay where they are.
fn generic_438_mapped_and_reserved(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    for n in 0..64u64 {
        give(&file, FallocateFlags::empty(), n * P, P)?;
        let map = Map::shared(&file, 0, (n as usize + 1) * PAGE)?;
        map.write(n as usize * PAGE, &bytes(n, PAGE));
    }
    let wanted: Vec<u8> = (0..64).flat_map(|n| bytes(n, PAGE)).collect();
    holds(&g.at("file"), &wanted);
    file.sync_all()?;
    rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// A hole that ends inside the last page.
fn generic_439_punched_with_an_odd_end(g: &Ground) -> Done {
    let mut model = bytes(439, 8 * PAGE + 700);
    let file = g.file("file", &model)?;
    give(&file, PUNCH, 2 * P, 6 * P + 300)?;
    cleared(&mut model, 2 * P, 6 * P + 300);
    holds(&g.at("file"), &model);
    give(&file, PUNCH, 0, 100 * P)?;
    holds(&g.at("file"), &vec![0; model.len()]);
    Ok(())
}

/// Data that was only just written counts as data.
fn generic_445_searched_in_dirty_files(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    for n in [3u64, 9, 30] {
        file.write_all_at(b"x", n * 16 * P)?;
        assert_eq!(data(&file, n * 16 * P)?, n * 16 * P);
        assert!(data(&file, n * 16 * P - P)? <= n * 16 * P);
    }
    assert_eq!(hole(&file, 30 * 16 * P)?, 30 * 16 * P + 1);
    Ok(())
}

/// Searches at and beyond the end, and with negative offsets.
fn generic_448_searched_at_bounds(g: &Ground) -> Done {
    let file = g.file("file", &bytes(1, 3 * PAGE + 1))?;
    let end = 3 * P + 1;
    assert_eq!((data(&file, end - 1)?, hole(&file, end - 1)?), (end - 1, end));
    fails(data(&file, end), Errno::NXIO);
    fails(hole(&file, end), Errno::NXIO);
    fails(data(&file, 1 << 62), Errno::NXIO);
    let empty = g.file("empty", b"")?;
    fails(data(&empty, 0), Errno::NXIO);
    fails(hole(&empty, 0), Errno::NXIO);
    Ok(())
}

/// Space kept beyond the end, a write, a size in the last page, and a larger one: no old byte shows.
fn generic_469_kept_and_truncated(g: &Ground) -> Done {
    let mut model = bytes(469, 0x400f);
    let file = g.file("file", &model)?;
    give(&file, KEEP, 0x3000, 0x4000)?;
    Map::shared(&file, 0, 0x4000)?.write(0x3ff0, &[b'm'; 16]);
    model[0x3ff0..0x4000].fill(b'm');
    for size in [0x3f88usize, 0x6000, 0x4001, 0x8000] {
        file.set_len(size as u64)?;
        model.resize(size, 0);
        holds(&g.at("file"), &model);
    }
    Ok(())
}

/// A hole behind the last data, up to the end.
fn generic_490_searched_after_the_end(g: &Ground) -> Done {
    let file = g.file("file", &bytes(1, PAGE))?;
    file.set_len(64 * P)?;
    assert_eq!(hole(&file, 0)?, P);
    fails(data(&file, P), Errno::NXIO);
    assert_eq!(hole(&file, 63 * P)?, 63 * P);
    Ok(())
}

/// Space kept beyond the end and a hole of half a page in it.
fn generic_511_punched_in_a_page(g: &Ground) -> Done {
    let file = g.file("file", &bytes(511, 1536))?;
    give(&file, KEEP, 1536, 9000)?;
    give(&file, PUNCH, 1024, 5000)?;
    file.set_len(12_000)?;
    let mut wanted = bytes(511, 1024);
    wanted.resize(12_000, 0);
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// What was written past the cache is found at once.
fn generic_539_searched_after_direct_writes(g: &Ground) -> Done {
    let file = direct(&g.at("file"))?;
    let buffer = Map::holding(&bytes(1, PAGE))?;
    file.set_len(64 * P)?;
    for n in [40, 8] {
        assert_eq!(buffer.write_to(0, PAGE, &file, n * P)?, PAGE);
        assert_eq!((data(&file, 0)?, hole(&file, n * P)?), (n * P, (n + 1) * P));
    }
    Ok(())
}

/// Two bytes on both sides of a page's edge reserve both pages.
fn generic_568_odd_ranges_are_reserved(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    give(&file, FallocateFlags::empty(), P - 1, 2)?;
    let before = file.metadata()?.blocks();
    file.write_all_at(b"xx", P - 1)?;
    file.sync_all()?;
    assert!(before * 512 >= 2 * P && file.metadata()?.blocks() <= before);
    Ok(())
}

/// A file that is overwritten again and again is never told to have no blocks.
fn generic_615_never_without_blocks(g: &Ground) -> Done {
    let file = g.file("file", &bytes(1, 16 * PAGE))?;
    file.sync_all()?;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> std::io::Result<()> {
            let past = open(&g.at("file"), OFlags::WRONLY | OFlags::DIRECT)?;
            let buffer = Map::holding(&bytes(2, 16 * PAGE))?;
            for _ in 0..100 {
                file.write_all_at(&bytes(1, 16 * PAGE), 0)?;
                file.sync_all()?;
                buffer.write_to(0, 16 * PAGE, &past, 0)?;
            }
            Ok(())
        });
        while !writer.is_finished() {
            assert!(of(&g.at("file")).expect("it is there").blocks() > 0);
        }
        writer.join().expect("no panic")
    })?;
    Ok(())
}
