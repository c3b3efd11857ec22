//! Images of read-only volumes, made on this machine by mksquashfs, with the same files that a board writes itself on
//! other volumes.

use pocketstone_core::error::Context;
use pocketstone_core::volume::Volume;
use pocketstone_core::{Error, Result};
use pocketstone_engine::{KernelTree, populate};
use pocketstone_workload::plan::{IMAGE_FILE, Order};
use std::fs;
use std::path::Path;
use std::process::Command;

const PROGRAM: &str = "mksquashfs";

fn run(words: &mut Command) -> Result<String> {
    // It decides an image's times, which are given.
    let output = words.env_remove("SOURCE_DATE_EPOCH").output();
    let output = output.map_err(|e| {
        Error::board(format!("{PROGRAM} is not installed on this machine"))
            .because(e)
            .hint("apt-get install squashfs-tools")
    })?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    // Its version 4.5 answers -version with status 0, earlier ones with 1.
    match output.status.success() || words.get_args().eq(["-version"]) {
        true => Ok(said(&output.stdout)),
        false => Err(Error::board(format!("{PROGRAM} exited with {}: {}", output.status, said(&output.stderr)))),
    }
}

/// The version of the program that makes images.
///
/// # Errors
/// `ErrorKind::Board` if mksquashfs is not installed.
pub fn version() -> Result<String> {
    let said = run(Command::new(PROGRAM).arg("-version"))?;
    Ok(said.lines().next().unwrap_or_default().to_owned())
}

/// Puts the image that an order needs beside it.
///
/// # Errors
/// `ErrorKind::Board` if it cannot be built.
pub fn put_image(order: &Order, folder: &Path) -> Result<()> {
    let Some((volume, population)) = order.image() else { return Ok(()) };
    let content = tempfile::tempdir_in(folder).board(|| "cannot create a folder for an image's files".into())?;
    let root = content.path();
    let files = population.folder().map_or(root.to_owned(), |folder| root.join(folder));
    fs::create_dir_all(&files).board(|| format!("cannot create {}", files.display()))?;
    populate(&KernelTree::open(&files)?, population)?;
    make(volume, root, &folder.join(IMAGE_FILE))
}

/// Makes an image of what is in a folder: the same files give the same bytes.
fn make(volume: &Volume, content: &Path, image: &Path) -> Result<()> {
    let mut words = Command::new(PROGRAM);
    words.arg(content).arg(image).args(["-noappend", "-no-progress", "-quiet", "-no-xattrs", "-all-root"]);
    // One thread: several would lay files out as they finish.
    words.args(["-mkfs-time", "0", "-all-time", "0", "-processors", "1"]);
    match volume.options.iter().find_map(|option| option.strip_prefix("compr=")) {
        None | Some("zlib") => words.args(["-comp", "gzip"]),
        Some("none") => words.args(["-noI", "-noD", "-noF", "-noX"]),
        Some(compressor) => words.args(["-comp", compressor]),
    };
    run(&mut words).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pocketstone_core::volume::FileSystem;
    use pocketstone_testing::{or_skip, program};
    use pocketstone_workload::plan::Step;
    use pocketstone_workload::{Caches, Data, Population, Sizes};

    fn volume(options: &[&str]) -> Volume {
        let options = options.iter().map(|o| (*o).to_owned()).collect();
        Volume { options, ..Volume::usual(FileSystem::Squashfs) }
    }

    fn image(step: Step) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        put_image(&Order::Prepare { step }, folder.path()).unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "the image alone is left");
        fs::read(folder.path().join(IMAGE_FILE)).unwrap()
    }

    #[test]
    fn the_same_files_give_the_same_image_and_compression_is_obeyed() {
        or_skip!(program("mksquashfs", "squashfs-tools"));
        let (files, file_bytes, data, caches) = (1, 300_000, Data::Compressible, Caches::ColdPages);
        let population = Population { files, file_bytes, data, seed: 5, sizes: Sizes::Target, caches };
        let of = |options: &[&str]| image(Step::Populate { volume: volume(options), population: population.clone() });
        let (default, plain) = (of(&[]), of(&["compr=none"]));
        assert_eq!(default, of(&["compr=zlib"]));
        // The format's magic, and its compressor at byte 20: 1 is zlib, 6 zstd.
        assert_eq!((&default[..4], default[20], of(&["compr=zstd"])[20]), (&b"hsqs"[..], 1, 6));
        // Letters of four bits take about half of what they take as bytes; the filler is random and has no more
        // than 65,536.
        assert!(plain.len() > 300_000 && default.len() < 240_000, "{} {}", plain.len(), default.len());
    }

    #[test]
    fn a_population_is_in_its_folder_and_no_other_order_has_an_image() {
        or_skip!(program("mksquashfs", "squashfs-tools"));
        let sizes = Sizes::Application { libraries: 1 };
        let population =
            Population { files: 33, file_bytes: 65_536, data: Data::Random, seed: 1, sizes, caches: Caches::Cold };
        let bytes = image(Step::Populate { volume: volume(&[]), population });
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("image");
        fs::write(&path, bytes).unwrap();
        let listed = Command::new("unsquashfs").arg("-l").arg(&path).output().unwrap();
        let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
        let is_there = |end: &str| listed.lines().any(|line| line.ends_with(end));
        assert!(is_there("/pocketstone-files/part-0001/file-00000032") && is_there("/lib/library-00"), "{listed}");
        put_image(&Order::Engines, folder.path()).unwrap();
        assert!(!folder.path().join(IMAGE_FILE).exists());
    }
}
