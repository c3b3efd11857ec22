//! Copies that the kernel makes: copy_file_range, sendfile, splice, vmsplice, tee.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use crate::system::Map;
use rustix::fd::AsFd;
use rustix::fs::{CWD, FileType, Mode, OFlags, copy_file_range, sendfile};
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, pipe, splice, tee};
use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::{FileExt, MetadataExt};

pub const CASES: &[Case] = cases![
    generic_249_sent_and_spliced,
    generic_430_ranges_of_files,
    generic_431_small_ranges,
    generic_432_ranges_of_ranges,
    generic_433_within_a_file,
    generic_434_what_is_refused,
    generic_564_bad_ranges,
    generic_565_across_file_systems,
    generic_591_spliced_from_pipes,
    generic_680_spliced_and_not_changed,
    generic_110_shared_blocks_are_refused,
];

fn copied(from: impl AsFd, at: u64, to: impl AsFd, to_at: u64, len: usize) -> rustix::io::Result<usize> {
    let (mut at, mut to_at, mut done) = (at, to_at, 0);
    while done < len {
        let some = copy_file_range(&from, Some(&mut at), &to, Some(&mut to_at), len - done)?;
        if some == 0 {
            break;
        }
        done += some;
    }
    Ok(done)
}

/// sendfile and splice to a file, from a file, from any offset.
fn generic_249_sent_and_spliced(g: &Ground) -> Done {
    let from = g.file("from", &bytes(249, 300_000))?;
    let mut to = g.file("sent", b"")?;
    let mut at = 1000;
    while sendfile(&to, &from, Some(&mut at), 1 << 20)? > 0 {}
    holds(&g.at("sent"), &bytes(249, 300_000)[1000..]);
    let (out, into) = pipe()?;
    to.seek(SeekFrom::Start(0))?;
    let mut at = 0u64;
    loop {
        let got = splice(&from, Some(&mut at), &into, None, 60_000, SpliceFlags::empty())?;
        if got == 0 {
            break;
        }
        let mut left = got;
        while left > 0 {
            left -= splice(&out, None, &to, None, left, SpliceFlags::MOVE)?;
        }
    }
    holds(&g.at("sent"), &bytes(249, 300_000));
    fails(splice(&from, None, &to, None, 10, SpliceFlags::empty()), Errno::INVAL);
    Ok(())
}

/// Ranges of one file to another: all of it, parts, over the end, beyond the end.
fn generic_430_ranges_of_files(g: &Ground) -> Done {
    let (from, text) = (g.file("from", &bytes(430, 200_000))?, bytes(430, 200_000));
    let whole = g.file("whole", b"")?;
    assert_eq!(copied(&from, 0, &whole, 0, 200_000)?, 200_000);
    holds(&g.at("whole"), &text);
    let part = g.file("part", &[b'.'; 5000])?;
    assert_eq!(copied(&from, 100_001, &part, 1000, 3000)?, 3000);
    let mut wanted = vec![b'.'; 5000];
    wanted[1000..4000].copy_from_slice(&text[100_001..103_001]);
    holds(&g.at("part"), &wanted);
    let over = g.file("over", b"")?;
    assert_eq!(copied(&from, 199_000, &over, 10, 50_000)?, 1000);
    let mut wanted = vec![0; 10];
    wanted.extend(&text[199_000..]);
    holds(&g.at("over"), &wanted);
    assert_eq!(copied(&from, 200_000, &over, 0, 10)?, 0);
    holds(&g.at("over"), &wanted);
    Ok(())
}

/// Single bytes.
fn generic_431_small_ranges(g: &Ground) -> Done {
    let from = g.file("from", b"abcde")?;
    for n in 0..5u64 {
        let name = n.to_string();
        assert_eq!(copied(&from, n, g.file(&name, b"")?, 0, 1)?, 1);
        holds(&g.at(&name), &b"abcde"[n as usize..][..1]);
    }
    let turned = g.file("turned", b"")?;
    for n in 0..5 {
        copied(&from, n, &turned, 4 - n, 1)?;
    }
    holds(&g.at("turned"), b"edcba");
    Ok(())
}

/// A range of a copied range, and ranges beside each other.
fn generic_432_ranges_of_ranges(g: &Ground) -> Done {
    let from = g.file("from", &bytes(432, 40_000))?;
    let (mid, end) = (g.file("mid", b"")?, g.file("end", &[b'e'; 30_000])?);
    copied(&from, 10_000, &mid, 0, 20_000)?;
    copied(&mid, 5000, &end, 10_000, 10_000)?;
    let mut wanted = vec![b'e'; 30_000];
    wanted[10_000..20_000].copy_from_slice(&bytes(432, 40_000)[15_000..25_000]);
    holds(&g.at("end"), &wanted);
    copied(&from, 0, &end, 0, 10_000)?;
    copied(&from, 30_000, &end, 20_000, 10_000)?;
    wanted[..10_000].copy_from_slice(&bytes(432, 40_000)[..10_000]);
    wanted[20_000..].copy_from_slice(&bytes(432, 40_000)[30_000..]);
    holds(&g.at("end"), &wanted);
    Ok(())
}

/// A file's beginning to its end, and to where it grows.
fn generic_433_within_a_file(g: &Ground) -> Done {
    let mut wanted = bytes(433, 20_000);
    let file = g.file("file", &wanted)?;
    assert_eq!(copied(&file, 0, &file, 10_000, 5000)?, 5000);
    wanted.copy_within(0..5000, 10_000);
    holds(&g.at("file"), &wanted);
    assert_eq!(copied(&file, 100, &file, 20_000, 7000)?, 7000);
    let piece = wanted[100..7100].to_vec();
    wanted.extend(piece);
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// Devices, pipes and directories, and files that are not open the right way.
fn generic_434_what_is_refused(g: &Ground) -> Done {
    let file = g.file("file", &[1; 5000])?;
    let reading = File::open(g.at("file"))?;
    let other = g.file("other", b"")?;
    let copy = |from: &File, to: &File| copy_file_range(from, None, to, None, 100);
    fails(copy(&reading, &File::open(g.at("other"))?), Errno::BADF);
    fails(copy(&open(&g.at("file"), OFlags::WRONLY)?, &other), Errno::BADF);
    fails(copy(&file, &open(&g.at("other"), OFlags::WRONLY | OFlags::APPEND)?), Errno::BADF);
    fails(copy(&File::open(&g.folder)?, &other), Errno::ISDIR);
    fails(copy(&File::open("/dev/zero")?, &other), Errno::INVAL);
    fails(copy(&reading, &open(std::path::Path::new("/dev/null"), OFlags::WRONLY)?), Errno::INVAL);
    rustix::fs::mknodat(CWD, g.at("pipe"), FileType::Fifo, Mode::from_raw_mode(0o600), 0)?;
    fails(copy(&rw(&g.at("pipe"))?, &other), Errno::INVAL);
    assert_eq!(other.metadata()?.len(), 0);
    Ok(())
}

/// Ranges that overlap, that end beyond all numbers, and such as are larger than a process may make a file.
fn generic_564_bad_ranges(g: &Ground) -> Done {
    let file = g.file("file", &bytes(564, 128 << 10))?;
    let copy = g.file("copy", b"")?;
    fails(copied(&file, 32 << 10, &file, 48 << 10, 32 << 10), Errno::INVAL);
    let far = i64::MAX as u64 - 65_536;
    let once = |at: u64, to: u64, len: usize| {
        let (mut at, mut to) = (at, to);
        copy_file_range(&file, Some(&mut at), &copy, Some(&mut to), len)
    };
    fails(once(far, 0, 10 << 60), Errno::OVERFLOW);
    fails(once(0, far, 10 << 60), Errno::OVERFLOW);
    assert_eq!(once(far, 0, 65_536)?, 0, "beyond the end there is nothing");
    fails(once(0, far, 65_537), Errno::FBIG);
    holds(&g.at("file"), &bytes(564, 128 << 10));
    Ok(())
}

/// From one file system to another: the kernel says that it cannot, or does it rightly.
fn generic_565_across_file_systems(g: &Ground) -> Done {
    fs::write(g.elsewhere.join("from"), bytes(565, 100_000))?;
    let from = File::open(g.elsewhere.join("from"))?;
    let to = g.file("to", b"")?;
    match copied(&from, 0, &to, 0, 100_000) {
        Err(Errno::XDEV) => {}
        other => {
            assert_eq!(other?, 100_000);
            holds(&g.at("to"), &bytes(565, 100_000));
        }
    }
    // What everybody uses finds a way in any case.
    fs::copy(g.elsewhere.join("from"), g.at("copy"))?;
    holds(&g.at("copy"), &bytes(565, 100_000));
    fs::copy(g.at("copy"), g.elsewhere.join("back"))?;
    holds(&g.elsewhere.join("back"), &bytes(565, 100_000));
    Ok(())
}

/// From pipes to files, cached and not, and from files to pipes in several pieces.
fn generic_591_spliced_from_pipes(g: &Ground) -> Done {
    for past in [false, true] {
        let path = g.at(&format!("{past}"));
        let file = if past { direct(&path)? } else { open(&path, OFlags::CREATE | OFlags::RDWR)? };
        let (out, into) = pipe()?;
        let mut into = File::from(into);
        let text = bytes(591, 8 * PAGE);
        into.write_all(&text)?;
        let mut at = 0u64;
        while at < text.len() as u64 {
            let left = text.len() - at as usize;
            splice(&out, None, &file, Some(&mut at), left, SpliceFlags::empty())?;
        }
        holds(&path, &text);
        let mut at = PAGE as u64;
        while at < text.len() as u64 {
            let left = text.len() - at as usize;
            splice(&file, Some(&mut at), &into, None, left, SpliceFlags::empty())?;
        }
        let mut found = vec![0; 7 * PAGE];
        File::from(out).read_exact(&mut found)?;
        same(&found, &text[PAGE..]);
    }
    Ok(())
}

/// What was spliced from a file into a pipe, and then written behind it, does not get into the file.
fn generic_680_spliced_and_not_changed(g: &Ground) -> Done {
    let file = g.file("file", &[0xff; PAGE])?;
    let (out, into) = pipe()?;
    let (mut out, mut into) = (File::from(out), File::from(into));
    // Every slot of the pipe was used once.
    into.write_all(&[1; 64 << 10])?;
    out.read_exact(&mut vec![0; 64 << 10])?;
    let mut at = 0u64;
    assert_eq!(splice(&file, Some(&mut at), &into, None, 1, SpliceFlags::empty())?, 1);
    into.write_all(b"AAAAAAAA")?;
    holds(&g.at("file"), &[0xff; PAGE]);
    let (second_out, second_into) = pipe()?;
    assert_eq!(tee(&out, &second_into, 9, SpliceFlags::empty())?, 9);
    let mut found = [0; 9];
    File::from(second_out).read_exact(&mut found)?;
    assert_eq!(&found, b"\xffAAAAAAAA");
    // Memory given to a pipe and from there to a file is in the file.
    let (out, into) = pipe()?;
    let memory = Map::holding(&bytes(680, PAGE))?;
    assert_eq!(memory.to_pipe(0, PAGE, &into)?, PAGE);
    let target = g.file("target", b"")?;
    let mut at = 0u64;
    assert_eq!(splice(&out, None, &target, Some(&mut at), PAGE, SpliceFlags::empty())?, PAGE);
    holds(&g.at("target"), &bytes(680, PAGE));
    Ok(())
}

/// Blocks shared by two files there are none: that is said, and neither file changes.
fn generic_110_shared_blocks_are_refused(g: &Ground) -> Done {
    let (from, to) = (g.file("from", &bytes(110, PAGE))?, g.file("to", b"old")?);
    fails(rustix::fs::ioctl_ficlone(&to, &from), Errno::OPNOTSUPP);
    holds(&g.at("to"), b"old");
    assert_eq!(of(&g.at("from"))?.nlink(), 1);
    to.write_all_at(b"new", 0)?;
    holds(&g.at("to"), b"new");
    Ok(())
}
