//! Times: what changes which, and how far they reach.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use crate::system::Map;
use rustix::fs::{AtFlags, CWD, FallocateFlags, OFlags, StatxFlags, Timespec, Timestamps, XattrFlags, fallocate};
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::{FileExt, MetadataExt, chown};
use std::path::Path;

pub const CASES: &[Case] = cases![
    generic_003_reading,
    generic_080_mapped_writing,
    generic_192_access_times_last,
    generic_215_mapped_writing_and_size,
    generic_221_set_to_numbers,
    generic_236_links,
    generic_258_before_1970,
    generic_277_flags,
    generic_307_lists_of_rights,
    generic_313_truncating,
    generic_402_far_times,
    generic_423_all_of_statx,
    generic_528_birth,
    generic_728_attributes,
    generic_755_one_link_less,
];

type Time = (i64, i64);

/// atime, mtime and ctime.
fn times(path: &Path) -> std::io::Result<[Time; 3]> {
    of(path).map(|f| [(f.atime(), f.atime_nsec()), (f.mtime(), f.mtime_nsec()), (f.ctime(), f.ctime_nsec())])
}

/// Which of atime, mtime and ctime something changes; none goes back.
fn changed(path: &Path, act: impl FnOnce() -> Done) -> Result<[bool; 3], Fault> {
    let before = times(path)?;
    tick();
    act()?;
    let after = times(path)?;
    assert!(before.iter().zip(&after).all(|(before, after)| before <= after), "{before:?} {after:?}");
    Ok([0, 1, 2].map(|n| before[n] != after[n]))
}

fn set(path: &Path, access: Timespec, modification: Timespec) -> rustix::io::Result<()> {
    let times = Timestamps { last_access: access, last_modification: modification };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW)
}

fn at(tv_sec: i64, tv_nsec: i64) -> Timespec {
    Timespec { tv_sec, tv_nsec }
}

/// Reading changes atime as relatime has it; chmod changes ctime alone, writing mtime and ctime.
fn generic_003_reading(g: &Ground) -> Done {
    let mut file = g.file("file", b"text")?;
    let path = g.at("file");
    let mut read = || -> Done {
        let mut byte = [0];
        file.read_exact(&mut byte)?;
        Ok(())
    };
    tick();
    // The first read after a change counts, and no other for a day.
    fs::write(&path, b"text again")?;
    assert_eq!(changed(&path, &mut read)?, [true, false, false]);
    assert_eq!(changed(&path, &mut read)?, [false, false, false]);
    assert_eq!(changed(&path, || Ok(chmod(&path, 0o600)?))?, [false, false, true]);
    assert_eq!(changed(&path, || Ok(fs::write(&path, b"other")?))?, [false, true, true]);
    let directory = g.directory("directory")?;
    assert_eq!(changed(&directory, || Ok(fs::write(directory.join("new"), b"")?))?, [false, true, true]);
    assert_eq!(changed(&directory, || names(&directory).map(drop).map_err(Fault::from))?, [true, false, false]);
    Ok(())
}

/// A store to a mapping changes mtime and ctime, at the latest with msync.
fn generic_080_mapped_writing(g: &Ground) -> Done {
    let file = g.file("file", &[1; PAGE])?;
    let map = Map::shared(&file, 0, PAGE)?;
    let found = changed(&g.at("file"), || {
        map.put(7, 2);
        Ok(map.sync(0, PAGE)?)
    })?;
    assert_eq!(found[1..], [true, true]);
    Ok(())
}

/// An access time that was noted is there after the kernel forgot the inode.
fn generic_192_access_times_last(g: &Ground) -> Done {
    fs::write(g.at("file"), b"text")?;
    tick();
    holds(&g.at("file"), b"text");
    let before = times(&g.at("file"))?;
    assert!(before[0] > before[1]);
    File::open(&g.folder)?.sync_all()?;
    fs::write("/proc/sys/vm/drop_caches", "2")?;
    assert_eq!(times(&g.at("file"))?, before);
    Ok(())
}

/// The same for a file that was made larger before.
fn generic_215_mapped_writing_and_size(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    file.set_len(3 * PAGE as u64)?;
    let map = Map::shared(&file, 0, 3 * PAGE)?;
    map.put(0, 1);
    map.sync(0, PAGE)?;
    let found = changed(&g.at("file"), || {
        map.put(2 * PAGE, 2);
        map.sync(0, 3 * PAGE)?;
        Ok(())
    })?;
    assert_eq!(found[1..], [true, true]);
    Ok(())
}

/// Setting times sets them exactly, and changes ctime to now.
fn generic_221_set_to_numbers(g: &Ground) -> Done {
    let path = g.at("file");
    fs::write(&path, b"")?;
    let before = times(&path)?[2];
    tick();
    set(&path, at(1_000_000_000, 123_456_789), at(2_000_000_000, 987_654_321))?;
    let [access, modification, change] = times(&path)?;
    assert_eq!([access, modification], [(1_000_000_000, 123_456_789), (2_000_000_000, 987_654_321)]);
    assert!(change > before);
    set(&path, at(0, rustix::fs::UTIME_OMIT), at(5, 6))?;
    assert_eq!(times(&path)?[..2], [(1_000_000_000, 123_456_789), (5, 6)]);
    let change = times(&path)?[2];
    tick();
    set(&path, at(0, rustix::fs::UTIME_OMIT), at(0, rustix::fs::UTIME_OMIT))?;
    assert_eq!(times(&path)?[2], change, "nothing is set, so nothing changes");
    Ok(())
}

/// A new link changes the ctime of all of them.
fn generic_236_links(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    let found = changed(&g.at("file"), || Ok(fs::hard_link(g.at("file"), g.at("link"))?))?;
    assert_eq!(found, [false, false, true]);
    assert_eq!(times(&g.at("file"))?, times(&g.at("link"))?);
    Ok(())
}

fn forgotten_and_found(g: &Ground, path: &Path, modification: Timespec) -> Done {
    set(path, at(0, rustix::fs::UTIME_OMIT), modification)?;
    let wanted = (modification.tv_sec, modification.tv_nsec);
    assert_eq!(times(path)?[1], wanted);
    File::open(&g.folder)?.sync_all()?;
    fs::write("/proc/sys/vm/drop_caches", "2")?;
    Ok(assert_eq!(times(path)?[1], wanted))
}

/// Times before 1970.
fn generic_258_before_1970(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    for seconds in [-1, -315_593_940, -2_147_483_648] {
        forgotten_and_found(g, &g.at("file"), at(seconds, 0))?;
        // The first second of all that ext4 can hold has no parts there.
        let parts = if seconds == -2_147_483_648 { 0 } else { 999_999_999 };
        forgotten_and_found(g, &g.at("file"), at(seconds, parts))?;
    }
    Ok(())
}

/// Times beyond what 31 bits count.
fn generic_402_far_times(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    // What ext4 can hold with inodes of 256 bytes: to the year 2446.
    for seconds in [0, 2_147_483_647, 2_147_483_648, 4_294_967_296, 7_500_000_000] {
        forgotten_and_found(g, &g.at("file"), at(seconds, 1))?;
    }
    Ok(())
}

/// Setting a flag changes ctime.
fn generic_277_flags(g: &Ground) -> Done {
    use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};
    let file = g.file("file", b"")?;
    let flags = ioctl_getflags(&file)?;
    let found = changed(&g.at("file"), || Ok(ioctl_setflags(&file, flags | IFlags::APPEND)?))?;
    let mask = found;
    ioctl_setflags(&file, flags)?;
    assert_eq!(mask, [false, false, true]);
    Ok(())
}

/// A new list of rights changes ctime.
fn generic_307_lists_of_rights(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    let list = crate::attributes::acl_entries(&[(1, 6, 0), (2, 6, NOBODY), (4, 4, 0), (16, 6, 0), (32, 4, 0)]);
    let found = changed(&g.at("file"), || {
        Ok(rustix::fs::setxattr(g.at("file"), "system.posix_acl_access", &list, XattrFlags::empty())?)
    })?;
    assert_eq!(found, [false, false, true]);
    Ok(())
}

/// Truncating changes mtime and ctime, up, down and to nothing; ftruncate, truncate and O_TRUNC do.
fn generic_313_truncating(g: &Ground) -> Done {
    let file = g.file("file", &[1; 5000])?;
    let path = g.at("file");
    for size in [6000, 100, 0, 1] {
        assert_eq!(changed(&path, || Ok(file.set_len(size)?))?, [false, true, true], "to {size}");
    }
    assert_eq!(changed(&path, || Ok(drop(open(&path, OFlags::WRONLY | OFlags::TRUNC)?)))?, [false, true, true]);
    let allocate = || Ok(fallocate(&file, FallocateFlags::empty(), 0, 9000)?);
    assert_eq!(changed(&path, allocate)?, [false, true, true], "fallocate");
    Ok(())
}

/// statx says what stat says, and its times do not go back when things change.
fn generic_423_all_of_statx(g: &Ground) -> Done {
    let file = g.file("file", &[1; 10_000])?;
    let path = g.at("file");
    let ask = |flags: AtFlags| rustix::fs::statx(CWD, &path, flags, StatxFlags::BASIC_STATS);
    for flags in [AtFlags::empty(), AtFlags::STATX_FORCE_SYNC, AtFlags::STATX_DONT_SYNC] {
        let (found, known) = (ask(flags)?, of(&path)?);
        assert!(StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BASIC_STATS));
        assert_eq!((found.stx_ino, found.stx_size, u64::from(found.stx_nlink)), (known.ino(), 10_000, 1));
        assert_eq!((u32::from(found.stx_mode), found.stx_blocks), (known.mode(), known.blocks()));
        let modified = (found.stx_mtime.tv_sec, i64::from(found.stx_mtime.tv_nsec));
        assert_eq!(modified, (known.mtime(), known.mtime_nsec()));
        tick();
        file.write_all_at(b"x", 0)?;
        let later = ask(flags)?;
        // Who asks not to be told the newest may be told what is known.
        assert!(
            flags == AtFlags::STATX_DONT_SYNC
                || (later.stx_mtime.tv_sec, i64::from(later.stx_mtime.tv_nsec)) > modified,
            "{flags:?}"
        );
    }
    let empty = rustix::fs::statx(&file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS)?;
    assert_eq!(empty.stx_ino, of(&path)?.ino());
    Ok(())
}

/// A file's birth lies between the moments before and after it was made, and stays.
fn generic_528_birth(g: &Ground) -> Done {
    let now = || std::time::SystemTime::now();
    let before = now();
    tick();
    fs::write(g.at("file"), b"")?;
    tick();
    let after = now();
    let born = || of(&g.at("file"))?.created();
    let first = born()?;
    assert!(before < first && first < after, "{first:?} is not between {before:?} and {after:?}");
    fs::write(g.at("file"), b"text")?;
    set(&g.at("file"), at(1, 0), at(1, 0))?;
    assert_eq!(born()?, first);
    Ok(())
}

/// Setting and removing an attribute change ctime.
fn generic_728_attributes(g: &Ground) -> Done {
    let path = g.at("file");
    fs::write(&path, b"")?;
    let put = || Ok(rustix::fs::setxattr(&path, "user.a", b"123", XattrFlags::empty())?);
    assert_eq!(changed(&path, put)?, [false, false, true]);
    assert_eq!(changed(&path, || Ok(rustix::fs::removexattr(&path, "user.a")?))?, [false, false, true]);
    Ok(())
}

/// Removing one of two names changes the ctime of what is left.
fn generic_755_one_link_less(g: &Ground) -> Done {
    fs::write(g.at("file"), b"")?;
    fs::hard_link(g.at("file"), g.at("link"))?;
    let found = changed(&g.at("file"), || Ok(fs::remove_file(g.at("link"))?))?;
    assert_eq!(found, [false, false, true]);
    let found = changed(&g.at("file"), || Ok(chown(g.at("file"), Some(1), None)?))?;
    assert_eq!(found, [false, false, true]);
    Ok(())
}
