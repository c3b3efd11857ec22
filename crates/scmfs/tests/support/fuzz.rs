//! The bodies of the fuzz targets; `cargo test` replays their corpora through them.

use super::region::Shared;
use super::run::Run;
use super::seal::Seal;
use super::shape::Shape;
use super::starts;
use super::subject::{OpenFiles, walk};
use pocketstone_fstest::{Model, Op, apply, drive};
use pocketstone_random::Random;
use pocketstone_scmfs::{Error, Volume, check, repair};
use std::sync::{Mutex, OnceLock};

/// Operations are executed on volume and model; the first byte chooses the shape of the volume.
pub fn operations(data: &[u8]) {
    let Some((shape, words)) = data.split_first() else { return };
    let shape = match shape % 4 {
        0 => Shape::roomy(),
        1 => Shape::tiny(48 << 10),
        2 => Shape::tiny(64 << 10).with_null_files(3),
        _ => Shape::tiny(32 << 10),
    };
    drive::fuzz(words, &shape.decoder(), || Run::new(&shape));
}

/// Most bytes of an image given as such.
const RAW_BYTES: usize = 1 << 20;

/// A sound image with edits, or after `RAW` an image as it is. Whatever it holds, nothing panics, and what
/// fsck has repaired is sound.
pub fn image(data: &[u8]) {
    let image = match data.strip_prefix(b"RAW") {
        Some(raw) => raw[..raw.len().min(RAW_BYTES)].to_vec(),
        None => edited(data),
    };
    examine(&image);
}

/// Values that checks are about.
const EDGES: [u32; 12] = [0, 1, 2, 3, 0x7f, 0xff, 0x100, 0xffff, 0x7fff_ffff, 0x8000_0000, u32::MAX - 1, u32::MAX];

/// Edits of 6 bytes each: place, kind, and a value. The kind's uppermost bit moves the place out of the data
/// area; the next one corrects the checksum over it.
fn edited(data: &[u8]) -> Vec<u8> {
    static SOUND: OnceLock<Vec<(Vec<u8>, Seal)>> = OnceLock::new();
    let sound = SOUND
        .get_or_init(|| starts::all().into_iter().map(|start| (start.image.clone(), Seal::of(&start.image))).collect());
    let (which, edits) = data.split_first().unwrap_or((&0, &[]));
    let (mut image, seal) = sound[usize::from(*which) % sound.len()].clone();
    let bytes = image.len();
    for edit in edits.chunks_exact(6) {
        let reach = if edit[3] & 0x80 != 0 { seal.data_at } else { bytes };
        let at = u32::from_le_bytes([edit[0], edit[1], edit[2], 0]) as usize % reach;
        let word = u16::from_le_bytes([edit[4], edit[5]]);
        let line = at / 64 * 64;
        match edit[3] & 0x3f {
            0..=7 => image[at] = edit[4],
            8..=15 => image[at] ^= 1 << (edit[4] % 8),
            16..=23 => image[line..(line + 64).min(bytes)].fill(edit[4]),
            24..=31 => {
                let from = usize::from(word) * 64 % (bytes - 64) / 64 * 64;
                image.copy_within(from..from + 64, line.min(bytes - 64));
            }
            32..=36 => {
                image.truncate(at);
                break;
            }
            37..=48 => {
                let value = EDGES[usize::from(edit[4]) % EDGES.len()].wrapping_add(u32::from(edit[5] % 4));
                image[at / 4 * 4..][..4].copy_from_slice(&value.to_le_bytes());
            }
            _ => {
                let from = at / 4 * 4;
                let old = u32::from_le_bytes(image[from..from + 4].try_into().expect("4 bytes"));
                let new = old.wrapping_add_signed(i32::from(word as i16));
                image[from..from + 4].copy_from_slice(&new.to_le_bytes());
            }
        }
        if edit[3] & 0x40 != 0 {
            seal.seal(&mut image, at);
        }
    }
    image
}

/// Opens, reads, uses, checks and repairs an image of unknown origin.
pub fn examine(image: &[u8]) {
    let shape = Shape::tiny(48 << 10);
    // It may fail; it must not panic, and must end.
    drop(check(Shared::from_image(image).region()));
    if let Ok(volume) = Volume::open(Shared::from_image(image).region(), &shape.open) {
        use_it(&volume, &shape);
        volume.abandon();
    }
    let shared = Shared::from_image(image);
    if let Ok(report) = repair(shared.region()) {
        if report.findings.iter().all(|finding| finding.repaired) {
            let again = check(shared.region()).expect("fsck reads what it has repaired");
            assert!(again.findings.is_empty(), "after repair of {:#?}\nfound {:#?}", report.findings, again.findings);
            let volume = match Volume::open(shared.region(), &shape.open) {
                // A feature that this program may read and not change: nothing that fsck could mend.
                Err(Error::Medium(error)) if error.message().contains("supports read-only") => return,
                opened => opened.expect("a sound volume opens"),
            };
            walk(&volume).expect("a sound volume can be read");
            use_it(&volume, &shape);
            volume.close().expect("a sound volume can be closed");
        }
    }
}

fn use_it(volume: &Volume, shape: &Shape) {
    drop(walk(volume));
    let (decoder, mut random, mut files) = (shape.decoder(), Random::new(1), OpenFiles::default());
    // The model only keeps reads small: a damaged size must not make the test allocate it.
    let mut model = Model::new(shape.has(), 0o755, 0, 0);
    for _ in 0..40 {
        let op = decoder.random(&mut random);
        model.apply(&op);
        if !matches!(op, Op::View(_) | Op::Append(..)) {
            drop(apply(volume, &mut files, &op));
        }
    }
}

/// A target of checkpoints with edits: two generations, of which the second builds on the first. An edit is 5 bytes:
/// the file, a place, what to do there, and a value; some correct the checksums over it. Whatever it holds,
/// nothing panics, and what is verified is restored.
pub fn checkpoint(data: &[u8]) {
    use pocketstone_media::{Heap, Medium};
    use pocketstone_scmfs::checkpoint::{Output, restore, verify};
    let mut files = super::target::sound();
    for edit in data.chunks_exact(5) {
        super::target::edit(&mut files[usize::from(edit[0] & 1)], edit);
    }
    let folder = super::target::Fixed(files);
    let verified = verify(&folder).expect("there are two");
    for (generation, verified) in verified {
        let make = |bytes: u64| match bytes {
            0..=RAW_REGION => {
                Ok(Box::new(Mutex::new(Medium::new(Box::new(Heap::new(bytes as usize))))) as Box<dyn Output>)
            }
            _ => Err(Error::NoSpace),
        };
        let restored = restore(&folder, Some(generation), make);
        if verified.is_ok_and(|verified| verified.region_bytes <= RAW_REGION) {
            assert!(restored.is_ok(), "{restored:?}");
        }
    }
}

/// Longer regions are not made.
const RAW_REGION: u64 = 1 << 20;
