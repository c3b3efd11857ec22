//! Reading and writing.

use crate::measure::{breakdown, each, interleave, side};
use crate::volume;
use pocketstone_media::{MapOptions, Mapped, Region};
use pocketstone_random::Random;
use pocketstone_scmfs::{File, Meta, Operations, ROOT, Volume};
use std::cell::RefCell;
use std::hint::black_box;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::Path;

const MIB: u64 = 1 << 20;
const PAGE: usize = 4096;
/// Stays in the caches of a processor.
const HOT: u64 = 16 * MIB;

fn filled(volume: &Volume, name: &[u8], bytes: u64) -> File {
    let file = volume.create_file(ROOT, name, &Meta::file(0o644)).expect("a file");
    let part = vec![0x5a; MIB as usize];
    (0..bytes / MIB).for_each(|i| _ = file.write_at(&part, i * MIB).expect("space"));
    file
}

/// Where a program's buffer lies in its page: how fast processors copy depends on it, and the kernel's copies do, too.
const OFFSETS: [(&str, usize); 2] = [("buffer on a page", 0), ("buffer as malloc gives it", 16)];

/// So many bytes of a longer buffer, at an offset in a page.
fn placed(longer: &mut [u8], bytes: usize, offset: usize) -> &mut [u8] {
    let start = longer.as_ptr().align_offset(PAGE) + offset;
    &mut longer[start..start + bytes]
}

fn raw(path: &Path, bytes: u64, persistent: bool) -> Mapped {
    let region = Mapped::create(path, bytes, &MapOptions::default().persistent(persistent)).expect("a region");
    region.touch(0, bytes);
    // SAFETY: nobody else has the region.
    unsafe { region.zero(0, bytes) };
    region
}

fn host_file(path: &Path, bytes: u64) -> std::fs::File {
    let file = std::fs::File::options().create_new(true).read(true).write(true).open(path).expect("a new file");
    let part = vec![0x5a; MIB as usize];
    (0..bytes / MIB).for_each(|i| file.write_all_at(&part, i * MIB).expect("space"));
    file
}

/// 4 KiB reads at random offsets of a file in the caches.
pub fn read(home: &Path) {
    let v = volume(&home.join("volume"), 64 * MIB, false, None);
    let (file, raw) = (filled(&v, b"a", HOT), raw(&home.join("raw"), HOT, false));
    let host = host_file(&home.join("host"), HOT);
    let mut random = Random::labelled(1, "offsets");
    let at: Vec<u64> = (0..20_000).map(|_| random.below(HOT / PAGE as u64) * PAGE as u64).collect();
    let at = |i: u64| at[i as usize];
    let mut longer = vec![0; 3 * PAGE];
    let buffer = RefCell::new(placed(&mut longer, PAGE, 16));
    let base = raw.base();
    let times = interleave(
        31,
        vec![
            side("memcpy", || {
                each(20_000, |i| {
                    // SAFETY: the offsets lie inside the region, the buffer holds a page.
                    unsafe {
                        std::ptr::copy_nonoverlapping(base.add(at(i) as usize), buffer.borrow_mut().as_mut_ptr(), PAGE)
                    };
                    black_box(&buffer);
                })
            }),
            side("scmfs", || {
                each(20_000, |i| {
                    file.read_at(&mut buffer.borrow_mut(), at(i)).expect("a read");
                    black_box(&buffer);
                })
            }),
            side("tmpfs", || each(20_000, |i| host.read_exact_at(&mut buffer.borrow_mut(), at(i)).expect("a read"))),
            side("nothing", || {
                each(20_000, |i| {
                    black_box(file.read_at(&mut [], at(i)).expect("a read"));
                })
            }),
        ],
    );
    times.at_most(1.15, "4 KiB read", "scmfs", "memcpy");
    times.say("4 KiB read");
    breakdown(
        "4 KiB read",
        times.ns("scmfs"),
        &[("copy", times.ns("memcpy")), ("lock and place", times.ns("nothing"))],
    );
}

/// A file that grows by 4 KiB, beside overwriting one of the same length, and one in the caches.
pub fn append(home: &Path) {
    for (label, offset) in OFFSETS {
        let home = tempfile::tempdir_in(home).expect("a directory");
        append_from(home.path(), label, offset);
    }
}

fn append_from(home: &Path, label: &str, offset: usize) {
    const BYTES: u64 = 32 * MIB;
    const COUNT: u64 = BYTES / PAGE as u64;
    const ROUNDS: usize = 15;
    let mut longer = vec![7; 3 * PAGE];
    let page = &*placed(&mut longer, PAGE, offset);
    let what = format!("4 KiB append, {label}");
    // Each round has space that no round before had.
    let room = BYTES * (ROUNDS as u64 + 5) + 64 * MIB;
    let volumes = [false, true].map(|durable| volume(&home.join(format!("new-{durable}")), room, durable, None));
    let used = volume(&home.join("used"), 4 * BYTES, false, None);
    drop(filled(&used, b"all", 3 * BYTES));
    used.unlink(ROOT, b"all").expect("it is there");
    let files: Vec<File> = volumes.iter().map(|v| filled(v, b"a", BYTES)).collect();
    let hot = filled(&used, b"hot", 4 * MIB);
    let target = raw(&home.join("raw"), BYTES, false);
    let grow = |v: &Volume| {
        let file = v.create_file(ROOT, b"log", &Meta::file(0o644)).expect("a file");
        let ns = each(COUNT, |_| _ = file.append(page).expect("space"));
        drop(file);
        v.unlink(ROOT, b"log").expect("it is there");
        ns
    };
    let overwrite =
        |file: &File, pages: u64| each(COUNT, |i| _ = file.write_at(page, i % pages * PAGE as u64).expect("a write"));
    let times = interleave(
        ROUNDS,
        vec![
            side("append", || grow(&volumes[0])),
            side("append, durable", || grow(&volumes[1])),
            side("append, used space", || grow(&used)),
            side("overwrite", || overwrite(&files[0], COUNT)),
            side("overwrite, durable", || overwrite(&files[1], COUNT)),
            side("overwrite, hot", || overwrite(&hot, 1024)),
            side("tmpfs", || {
                let mut file = std::fs::File::create(home.join("log")).expect("a new file");
                let ns = each(COUNT, |_| file.write_all(page).expect("space"));
                std::fs::remove_file(home.join("log")).expect("it is there");
                ns
            }),
            side("memcpy", || {
                each(COUNT, |i| {
                    // SAFETY: nobody else has the region, and the page lies in it.
                    unsafe { target.write(i * PAGE as u64, page) };
                })
            }),
            side("version", || each(COUNT, |_| _ = volumes[0].set_attributes(files[0].ino(), &Default::default()))),
            side("version, durable", || {
                each(COUNT, |_| _ = volumes[1].set_attributes(files[1].ino(), &Default::default()))
            }),
            side("nothing", || each(COUNT, |i| _ = files[0].write_at(&[], i).expect("a write"))),
        ],
    );
    times.at_most(1.4, &what, "append", "overwrite");
    times.at_most(1.4, &what, "append, used space", "overwrite");
    times.at_most(1.4, &what, "append, durable", "overwrite, durable");
    times.at_most(0.6, &what, "append", "tmpfs");
    times.at_most(0.6, &what, "append, durable", "tmpfs");
    times.say(&format!("4 KiB, {label}"));
    let ns = |name: &str| times.ns(name);
    breakdown(
        "append",
        ns("append"),
        &[
            ("copy", ns("memcpy")),
            ("lock", ns("nothing")),
            ("version", ns("version") - ns("nothing")),
            ("first touch", ns("append") - ns("append, used space")),
        ],
    );
    breakdown(
        "append, durable",
        ns("append, durable"),
        &[
            ("append", ns("append")),
            ("persistence of the version", ns("version, durable") - ns("version")),
            ("of the data", ns("overwrite, durable") - ns("overwrite")),
        ],
    );
    breakdown("overwrite", ns("overwrite"), &[("copy", ns("memcpy")), ("lock", ns("nothing"))]);
}

/// 1 MiB writes.
pub fn large(home: &Path) {
    for (label, offset) in OFFSETS {
        let home = tempfile::tempdir_in(home).expect("a directory");
        large_from(home.path(), label, offset);
    }
}

fn large_from(home: &Path, label: &str, offset: usize) {
    const BYTES: u64 = 64 * MIB;
    let volumes = [false, true].map(|durable| volume(&home.join(format!("v-{durable}")), 2 * BYTES, durable, None));
    let files: Vec<File> = volumes.iter().map(|v| filled(v, b"a", BYTES)).collect();
    let host = host_file(&home.join("host"), BYTES);
    let [plain, streamed] = [false, true].map(|durable| raw(&home.join(format!("raw-{durable}")), BYTES, durable));
    let mut longer = vec![1; MIB as usize + 2 * PAGE];
    let part = &*placed(&mut longer, MIB as usize, offset);
    let what = format!("1 MiB write, {label}");
    let base = plain.base() as usize;
    let count = BYTES / MIB;
    let times = interleave(
        31,
        vec![
            side("scmfs", || each(count, |i| _ = files[0].write_at(part, i * MIB).expect("a write"))),
            side("scmfs, durable", || each(count, |i| _ = files[1].write_at(part, i * MIB).expect("a write"))),
            side("tmpfs", || each(count, |i| host.write_all_at(part, i * MIB).expect("a write"))),
            side("memcpy", || {
                each(count, |i| {
                    let to = (base + (i * MIB) as usize) as *mut u8;
                    // SAFETY: the place lies inside the region, which nobody else has.
                    unsafe { std::ptr::copy_nonoverlapping(part.as_ptr(), to, part.len()) };
                })
            }),
            side("streaming stores", || {
                each(count, |i| {
                    // SAFETY: nobody else has the region.
                    unsafe { streamed.stream(i * MIB, part) };
                    streamed.fence();
                })
            }),
        ],
    );
    times.at_least(1.8, &what, "tmpfs", "scmfs");
    times.at_least(1.8, &what, "tmpfs", "scmfs, durable");
    times.at_most(1.1, &what, "scmfs", "memcpy");
    times.at_most(1.1, &what, "scmfs", "streaming stores");
    times.say(&what);
}
