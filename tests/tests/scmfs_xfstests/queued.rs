//! Asynchronous requests, of AIO and of io_uring.

use crate::cases;
use crate::ground::*;
use crate::groups::Case;
use crate::queue::{Aio, Ask, FALLOCATE, FSYNC, READ, Ring, WRITE};
use crate::system::Map;
use pocketstone_testing::Need;
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;

pub const CASES: &[Case] = cases![
    generic_112_queued_at_random,
    generic_113_many_in_flight,
    generic_114_over_the_end,
    generic_198_many_writers,
    generic_207_sizes_grow,
    generic_210_read_at_an_odd_end,
    generic_211_into_a_mapping,
    generic_239_holes_filled,
    generic_240_odd_blocks,
    generic_323_closed_before_the_answer,
    generic_427_the_end_after_a_write,
    generic_451_beside_cached_writes,
    generic_465_read_while_it_grows,
    generic_551_compared_with_a_model,
    generic_617_rings,
    generic_678_rings_and_sizes,
];

const P: u64 = PAGE as u64;

/// Reads and writes by AIO at random places, one after the other: a model knows every byte.
fn generic_112_queued_at_random(g: &Ground) -> Done {
    let (file, queue, buffer) = (g.file("file", b"")?, Aio::new(4)?, Map::anonymous(8 * PAGE)?);
    let (mut model, mut numbers) = (Vec::new(), Numbers::new(112));
    for n in 0..200u64 {
        let (at, len) = (numbers.below(100_000), 1 + numbers.below(8 * PAGE));
        match numbers.below(4) {
            0 => {
                file.set_len(at as u64)?;
                model.resize(at, 0);
            }
            1 | 2 => {
                buffer.write(0, &bytes(n, len));
                assert_eq!(queue.once(Ask::Write, &file, &buffer, len, at as u64)?, len as i64);
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].copy_from_slice(&bytes(n, len));
            }
            _ => {
                let got = queue.once(Ask::Read, &file, &buffer, len, at as u64)?;
                same(&buffer.read(0, got as usize), model.get(at..model.len().min(at + len)).unwrap_or_default());
            }
        }
    }
    holds(&g.at("file"), &model);
    Ok(())
}

/// Many requests at once, past the cache, answered in any order.
fn in_flight(file: &File, seed: u64, pages: u64) -> std::io::Result<()> {
    let queue = Aio::new(64)?;
    let buffers: Vec<Map> = (0..64).map(|_| Map::anonymous(PAGE)).collect::<Result<_, _>>()?;
    for first in (0..pages).step_by(64) {
        for n in first..pages.min(first + 64) {
            let buffer = &buffers[(n - first) as usize];
            buffer.write(0, &bytes(seed + n, PAGE));
            queue.submit(Ask::Write, file, buffer, PAGE, n * P)?;
        }
        let mut seen = std::collections::BTreeSet::new();
        for _ in first..pages.min(first + 64) {
            let (at, result) = queue.wait()?;
            assert!(result == PAGE as i64 && seen.insert(at), "{result} at {at}");
        }
    }
    Ok(())
}

fn written(seed: u64, pages: u64) -> Vec<u8> {
    (0..pages).flat_map(|n| bytes(seed + n, PAGE)).collect()
}

/// Writes of a whole file, 64 in flight, and synced.
fn generic_113_many_in_flight(g: &Ground) -> Done {
    let file = direct(&g.at("file"))?;
    in_flight(&file, 113, 500)?;
    let (queue, buffer) = (Aio::new(1)?, Map::anonymous(PAGE)?);
    for ask in [Ask::Sync, Ask::DataSync] {
        assert_eq!(queue.once(ask, &file, &buffer, 0, 0)?, 0);
    }
    holds(&g.at("file"), &written(113, 500));
    Ok(())
}

/// A write that grows the file and a read over its end.
fn generic_114_over_the_end(g: &Ground) -> Done {
    let (file, queue, buffer) = (direct(&g.at("file"))?, Aio::new(2)?, Map::holding(&bytes(1, 4 * PAGE))?);
    assert_eq!(queue.once(Ask::Write, &file, &buffer, 4 * PAGE, 2 * P)?, 4 * PAGE as i64);
    assert_eq!(file.metadata()?.len(), 6 * P);
    assert_eq!(queue.once(Ask::Read, &file, &buffer, 4 * PAGE, 4 * P)?, 2 * PAGE as i64);
    assert_eq!(queue.once(Ask::Read, &file, &buffer, 4 * PAGE, 6 * P)?, 0);
    let mut wanted = vec![0; 2 * PAGE];
    wanted.extend(bytes(1, 4 * PAGE));
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// Threads with queues of their own.
fn generic_198_many_writers(g: &Ground) -> Done {
    let names = ["a", "b", "c", "d"];
    std::thread::scope(|scope| {
        let busy = |n: usize| move || in_flight(&direct(&g.at(names[n]))?, n as u64 * 1000, 128);
        let threads: Vec<_> = (0..4).map(|n| scope.spawn(busy(n))).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("no panic"))
    })?;
    for (n, name) in names.iter().enumerate() {
        holds(&g.at(name), &written(n as u64 * 1000, 128));
    }
    Ok(())
}

/// When a write that grows a file is answered, stat tells the new size.
fn generic_207_sizes_grow(g: &Ground) -> Done {
    let (file, queue, buffer) = (direct(&g.at("file"))?, Aio::new(1)?, Map::holding(&[7; PAGE])?);
    for n in 0..200 {
        assert_eq!(queue.once(Ask::Write, &file, &buffer, PAGE, n * P)?, PAGE as i64);
        assert_eq!(of(&g.at("file"))?.len(), (n + 1) * P);
    }
    Ok(())
}

/// A direct read of a file whose last block is not whole.
fn generic_210_read_at_an_odd_end(g: &Ground) -> Done {
    g.file("file", &bytes(210, 300))?.sync_all()?;
    let (file, queue, buffer) = (direct(&g.at("file"))?, Aio::new(1)?, Map::anonymous(PAGE)?);
    assert_eq!(queue.once(Ask::Read, &file, &buffer, PAGE, 0)?, 300);
    same(&buffer.read(0, 300), &bytes(210, 300));
    Ok(())
}

/// A direct read into a mapping of another file.
fn generic_211_into_a_mapping(g: &Ground) -> Done {
    g.file("from", &bytes(211, 16 * PAGE))?.sync_all()?;
    let to = g.file("to", &[0; 16 * PAGE])?;
    let (file, queue, map) = (direct(&g.at("from"))?, Aio::new(1)?, Map::shared(&to, 0, 16 * PAGE)?);
    assert_eq!(queue.once(Ask::Read, &file, &map, 16 * PAGE, 0)?, 16 * PAGE as i64);
    drop(map);
    holds(&g.at("to"), &bytes(211, 16 * PAGE));
    Ok(())
}

/// Holes of a sparse file are filled in a random order.
fn generic_239_holes_filled(g: &Ground) -> Done {
    let (file, queue) = (direct(&g.at("file"))?, Aio::new(1)?);
    file.set_len(200 * P)?;
    let (mut order, mut numbers): (Vec<u64>, _) = ((0..200).collect(), Numbers::new(239));
    for n in (1..200).rev() {
        order.swap(n, numbers.below(n + 1));
    }
    for n in order.iter().take(150) {
        let buffer = Map::holding(&bytes(*n, PAGE))?;
        assert_eq!(queue.once(Ask::Write, &file, &buffer, PAGE, n * P)?, PAGE as i64);
    }
    let mut wanted = vec![0; 200 * PAGE];
    for n in order.iter().take(150) {
        wanted[*n as usize * PAGE..][..PAGE].copy_from_slice(&bytes(*n, PAGE));
    }
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// Direct writes of 512 bytes into blocks that nobody wrote: zeros about them, or refused.
fn generic_240_odd_blocks(g: &Ground) -> Done {
    let (file, queue, buffer) = (direct(&g.at("file"))?, Aio::new(2)?, Map::holding(&[0xaa; PAGE])?);
    file.set_len(4 * P)?;
    queue.submit(Ask::Write, &file, &buffer, 512, 512)?;
    queue.submit(Ask::Write, &file, &buffer, 512, 1536)?;
    let mut wanted = vec![0; 4 * PAGE];
    for _ in 0..2 {
        match queue.wait()? {
            (at, 512) => wanted[at as usize..at as usize + 512].fill(0xaa),
            (_, result) => assert_eq!(result, -i64::from(Errno::INVAL.raw_os_error())),
        }
    }
    holds(&g.at("file"), &wanted);
    Ok(())
}

/// The descriptor is closed while requests are in flight, and they are answered.
fn generic_323_closed_before_the_answer(g: &Ground) -> Done {
    let queue = Aio::new(8)?;
    let buffers: Vec<Map> = (0..8).map(|_| Map::holding(&[9; PAGE])).collect::<Result<_, _>>()?;
    for round in 0..30 {
        let file = direct(&g.at("file"))?;
        for (n, buffer) in buffers.iter().enumerate() {
            queue.submit(Ask::Write, &file, buffer, PAGE, (round * 8 + n as u64) * P)?;
        }
        drop(file);
        for _ in &buffers {
            assert_eq!(queue.wait()?.1, PAGE as i64);
        }
    }
    holds(&g.at("file"), &vec![9; 240 * PAGE]);
    Ok(())
}

/// When a write is answered, everybody reads its last byte.
fn generic_427_the_end_after_a_write(g: &Ground) -> Done {
    let (file, queue) = (direct(&g.at("file"))?, Aio::new(1)?);
    let reader = File::open(g.at("file"))?;
    for n in 0..100u8 {
        let buffer = Map::holding(&[n + 1; 2 * PAGE])?;
        let at = u64::from(n) * 2 * P;
        assert_eq!(queue.once(Ask::Write, &file, &buffer, 2 * PAGE, at)?, 2 * PAGE as i64);
        let mut found = [0; 2];
        assert_eq!(reader.read_at(&mut found, at + 2 * P - 1)?, 1);
        assert_eq!(found[0], n + 1);
    }
    Ok(())
}

/// Direct requests beside cached writes of other pages, compared afterwards.
fn generic_451_beside_cached_writes(g: &Ground) -> Done {
    let (cached, past) = (g.file("file", &vec![0; 256 * PAGE])?, direct(&g.at("file"))?);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..256).step_by(2).try_for_each(|n| cached.write_all_at(&bytes(n, PAGE), n * P)));
        let queue = Aio::new(1)?;
        for n in (0..256).step_by(2) {
            let buffer = Map::holding(&bytes(n, PAGE))?;
            assert_eq!(queue.once(Ask::Write, &past, &buffer, PAGE, n * P)?, PAGE as i64);
        }
        writer.join().expect("no panic")
    })?;
    holds(&g.at("file"), &written(0, 256));
    Ok(())
}

/// A reader of a file that grows by direct writes sees what was written, or less, never anything else.
fn generic_465_read_while_it_grows(g: &Ground) -> Done {
    let (file, reader) = (direct(&g.at("file"))?, direct(&g.at("file"))?);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| -> std::io::Result<()> {
            let (queue, buffer) = (Aio::new(1)?, Map::holding(&[5; PAGE])?);
            (0..200).try_for_each(|n| queue.once(Ask::Write, &file, &buffer, PAGE, n * P).map(drop))
        });
        let buffer = Map::anonymous(PAGE)?;
        let mut n = 0;
        while n < 200 {
            let got = buffer.read_from(0, PAGE, &reader, n * P)?;
            assert!(buffer.read(0, got).iter().all(|byte| *byte == 5), "bytes that nobody wrote in page {n}");
            n += u64::from(got == PAGE);
            assert!(got == PAGE || !writer.is_finished() || n * P < of(&g.at("file"))?.len());
        }
        writer.join().expect("no panic")
    })?;
    Ok(())
}

/// Overlapping requests are not sent; what is sent is read back, by a model.
fn generic_551_compared_with_a_model(g: &Ground) -> Done {
    let (file, queue) = (direct(&g.at("file"))?, Aio::new(16)?);
    let (mut model, mut numbers) = (vec![0; 128 * PAGE], Numbers::new(551));
    file.set_len(128 * P)?;
    let buffers: Vec<Map> = (0..16).map(|_| Map::anonymous(4 * PAGE)).collect::<Result<_, _>>()?;
    for round in 0..25u64 {
        for (slot, buffer) in buffers.iter().enumerate() {
            let (at, len) = (slot * 8 * PAGE + numbers.below(4) * PAGE, (1 + numbers.below(4)) * PAGE);
            let piece = bytes(round * 16 + slot as u64, len);
            buffer.write(0, &piece);
            model[at..at + len].copy_from_slice(&piece);
            queue.submit(Ask::Write, &file, buffer, len, at as u64)?;
        }
        for _ in &buffers {
            assert!(queue.wait()?.1 > 0);
        }
        if round % 5 == 0 {
            let buffer = Map::anonymous(128 * PAGE)?;
            assert_eq!(queue.once(Ask::Read, &file, &buffer, 128 * PAGE, 0)?, 128 * PAGE as i64);
            same(&buffer.read(0, 128 * PAGE), &model);
        }
    }
    holds(&g.at("file"), &model);
    Ok(())
}

fn ring(g: &Ground) -> Result<Ring, Fault> {
    match Ring::new() {
        Err(e) if matches!(e.raw_os_error(), Some(libc::ENOSYS | libc::EPERM)) => {
            g.skip(Need::Kernel, &format!("{:?}: this kernel gives no ring: {e}", g.kind))
        }
        other => Ok(other?),
    }
}

/// Reads, writes, fallocate and fsync by io_uring at random places.
fn generic_617_rings(g: &Ground) -> Done {
    let (file, ring, buffer) = (g.file("file", b"")?, ring(g)?, Map::anonymous(8 * PAGE)?);
    let (mut model, mut numbers) = (Vec::new(), Numbers::new(617));
    for n in 0..300u64 {
        let (at, len) = (numbers.below(200_000), 1 + numbers.below(8 * PAGE));
        match numbers.below(6) {
            0 | 1 => {
                buffer.write(0, &bytes(n, len));
                assert_eq!(ring.once(WRITE, &file, Some(&buffer), len as u32, at as u64)?, len as i32);
                model.resize(model.len().max(at + len), 0);
                model[at..at + len].copy_from_slice(&bytes(n, len));
            }
            2 => {
                assert_eq!(ring.once(FALLOCATE, &file, None, len as u32, at as u64)?, 0);
                model.resize(model.len().max(at + len), 0);
            }
            3 => assert_eq!(ring.once(FSYNC, &file, None, 0, 0)?, 0),
            _ => {
                let got = ring.once(READ, &file, Some(&buffer), len as u32, at as u64)?;
                same(&buffer.read(0, got as usize), model.get(at..model.len().min(at + len)).unwrap_or_default());
            }
        }
    }
    holds(&g.at("file"), &model);
    Ok(())
}

/// Reads by a ring at and beyond an end that moves.
fn generic_678_rings_and_sizes(g: &Ground) -> Done {
    let (file, ring, buffer) = (g.file("file", &bytes(678, 4 * PAGE))?, ring(g)?, Map::anonymous(4 * PAGE)?);
    for size in [4 * PAGE, 3 * PAGE + 5, 10, 0] {
        file.set_len(size as u64)?;
        assert_eq!(ring.once(READ, &file, Some(&buffer), 4 * PAGE as u32, 0)?, size as i32);
        same(&buffer.read(0, size), &bytes(678, 4 * PAGE)[..size]);
        assert_eq!(ring.once(READ, &file, Some(&buffer), 100, size as u64)?, 0);
    }
    let closed = File::open(g.at("file"))?;
    let answer = ring.once(WRITE, &closed, Some(&buffer), 10, 0)?;
    assert_eq!(answer, -Errno::BADF.raw_os_error());
    Ok(())
}
