//! What is written is what is read: buffered, past the cache, appended, truncated, at large offsets.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use crate::system::Map;
use rustix::fs::OFlags;
use rustix::io::Errno;
use std::fs::{self, File};
use std::io::{IoSlice, IoSliceMut, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;

pub const CASES: &[Case] = cases![
    generic_010_a_hashed_file,
    generic_014_truncated_at_random,
    generic_069_appended_by_many,
    generic_091_direct_and_cached,
    generic_124_written_backwards,
    generic_125_shrunk_and_grown,
    generic_129_large_pieces_in_a_loop,
    generic_130_vectors_off_alignment,
    generic_132_vectors_aligned,
    generic_133_read_and_written_at_once,
    generic_135_after_the_kernel_forgot,
    generic_169_appended_and_sized,
    generic_308_the_largest_offsets,
    generic_391_direct_beside_direct,
    generic_393_small_sizes,
    generic_394_as_large_as_allowed,
    generic_412_truncated_in_a_hole,
    generic_418_direct_sees_cached,
    generic_450_direct_beyond_the_end,
    generic_466_far_offsets,
    generic_525_one_byte_at_the_end_of_all,
    generic_586_direct_beside_appending,
    generic_609_direct_and_synced,
    generic_639_at_the_end_of_a_forgotten_page,
    generic_708_direct_from_a_mapping,
    generic_737_synced_by_a_flag,
    generic_763_nothing_is_written,
    generic_761_a_buffer_that_changes,
];

fn forget(file: &File) -> Done {
    file.sync_all()?;
    Ok(rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed)?)
}

/// A hash table in a file: keys are put, found and removed as a map does it.
fn generic_010_a_hashed_file(g: &Ground) -> Done {
    const SLOTS: usize = 1009;
    let file = g.file("table", b"")?;
    file.set_len((SLOTS * 16) as u64)?;
    let mut numbers = Numbers::new(10);
    let mut known = std::collections::BTreeMap::new();
    for n in 0..2500u64 {
        let key = 1 + numbers.below(400) as u64;
        let slot = (key as usize * 7919) % SLOTS;
        let mut entry = [0; 16];
        file.read_exact_at(&mut entry, (slot * 16) as u64)?;
        let found = u64::from_le_bytes(entry[..8].try_into().expect("eight bytes"));
        let value = u64::from_le_bytes(entry[8..].try_into().expect("eight bytes"));
        let wanted = known.get(&slot).copied().unwrap_or((0, 0));
        assert_eq!((found, value), wanted);
        let new = if n % 5 == 0 { (0, 0) } else { (key, n) };
        entry[..8].copy_from_slice(&new.0.to_le_bytes());
        entry[8..].copy_from_slice(&new.1.to_le_bytes());
        file.write_all_at(&entry, (slot * 16) as u64)?;
        known.insert(slot, new);
    }
    Ok(())
}

/// Blocks at random places of a file that is truncated at random: a model knows every byte.
fn generic_014_truncated_at_random(g: &Ground) -> Done {
    let (file, mut model, mut numbers) = (g.file("file", b"")?, Vec::new(), Numbers::new(14));
    for n in 0..250u64 {
        if numbers.below(3) == 0 {
            let size = numbers.below(300_000);
            file.set_len(size as u64)?;
            model.resize(size, 0);
        } else {
            let (at, piece) = (numbers.below(300_000), bytes(n, 512 * (1 + numbers.below(8))));
            file.write_all_at(&piece, at as u64)?;
            model.resize(model.len().max(at + piece.len()), 0);
            model[at..at + piece.len()].copy_from_slice(&piece);
        }
        if n % 25 == 0 {
            forget(&file)?;
        }
        assert_eq!(file.metadata()?.len(), model.len() as u64);
    }
    holds(&g.at("file"), &model);
    Ok(())
}

/// Records appended by many at once: each is whole, in its writer's order.
fn generic_069_appended_by_many(g: &Ground) -> Done {
    let path = g.at("file");
    std::thread::scope(|scope| {
        let busy = |thread: u16| {
            let path = &path;
            move || -> std::io::Result<()> {
                let mut file = open(path, OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND)?;
                for n in 0..200u16 {
                    let record: Vec<u8> =
                        [thread, n].iter().flat_map(|word| word.to_le_bytes()).cycle().take(52).collect();
                    file.write_all(&record)?;
                }
                Ok(())
            }
        };
        let threads: Vec<_> = (0..4).map(|thread| scope.spawn(busy(thread))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    let found = fs::read(&path)?;
    assert_eq!(found.len(), 4 * 200 * 52);
    let mut next = [0u16; 4];
    for record in found.chunks(52) {
        assert!(record.chunks(4).all(|part| part == &record[..4]), "a record is torn");
        let (thread, n) = (record[0] as usize, u16::from_le_bytes([record[2], record[3]]));
        assert_eq!(n, next[thread]);
        next[thread] += 1;
    }
    Ok(())
}

/// Direct and cached reads and writes, and truncating, in a random order.
fn generic_091_direct_and_cached(g: &Ground) -> Done {
    let past = direct(&g.at("file"))?;
    let (cached, buffer) = (rw(&g.at("file"))?, Map::anonymous(16 * PAGE)?);
    let (mut model, mut numbers) = (Vec::new(), Numbers::new(91));
    for n in 0..300u64 {
        let (page, pages) = (numbers.below(60), 1 + numbers.below(16));
        let (at, len) = (page * PAGE, pages * PAGE);
        match numbers.below(6) {
            0 | 1 => {
                buffer.write(0, &bytes(n, len));
                assert_eq!(buffer.write_to(0, len, &past, at as u64)?, len);
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].copy_from_slice(&bytes(n, len));
            }
            2 | 3 => {
                let (at, len) = (at + numbers.below(PAGE), len - numbers.below(PAGE));
                cached.write_all_at(&bytes(n, len), at as u64)?;
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].copy_from_slice(&bytes(n, len));
            }
            4 => {
                cached.set_len(at as u64)?;
                model.resize(at, 0);
            }
            _ => {
                let got = buffer.read_from(0, len, &past, at as u64)?;
                let wanted = model.get(at..model.len().min(at + len)).unwrap_or_default();
                same(&buffer.read(0, got), wanted);
            }
        }
    }
    holds(&g.at("file"), &model);
    Ok(())
}

/// Pieces written from the end to the beginning, into reserved space and into nothing.
fn generic_124_written_backwards(g: &Ground) -> Done {
    for reserved in [false, true] {
        let name = format!("{reserved}");
        let file = g.file(&name, b"")?;
        if reserved {
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 512_000)?;
        }
        for n in (0..100u64).rev() {
            file.write_all_at(&bytes(n, 5120), n * 5120)?;
        }
        holds(&g.at(&name), &(0..100).flat_map(|n| bytes(n, 5120)).collect::<Vec<_>>());
    }
    Ok(())
}

/// A user shrinks and grows a file; what comes back is zeros.
fn generic_125_shrunk_and_grown(g: &Ground) -> Done {
    as_user(NOBODY, || -> Done {
        let file = g.file("file", &[b'x'; 10_000])?;
        for (size, left) in [(5000, 5000), (9000, 5000), (4096, 4096), (4097, 4096), (1, 1), (1 << 20, 1), (0, 0)] {
            file.set_len(size as u64)?;
            let found = fs::read(g.at("file"))?;
            assert_eq!(found.len(), size);
            assert!(found[..left].iter().all(|byte| *byte == b'x') && found[left..].iter().all(|byte| *byte == 0));
        }
        Ok(())
    })
}

/// Large pieces are written, read and truncated away in a loop.
fn generic_129_large_pieces_in_a_loop(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    let (piece, mut found) = (bytes(129, 1 << 20), vec![0; 1 << 20]);
    for _ in 0..5 {
        for n in 0..4 {
            file.write_all_at(&piece, n << 20)?;
        }
        for n in 0..4 {
            file.read_exact_at(&mut found, n << 20)?;
            same(&found, &piece);
        }
        file.set_len(0)?;
    }
    Ok(())
}

fn vectors(g: &Ground, sizes: &[usize], at: u64) -> Done {
    let (mut file, whole) = (g.file("file", &[b'.'; 100_000])?, bytes(at, sizes.iter().sum()));
    let mut rest = &whole[..];
    let mut parts = Vec::new();
    for size in sizes {
        let (part, later) = rest.split_at(*size);
        parts.push(IoSlice::new(part));
        rest = later;
    }
    file.seek(SeekFrom::Start(at))?;
    assert_eq!(file.write_vectored(&parts)?, whole.len());
    forget(&file)?;
    let mut back: Vec<Vec<u8>> = sizes.iter().rev().map(|size| vec![0; *size]).collect();
    let mut parts: Vec<_> = back.iter_mut().map(|part| IoSliceMut::new(part)).collect();
    file.seek(SeekFrom::Start(at))?;
    assert_eq!(file.read_vectored(&mut parts)?, whole.len());
    same(&back.concat(), &whole);
    let mut found = fs::read(g.at("file"))?;
    same(&found.drain(..at as usize).collect::<Vec<_>>(), &vec![b'.'; at as usize]);
    same(&found[..whole.len()], &whole);
    Ok(())
}

/// Vectors whose parts begin and end anywhere.
fn generic_130_vectors_off_alignment(g: &Ground) -> Done {
    vectors(g, &[1, 4095, 4097, 2, 12_289, 1, 511], 3333)
}

/// Vectors of whole pages.
fn generic_132_vectors_aligned(g: &Ground) -> Done {
    vectors(g, &[4096, 8192, 512, 512, 1024, 2048], 8192)
}

/// Readers beside a writer, cached and not: every block is of one write.
fn generic_133_read_and_written_at_once(g: &Ground) -> Done {
    let file = g.file("file", &vec![1; 64 * PAGE])?;
    let past = direct(&g.at("file"))?;
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> std::io::Result<()> {
            for n in 2..60u8 {
                file.write_all_at(&vec![n; 64 * PAGE], 0)?;
            }
            Ok(())
        });
        let reader = scope.spawn(|| -> std::io::Result<()> {
            let buffer = Map::anonymous(PAGE)?;
            for n in 0..400 {
                assert_eq!(buffer.read_from(0, PAGE, &past, (n % 64) * PAGE as u64)?, PAGE);
                let found = buffer.read(0, PAGE);
                assert!(found.iter().all(|byte| (1..60).contains(byte)), "a byte that nobody wrote");
            }
            Ok(())
        });
        writer.join().expect("no panic").and(reader.join().expect("no panic"))
    })?;
    holds(&g.at("file"), &vec![59; 64 * PAGE]);
    Ok(())
}

/// Files written in four ways, looked at after the kernel forgot them.
fn generic_135_after_the_kernel_forgot(g: &Ground) -> Done {
    fs::write(g.at("cached"), [0x12; PAGE])?;
    open(&g.at("synced"), OFlags::CREATE | OFlags::WRONLY | OFlags::SYNC)?.write_all(&[0x34; PAGE])?;
    Map::holding(&[0x56; PAGE])?.write_to(0, PAGE, direct(&g.at("direct"))?, 0)?;
    let cut = g.file("cut", &[0x78; PAGE])?;
    cut.set_len(2048)?;
    cut.write_all_at(&[0xcd; 1024], 1024)?;
    drop(cut);
    for name in ["cached", "synced", "direct", "cut"] {
        forget(&rw(&g.at(name))?)?;
    }
    fs::write("/proc/sys/vm/drop_caches", "3")?;
    holds(&g.at("cached"), &[0x12; PAGE]);
    holds(&g.at("synced"), &[0x34; PAGE]);
    holds(&g.at("direct"), &[0x56; PAGE]);
    holds(&g.at("cut"), &[[0x78; 1024], [0xcd; 1024]].concat());
    Ok(())
}

/// The size after each append, synced or not, and after the kernel forgot it.
fn generic_169_appended_and_sized(g: &Ground) -> Done {
    let mut file = open(&g.at("file"), OFlags::CREATE | OFlags::WRONLY | OFlags::APPEND)?;
    for n in 1..=30u64 {
        // An offset does not matter to who appends.
        file.seek(SeekFrom::Start(0))?;
        file.write_all(&bytes(n, 511))?;
        assert_eq!((file.metadata()?.len(), of(&g.at("file"))?.len()), (n * 511, n * 511));
        assert_eq!(file.stream_position()?, n * 511);
        if n % 10 == 0 {
            forget(&file)?;
        }
    }
    fs::write("/proc/sys/vm/drop_caches", "2")?;
    assert_eq!(of(&g.at("file"))?.len(), 30 * 511);
    holds(&g.at("file"), &(1..=30).flat_map(|n| bytes(n, 511)).collect::<Vec<_>>());
    Ok(())
}

/// A size of nearly 16 TiB, a byte there, and back.
fn generic_308_the_largest_offsets(g: &Ground) -> Done {
    let file = g.file("file", b"start")?;
    let far = (1u64 << 44) - (2 << 12);
    file.set_len(far)?;
    assert_eq!(file.metadata()?.len(), far);
    match file.write_all_at(b"end", far - 10) {
        Ok(()) => {
            let mut found = [0; 12];
            assert_eq!(file.read_at(&mut found, far - 12)?, 12);
            assert_eq!(&found, b"\0\0end\0\0\0\0\0\0\0");
        }
        // What cannot have so large an offset says so, and stays what it was.
        Err(error) => assert!(matches!(error.raw_os_error(), Some(libc::EFBIG | libc::ENOSPC)), "{error}"),
    }
    file.set_len(5)?;
    holds(&g.at("file"), b"start");
    Ok(())
}

/// Two threads past the cache, one on even and one on odd pieces of reserved space.
fn generic_391_direct_beside_direct(g: &Ground) -> Done {
    let file = direct(&g.at("file"))?;
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, 256 * PAGE as u64)?;
    std::thread::scope(|scope| {
        let busy = |first: u64| {
            let file = &file;
            move || -> std::io::Result<()> {
                let buffer = Map::anonymous(PAGE)?;
                for n in (first..256).step_by(2) {
                    buffer.write(0, &bytes(n, PAGE));
                    assert_eq!(buffer.write_to(0, PAGE, file, n * PAGE as u64)?, PAGE);
                    assert_eq!(buffer.read_from(0, PAGE, file, n * PAGE as u64)?, PAGE);
                    same(&buffer.read(0, PAGE), &bytes(n, PAGE));
                }
                Ok(())
            }
        };
        let threads = [scope.spawn(busy(0)), scope.spawn(busy(1))];
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    holds(&g.at("file"), &(0..256).flat_map(|n| bytes(n, PAGE)).collect::<Vec<_>>());
    Ok(())
}

/// Small files cut to nothing or nearly, and grown again.
fn generic_393_small_sizes(g: &Ground) -> Done {
    for (n, sizes) in [[0, 50], [0, 4096], [4, 50], [4, 4096]].into_iter().enumerate() {
        let name = n.to_string();
        let file = g.file(&name, &[b'X'; 40])?;
        file.sync_all()?;
        sizes.into_iter().try_for_each(|size| file.set_len(size as u64))?;
        let mut wanted = vec![b'X'; sizes[0]];
        wanted.resize(sizes[1], 0);
        holds(&g.at(&name), &wanted);
        forget(&file)?;
        holds(&g.at(&name), &wanted);
    }
    Ok(())
}

/// A process writes as far as it may, and not one byte more.
fn generic_394_as_large_as_allowed(g: &Ground) -> Done {
    let script = "ulimit -f 8; trap '' XFSZ; truncate -s 8192 \"$0\" && ! truncate -s 8193 \"$0\" \
                  && ! dd if=/dev/zero of=\"$0\" bs=1 count=1 seek=8192 conv=notrunc && stat -c %s \"$0\"";
    let mut shell = pocketstone_tests::suites::command("bash");
    let ran = pocketstone_tests::command::run(shell.args(["-c", script]).arg(g.at("file")));
    assert!(ran.status == Some(0) && ran.out == "8192\n", "{ran}");
    Ok(())
}

/// Truncated inside a hole, behind which there was data.
fn generic_412_truncated_in_a_hole(g: &Ground) -> Done {
    let file = g.file("file", &[1; 32 << 10])?;
    Map::holding(&[2; 32 << 10])?.write_to(0, 32 << 10, direct(&g.at("file"))?, 64 << 10)?;
    file.set_len(60 << 10)?;
    let mut wanted = vec![1; 32 << 10];
    wanted.resize(60 << 10, 0);
    holds(&g.at("file"), &wanted);
    forget(&file)?;
    holds(&g.at("file"), &wanted);
    file.set_len(96 << 10)?;
    wanted.resize(96 << 10, 0);
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// What one wrote past the cache the other reads by it, and the reverse, in holes, reserved space and data.
fn generic_418_direct_sees_cached(g: &Ground) -> Done {
    for state in ["hole", "reserved", "data"] {
        let (past, len) = (direct(&g.at(state))?, 40 * PAGE);
        let cached = rw(&g.at(state))?;
        match state {
            "hole" => cached.set_len(len as u64)?,
            "reserved" => rustix::fs::fallocate(&cached, rustix::fs::FallocateFlags::empty(), 0, len as u64)?,
            _ => cached.write_all_at(&vec![9; len], 0)?,
        }
        let (buffer, mut found) = (Map::anonymous(PAGE)?, vec![0; PAGE]);
        for n in 0..80u64 {
            let at = (n % 40) * PAGE as u64;
            cached.read_exact_at(&mut found, at)?;
            if n % 2 == 0 {
                buffer.write(0, &bytes(n, PAGE));
                assert_eq!(buffer.write_to(0, PAGE, &past, at)?, PAGE);
                cached.read_exact_at(&mut found, at)?;
            } else {
                cached.write_all_at(&bytes(n, PAGE), at)?;
                assert_eq!(buffer.read_from(0, PAGE, &past, at)?, PAGE);
                found = buffer.read(0, PAGE);
            }
            same(&found, &bytes(n, PAGE));
        }
    }
    Ok(())
}

/// Direct reads at, over and beyond the end.
fn generic_450_direct_beyond_the_end(g: &Ground) -> Done {
    let file = direct(&g.at("file"))?;
    let buffer = Map::holding(&bytes(450, 4 * PAGE))?;
    buffer.write_to(0, 4 * PAGE, &file, 0)?;
    rw(&g.at("file"))?.set_len(3 * PAGE as u64 + 10)?;
    for (at, wanted) in [(0, 3 * PAGE + 10), (2 * PAGE, PAGE + 10), (3 * PAGE, 10), (4 * PAGE, 0), (1 << 30, 0)] {
        assert_eq!(buffer.read_from(0, 4 * PAGE, &file, at as u64)?, wanted, "at {at}");
    }
    assert_eq!(buffer.read_from(0, PAGE, &file, 3 * PAGE as u64)?, 10);
    same(&buffer.read(0, 10), &bytes(450, 4 * PAGE)[3 * PAGE..][..10]);
    Ok(())
}

/// Bytes about powers of two up to 8 EiB: read back, or refused as too far.
fn generic_466_far_offsets(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    for shift in [20, 31, 32, 33, 40, 43, 44, 62] {
        let at = (1u64 << shift) - 1;
        match file.write_all_at(b"ab", at) {
            Ok(()) => {
                let mut found = [9; 4];
                assert_eq!((file.read_at(&mut found, at - 1)?, found), (3, [0, b'a', b'b', 9]), "about 1 << {shift}");
            }
            Err(error) => {
                let number = error.raw_os_error();
                assert!(number == Some(libc::EFBIG) && shift > 40, "about 1 << {shift}: {error}");
            }
        }
    }
    Ok(())
}

/// The last byte that a file can have: written and read, or refused as too far.
fn generic_525_one_byte_at_the_end_of_all(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    let last = i64::MAX as u64 - 1;
    match file.write_at(b"a", last) {
        Ok(wrote) => {
            let mut found = [0];
            assert_eq!((wrote, file.read_at(&mut found, last)?, found), (1, 1, *b"a"));
        }
        Err(error) => {
            assert_eq!(error.raw_os_error(), Some(libc::EFBIG), "{error}");
            assert_eq!(file.metadata()?.len(), 0);
            fails(file.set_len(last + 1), Errno::FBIG);
        }
    }
    Ok(())
}

/// A direct write beside one that grows the file: the size is the larger one.
fn generic_586_direct_beside_appending(g: &Ground) -> Done {
    let past = direct(&g.at("file"))?;
    let cached = rw(&g.at("file"))?;
    let buffer = Map::holding(&bytes(1, PAGE))?;
    for _ in 0..100 {
        cached.set_len(0)?;
        std::thread::scope(|scope| {
            let direct = scope.spawn(|| buffer.write_to(0, PAGE, &past, 0));
            let grown = cached.write_all_at(&[b'x'; 100], PAGE as u64);
            grown.and(direct.join().expect("no panic"))
        })?;
        assert_eq!(of(&g.at("file"))?.len(), PAGE as u64 + 100);
    }
    let mut wanted = bytes(1, PAGE);
    wanted.extend([b'x'; 100]);
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// A direct write that is synced by a flag, over pages of which some are cached and some are dirty.
fn generic_609_direct_and_synced(g: &Ground) -> Done {
    let cached = g.file("file", &bytes(1, 4 * PAGE))?;
    let past = open(&g.at("file"), OFlags::WRONLY | OFlags::DIRECT | OFlags::DSYNC)?;
    forget(&cached)?;
    let mut byte = [0];
    cached.read_exact_at(&mut byte, PAGE as u64)?;
    cached.write_all_at(b"dirty", 2 * PAGE as u64)?;
    Map::holding(&bytes(2, 3 * PAGE))?.write_to(0, 3 * PAGE, &past, PAGE as u64)?;
    let mut wanted = bytes(1, PAGE);
    wanted.extend(bytes(2, 3 * PAGE));
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// A write just behind the old end, into a page that the kernel no longer has.
fn generic_639_at_the_end_of_a_forgotten_page(g: &Ground) -> Done {
    let file = g.file("file", &[0xcd; 32])?;
    forget(&file)?;
    file.write_all_at(&[0xcd; 32], 32)?;
    holds(&g.at("file"), &[0xcd; 64]);
    forget(&file)?;
    file.write_all_at(&[0xef; 10], 5000)?;
    let mut wanted = vec![0xcd; 64];
    wanted.resize(5000, 0);
    wanted.extend([0xef; 10]);
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// A direct write whose source is a mapping of another file, of which only the first page is in memory.
fn generic_708_direct_from_a_mapping(g: &Ground) -> Done {
    let from = g.file("from", &bytes(708, 2 << 20))?;
    forget(&from)?;
    let map = Map::shared(&from, 0, 2 << 20)?;
    let _ = map.get(0);
    let (to, mut done) = (direct(&g.at("to"))?, 0);
    while done < 2 << 20 {
        let some = map.write_to(done, (2 << 20) - done, &to, done as u64)?;
        assert!(some > 0 && some % 512 == 0, "{some} bytes");
        done += some;
    }
    holds(&g.at("to"), &bytes(708, 2 << 20));
    Ok(())
}

/// O_SYNC, O_DSYNC and their flags of a single write: all is there, by another way, at once.
fn generic_737_synced_by_a_flag(g: &Ground) -> Done {
    use rustix::io::ReadWriteFlags;
    for (n, flag) in [OFlags::SYNC, OFlags::DSYNC].into_iter().enumerate() {
        let path = g.at(&n.to_string());
        let mut file = open(&path, OFlags::CREATE | OFlags::WRONLY | flag)?;
        file.write_all(&bytes(737, 9999))?;
        let buffer = Map::anonymous(3 * PAGE)?;
        assert_eq!(buffer.read_from(0, 3 * PAGE, direct(&path)?, 0)?, 9999);
        same(&buffer.read(0, 9999), &bytes(737, 9999));
    }
    let file = g.file("flags", b"start")?;
    for flags in [ReadWriteFlags::SYNC, ReadWriteFlags::DSYNC] {
        let wrote = rustix::io::pwritev2(&file, &[IoSlice::new(b"text")], 1, flags)?;
        assert_eq!(wrote, 4);
    }
    // RWF_APPEND has the offset of no matter.
    rustix::io::pwritev2(&file, &[IoSlice::new(b" more")], 0, ReadWriteFlags::APPEND)?;
    holds(&g.at("flags"), b"stext more");
    Ok(())
}

/// Writing nothing changes nothing.
fn generic_763_nothing_is_written(g: &Ground) -> Done {
    let file = g.file("file", b"")?;
    assert_eq!((file.write_at(b"", 0)?, file.write_at(b"", 5000)?), (0, 0));
    assert_eq!((file.metadata()?.len(), (&file).read(&mut [0; 4])?), (0, 0));
    Ok(())
}

/// A direct write of a buffer that changes meanwhile: every byte is one that was in it.
fn generic_761_a_buffer_that_changes(g: &Ground) -> Done {
    let (file, buffer) = (direct(&g.at("file"))?, Map::holding(&[1; 64 * PAGE])?);
    let stop = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let changes = scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                (0..64 * PAGE).step_by(97).for_each(|at| buffer.put(at, buffer.get(at) % 200 + 1));
            }
        });
        let wrote = (0..20).try_for_each(|_| buffer.write_to(0, 64 * PAGE, &file, 0).map(drop));
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        changes.join().expect("no panic");
        wrote
    })?;
    let found = fs::read(g.at("file"))?;
    assert!(found.len() == 64 * PAGE && found.iter().all(|byte| (1..=200).contains(byte)));
    Ok(())
}
