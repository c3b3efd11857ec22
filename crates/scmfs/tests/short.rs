//! Regions shorter than their volume, of any length: errors with a cure, no panic. A region that can grow is given
//! its length back.

use crate::support::region::Shared;
use crate::support::seal::Seal;
use crate::support::subject::walk;
use pocketstone_media::{MapOptions, Mapped};
use pocketstone_scmfs::{
    CreateOptions, Dump, Error, FindingKind, Geometry, Meta, OpenOptions, Operations, ROOT, Threshold, Volume, check,
    dump, repair, upgrade,
};
use std::path::{Path, PathBuf};

fn memory() -> PathBuf {
    let memory = Path::new("/dev/shm");
    if memory.is_dir() { memory.into() } else { std::env::temp_dir() }
}

fn options() -> OpenOptions {
    OpenOptions::default().null_files(0)
}

fn volume(page_bytes: u32, bytes: u64) -> Vec<u8> {
    let shared = Shared::new(bytes);
    let geometry = Geometry::new(page_bytes, page_bytes * 8);
    let create = CreateOptions::default().inodes(32).geometry(geometry).threshold(Threshold::Bytes(8192));
    Volume::create(shared.region(), &create).expect("a volume");
    let volume = Volume::open(shared.region(), &options()).expect("it opens");
    for i in 0..12 {
        let Ok(file) = volume.create_file(ROOT, format!("{i}").as_bytes(), &Meta::file(0o644)) else { break };
        if file.write_at(&[i + 1; 6000], 0).is_err() {
            break;
        }
    }
    volume.close().expect("it is closed");
    shared.image()
}

/// Every way to a volume; each says what is wrong, and how that is cured.
fn expect_errors(image: &[u8]) {
    let region = || Shared::from_image(image).region();
    let read_only = options().read_only(true);
    let errors = [
        Volume::open(region(), &options()).err(),
        Volume::open(region(), &read_only).err(),
        check(region()).err(),
        repair(region()).err(),
        dump(region(), &Dump::Superblock).err(),
        upgrade(region()).err(),
    ];
    for (way, error) in errors.into_iter().enumerate() {
        match error {
            Some(Error::Medium(error)) => assert!(error.cure().is_some(), "{way}: {}", error.message()),
            Some(Error::Damaged(_)) if way < 6 => {}
            other => panic!("{} bytes, way {way}: {other:?}", image.len()),
        }
    }
}

#[test]
fn no_length_makes_anything_panic() {
    for page_bytes in [256, 4096] {
        let image = volume(page_bytes, 256 << 10);
        let seal = Seal::of(&image);
        let around = |at: usize| at.saturating_sub(2)..(at + 3).min(image.len());
        let boundaries = [4096, 8192, seal.superblocks()[1], seal.data_at, image.len() - 1];
        let lengths = (0..20_000).step_by(7).chain(boundaries.into_iter().flat_map(around));
        for bytes in lengths.chain(around(image.len()).filter(|bytes| *bytes < image.len())) {
            expect_errors(&image[..bytes]);
        }
    }
    for bytes in 0..5000 {
        let old = std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/closed.v1")).expect("there");
        assert!(repair(Shared::from_image(&old[..bytes]).region()).is_err());
        assert!(upgrade(Shared::from_image(&old[..bytes]).region()).is_err());
    }
}

#[test]
fn a_file_that_was_cut_short_is_lengthened_and_what_it_lost_is_named() {
    let image = volume(512, 128 << 10);
    let data_at = Seal::of(&image).data_at;
    let whole = {
        let volume = Volume::open(Shared::from_image(&image).region(), &options()).expect("it opens");
        walk(&volume).expect("it is sound")
    };
    for short in [1, 4096, image.len() - data_at, image.len() - data_at + 512] {
        let file = tempfile::NamedTempFile::new_in(memory()).expect("a file");
        let kept = image.len() - short;
        std::fs::write(file.path(), &image[..kept]).expect("it can be written");
        let open = || Box::new(Mapped::open(file.path(), &MapOptions::default()).expect("it can be mapped"));
        let Err(Error::Medium(error)) = check(open()) else { panic!("{short} bytes less were not missed") };
        assert!(error.cure().is_some_and(|cure| cure.contains("fsck --repair")), "{}", error.message());
        let report = repair(open()).expect("it is repaired");
        assert!(report.findings.iter().all(|finding| finding.repaired), "{report:#?}");
        assert!(check(open()).is_ok_and(|report| report.clean && report.findings.is_empty()));
        assert_eq!(std::fs::metadata(file.path()).expect("it is there").len(), image.len() as u64);
        let volume = Volume::open(open(), &options()).expect("it opens");
        let tree = walk(&volume).expect("it is sound");
        for (path, leaf) in &whole {
            // Only what is named has lost something, and that reads as zeros.
            let cut = report.findings.iter().find(|finding| {
                finding.kind == FindingKind::Cut
                    && finding.path.as_ref() == Some(path)
                    && finding.size == Some(leaf.content.size())
            });
            let now = tree.get(path).map(|leaf| leaf.content.clone());
            if now.as_ref() != Some(&leaf.content) {
                let finding = cut.or_else(|| {
                    report.findings.iter().find(|finding| finding.what.contains(path.as_str()) && path.len() > 1)
                });
                assert!(finding.is_some() || kept <= data_at, "{short}: {path} in {:#?}", report.findings);
            }
        }
    }
}
