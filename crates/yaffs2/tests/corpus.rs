//! The fuzzers' corpora, replayed: each input once, as the fuzzer would; and some random inputs.

mod support;

use pocketstone_core::random::Random;
use std::path::{Path, PathBuf};
use support::{amount, fuzz, say, seed};

fn replay(target: &str, body: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(target);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a corpus can be listed").path()).collect();
    paths.sort();
    assert!(!paths.is_empty(), "{} is empty", folder.display());
    for path in &paths {
        let data = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        if let Err(panic) = std::panic::catch_unwind(|| body(&data)) {
            say(&format!("while replaying {}", path.display()));
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn yaffs2_operations() {
    replay("yaffs2_operations", fuzz::operations);
}

#[test]
fn yaffs2_image() {
    replay("yaffs2_image", fuzz::image);
}

#[test]
fn damage_at_random_does_no_harm() {
    let first = seed(1);
    for seed in first..first + amount(1500, 100_000) {
        let mut random = Random::labelled(seed, "damage");
        let mut data = vec![0; 1 + 8 * (1 + random.below(12) as usize)];
        random.fill(&mut data);
        // Pages that exist, in the low half of the chip mostly.
        data[1..].chunks_exact_mut(8).for_each(|edit| edit[2] %= 2);
        if let Err(panic) = std::panic::catch_unwind(|| fuzz::image(&data)) {
            say(&format!("seed {seed}: {data:?}"));
            std::panic::resume_unwind(panic);
        }
    }
}
