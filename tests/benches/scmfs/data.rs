//! Reading and writing.

use crate::ground::{Ground, volume};
use crate::measure::{Side, bar, interleave, side};
use crate::say;
use pocketstone_core::random::Random;
use pocketstone_media::{MapOptions, Mapped, Region};
use pocketstone_scmfs::{File, Meta, Operations, ROOT, Volume};
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const PAGE: usize = 4096;
/// Size of the files that are read and overwritten: within the caches of a processor, so hot.
const HOT_BYTES: u64 = 16 * MIB;

fn offsets(count: usize, bytes: u64) -> Vec<u64> {
    let mut random = Random::labelled(1, "offsets");
    (0..count).map(|_| random.below(bytes / PAGE as u64) * PAGE as u64).collect()
}

fn filled(volume: &Volume, name: &str, bytes: u64) -> File {
    let file = volume.create_file(ROOT, name.as_bytes(), &Meta::file(0o644)).expect("a new file");
    let part = vec![0x5a; MIB as usize];
    for at in (0..bytes).step_by(MIB as usize) {
        file.write_at(&part, at).expect("space");
    }
    file
}

fn host_file(folder: &Path, name: &str, bytes: u64) -> fs::File {
    let file = fs::File::options().create(true).truncate(true).read(true).write(true).open(folder.join(name));
    let file = file.expect("a new file");
    let part = vec![0x5a; MIB as usize];
    for at in (0..bytes).step_by(MIB as usize) {
        file.write_all_at(&part, at).expect("space");
    }
    file
}

/// The other file systems to compare with.
fn others(ground: &Ground) -> Vec<(&'static str, &Path)> {
    let ext4 = ground.ext4.as_deref().map(|path| ("ext4", path));
    std::iter::once(("tmpfs", ground.tmpfs.as_path())).chain(ext4).collect()
}

/// 4 KiB reads at random offsets of a hot file.
pub fn random_read(ground: &Ground) {
    let v = ground.volume("read", 64 * MIB, false);
    let file = filled(&v, "a", HOT_BYTES);
    let raw = Mapped::create(&ground.tmpfs.join("raw"), HOT_BYTES, &MapOptions::default()).expect("a region");
    // SAFETY: nobody else uses the region.
    unsafe { raw.zero(0, HOT_BYTES) };
    let hosts: Vec<_> = others(ground).iter().map(|(name, at)| (*name, host_file(at, "r", HOT_BYTES))).collect();
    let at = offsets(20_000, HOT_BYTES);
    let mut buffers = vec![vec![0_u8; PAGE]; 2 + hosts.len()];
    let mut buffers = buffers.iter_mut();
    let (first, second) = (buffers.next().expect("three"), buffers.next().expect("three"));
    let (base, at) = (raw.base(), &at);
    let mut sides = vec![
        side("memcpy", move || {
            for offset in at {
                // SAFETY: the offsets lie inside the region, the buffer holds a page.
                unsafe { std::ptr::copy_nonoverlapping(base.add(*offset as usize), first.as_mut_ptr(), PAGE) };
                std::hint::black_box(&first);
            }
            at.len() as u64
        }),
        side("scmfs", || {
            for offset in at {
                file.read_at(second, *offset).expect("a read");
                std::hint::black_box(&second);
            }
            at.len() as u64
        }),
    ];
    for ((name, host), buffer) in hosts.iter().zip(buffers) {
        sides.push(side(name, move || {
            for offset in at {
                host.read_exact_at(buffer, *offset).expect("a read");
                std::hint::black_box(&buffer);
            }
            at.len() as u64
        }));
    }
    let times = interleave(31, sides);
    say(&format!("  {}", times.line()));
    bar("4 KiB random read, hot: scmfs over memcpy", times.ratio("scmfs", "memcpy"), Some(1.2), None);
    for name in ["tmpfs", "ext4"] {
        bar(&format!("the same: {name} over scmfs"), times.ratio(name, "scmfs"), None, Some(2.5));
    }
}

/// 4 KiB overwrites at random offsets, durable on return.
pub fn overwrite(ground: &Ground) {
    let v = ground.volume("overwrite", 64 * MIB, true);
    let file = filled(&v, "a", HOT_BYTES);
    let options = MapOptions::default().persistent(true);
    let raw = Mapped::create(&ground.tmpfs.join("raw-durable"), HOT_BYTES, &options).expect("a region");
    // SAFETY: nobody else uses the region.
    unsafe { raw.zero(0, HOT_BYTES) };
    let hosts: Vec<_> = others(ground).iter().map(|(name, at)| (*name, host_file(at, "w", HOT_BYTES))).collect();
    let (at, page) = (&offsets(20_000, HOT_BYTES), &vec![7_u8; PAGE]);
    let mut sides = vec![
        side("stream + fence", || {
            for offset in at {
                // SAFETY: nobody else uses the region.
                unsafe { raw.stream(*offset, page) };
                raw.fence();
            }
            at.len() as u64
        }),
        side("scmfs", || {
            for offset in at {
                file.write_at(page, *offset).expect("a write");
            }
            at.len() as u64
        }),
    ];
    for (name, host) in &hosts {
        sides.push(side(name, move || {
            for offset in at {
                host.write_all_at(page, *offset).expect("a write");
            }
            at.len() as u64
        }));
    }
    let times = interleave(31, sides);
    say(&format!("  {} (tmpfs and ext4: not durable)", times.line()));
    let ratio = times.ratio("scmfs", "stream + fence");
    bar("4 KiB durable overwrite: scmfs over streaming store and fence", ratio, Some(1.4), None);
}

/// A file that grows to 256 MiB by 4 KiB.
pub fn append(ground: &Ground) {
    const COUNT: u64 = 256 * MIB / PAGE as u64;
    let (v, durable) = (ground.volume("append", 640 * MIB, false), ground.volume("append-durable", 640 * MIB, true));
    let page = &vec![7_u8; PAGE];
    let grow = |v: &Volume| {
        let file = v.create_file(ROOT, b"log", &Meta::file(0o644)).expect("a new file");
        for _ in 0..COUNT {
            file.append(page).expect("space");
        }
        drop(file);
        v.unlink(ROOT, b"log").expect("it is there");
        COUNT
    };
    let mut sides: Vec<Side<'_>> = vec![side("scmfs", || grow(&v)), side("scmfs durable", || grow(&durable))];
    for (name, folder) in others(ground) {
        sides.push(side(name, move || {
            use std::io::Write;
            let path = folder.join("log");
            let mut file = fs::File::options().create(true).append(true).open(&path).expect("a new file");
            for _ in 0..COUNT {
                file.write_all(page).expect("space");
            }
            drop(file);
            fs::remove_file(path).expect("it is there");
            COUNT
        }));
    }
    let times = interleave(7, sides);
    say(&format!("  {} (create and unlink included)", times.line()));
    for (name, least) in [("tmpfs", 2.0), ("ext4", 4.0)] {
        bar(&format!("4 KiB append: {name} over scmfs"), times.ratio(name, "scmfs"), None, Some(least));
        bar(&format!("4 KiB append: {name} over scmfs durable"), times.ratio(name, "scmfs durable"), None, Some(least));
    }
}

/// 1 MiB reads and writes.
pub fn bandwidth(ground: &Ground) {
    const BYTES: u64 = 128 * MIB;
    let (v, durable) = (ground.volume("large", 256 * MIB, false), ground.volume("large-durable", 256 * MIB, true));
    let (file, durable) = (filled(&v, "a", BYTES), filled(&durable, "a", BYTES));
    let options = MapOptions::default().persistent(true);
    let raw = Mapped::create(&ground.tmpfs.join("raw-large"), BYTES, &options).expect("a region");
    // SAFETY: nobody else uses the region.
    unsafe { raw.zero(0, BYTES) };
    let hosts: Vec<_> = others(ground).iter().map(|(name, at)| (*name, host_file(at, "l", BYTES))).collect();
    let base = raw.base() as usize;
    let each = |work: &mut dyn FnMut(u64)| {
        (0..BYTES).step_by(MIB as usize).for_each(work);
        BYTES / MIB
    };
    let mut buffer = vec![1_u8; MIB as usize];
    let pointer = buffer.as_mut_ptr() as usize;
    // SAFETY: one side runs at a time, and each uses the buffer only while it runs.
    let target = move || unsafe { std::slice::from_raw_parts_mut(pointer as *mut u8, MIB as usize) };
    // SAFETY: offset and length lie inside the region.
    let place = move |at: u64| unsafe { (base as *mut u8).add(at as usize) };
    let mut reads = vec![
        side("memcpy", || {
            each(&mut |at| {
                // SAFETY: both sides are valid for 1 MiB and do not overlap.
                unsafe { std::ptr::copy_nonoverlapping(place(at), target().as_mut_ptr(), MIB as usize) };
                std::hint::black_box(target());
            })
        }),
        side("scmfs", || each(&mut |at| drop(file.read_at(target(), at)))),
    ];
    let mut writes = vec![
        side("memcpy", || {
            each(&mut |at| {
                // SAFETY: as above.
                unsafe { std::ptr::copy_nonoverlapping(target().as_ptr(), place(at), MIB as usize) };
            })
        }),
        side("stream + fence", || {
            each(&mut |at| {
                // SAFETY: nobody else uses the region.
                unsafe { raw.stream(at, target()) };
                raw.fence();
            })
        }),
        side("scmfs", || each(&mut |at| drop(file.write_at(target(), at)))),
        side("scmfs durable", || each(&mut |at| drop(durable.write_at(target(), at)))),
    ];
    for (name, host) in &hosts {
        reads.push(side(name, || each(&mut |at| host.read_exact_at(target(), at).expect("a read"))));
        writes.push(side(name, || each(&mut |at| host.write_all_at(target(), at).expect("a write"))));
    }
    for (what, sides, pairs) in [
        ("read", reads, &[("memcpy", "scmfs")][..]),
        ("write", writes, &[("memcpy", "scmfs"), ("stream + fence", "scmfs durable")][..]),
    ] {
        let times = interleave(15, sides);
        say(&format!("  1 MiB {what}: {}", times.line()));
        for (raw, scmfs) in pairs {
            let label = format!("1 MiB {what}: bandwidth of {scmfs} over {raw}");
            bar(&label, times.ratio(raw, scmfs), None, Some(0.9));
        }
    }
}

/// Two threads on files of their own against one.
pub fn threads(ground: &Ground) {
    // Both files together stay in the caches, as one does: what is measured is not the memory.
    const BYTES: u64 = 4 * MIB;
    let v = ground.volume("threads", 256 * MIB, false);
    let files = [filled(&v, "a", BYTES), filled(&v, "b", BYTES)];
    let at = &offsets(500_000, BYTES);
    let raw = [vec![1_u8; BYTES as usize], vec![2_u8; BYTES as usize]];
    let copy = |from: &[u8]| {
        let mut page = vec![3_u8; PAGE];
        for offset in at {
            page.copy_from_slice(&from[*offset as usize..][..PAGE]);
            std::hint::black_box(&page);
        }
        at.len() as u64
    };
    let (copy, raw) = (&copy, &raw);
    let both = || {
        std::thread::scope(|scope| raw.iter().for_each(|from| drop(scope.spawn(move || copy(from)))));
        2 * at.len() as u64
    };
    let times = interleave(15, vec![side("one", || copy(&raw[0])), side("two", both)]);
    let ratio = times.ratio("one", "two").unwrap_or(f64::NAN);
    say(&format!("  memcpy of 4 KiB: {} per operation; two threads over one {ratio:.2}", times.line()));
    let work = |file: &File, writes: bool| {
        let mut page = vec![3_u8; PAGE];
        for offset in at {
            if writes {
                file.write_at(&page, *offset).expect("a write");
            } else {
                file.read_at(&mut page, *offset).expect("a read");
            }
        }
    };
    for (what, writes) in [("reads", false), ("overwrites", true)] {
        let (work, files) = (&work, &files);
        let one = side("one", || {
            work(&files[0], writes);
            at.len() as u64
        });
        let two = side("two", || {
            std::thread::scope(|scope| {
                for file in files {
                    scope.spawn(move || work(file, writes));
                }
            });
            2 * at.len() as u64
        });
        let times = interleave(15, vec![one, two]);
        say(&format!("  4 KiB {what}: {} per operation", times.line()));
        bar(&format!("throughput of two threads over one, {what}"), times.ratio("one", "two"), None, Some(1.7));
    }
}

/// The first three again, on hugetlbfs.
pub fn hugetlbfs(ground: &Ground) {
    let Some(folder) = &ground.hugetlbfs else { return };
    let v = volume(&folder.join("volume"), 512 * MIB, false, Some(4096));
    let file = filled(&v, "a", HOT_BYTES);
    let at = &offsets(20_000, HOT_BYTES);
    let (mut buffer, page) = (vec![0_u8; PAGE], vec![7_u8; PAGE]);
    let sides = vec![
        side("read 4 KiB", || {
            at.iter().for_each(|offset| drop(file.read_at(&mut buffer, *offset)));
            at.len() as u64
        }),
        side("overwrite 4 KiB", || {
            at.iter().for_each(|offset| drop(file.write_at(&page, *offset)));
            at.len() as u64
        }),
        side("append 4 KiB to 64 MiB", || {
            let file = v.create_file(ROOT, b"log", &Meta::file(0o644)).expect("a new file");
            (0..64 * MIB / (4 * KIB)).for_each(|_| drop(file.append(&page)));
            v.unlink(ROOT, b"log").expect("it is there");
            64 * MIB / (4 * KIB)
        }),
    ];
    say(&format!("  {}", interleave(15, sides).line()));
}
