//! What single calls cost, in nanoseconds of processor time: reading and overwriting 4 KiB that are in the caches, a
//! view of a file and 4 KiB of it, appending 4 KiB, creating an empty file. On a region in /dev/shm with default pages.

use pocketstone_media::Mapped;
use pocketstone_scmfs::{CreateOptions, Meta, OpenOptions, Operations, ROOT, Volume};
use std::hint::black_box;
use std::io::Write;
use std::time::Duration;

const BYTES: u64 = 512 << 20;

fn cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

/// Nanoseconds of one call.
fn measure(calls: u32, mut call: impl FnMut(u32)) -> f64 {
    let start = cpu();
    (0..calls).for_each(&mut call);
    (cpu() - start).as_nanos() as f64 / f64::from(calls)
}

fn main() {
    let home = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let path = home.path().join("volume");
    let region = Mapped::create(&path, BYTES, &Default::default()).expect("a region");
    Volume::create(Box::new(region), &CreateOptions { zeroed: true, ..CreateOptions::default() }).expect("a volume");
    let region = Mapped::open(&path, &Default::default()).expect("it opens");
    let volume = Volume::open(Box::new(region), &OpenOptions::default()).expect("the volume opens");
    let mut buffer = vec![7; 4096];
    let small = volume.create_file(ROOT, b"small", &Meta::file(0o644)).expect("a file");
    small.write_at(&vec![5; 64 << 10], 0).expect("space");
    let large = volume.create_file(ROOT, b"large", &Meta::file(0o644)).expect("a file");
    large.write_at(&vec![5; 16 << 20], 0).expect("space");
    let mut figures = Vec::new();
    for (name, file, pages) in [("small", &small, 16), ("large", &large, 4096)] {
        let place = |i: u32| u64::from(i.wrapping_mul(7) % pages) * 4096;
        let read = measure(400_000, |i| {
            black_box(file.read_at(&mut buffer, place(i)).expect("a read"));
        });
        let write = measure(200_000, |i| {
            black_box(file.write_at(&buffer, place(i)).expect("a write"));
        });
        let mapped = measure(200_000, |i| {
            let view = file.view().expect("a view");
            let at = place(i) as usize;
            buffer.copy_from_slice(&view[at..at + 4096]);
        });
        let of = |what: &str, ns| (format!("{what} {name}"), ns);
        figures.extend([of("read", read), of("overwrite", write), of("mapped read", mapped)]);
    }
    let log = volume.create_file(ROOT, b"log", &Meta::file(0o644)).expect("a file");
    let append = measure(50_000, |_| {
        black_box(log.append(&buffer).expect("an append"));
    });
    let create = measure(20_000, |i| {
        drop(volume.create_file(ROOT, format!("f{i}").as_bytes(), &Meta::file(0o644)).expect("a file"));
    });
    figures.extend([("append".into(), append), ("create".into(), create)]);
    let mut out = std::io::stdout().lock();
    for (name, ns) in figures {
        let _ = write!(out, "{name} {ns:.0} ns  ");
    }
    let _ = writeln!(out);
}
