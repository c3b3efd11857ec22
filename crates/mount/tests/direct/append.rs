//! Files that grow without the kernel, beside others that use it: compared with a model after every step.

use super::{Both, open, options, storing};
use crate::ground::close;
use pocketstone_lease::{Access, Why};
use pocketstone_mount::Preload;
use pocketstone_random::Random;
use pocketstone_testing::or_skip;
use rustix::fs::FallocateFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::time::Duration;

const MOST: usize = 3 << 20;

impl Both {
    fn append(&self, from: &[u8]) -> Result<u64, Why> {
        // SAFETY: the buffer is that long.
        unsafe { self.session.append(self.direct, self.kernel.as_raw_fd(), from.as_ptr(), from.len(), None) }
    }

    /// The same, again when the server is held up in a change.
    fn append_patiently(&self, from: &[u8]) -> Result<u64, Why> {
        loop {
            match self.append(from) {
                Err(Why::Changing) => std::thread::yield_now(),
                done => return done,
            }
        }
    }
}

/// The last bytes of a file, by a mapping that was made without asking for its size.
fn load(file: &File, size: usize) -> u8 {
    let (at, page) = ((size - 1) as u64 / 4096 * 4096, 4096);
    // SAFETY: a new mapping at a place that the kernel chooses; the byte lies in its page and in the file.
    unsafe {
        let mapped = mmap(std::ptr::null_mut(), page, ProtFlags::READ, MapFlags::SHARED, file, at).unwrap();
        let byte = mapped.cast::<u8>().add((size - 1) % page).read_volatile();
        munmap(mapped, page).unwrap();
        byte
    }
}

/// All from an offset on, as sendfile(2) gives it: without asking for the size.
fn sent(file: &File, offset: u64) -> Vec<u8> {
    let (mut got, mut at) = (Vec::new(), offset);
    let into = tempfile::tempfile().unwrap();
    while rustix::fs::sendfile(&into, file, Some(&mut at), 1 << 20).unwrap() > 0 {}
    got.resize((at - offset) as usize, 0);
    into.read_exact_at(&mut got, 0).unwrap();
    got
}

fn run(seed: u64, steps: usize, ways: &mut BTreeMap<String, usize>) {
    let Ok(ground) = storing() else { return };
    let (mounted, volume) = ground.mount(&options(Preload::Append));
    let path = ground.directory().join("file");
    let both = [Both::of(&path, Access::Append), Both::of(&path, Access::Append)];
    let (kernel, mut at_end) = (open(&path), OpenOptions::new().append(true).open(&path).unwrap());
    let (mut model, mut rng): (Vec<u8>, _) = (Vec::new(), Random::new(seed));
    for step in 0..steps {
        let most = if rng.below(4) == 0 { 40_000 } else { 6000 };
        let bytes = 1 + rng.below(most) as usize;
        let data: Vec<u8> = (0..bytes).map(|i| (step as u8).wrapping_add((i / 7) as u8)).collect();
        let who = &both[usize::from(rng.below(12) == 0)];
        let size = model.len();
        let offset = rng.below(size.max(1) as u64);
        let say = || format!("seed {seed}, step {step}, {size} bytes");
        if size > MOST {
            kernel.set_len(offset).unwrap();
            model.truncate(offset as usize);
            continue;
        }
        match rng.below(100) {
            0..45 => {
                let done = who.append(&data);
                match done {
                    Ok(at) => assert_eq!(at as usize, size, "{}", say()),
                    Err(_) => at_end.write_all(&data).unwrap(),
                }
                *ways.entry(format!("append: {}", done.map_or_else(Why::name, |_| "direct"))).or_insert(0) += 1;
                model.extend(&data);
            }
            45..60 => {
                let done = who.write(&data, size as u64);
                if done.is_err() {
                    kernel.write_all_at(&data, size as u64).unwrap();
                }
                *ways.entry(format!("write: {}", done.map_or_else(Why::name, |_| "direct"))).or_insert(0) += 1;
                model.extend(&data);
            }
            60..66 => {
                if who.write(&data, offset).is_err() {
                    kernel.write_all_at(&data, offset).unwrap();
                }
                let end = offset as usize + bytes;
                model.resize(size.max(end), 0);
                model[offset as usize..end].copy_from_slice(&data);
            }
            66..78 => {
                let got = who.read(bytes, offset);
                let expected = &model[(offset as usize).min(size)..(offset as usize + bytes).min(size)];
                assert!(got.as_ref().map_or(true, |got| got == expected), "{}: {bytes} at {offset}", say());
                *ways.entry(format!("read: {}", got.map_or_else(Why::name, |_| "direct"))).or_insert(0) += 1;
            }
            78..82 => {
                at_end.write_all(&data).unwrap();
                model.extend(&data);
            }
            82..84 => assert_eq!(kernel.metadata().unwrap().len() as usize, size, "{}", say()),
            84..86 => {
                let mut got = vec![0; bytes];
                let count = kernel.read_at(&mut got, offset).unwrap();
                assert!(
                    got[..count] == model[(offset as usize).min(size)..(offset as usize + bytes).min(size)],
                    "{}",
                    say()
                );
            }
            86..88 => assert!(sent(&kernel, offset) == model[(offset as usize).min(size)..], "{}: sent", say()),
            88..90 if size > 0 => assert_eq!(load(&kernel, size), model[size - 1], "{}: mapped", say()),
            90..92 => both[0].kernel.sync_data().unwrap(),
            92..93 => {
                let to = offset + rng.below(3) * 5000;
                kernel.set_len(to).unwrap();
                model.resize(to as usize, 0);
            }
            93..94 => {
                rustix::fs::fallocate(&kernel, FallocateFlags::empty(), size as u64, bytes as u64).unwrap();
                model.resize(size + bytes, 0);
            }
            94..96 => drop(volume.collect()),
            _ => fs::write(ground.directory().join("other"), vec![0x55; 3 * bytes]).unwrap(),
        }
    }
    assert!(fs::read(&path).unwrap() == model, "seed {seed}: the kernel's file");
    let more = both[0].append(b"last").or_else(|_| at_end.write_all(b"last").map(|()| 0)).is_ok();
    assert!(more);
    model.extend(b"last");
    drop((both, kernel, at_end));
    mounted.unmount().unwrap();
    close(volume);
    let (mounted, volume) = ground.mount(&options(Preload::Off));
    assert!(fs::read(&path).unwrap() == model, "seed {seed}: after the next mount");
    mounted.unmount().unwrap();
    close(volume);
}

#[test]
fn a_file_that_grows_is_the_same_by_all_ways_after_every_step() {
    drop(or_skip!(storing()));
    let mut ways = BTreeMap::new();
    for seed in 1..=6 {
        run(seed, 1200, &mut ways);
    }
    let count = |way: &str| ways.get(way).copied().unwrap_or(0);
    assert!(count("append: direct") > 300 && count("write: direct") > 100 && count("read: direct") > 100, "{ways:?}");
}

#[test]
fn an_end_that_others_keep_asking_for_is_leased_again_as_long_as_that_is_worth_it() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Append));
    let Both { kernel, session, direct } = Both::of(&ground.directory().join("file"), Access::Append);
    let both = Both { kernel, session: session.resting(Duration::from_secs(60)), direct };
    let mut size = 0;
    // Whoever is told the size takes the end.
    let mut append_after_a_look = || {
        assert_eq!(both.kernel.metadata().unwrap().len(), size);
        both.append_patiently(&[7; 100]).inspect(|_| size += 100)
    };
    let mut leased = 0;
    let refused = loop {
        match append_after_a_look() {
            Ok(_) if leased < 10_000 => leased += 1,
            refused => break refused,
        }
    };
    assert!(leased >= 3 && refused == Err(Why::Leased), "{leased} leases, {refused:?}");
    drop(both);
    let both = Both::of(&ground.directory().join("other"), Access::Append);
    let both = Both { session: both.session.resting(Duration::from_secs(60)), ..both };
    for round in 0..10 {
        assert_eq!(both.kernel.metadata().unwrap().len(), round * 1600);
        for n in 0..16 {
            assert_eq!(both.append_patiently(&[7; 100]), Ok(round * 1600 + n * 100));
        }
    }
    drop(both);
    mounted.unmount().unwrap();
    close(volume);
}

#[test]
fn a_mount_that_does_not_say_so_lets_nobody_append() {
    let ground = or_skip!(storing());
    let (mounted, volume) = ground.mount(&options(Preload::Write));
    let both = Both::of(&ground.directory().join("file"), Access::Append);
    assert!(both.session.may_write() && !both.session.may_append());
    assert_eq!((both.append(b"more"), both.write(b"more", 0)), (Err(Why::Growth), Err(Why::Growth)));
    drop(both);
    mounted.unmount().unwrap();
    close(volume);
}
