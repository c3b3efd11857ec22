//! One file under random operations against a vector of bytes: what fsx does to a kernel's file system.

use super::shape::{Shape, expect_sound};
use pocketstone_random::Random;
use pocketstone_scmfs::{Allocate, File, Meta, Operations, ROOT, Volume};

const NAME: &[u8] = b"fsx";

pub struct Fsx {
    pub shape: Shape,
    /// The file never grows beyond this.
    pub most_bytes: u64,
    /// Longest single operation.
    pub most_at_once: u64,
    pub seed: u64,
    pub operations: u64,
}

impl Fsx {
    /// Panics where the file and the vector differ, with the seed and the operation.
    pub fn run(&self) {
        let shared = self.shape.make();
        let mut volume = self.shape.open(&shared);
        let mut file = volume.create_file(ROOT, NAME, &Meta::file(0o644)).expect("a file is created");
        let mut good: Vec<u8> = Vec::new();
        let mut random = Random::labelled(self.seed, "fsx");
        for number in 0..self.operations {
            // fsx closes and opens its file now and then; here the volume sometimes, too.
            match random.below(1000) {
                0..=2 => {
                    drop(file);
                    let clean = random.below(2) == 0;
                    if clean {
                        volume.close().expect("a clean close")
                    } else {
                        volume.abandon()
                    }
                    volume = self.shape.open(&shared);
                    file = reopen(&volume);
                    self.compare(&file, &good, number, "a restart");
                }
                3..=12 => {
                    drop(file);
                    file = reopen(&volume);
                }
                _ => {
                    let what = self.step(&file, &mut good, &mut random, number);
                    if number % 64 == 0 {
                        self.compare(&file, &good, number, &what);
                    }
                }
            }
        }
        self.compare(&file, &good, self.operations, "the end");
        drop(file);
        volume.close().expect("a clean close");
        expect_sound(&shared);
    }

    fn fail(&self, number: u64, what: &str, why: &str) -> ! {
        panic!("fsx, seed {}, operation {number}, {what}: {why}", self.seed)
    }

    fn compare(&self, file: &File, good: &[u8], number: u64, what: &str) {
        let mut got = vec![0xee; good.len() + 1];
        let bytes = file.read_at(&mut got, 0).unwrap_or_else(|e| self.fail(number, what, &e.to_string()));
        if file.attributes().size != good.len() as u64 || bytes != good.len() {
            let size = file.attributes().size;
            self.fail(number, what, &format!("size {size}, {bytes} bytes read of {}", good.len()));
        }
        if let Some(at) = (0..good.len()).find(|at| got[*at] != good[*at]) {
            self.fail(number, what, &format!("byte {at} is {:#x}, should be {:#x}", got[at], good[at]));
        }
    }

    fn step(&self, file: &File, good: &mut Vec<u8>, random: &mut Random, number: u64) -> String {
        let size = good.len() as u64;
        let kind = random.below(10);
        let bytes = 1 + random.below(self.most_at_once);
        // Reads and holes inside the file mostly, writes anywhere.
        let inside = if size > 0 { random.below(size) } else { 0 };
        let offset = if kind < 4 || kind == 8 { inside } else { random.below(self.most_bytes - bytes) };
        let end = offset + bytes;
        let text = |name: &str| format!("{name} {offset}+{bytes} of {size}");
        let range = |good: &[u8]| offset as usize..(end as usize).min(good.len());
        let (what, result) = match kind {
            0 | 1 => {
                let mut got = vec![0xee; bytes as usize];
                let result = file.read_at(&mut got, offset).map(|n| got.truncate(n));
                if result.is_ok() && got != good[range(good)] {
                    self.fail(number, &text("read"), "wrong bytes");
                }
                (text("read"), result)
            }
            2 | 3 => {
                let result = file.view().map(|view| {
                    if view.len() != good.len() || view[range(good)] != good[range(good)] {
                        self.fail(number, &text("view"), "wrong bytes");
                    }
                });
                (text("view"), result)
            }
            4 | 5 => {
                let mut data = vec![0; bytes as usize];
                random.fill(&mut data);
                lengthen(good, end);
                good[offset as usize..end as usize].copy_from_slice(&data);
                (text("write"), file.write_at(&data, offset).map(drop))
            }
            6 if size + bytes <= self.most_bytes => {
                let mut data = vec![0; bytes as usize];
                random.fill(&mut data);
                good.extend_from_slice(&data);
                let result = file.append(&data).map(|done| {
                    if done != (data.len(), size + bytes) {
                        self.fail(number, &text("append"), &format!("it says {done:?}"));
                    }
                });
                (format!("append {bytes} to {size}"), result)
            }
            6 | 7 => {
                good.resize(offset as usize, 0);
                (format!("truncate {size} to {offset}"), file.truncate(offset))
            }
            8 => {
                let range = range(good);
                good[range].fill(0);
                (text("punch"), file.allocate(Allocate::PunchHole, offset, bytes))
            }
            _ => {
                let how = [Allocate::Zero, Allocate::ZeroKeepSize, Allocate::Extend, Allocate::KeepSize];
                let how = how[random.below(4) as usize];
                if matches!(how, Allocate::Zero | Allocate::Extend) {
                    lengthen(good, end);
                }
                if matches!(how, Allocate::Zero | Allocate::ZeroKeepSize) && offset < good.len() as u64 {
                    let range = range(good);
                    good[range].fill(0);
                }
                (text(&format!("{how:?}")), file.allocate(how, offset, bytes))
            }
        };
        if let Err(error) = result {
            self.fail(number, &what, &error.to_string());
        }
        what
    }
}

fn lengthen(good: &mut Vec<u8>, end: u64) {
    if good.len() < end as usize {
        good.resize(end as usize, 0);
    }
}

fn reopen(volume: &Volume) -> File {
    let attr = volume.lookup(ROOT, NAME).expect("the file is there");
    volume.open(attr.ino).expect("the file opens")
}
