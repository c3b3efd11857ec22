//! Files in memory: what a mapping shows, and what becomes of what is stored to it.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use crate::system::Map;
use pocketstone_tests::command::copy_program;
use rustix::fs::{Advice, FallocateFlags, fadvise, fallocate};
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags};
use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt};

pub const CASES: &[Case] = cases![
    generic_029_truncated_after_stores,
    generic_030_mapped_larger,
    generic_095_three_ways_at_once,
    generic_141_read_to_the_last_page,
    generic_208_direct_beside_a_mapping,
    generic_246_a_part_of_a_page,
    generic_247_mapped_and_direct_writes,
    generic_248_written_from_its_own_mapping,
    generic_340_pages_faulted_at_once,
    generic_346_stores_beside_writes,
    generic_354_stored_by_processes,
    generic_428_two_mappings_agree,
    generic_443_sources_that_are_not_there,
    generic_452_programs_run,
    generic_567_punched_under_a_mapping,
    generic_614_stores_take_blocks,
    generic_638_parts_that_overlap,
    generic_647_read_and_written_in_itself,
    generic_729_faults_in_direct_reads,
    generic_749_the_rest_of_the_last_page,
    generic_758_zeroed_under_a_mapping,
];

const P: u64 = PAGE as u64;

/// Stores in front of and behind a new end: what is cut off comes back as zeros.
fn generic_029_truncated_after_stores(g: &Ground) -> Done {
    for (n, (cut, grown)) in [(5120, 8192), (4096, 8192), (100, 5000), (4097, 12_288)].into_iter().enumerate() {
        let name = n.to_string();
        let file = g.file(&name, &[b'X'; 5 * PAGE])?;
        let map = Map::shared(&file, 0, 5 * PAGE)?;
        map.write(0, &[b'W'; 2 * PAGE]);
        file.set_len(cut)?;
        // A store behind the end, in the last page, is no part of the file. The kernel clears it for FUSE only when
        // the page leaves its memory, which a page with stores in it may do too late.
        map.put(cut as usize - 1, b'E');
        if cut % P != 0 && g.kind == Kind::Ext4 {
            map.put(cut as usize, b'B');
        }
        file.set_len(grown)?;
        let mut wanted = vec![b'W'; 2 * PAGE];
        wanted.resize(wanted.len().min(cut as usize), 0);
        wanted.resize(cut as usize, b'X');
        wanted[cut as usize - 1] = b'E';
        wanted.resize(grown as usize, 0);
        same(&map.read(0, grown as usize), &wanted);
        drop(map);
        holds(&g.at(&name), &wanted);
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        holds(&g.at(&name), &wanted);
    }
    Ok(())
}

/// A mapping that grows with its file keeps what was stored.
fn generic_030_mapped_larger(g: &Ground) -> Done {
    let file = g.file("file", &[1; PAGE])?;
    let mut map = Map::shared(&file, 0, PAGE)?;
    for pages in 2..20usize {
        map.put(0, pages as u8);
        file.set_len((pages * PAGE) as u64)?;
        map = map.resized(pages * PAGE)?;
        assert_eq!((map.get(0), map.get((pages - 1) * PAGE)), (pages as u8, 0));
        map.write((pages - 1) * PAGE, &[pages as u8; PAGE]);
    }
    let map = map.resized(PAGE)?;
    drop(map);
    let found = fs::read(g.at("file"))?;
    assert!((2..20).all(|page| found[(page - 1) * PAGE + 1] == page as u8), "every page has its number");
    Ok(())
}

/// Three writers of parts of their own: by a mapping, by the cache, past it.
fn generic_095_three_ways_at_once(g: &Ground) -> Done {
    let pages = 96;
    let file = g.file("file", &vec![0; pages * PAGE])?;
    let past = direct(&g.at("file"))?;
    std::thread::scope(|scope| {
        let mapped = scope.spawn(|| -> std::io::Result<()> {
            let map = Map::shared(&file, 0, pages * PAGE)?;
            (0..pages).step_by(3).for_each(|n| map.write(n * PAGE, &bytes(n as u64, PAGE)));
            map.sync(0, pages * PAGE)
        });
        let cached = scope
            .spawn(|| (1..pages).step_by(3).try_for_each(|n| file.write_all_at(&bytes(n as u64, PAGE), n as u64 * P)));
        let direct = (2..pages)
            .step_by(3)
            .try_for_each(|n| Map::holding(&bytes(n as u64, PAGE))?.write_to(0, PAGE, &past, n as u64 * P).map(drop));
        direct.and(mapped.join().expect("no panic")).and(cached.join().expect("no panic"))
    })?;
    holds(&g.at("file"), &(0..pages as u64).flat_map(|n| bytes(n, PAGE)).collect::<Vec<_>>());
    Ok(())
}

/// A mapping shows the file to its end, zeros to the end of the page, and nothing beyond.
fn generic_141_read_to_the_last_page(g: &Ground) -> Done {
    let file = g.file("file", &bytes(141, 2 * PAGE + 10))?;
    let map = Map::shared(&file, 0, 5 * PAGE)?;
    same(&map.read(0, 2 * PAGE + 10), &bytes(141, 2 * PAGE + 10));
    assert!(map.read(2 * PAGE + 10, PAGE - 10).iter().all(|byte| *byte == 0));
    assert_eq!(map.probe(3 * PAGE - 1)?, 0);
    fails(map.probe(3 * PAGE), Errno::FAULT);
    file.set_len(4 * P)?;
    assert_eq!(map.probe(3 * PAGE)?, 0);
    file.set_len(P)?;
    fails(map.probe(PAGE), Errno::FAULT);
    Ok(())
}

/// A direct write is seen by a mapping that had the page already.
fn generic_208_direct_beside_a_mapping(g: &Ground) -> Done {
    let file = g.file("file", &bytes(1, 4 * PAGE))?;
    let past = direct(&g.at("file"))?;
    let map = Map::shared(&file, 0, 4 * PAGE)?;
    for n in 0..40u64 {
        let at = (n % 4) as usize * PAGE;
        let _ = map.get(at);
        Map::holding(&bytes(n, PAGE))?.write_to(0, PAGE, &past, at as u64)?;
        same(&map.read(at, PAGE), &bytes(n, PAGE));
        map.put(at, n as u8);
        map.sync(at, PAGE)?;
        let buffer = Map::anonymous(PAGE)?;
        buffer.read_from(0, PAGE, &past, at as u64)?;
        assert_eq!(buffer.get(0), n as u8);
    }
    Ok(())
}

/// A store behind the end of a file of part of a page is not in the file when it grows.
fn generic_246_a_part_of_a_page(g: &Ground) -> Done {
    let file = g.file("file", &[1; 10])?;
    let map = Map::shared(&file, 0, PAGE)?;
    map.put(10, 99);
    map.put(PAGE - 1, 99);
    map.sync(0, PAGE)?;
    file.write_all_at(&[2; 10], 20)?;
    let wanted = [[1; 10], [0; 10], [2; 10]].concat();
    holds(&g.at("file"), &wanted);
    fadvise(&file, 0, None, Advice::DontNeed)?;
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// A thread writes directly, another by a mapping, each its own pages.
fn generic_247_mapped_and_direct_writes(g: &Ground) -> Done {
    let file = g.file("file", &vec![0; 64 * PAGE])?;
    let past = direct(&g.at("file"))?;
    let map = Map::shared(&file, 0, 64 * PAGE)?;
    std::thread::scope(|scope| {
        let mapped = scope.spawn(|| {
            (0..10).for_each(|round| (0..64).step_by(2).for_each(|n| map.write(n * PAGE, &[round + 1; PAGE])));
        });
        let buffer = Map::anonymous(PAGE)?;
        for round in 0..10 {
            buffer.write(0, &[round + 101; PAGE]);
            for n in (1..64).step_by(2) {
                buffer.write_to(0, PAGE, &past, n * P)?;
            }
        }
        mapped.join().expect("no panic");
        Ok::<(), std::io::Error>(())
    })?;
    match map.sync(0, 64 * PAGE) {
        // Where a direct write finds that the mapping has just touched a neighbour in the same folio of ext4's cache,
        // Linux warns of what it may mean for the content, once.
        Err(error) if g.kind == Kind::Ext4 && error.raw_os_error() == Some(libc::EIO) => map.sync(0, 64 * PAGE)?,
        synced => synced?,
    }
    let wanted: Vec<u8> = (0..64).flat_map(|n| if n % 2 == 0 { [10; PAGE] } else { [110; PAGE] }).collect();
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// A write whose source is a mapping of the page written to, which is not in memory.
fn generic_248_written_from_its_own_mapping(g: &Ground) -> Done {
    let file = g.file("file", &bytes(248, 4 * PAGE))?;
    for (from, to) in [(0, 0), (PAGE, PAGE + 1025), (PAGE, 0), (0, 2 * PAGE)] {
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        let before = fs::read(g.at("file"))?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        let map = Map::shared(&file, 0, 4 * PAGE)?;
        assert_eq!(map.write_to(from, 512, &file, to as u64)?, 512);
        let mut wanted = before;
        wanted.copy_within(from..from + 512, to);
        holds(&g.at("file"), &wanted);
    }
    Ok(())
}

/// Threads store to the same pages for the first time: no store is lost, in holes and in reserved space.
fn generic_340_pages_faulted_at_once(g: &Ground) -> Done {
    for reserved in [false, true] {
        let (pages, name) = (512, format!("{reserved}"));
        let file = g.file(&name, b"")?;
        file.set_len(pages as u64 * P)?;
        if reserved {
            fallocate(&file, FallocateFlags::empty(), 0, pages as u64 * P)?;
        }
        let map = Map::shared(&file, 0, pages * PAGE)?;
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let map = &map;
                scope.spawn(move || (0..pages).for_each(|page| map.put(page * PAGE + thread * 64, thread as u8 + 1)));
            }
        });
        drop(map);
        file.sync_all()?;
        fadvise(&file, 0, None, Advice::DontNeed)?;
        let found = fs::read(g.at(&name))?;
        let all = (0..pages).all(|page| (0..4).all(|t| found[page * PAGE + t * 64] == t as u8 + 1));
        assert!(all, "a store is lost, reserved: {reserved}");
    }
    Ok(())
}

/// Stores and writes to the same pages, at places of their own.
fn generic_346_stores_beside_writes(g: &Ground) -> Done {
    let pages = 256;
    let file = g.file("file", b"")?;
    file.set_len(pages as u64 * P)?;
    let map = Map::shared(&file, 0, pages * PAGE)?;
    std::thread::scope(|scope| {
        let stores = scope.spawn(|| (0..pages).for_each(|page| map.write(page * PAGE, &[1; 64])));
        let writes = (0..pages).try_for_each(|page| file.write_all_at(&[2; 64], page as u64 * P + 2048));
        stores.join().expect("no panic");
        writes
    })?;
    drop(map);
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    let mut page = vec![0; PAGE];
    page[..64].fill(1);
    page[2048..2112].fill(2);
    holds(&g.at("file"), &page.repeat(pages));
    Ok(())
}

/// Threads that each map the file on their own, store and sync in turn.
fn generic_354_stored_by_processes(g: &Ground) -> Done {
    let file = g.file("file", &vec![0; 64 * PAGE])?;
    std::thread::scope(|scope| {
        let busy = |thread: usize| {
            let file = &file;
            move || -> std::io::Result<()> {
                let map = Map::shared(file, 0, 64 * PAGE)?;
                for n in (thread..64).step_by(4) {
                    map.write(n * PAGE, &bytes(n as u64, PAGE));
                    map.sync(n * PAGE, PAGE)?;
                }
                Ok(())
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(busy(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    holds(&g.at("file"), &(0..64).flat_map(|n| bytes(n, PAGE)).collect::<Vec<_>>());
    Ok(())
}

/// A private mapping keeps its stores to itself; two shared ones agree; what is written shows in both.
fn generic_428_two_mappings_agree(g: &Ground) -> Done {
    let file = g.file("file", &[1; 2 * PAGE])?;
    let (a, b) = (Map::shared(&file, 0, 2 * PAGE)?, Map::shared(&file, P, PAGE)?);
    let own = Map::of(&file, 0, 2 * PAGE, MapFlags::PRIVATE, ProtFlags::READ | ProtFlags::WRITE)?;
    own.put(0, 9);
    a.put(PAGE, 2);
    file.write_all_at(&[3], 5)?;
    assert_eq!((b.get(0), own.get(PAGE), a.get(5), own.get(0), a.get(0)), (2, 2, 3, 9, 1));
    a.protect(MprotectFlags::READ)?;
    a.protect(MprotectFlags::READ | MprotectFlags::WRITE)?;
    a.put(0, 4);
    drop((a, b, own));
    let found = fs::read(g.at("file"))?;
    assert_eq!((found[0], found[5], found[PAGE]), (4, 3, 2));
    // Only to read: no store is allowed later.
    let map = Map::of(fs::File::open(g.at("file"))?, 0, PAGE, MapFlags::SHARED, ProtFlags::READ)?;
    fails(map.protect(MprotectFlags::READ | MprotectFlags::WRITE), Errno::ACCESS);
    Ok(())
}

/// A write from memory of which the end is not there is short, and one from nowhere fails.
fn generic_443_sources_that_are_not_there(g: &Ground) -> Done {
    let source = g.file("source", &bytes(443, PAGE))?;
    let map = Map::shared(&source, 0, 3 * PAGE)?;
    let file = g.file("file", b"")?;
    let wrote = map.write_to(0, 3 * PAGE, &file, 0)?;
    assert_eq!(wrote, PAGE);
    fails(map.write_to(2 * PAGE, 10, &file, 0), Errno::FAULT);
    holds(&g.at("file"), &bytes(443, PAGE));
    fails(map.read_from(2 * PAGE, 10, &file, 0), Errno::FAULT);
    Ok(())
}

/// A program on the file system runs, and cannot be written meanwhile.
fn generic_452_programs_run(g: &Ground) -> Done {
    copy_program("/bin/sleep", &g.at("sleep"));
    let mut child = std::process::Command::new(g.at("sleep")).arg("30").spawn()?;
    let busy = rw(&g.at("sleep"));
    child.kill()?;
    child.wait()?;
    fails(busy, Errno::TXTBSY);
    let ran = std::process::Command::new(g.at("sleep")).arg("0").status()?;
    assert!(ran.success());
    rw(&g.at("sleep"))?;
    Ok(())
}

fn under_a_mapping(g: &Ground, how: FallocateFlags) -> Done {
    let file = g.file("file", &[b'X'; 5 * PAGE])?;
    let map = Map::shared(&file, 0, 5 * PAGE)?;
    let mut wanted = vec![b'X'; 5 * PAGE];
    for (offset, len) in [(2048u64, 4096u64), (3 * P, P), (4 * P + 1, 100)] {
        map.write(offset as usize, &vec![b'W'; len as usize]);
        map.put(offset as usize - 1, b'b');
        map.put((offset + len) as usize, b'e');
        fallocate(&file, how, offset, len)?;
        wanted[offset as usize..(offset + len) as usize].fill(0);
        wanted[offset as usize - 1] = b'b';
        wanted[(offset + len) as usize] = b'e';
        same(&map.read(0, 5 * PAGE), &wanted);
    }
    drop(map);
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// Stores about a hole stay, and stores in it are gone.
fn generic_567_punched_under_a_mapping(g: &Ground) -> Done {
    under_a_mapping(g, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE)
}

/// Stores about a zeroed range stay, and stores in it are gone.
fn generic_758_zeroed_under_a_mapping(g: &Ground) -> Done {
    under_a_mapping(g, FallocateFlags::ZERO_RANGE)
}

/// Stores into a file of holes take blocks, at the latest when they are synced.
fn generic_614_stores_take_blocks(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    file.set_len(64 << 10)?;
    let map = Map::shared(&file, 0, 64 << 10)?;
    map.write(0, &[0xab; 64 << 10]);
    map.sync(0, 64 << 10)?;
    drop(map);
    assert_eq!(of(&g.at("file"))?.blocks() * 512, 64 << 10);
    Ok(())
}

/// Writes from a mapping of the file itself, over pages that the source has, too, in several parts.
fn generic_638_parts_that_overlap(g: &Ground) -> Done {
    let file = g.file("file", &bytes(638, 64 * PAGE))?;
    let mut wanted = bytes(638, 64 * PAGE);
    let map = Map::shared(&file, 0, 64 * PAGE)?;
    for n in 0..60 {
        fadvise(&file, 0, None, Advice::DontNeed)?;
        let (from, to) = (n * PAGE, n * PAGE + 2 * PAGE + 9);
        assert_eq!(map.write_to(from, PAGE, &file, to as u64)?, PAGE);
        wanted.copy_within(from..from + PAGE, to);
    }
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// Reads and writes, cached and past it, whose memory is a mapping of the same page.
fn generic_647_read_and_written_in_itself(g: &Ground) -> Done {
    for past in [false, true] {
        let name = format!("{past}");
        let file = g.file(&name, &bytes(647, 2 * PAGE))?;
        file.sync_all()?;
        let other = if past { direct(&g.at(&name))? } else { rw(&g.at(&name))? };
        let map = Map::shared(&file, 0, 2 * PAGE)?;
        assert_eq!(map.read_from(0, PAGE, &other, 0)?, PAGE);
        assert_eq!(map.write_to(0, PAGE, &other, 0)?, PAGE);
        assert_eq!(map.write_to(PAGE, PAGE, &other, 0)?, PAGE);
        drop(map);
        let half = &bytes(647, 2 * PAGE)[PAGE..];
        holds(&g.at(&name), &[half, half].concat());
    }
    Ok(())
}

/// A direct read into memory that is not in memory yet.
fn generic_729_faults_in_direct_reads(g: &Ground) -> Done {
    let file = direct(&g.at("file"))?;
    Map::holding(&bytes(729, 64 * PAGE))?.write_to(0, 64 * PAGE, &file, 0)?;
    let target = g.file("target", b"")?;
    target.set_len(64 * P)?;
    let map = Map::shared(&target, 0, 64 * PAGE)?;
    assert_eq!(map.read_from(0, 64 * PAGE, &file, 0)?, 64 * PAGE);
    drop(map);
    holds(&g.at("target"), &bytes(729, 64 * PAGE));
    Ok(())
}

/// Behind the end, in the last page: zeros, and stores that nobody else ever reads by read(2).
fn generic_749_the_rest_of_the_last_page(g: &Ground) -> Done {
    for len in [1usize, 511, 4095, 4097, 10_000] {
        let name = len.to_string();
        let file = g.file(&name, &bytes(len as u64, len))?;
        let pages = len.div_ceil(PAGE);
        let map = Map::shared(&file, 0, (pages + 1) * PAGE)?;
        same(&map.read(0, len), &bytes(len as u64, len));
        assert!(map.read(len, pages * PAGE - len).iter().all(|byte| *byte == 0));
        map.put(pages * PAGE - 1, 7);
        map.sync(0, pages * PAGE)?;
        fails(map.probe(pages * PAGE), Errno::FAULT);
        holds(&g.at(&name), &bytes(len as u64, len));
        assert_eq!(file.metadata()?.len(), len as u64);
    }
    Ok(())
}
