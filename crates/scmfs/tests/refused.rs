//! Volumes that are refused: of a newer format, and cut short. The message says what it is and what to do,
//! and not a byte is changed.

use crate::support::explore::Start;
use crate::support::region::Shared;
use crate::support::seal::Seal;
use crate::support::starts;
use pocketstone_scmfs::{Error, OpenOptions, Volume, check, repair};

fn start() -> Start {
    starts::all().into_iter().find(|start| start.name == "files").expect("there is such a start")
}

/// What every way to the volume says, and the cure: opening, opening to read, fsck and repair.
fn refusals(image: &[u8], options: &OpenOptions) -> Vec<(String, String)> {
    let shared = Shared::from_image(image);
    let read_only = options.clone().read_only(true);
    let errors = [
        Volume::open(shared.region(), options).map(Volume::abandon).err(),
        Volume::open(shared.region(), &read_only).map(Volume::abandon).err(),
        check(shared.region()).err(),
        repair(shared.region()).err(),
    ];
    assert!(shared.image() == image, "a volume that was refused was changed");
    let texts = errors.into_iter().enumerate().map(|(way, error)| match error {
        Some(Error::Medium(error)) => (error.chain(), error.cure().unwrap_or_default().to_string()),
        other => panic!("way {way}: {other:?}"),
    });
    texts.collect()
}

#[test]
fn a_newer_format() {
    let start = start();
    let seal = Seal::of(&start.image);
    let [near, far] = seal.superblocks();
    // Version and incompatible features; in both copies of the superblock, or in one of them only.
    for (at, shown) in [(8, "format 3"), (140, "features 0x4")] {
        for copies in [vec![near, far], vec![near], vec![far]] {
            let mut image = start.image.clone();
            for copy in &copies {
                image[copy + at..][..4].copy_from_slice(&(if at == 8 { 3u32 } else { 4 }).to_le_bytes());
                seal.seal(&mut image, copy + at);
            }
            for (text, cure) in refusals(&image, &start.shape.open) {
                assert!(text.contains(shown) && text.contains("format 2"), "{copies:?}: {text}");
                assert!(cure.contains("newer pocketstone") && cure.contains("nothing was changed"), "{cure}");
            }
        }
    }
}

#[test]
fn cut_short() {
    let start = start();
    let whole = u64::from_le_bytes(start.image[24..32].try_into().expect("8 bytes")) as usize;
    let first = Seal::of(&start.image).data_at;
    for bytes in [whole - 1, whole - 2048, (first + whole) / 2, first, first / 2, 2048] {
        for (text, cure) in refusals(&start.image[..bytes], &start.shape.open) {
            let is_told = text.contains("is truncated")
                && text.contains(&format!("has {whole} bytes"))
                && text.contains(&format!("only {bytes}"));
            assert!(is_told, "{bytes} bytes: {text}");
            assert!(cure.contains("truncate -s"), "{cure}");
        }
    }
}
