//! How many files of which size fit in volumes of the sizes that the SCMFS thesis has in its table 3. The
//! volumes are really filled, with files of zeros, each of its full size.
//!
//!     cargo run --release -p pocketstone-scmfs --example capacity
//!
//! On processors of 32 bits too, as far as their address space goes.

use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs::{Allocate, CreateOptions, Error, Meta, OpenOptions, Operations, ROOT, Volume};
use std::io::Write;

/// As the thesis has it; MB and GB are taken for 2^20 and 2^30 bytes there.
const MIB: u64 = 1 << 20;
/// Size of the volume in tenths of a GiB, and the thesis's largest file and numbers of files of 2, 6, 25 and
/// 100 MB.
const TABLE: [(&str, u64, &str, [&str; 4]); 3] = [
    ("0.8", 8, "600+", ["300+", "100+", "20+", "7"]),
    ("1.8", 18, "1024+", ["500+", "180+", "50+", "10+"]),
    ("2.8", 28, "2048+", ["1000+", "400+", "100+", "20+"]),
];
const FILE_MIB: [u64; 4] = [2, 6, 25, 100];

/// How many files of so many bytes fit; `Err` says why the volume cannot be had here.
fn fill(volume_bytes: u64, small_bytes: Option<u64>, file_bytes: u64) -> Result<u64, Error> {
    with_volume(volume_bytes, small_bytes, |volume| {
        for count in 0.. {
            let made = volume.create_file(ROOT, format!("{count}").as_bytes(), &Meta::file(0o644));
            match made.and_then(|file| file.allocate(Allocate::Extend, 0, file_bytes)) {
                Ok(()) => {}
                Err(Error::NoSpace) => return Ok(count),
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    })
}

/// The size in MiB of the largest file, if it is the only one.
fn largest(volume_bytes: u64, small_bytes: Option<u64>) -> Result<u64, Error> {
    with_volume(volume_bytes, small_bytes, |volume| {
        let file = volume.create_file(ROOT, b"largest", &Meta::file(0o644))?;
        for mib in 0.. {
            match file.allocate(Allocate::Extend, mib * MIB, MIB) {
                Ok(()) => {}
                Err(Error::NoSpace) => return Ok(mib),
                Err(error) => return Err(error),
            }
        }
        Ok(0)
    })
}

/// Makes a volume for one purpose, and removes it.
fn with_volume(
    volume_bytes: u64,
    small_bytes: Option<u64>,
    work: impl FnOnce(&Volume) -> Result<u64, Error>,
) -> Result<u64, Error> {
    let options = CreateOptions::default().zeroed(true).inodes(16_384).small_bytes(small_bytes).max_bytes(volume_bytes);
    let file = tempfile::Builder::new().prefix("scmfs-capacity").tempfile().expect("a file for the volume");
    file.as_file().set_len(volume_bytes).expect("a length for the volume");
    let map = || Mapped::open(file.path(), &MapOptions::default());
    Volume::create(Box::new(map()?), &options)?;
    let volume = Volume::open(Box::new(map()?), &OpenOptions::default())?;
    let result = work(&volume)?;
    volume.close()?;
    Ok(result)
}

fn main() {
    let mut out = std::io::stdout().lock();
    let bits = usize::BITS;
    let columns = format!("Here, {bits} bits | Here, {bits} bits, default zone");
    writeln!(out, "| Volume, GiB | What | Thesis, table 3 | {columns} |").expect("output");
    writeln!(out, "| ---: | :--- | ---: | ---: | ---: |").expect("output");
    let shown = |result: Result<u64, Error>| match result {
        Ok(number) => number.to_string(),
        Err(error) => format!("none: {error}"),
    };
    // A zone of one huge page holds what the directory needs; a quarter is the default.
    let zones = [Some(2 * MIB), None];
    for (name, tenths, max_file, thesis) in TABLE {
        let bytes = tenths * 1024 * MIB / 10 / 4096 * 4096;
        for (file_mib, thesis) in FILE_MIB.into_iter().zip(thesis) {
            let here = zones.map(|zone| shown(fill(bytes, zone, file_mib * MIB)));
            writeln!(out, "| {name} | files of {file_mib} MiB | {thesis} | {} |", here.join(" | ")).expect("output");
        }
        let here = zones.map(|zone| shown(largest(bytes, zone)));
        writeln!(out, "| {name} | MiB of the largest file | {max_file} | {} |", here.join(" | ")).expect("output");
    }
}
