//! One way and the other on one file, compared with a model after every step.

use super::{Both, options, storing};
use crate::ground::close;
use pocketstone_lease::{Access, Why};
use pocketstone_mount::Preload;
use pocketstone_random::Random;
use pocketstone_testing::or_skip;
use rustix::fs::FallocateFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::FileExt;

const MOST: u64 = 300_000;

/// The content that the file should have.
struct Model(Vec<u8>);

impl Model {
    fn write(&mut self, from: &[u8], offset: u64) {
        let (start, end) = (offset as usize, offset as usize + from.len());
        self.0.resize(self.0.len().max(end), 0);
        self.0[start..end].copy_from_slice(from);
    }

    fn read(&self, bytes: usize, offset: u64) -> &[u8] {
        let start = (offset as usize).min(self.0.len());
        &self.0[start..(start + bytes).min(self.0.len())]
    }
}

/// Stores a byte through a shared mapping of its page.
fn store(both: &Both, offset: u64, byte: u8) {
    const PAGE: u64 = 4096;
    let (prot, start) = (ProtFlags::READ | ProtFlags::WRITE, offset / PAGE * PAGE);
    // SAFETY: a new mapping at a place that the kernel chooses; the byte lies in its page and in the file; no
    // reference to it is made.
    unsafe {
        let page = mmap(std::ptr::null_mut(), PAGE as usize, prot, MapFlags::SHARED, &both.kernel, start).unwrap();
        page.cast::<u8>().add((offset - start) as usize).write_volatile(byte);
        munmap(page, PAGE as usize).unwrap();
    }
}

fn run(seed: u64, steps: usize) -> BTreeMap<String, usize> {
    let Ok(ground) = storing() else { return BTreeMap::new() };
    let (mounted, volume) = ground.mount(&options(Preload::Write));
    let path = ground.directory().join("file");
    let (both, mut model, mut rng) = (Both::of(&path, Access::Write), Model(Vec::new()), Random::new(seed));
    let mut ways = BTreeMap::new();
    let mut count = |what: &str, outcome: Result<(), Why>| {
        let how = outcome.map_or_else(Why::name, |()| "direct");
        *ways.entry(format!("{what}: {how}")).or_insert(0) += 1;
    };
    for step in 0..steps {
        let size = model.0.len() as u64;
        let offset = rng.below(size.clamp(1, MOST)) + if rng.below(8) == 0 { rng.below(20_000) } else { 0 };
        let most = if rng.below(4) == 0 { 40_000 } else { 600 };
        let bytes = 1 + rng.below(most) as usize;
        let data: Vec<u8> = (0..bytes).map(|i| (step as u8).wrapping_add((i / 7) as u8)).collect();
        match rng.below(100) {
            0..30 => match both.write(&data, offset) {
                Ok(done) => {
                    assert_eq!(done, bytes);
                    assert!(offset + bytes as u64 <= size, "step {step}: it grew");
                    model.write(&data, offset);
                    count("write", Ok(()));
                }
                Err(why) => {
                    both.kernel.write_all_at(&data, offset).unwrap();
                    model.write(&data, offset);
                    count("write", Err(why));
                }
            },
            30..60 => match both.read(bytes, offset) {
                Ok(got) => {
                    assert!(got == model.read(bytes, offset), "seed {seed}, step {step}: {bytes} bytes at {offset}");
                    count("read", Ok(()));
                }
                Err(why) => count("read", Err(why)),
            },
            60..68 => {
                both.kernel.write_all_at(&data, offset).unwrap();
                model.write(&data, offset);
            }
            68..82 => assert!(both.kernel(bytes, offset) == model.read(bytes, offset), "seed {seed}, step {step}"),
            82..86 if offset < size => {
                store(&both, offset, step as u8);
                model.write(&[step as u8], offset);
            }
            86..90 => {
                let size = rng.below(MOST);
                both.kernel.set_len(size).unwrap();
                model.0.resize(size as usize, 0);
            }
            90..93 if offset < size => {
                let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                rustix::fs::fallocate(&both.kernel, how, offset, bytes as u64).unwrap();
                let end = (offset as usize + bytes).min(model.0.len());
                model.0[offset as usize..end].fill(0);
            }
            93..95 => drop(volume.collect()),
            95..97 => both.kernel.sync_data().unwrap(),
            // Somebody else needs space, and gives some back.
            97..99 => fs::write(ground.directory().join("other"), vec![0x55; 3 * bytes]).unwrap(),
            _ => {
                let other = ground.directory().join("moved");
                fs::rename(&path, &other).and_then(|()| fs::rename(&other, &path)).unwrap();
            }
        }
    }
    assert!(fs::read(&path).unwrap() == model.0, "seed {seed}: the kernel's file");
    drop(both);
    mounted.unmount().unwrap();
    close(volume);
    let (mounted, volume) = ground.mount(&options(Preload::Off));
    assert!(fs::read(&path).unwrap() == model.0, "seed {seed}: after the next mount");
    mounted.unmount().unwrap();
    close(volume);
    ways
}

#[test]
fn both_ways_agree_after_every_step() {
    drop(or_skip!(storing()));
    let mut ways = BTreeMap::new();
    for seed in 1..=6 {
        for (way, count) in run(seed, 1500) {
            *ways.entry(way).or_insert(0) += count;
        }
    }
    let count = |way: &str| ways.get(way).copied().unwrap_or(0);
    assert!(count("read: direct") > 300 && count("write: direct") > 300, "{ways:?}");
}
