//! What the paper's chip needs for it, on the simulated chip's virtual clock: modelled time, the same on every machine.

use pocketstone_media::nand::{Geometry, SimulatedNand, SimulatedOptions, Timing};
use pocketstone_random::Random;
use pocketstone_testing::bench::cpu;
use pocketstone_vfs::{Ino, Meta, Operations, ROOT};
use pocketstone_yaffs2::{File, MountedBy, OpenOptions, Volume};
use std::alloc::{GlobalAlloc, Layout, System};
use std::io::Write;
use std::sync::atomic::{AtomicIsize, Ordering};

/// Counts what each thread has asked for: tests run side by side.
struct Counting;

thread_local! {
    static ASKED: AtomicIsize = const { AtomicIsize::new(0) };
}

fn count(bytes: isize) {
    let _ = ASKED.try_with(|asked| asked.fetch_add(bytes, Ordering::Relaxed));
}

// SAFETY: all of it is the system's allocator; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        // SAFETY: as above.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn asked() -> isize {
    ASKED.with(|asked| asked.load(Ordering::Relaxed))
}

const PAGE: u64 = 2048;
/// 256 MiB with 128 KiB blocks, 38 free spare bytes.
const PAPER: Geometry = Geometry { page_bytes: PAGE as u32, spare_bytes: 38, pages_per_block: 64, blocks: 2048 };
const TAG_BYTES: u64 = 28;

fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

fn mount(chip: &SimulatedNand, options: &OpenOptions) -> Volume {
    Volume::open(Box::new(chip.clone()), options).unwrap()
}

/// Creates a file of so many bytes and writes it in requests of 64 KiB.
fn write_file(volume: &Volume, name: &str, bytes: u64) -> Ino {
    let file = volume.create_file(ROOT, name.as_bytes(), &Meta::file(0o644)).unwrap();
    let request = vec![0x5A; 64 << 10];
    let mut at = 0;
    while at < bytes {
        let part = (bytes - at).min(request.len() as u64);
        assert_eq!(file.write_at(&request[..part as usize], at).unwrap() as u64, part);
        at += part;
    }
    file.ino()
}

#[test]
fn sequential_writes_and_reads_take_little_more_than_the_chip_needs() {
    let chip = SimulatedNand::new(PAPER, SimulatedOptions::default());
    let volume = mount(&chip, &OpenOptions::default());
    let bytes = 64 << 20;
    let Timing { sense_ns, byte_ns, program_ns, .. } = Timing::default();
    let chunks = bytes / PAGE;

    let start = chip.clock_ns();
    let file = write_file(&volume, "file", bytes);
    volume.sync_all().unwrap();
    let took = chip.clock_ns() - start;
    let least = chunks * (program_ns + (PAGE + TAG_BYTES) * byte_ns);
    let write = took as f64 / least as f64;

    let start = chip.clock_ns();
    let mut into = vec![0; 128 << 10];
    for at in (0..bytes).step_by(into.len()) {
        assert_eq!(volume.open(file).unwrap().read_at(&mut into, at).unwrap(), into.len());
    }
    let took = chip.clock_ns() - start;
    let least = chunks * (sense_ns + PAGE * byte_ns);
    let read = took as f64 / least as f64;
    say(&format!("sequential write {write:.3}, read {read:.3} of what the chip's timing allows (modelled)"));
    assert!(write <= 1.05 && read <= 1.05, "write {write}, read {read}");
}

#[test]
fn a_full_chip_is_mounted_by_its_checkpoint_and_takes_little_memory() {
    let chip = SimulatedNand::new(PAPER, SimulatedOptions::default());
    // The chunk cache is not part of it.
    let volume = mount(&chip, &OpenOptions::default().cache_chunks(0));
    let mut files = Vec::new();
    loop {
        let name = format!("file {}", files.len());
        let Ok(file) = volume.create_file(ROOT, name.as_bytes(), &Meta::file(0o644)) else { break };
        let written = file.write_at(&vec![0x33; 64 << 10], 0);
        files.push(file.ino());
        if !matches!(written, Ok(bytes) if bytes == 64 << 10) {
            break;
        }
    }
    // Some churn, for files that were written in one go take least. On a full volume not even that has space.
    for number in 0..8 {
        volume.unlink(ROOT, format!("file {number}").as_bytes()).unwrap();
    }
    let files = &files[8..];
    let mut random = Random::labelled(1, "churn");
    for _ in 0..files.len() {
        let file = files[random.below(files.len() as u64 - 1) as usize];
        volume.open(file).unwrap().write_at(&[0x44; PAGE as usize], random.below(31) * PAGE).unwrap();
    }
    let said = volume.usage().memory_bytes as f64;
    let before = asked();
    volume.abandon();
    let memory = (before - asked()) as f64;
    let part = PAPER.bytes() as f64 / memory;
    say(&format!("{} files of 64 KiB: {memory:.0} bytes of memory, 1/{part:.0} of the chip", files.len()));
    assert!(part >= 500.0, "1/{part}");
    assert!((0.9..1.1).contains(&(said / memory)), "the volume says {said}");
    mount(&chip, &OpenOptions::default()).close().unwrap();

    let before = chip.counters();
    let volume = mount(&chip, &OpenOptions::default());
    let after = chip.counters();
    assert_eq!(volume.usage().mounted_by, MountedBy::Checkpoint);
    let pages = after.page_senses - before.page_senses;
    let tags = after.spare_senses - before.spare_senses;
    say(&format!("mounted by {pages} page reads and {tags} reads of tags"));
    assert!(tags <= u64::from(PAPER.blocks), "{tags}");
    assert!(pages <= u64::from(PAPER.pages()) / 100, "{pages}");
    let last = volume.lookup(ROOT, b"file 77").unwrap();
    assert_eq!(last.size, 64 << 10);
}

/// How many times as much of a processor a step takes in the large as in the small: the least of a few attempts, for
/// what else the machine does to its caches is none of the volume's.
fn growth(mut small: impl FnMut(u32), mut large: impl FnMut(u32)) -> f64 {
    let least = |step: &mut dyn FnMut(u32)| {
        let attempt = |number: u32| {
            let begin = cpu();
            (number * 50..number * 50 + 50).for_each(&mut *step);
            cpu() - begin
        };
        (0..4).map(attempt).min().unwrap().as_secs_f64()
    };
    let small = least(&mut small);
    least(&mut large) / small
}

/// A volume with a directory of so many files, with numbers from 0 as names.
fn directory_of(files: u32) -> (Volume, Ino) {
    let chip = SimulatedNand::new(Geometry { blocks: 256, ..PAPER }, SimulatedOptions::default());
    let volume = mount(&chip, &OpenOptions::default());
    let directory = volume.create_directory(ROOT, b"directory", &Meta::directory(0o755)).unwrap().ino;
    for number in 0..files {
        volume.create_file(directory, number.to_string().as_bytes(), &Meta::file(0o644)).unwrap();
    }
    (volume, directory)
}

#[test]
fn a_large_directory_is_used_as_fast_as_a_small_one() {
    let [small, large] = [250, 8000].map(directory_of);
    let looked = growth(|_| drop(small.0.attributes(small.1)), |_| drop(large.0.attributes(large.1)));
    let unlink = |(volume, directory): &(Volume, Ino), number: u32| {
        volume.unlink(*directory, number.to_string().as_bytes()).unwrap();
    };
    let unlinked = growth(|number| unlink(&small, number), |number| unlink(&large, number));
    say(&format!("32 times as many files: {looked:.1} times the time for attributes, {unlinked:.1} for the oldest"));
    assert!(looked < 4.0 && unlinked < 4.0, "{looked}, {unlinked}");
}

#[test]
fn a_large_file_grows_as_fast_as_a_small_one() {
    let chip = SimulatedNand::new(Geometry { blocks: 512, ..PAPER }, SimulatedOptions::default());
    let volume = mount(&chip, &OpenOptions::default());
    let [small, large] = [("small", 2 << 20), ("large", 32 << 20)]
        .map(|(name, bytes)| volume.open(write_file(&volume, name, bytes)).unwrap());
    let append = |file: &File| {
        assert_eq!(file.append(&[0x66; 16]).unwrap().0, 16);
    };
    let grown = growth(|_| append(&small), |_| append(&large));
    let looked = growth(|_| drop(small.attributes()), |_| drop(large.attributes()));
    say(&format!("16 times as large a file: {grown:.1} times the time to append, {looked:.1} for attributes"));
    assert!(grown < 4.0 && looked < 4.0, "{grown}, {looked}");
}

/// Uniform overwrites of a chip that is 80 % full. No policy that takes the emptiest block does better than the greedy
/// bound: with a share `u` of blocks' pages in use overall, writes find a victim with a share `v` in use where
/// `u = (v - 1) / ln v`, and each page that is written costs `1 / (1 - v)`.
#[test]
fn overwriting_a_chip_that_is_80_percent_full_writes_little_more_than_needed() {
    let geometry = Geometry { blocks: 512, ..PAPER };
    let chip = SimulatedNand::new(geometry, SimulatedOptions::default());
    let volume = mount(&chip, &OpenOptions::default());
    let full = u64::from(geometry.pages()) * 8 / 10 * PAGE;
    let each = 1 << 20;
    let files: Vec<u32> = (0..full / each).map(|number| write_file(&volume, &format!("file {number}"), each)).collect();
    let mut random = Random::labelled(7, "overwrite");
    let mut overwrite = |volume: &Volume, times: u64| {
        for _ in 0..times {
            let file = files[random.below(files.len() as u64 - 1) as usize];
            volume.open(file).unwrap().write_at(&[0x77; 4096], random.below(each / 4096 - 1) * 4096).unwrap();
        }
    };
    // Until nothing of the first order is left.
    overwrite(&volume, 60_000);
    let before = chip.counters();
    let writes = 60_000;
    overwrite(&volume, writes);
    let programs = chip.counters().programs - before.programs;
    let amplification = programs as f64 / (2 * writes) as f64;
    let greedy = greedy_bound(0.8);
    say(&format!("write amplification {amplification:.2}; greedy bound {greedy:.2}"));
    assert!(amplification <= 3.5, "{amplification}");
}

fn greedy_bound(u: f64) -> f64 {
    let (mut low, mut high) = (1e-9, 1.0 - 1e-9);
    for _ in 0..200 {
        let v: f64 = (low + high) / 2.0;
        if (v - 1.0) / v.ln() < u {
            low = v;
        } else {
            high = v;
        }
    }
    1.0 / (1.0 - low)
}
