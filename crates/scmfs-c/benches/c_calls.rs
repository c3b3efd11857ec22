//! What the border to C costs: 4 KiB read and overwritten in files of 64 KiB and 16 MiB, by the functions of the header
//! and by the Rust library, in interleaved rounds. In nanoseconds of processor time, on a region in /dev/shm.

use pocketstone_core::median::median;
use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs::{Meta, OpenOptions, Operations, ROOT, Volume};
use pocketstone_testing::bench::cpu;
use scmfs::file::{OpenFile, scmfs_open, scmfs_pread, scmfs_pwrite};
use scmfs::types::{SCMFS_CREATE, SCMFS_READ, SCMFS_WRITE};
use scmfs::volume::{OpenVolume, scmfs_volume_create, scmfs_volume_open};
use std::ffi::{CString, c_void};
use std::hint::black_box;
use std::io::Write;
use std::ptr::{null, null_mut};

const ROUNDS: usize = 31;
const CALLS: u64 = 50_000;
const FILES: [(&str, u64); 2] = [("small", 16), ("large", 4096)];

/// Nanoseconds of one call, in a file of so many pages.
fn measure(pages: u64, mut call: impl FnMut(u64)) -> f64 {
    let start = cpu();
    (0..CALLS).for_each(|i| call(i.wrapping_mul(7) % pages * 4096));
    (cpu() - start).as_nanos() as f64 / CALLS as f64
}

fn main() {
    let home = tempfile::tempdir_in("/dev/shm").expect("a directory");
    let paths = ["c", "rust"].map(|name| home.path().join(name));
    let names = paths.each_ref().map(|path| CString::new(path.to_str().expect("UTF-8")).expect("a text"));
    let mut volume = null_mut();
    // SAFETY: texts and variables.
    unsafe {
        names.iter().for_each(|name| assert_eq!(scmfs_volume_create(name.as_ptr(), 64 << 20, null()), 0));
        assert_eq!(scmfs_volume_open(names[0].as_ptr(), 0, &mut volume), 0);
    }
    let region = Mapped::open(&paths[1], &MapOptions::default()).expect("a region");
    let rust = Volume::open(Box::new(region), &OpenOptions::default()).expect("a volume");
    FILES.iter().for_each(|(name, pages)| compare(volume, &rust, name, *pages));
}

fn compare(volume: *const OpenVolume, rust: &Volume, name: &str, pages: u64) {
    let mut buffer = vec![7_u8; (pages * 4096) as usize];
    let rust = rust.create_file(ROOT, name.as_bytes(), &Meta::file(0o600)).expect("a file");
    rust.write_at(&buffer, 0).expect("space");
    let mut file = null_mut();
    let path = CString::new(name).expect("a text");
    // SAFETY: an open volume, a text, a variable, and data of that length.
    unsafe {
        let flags = SCMFS_READ | SCMFS_WRITE | SCMFS_CREATE;
        assert_eq!(scmfs_open(volume, path.as_ptr(), flags, 0o600, &mut file), 0);
        assert_eq!(scmfs_pwrite(file, buffer.as_ptr().cast(), buffer.len(), 0), buffer.len() as i64);
    }
    buffer.truncate(4096);

    // By pointers that the compiler does not know: as a linker calls them.
    let pread: unsafe extern "C" fn(*const OpenFile, *mut c_void, usize, u64) -> i64 = black_box(scmfs_pread);
    let pwrite: unsafe extern "C" fn(*const OpenFile, *const c_void, usize, u64) -> i64 = black_box(scmfs_pwrite);
    let mut figures = [(); 4].map(|()| Vec::new());
    for _ in 0..ROUNDS {
        figures[0].push(measure(pages, |at| _ = black_box(rust.read_at(&mut buffer, at).expect("a read"))));
        let room = buffer.as_mut_ptr().cast();
        // SAFETY: an open file, and room of that length.
        figures[1].push(measure(pages, |at| assert_eq!(unsafe { pread(file, room, 4096, at) }, 4096)));
        figures[2].push(measure(pages, |at| _ = black_box(rust.write_at(&buffer, at).expect("a write"))));
        let data = buffer.as_ptr().cast();
        // SAFETY: an open file, and data of that length.
        figures[3].push(measure(pages, |at| assert_eq!(unsafe { pwrite(file, data, 4096, at) }, 4096)));
    }
    let mut out = std::io::stdout().lock();
    for (what, at) in [("read", 0), ("overwrite", 2)] {
        let ratio = median(figures[at + 1].iter().zip(&figures[at]).map(|(c, rust)| c / rust).collect::<Vec<_>>())
            .expect("rounds");
        let [rust, c] = [at, at + 1].map(|of| median(figures[of].clone()).expect("rounds"));
        let _ = writeln!(out, "{what} {name}: Rust {rust:.1} ns, C {c:.1} ns, ratio of rounds {ratio:.3}");
    }
}
