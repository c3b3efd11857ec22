//! Full volumes: what is refused, what stays, and that space comes back.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use crate::system::Map;
use pocketstone_testing::wait::LONG;
use rustix::fs::{FallocateFlags, OFlags, XattrFlags, fallocate};
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

pub const CASES: &[Case] = cases![
    generic_015_filled_and_emptied,
    generic_027_small_appends_until_full,
    generic_102_filled_again_and_again,
    generic_103_attributes_when_full,
    generic_204_small_files_fill_it,
    generic_213_too_much_is_reserved,
    generic_224_many_writers_fill_it,
    generic_226_full_and_direct,
    generic_256_holes_when_full,
    generic_273_copied_until_full,
    generic_274_written_into_reserved_space,
    generic_275_one_block_less,
    generic_312_reserved_twice,
    generic_371_written_and_reserved,
    generic_416_free_in_pieces,
    generic_558_all_inodes_are_used,
    generic_619_threads_until_full,
    generic_626_whiteouts_without_inodes,
];

fn free(g: &Ground) -> Result<u64, Fault> {
    Ok(rustix::fs::statvfs(g.top).map(|found| found.f_bavail * found.f_frsize)?)
}

/// Waits until so much is free again.
#[track_caller]
fn comes_back(g: &Ground, wanted: u64) {
    let enough = || free(g).ok().filter(|free| *free >= wanted);
    let back = pocketstone_tests::command::poll(LONG, enough);
    assert!(back.is_some(), "{} bytes are free, of {wanted} before", free(g).unwrap_or(0));
}

/// Writes pieces until there is no space; every byte up to there is right.
fn fill(path: &Path, piece: usize) -> Result<u64, Fault> {
    let mut file = open(path, OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND)?;
    let mut written = 0;
    loop {
        match file.write(&bytes(written, piece)) {
            Ok(0) => panic!("nothing is written, and no error"),
            Ok(some) => written += some as u64,
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
                // What is delayed comes out now.
                let _ = file.sync_all();
                return Ok(written);
            }
        }
    }
}

/// How much is lost to what cannot be told of beforehand, in the worst case.
const SLACK: u64 = 3 << 20;

/// Filled to the end, and emptied: as much is free as before.
fn generic_015_filled_and_emptied(g: &Ground) -> Done {
    let before = free(g)?;
    let written = fill(&g.at("filler"), 1 << 20)?;
    assert!(written + SLACK >= before, "{written} of {before} bytes could be written");
    assert_eq!(of(&g.at("filler"))?.len(), written);
    fails(fs::write(g.at("another"), bytes(1, 2 << 20)), Errno::NOSPC);
    fs::remove_file(g.at("filler"))?;
    let _ = fs::remove_file(g.at("another"));
    comes_back(g, before - (1 << 20));
    Ok(())
}

/// Many small appends to several files until it is full; all that was written is there.
fn generic_027_small_appends_until_full(g: &Ground) -> Done {
    let before = free(g)?;
    fill(&g.at("filler"), 1 << 20)?;
    File::options().write(true).open(g.at("filler"))?.set_len(of(&g.at("filler"))?.len() - (4 << 20))?;
    let written: Vec<u64> =
        (0..8).map(|n| fill(&g.at(&format!("small-{n}")), 9000)).collect::<Result<Vec<_>, Fault>>()?;
    assert!(written.iter().sum::<u64>() > 1 << 20, "{written:?}");
    for (n, written) in written.iter().enumerate() {
        let found = fs::read(g.at(&format!("small-{n}")))?;
        assert_eq!(found.len() as u64, *written);
        let mut at = 0;
        while at + 9000 <= found.len() {
            same(&found[at..at + 9000], &bytes(at as u64, 9000));
            at += 9000;
        }
    }
    for name in names(&g.folder)? {
        fs::remove_file(g.at(&name))?;
    }
    comes_back(g, before - (1 << 20));
    Ok(())
}

/// Filled by one large file and emptied, several times: as much fits the last time as the first.
fn generic_102_filled_again_and_again(g: &Ground) -> Done {
    let mut first = 0;
    for round in 0..6 {
        let size = free(g)? * 8 / 10;
        let file = g.file("file", b"")?;
        for at in (0..size).step_by(1 << 20) {
            file.write_all_at(&[round; 1 << 20], at)?;
        }
        first = if round == 0 { size } else { first };
        assert!(size + SLACK >= first, "{first} bytes at first, {size} in round {round}");
        drop(file);
        fs::remove_file(g.at("file"))?;
        comes_back(g, size);
    }
    Ok(())
}

/// Attributes on a full volume: there, or refused for want of space, and never lost.
fn generic_103_attributes_when_full(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    let set = |name: &str, value: &[u8]| rustix::fs::setxattr(g.at("file"), name, value, XattrFlags::empty());
    set("user.old", b"old")?;
    fill(&g.at("filler"), 1 << 20)?;
    fill(&g.at("filler"), 4096)?;
    for n in 0..40 {
        match set(&format!("user.{n}"), &[1; 1000]) {
            Ok(()) | Err(Errno::NOSPC | Errno::TOOBIG) => {}
            Err(error) => return Err(error.into()),
        }
    }
    let mut found = [0; 3];
    rustix::fs::getxattr(g.at("file"), "user.old", &mut found[..])?;
    assert_eq!(&found, b"old");
    Ok(())
}

/// Small files until it is full: each is whole or refused.
fn generic_204_small_files_fill_it(g: &Ground) -> Done {
    fill(&g.at("filler"), 1 << 20)?;
    let large = of(&g.at("filler"))?.len();
    rw(&g.at("filler"))?.set_len(large - (8 << 20))?;
    let mut count = 0;
    loop {
        let wrote = File::create_new(g.at(&count.to_string())).and_then(|mut file| file.write_all(&bytes(count, 4000)));
        match wrote {
            Ok(()) => count += 1,
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => break,
            Err(error) => return Err(error.into()),
        }
    }
    assert!(count > 500, "only {count} files");
    (0..count).step_by(37).for_each(|n| holds(&g.at(&n.to_string()), &bytes(n, 4000)));
    Ok(())
}

/// More than there is cannot be reserved; nothing has changed then.
fn generic_213_too_much_is_reserved(g: &Ground) -> Done {
    let before = free(g)?;
    let file = g.file("file", &bytes(213, PAGE))?;
    for how in [FallocateFlags::empty(), FallocateFlags::KEEP_SIZE] {
        fails(fallocate(&file, how, 0, before + (64 << 20)), Errno::NOSPC);
        // ext4 grows the file as far as there is space.
        assert!(g.kind == Kind::Ext4 || file.metadata()?.len() == PAGE as u64);
    }
    // ext4 keeps what it could reserve; cutting gives it back.
    file.set_len(PAGE as u64)?;
    comes_back(g, before - (1 << 20));
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, before / 2)?;
    holds(&g.at("file"), &bytes(213, PAGE));
    Ok(())
}

/// Many write at once until it is full; then half is removed, and there is space again.
fn generic_224_many_writers_fill_it(g: &Ground) -> Done {
    let before = free(g)?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..6).map(|n| scope.spawn(move || fill(&g.at(&n.to_string()), 256 << 10))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic").map(drop))
    })?;
    // The half that got more: how much each wrote is a matter of whose thread had a processor.
    let bytes_of = |first: usize| -> Result<u64, Fault> {
        (first..6).step_by(2).try_fold(0, |sum, n| Ok(sum + of(&g.at(&n.to_string()))?.len()))
    };
    let first = usize::from(bytes_of(1)? > bytes_of(0)?);
    for n in (first..6).step_by(2) {
        fs::remove_file(g.at(&n.to_string()))?;
    }
    comes_back(g, before / 5);
    let file = g.file("new", b"")?;
    (0..4).try_for_each(|n| file.write_all_at(&bytes(n, 1 << 20), n << 20))?;
    Ok(())
}

/// Full, by the cache and past it, again and again.
fn generic_226_full_and_direct(g: &Ground) -> Done {
    let before = free(g)?;
    let buffer = Map::holding(&bytes(226, 1 << 20))?;
    for _ in 0..2 {
        let file = direct(&g.at("direct"))?;
        let mut at = 0;
        let error = loop {
            match buffer.write_to(0, 1 << 20, &file, at) {
                Ok(some) => at += some as u64,
                Err(error) => break error,
            }
        };
        assert_eq!(error.raw_os_error(), Some(libc::ENOSPC), "{error}");
        assert!(at + SLACK >= before, "{at} of {before} bytes");
        drop(file);
        fs::remove_file(g.at("direct"))?;
        comes_back(g, before - (1 << 20));
    }
    Ok(())
}

/// On a full volume a hole can be punched, and its space be used.
fn generic_256_holes_when_full(g: &Ground) -> Done {
    fill(&g.at("filler"), 1 << 20)?;
    fill(&g.at("filler"), 4096)?;
    let file = rw(&g.at("filler"))?;
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let before = free(g)?;
    for n in 0..8 {
        fallocate(&file, punch, (4 + 4 * n) << 20, 2 << 20)?;
    }
    comes_back(g, before + (14 << 20));
    let new = g.file("new", b"")?;
    (0..8).try_for_each(|n| new.write_all_at(&bytes(n, 1 << 20), n << 20))?;
    holds(&g.at("new"), &(0..8).flat_map(|n| bytes(n, 1 << 20)).collect::<Vec<_>>());
    Ok(())
}

/// A folder of files is copied by several until there is no space, and the copies are removed.
fn generic_273_copied_until_full(g: &Ground) -> Done {
    let before = free(g)?;
    let origin = g.directory("origin")?;
    for n in 0..40 {
        fs::write(origin.join(n.to_string()), bytes(n, 100_000))?;
    }
    std::thread::scope(|scope| {
        let busy = |thread: u32| {
            let origin = &origin;
            move || -> Result<(), Fault> {
                let folder = g.directory(&format!("copy-{thread}"))?;
                for n in 0..1000 {
                    match fs::copy(origin.join((n % 40).to_string()), folder.join(n.to_string())) {
                        Ok(_) => {}
                        Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => return Ok(()),
                        Err(error) => return Err(error.into()),
                    }
                }
                panic!("it is never full");
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(busy(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    (0..40).for_each(|n| holds(&origin.join(n.to_string()), &bytes(n, 100_000)));
    for name in names(&g.folder)? {
        fs::remove_dir_all(g.at(&name))?;
    }
    comes_back(g, before - (2 << 20));
    Ok(())
}

/// What was reserved can be written when nothing else can.
fn generic_274_written_into_reserved_space(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    fallocate(&file, FallocateFlags::KEEP_SIZE, 0, 8 << 20)?;
    let inside = g.file("inside", b"")?;
    fallocate(&inside, FallocateFlags::empty(), 0, 4 << 20)?;
    fill(&g.at("filler"), 1 << 20)?;
    fill(&g.at("filler"), 4096)?;
    for n in (0..4).rev() {
        inside.write_all_at(&bytes(n, 1 << 20), n << 20)?;
    }
    inside.sync_all()?;
    holds(&g.at("inside"), &(0..4).flat_map(|n| bytes(n, 1 << 20)).collect::<Vec<_>>());
    for n in 0..8 {
        file.write_all_at(&bytes(n, 1 << 20), n << 20)?;
    }
    file.sync_all()?;
    holds(&g.at("file"), &(0..8).flat_map(|n| bytes(n, 1 << 20)).collect::<Vec<_>>());
    Ok(())
}

/// A write that does not fit as a whole: what was written is there, what was there stays.
fn generic_275_one_block_less(g: &Ground) -> Done {
    let kept = bytes(275, 200_000);
    fs::write(g.at("kept"), &kept)?;
    fill(&g.at("filler"), 1 << 20)?;
    let file = g.file("file", b"").or_else(|_| -> Result<File, Fault> {
        fs::remove_file(g.at("filler"))?;
        g.file("again", b"")
    })?;
    let mut written = 0;
    while let Ok(some) = file.write_at(&bytes(written, 8192), written) {
        written += some as u64;
    }
    assert_eq!(file.metadata()?.len(), written);
    holds(&g.at("kept"), &kept);
    // Overwriting needs nothing new.
    rw(&g.at("kept"))?.write_all_at(&[9; 1000], 50_000)?;
    Ok(())
}

/// Reserving what is reserved already needs no space.
fn generic_312_reserved_twice(g: &Ground) -> Done {
    let before = free(g)?;
    let file = g.file("file", b"")?;
    let half = before / 2 / (1 << 20) * (1 << 20);
    fallocate(&file, FallocateFlags::empty(), 0, half)?;
    let left = free(g)?;
    for _ in 0..3 {
        fallocate(&file, FallocateFlags::empty(), 0, half)?;
    }
    assert_eq!(free(g)?, left);
    drop(file);
    fs::remove_file(g.at("file"))?;
    comes_back(g, before - (1 << 20));
    Ok(())
}

/// Some write and some reserve until there is no space; removed, all of it comes back.
fn generic_371_written_and_reserved(g: &Ground) -> Done {
    let before = free(g)?;
    for _ in 0..2 {
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| fill(&g.at("written"), 512 << 10));
            let file = g.file("reserved", b"")?;
            let mut at = 0;
            while fallocate(&file, FallocateFlags::empty(), at, 512 << 10).is_ok() {
                at += 512 << 10;
            }
            writer.join().expect("no panic").map(drop)
        })?;
        fs::remove_file(g.at("written"))?;
        fs::remove_file(g.at("reserved"))?;
        comes_back(g, before - (1 << 20));
    }
    Ok(())
}

/// Free space in small pieces between files is found by a file of many pieces.
fn generic_416_free_in_pieces(g: &Ground) -> Done {
    let mut count = 0u64;
    while fs::write(g.at(&format!("f{count}")), bytes(count, 512 << 10)).is_ok() {
        count += 1;
    }
    let _ = fs::remove_file(g.at(&format!("f{count}")));
    for n in (0..count).step_by(2) {
        fs::remove_file(g.at(&format!("f{n}")))?;
    }
    comes_back(g, count / 2 * (500 << 10));
    let space = count / 2 * (512 << 10);
    let (file, mut written) = (g.file("large", b"")?, 0);
    while written < space {
        match file.write_at(&bytes(written, 256 << 10), written) {
            Ok(some) => written += some as u64,
            Err(_) => break,
        }
    }
    (1..count).step_by(2).take(20).for_each(|n| holds(&g.at(&format!("f{n}")), &bytes(n, 512 << 10)));
    assert!(written * 10 >= space * 9, "only {written} of {space} free bytes can be used");
    Ok(())
}

/// Threads that write files of their own until their share is used: it fits.
fn generic_619_threads_until_full(g: &Ground) -> Done {
    let share = free(g)? * 7 / 10 / 4;
    std::thread::scope(|scope| {
        let busy = |thread: u64| {
            move || -> std::io::Result<()> {
                let mut used = 0;
                let mut numbers = Numbers::new(thread);
                let mut n = 0;
                while used < share {
                    let len = (64 << 10) + numbers.below(200_000);
                    fs::write(g.at(&format!("{thread}-{n}")), bytes(thread, len))?;
                    used += len.div_ceil(PAGE) as u64 * PAGE as u64;
                    n += 1;
                }
                Ok(())
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(busy(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    Ok(())
}

/// Makes files until there is no inode or no space, and says how many.
fn use_inodes(g: &Ground) -> Result<u32, Fault> {
    for n in 0..40_000 {
        match File::create_new(g.at(&format!("inode-{n}"))) {
            Ok(_) => {}
            Err(error) if error.raw_os_error() == Some(libc::ENOSPC) => return Ok(n),
            Err(error) => return Err(error.into()),
        }
    }
    Ok(40_000)
}

/// As many files as there are inodes; the names of all are there, and as many fit again.
fn generic_558_all_inodes_are_used(g: &Ground) -> Done {
    let count = use_inodes(g)?;
    assert!(count > 1000 && names(&g.folder)?.len() == count as usize, "{count} files");
    for n in 0..count {
        fs::remove_file(g.at(&format!("inode-{n}")))?;
    }
    let again = use_inodes(g)?;
    assert!(again + count / 10 >= count, "{count} files at first, {again} then");
    Ok(())
}

/// A rename with a whiteout that finds no inode is refused, and changes nothing; one that finds one does all.
fn generic_626_whiteouts_without_inodes(g: &Ground) -> Done {
    fs::write(g.at("from"), b"text")?;
    use_inodes(g)?;
    let (from, to) = (g.at("from"), g.at("to"));
    let flags = rustix::fs::RenameFlags::WHITEOUT;
    match rustix::fs::renameat_with(rustix::fs::CWD, &from, rustix::fs::CWD, &to, flags) {
        Err(Errno::NOSPC) => {
            holds(&from, b"text");
            assert!(of(&to).is_err());
        }
        Err(error) => return Err(error.into()),
        Ok(()) => {
            holds(&to, b"text");
            assert!(!of(&from)?.is_file());
        }
    }
    Ok(())
}
