//! Loss of power on an ordinary file, which the medium does not promise to survive: the kernel writes whole
//! pages back in any order. What is left is refused, found by fsck, or readable; nothing panics.

use crate::support::region::Shared;
use crate::support::subject::{OpenFiles, apply_both, walk};
use crate::support::{amount, say, seed, starts};
use pocketstone_fstest::Broken;
use pocketstone_media::crash::{CrashState, Recorder};
use pocketstone_random::Random;
use pocketstone_scmfs::{Volume, check};
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Smaller than a kernel's pages, as the volumes are smaller than real ones.
const PAGE_BYTES: usize = 512;

/// What became of the states.
#[derive(Debug, Default)]
struct Seen {
    refused: u64,
    found: u64,
    sound: u64,
}

fn judge(image: &[u8], options: &pocketstone_scmfs::OpenOptions, seen: &mut Seen) -> Result<(), String> {
    // On a copy, and before recovery has changed anything.
    let has_findings = check(Shared::from_image(image).region()).map_or(true, |report| !report.findings.is_empty());
    let shared = Shared::from_image(image);
    let Ok(volume) = Volume::open(shared.region(), options) else {
        seen.refused += 1;
        return Ok(());
    };
    let tree = walk(&volume);
    volume.abandon();
    match tree {
        Err(Broken::Error(..)) => seen.refused += 1,
        _ if has_findings => seen.found += 1,
        Ok(_) => seen.sound += 1,
        Err(Broken::Contradiction(what)) => return Err(format!("fsck found nothing, but {what}")),
    }
    Ok(())
}

#[test]
fn pages_in_any_order() {
    let seed = seed(1);
    let mut seen = Seen::default();
    for (i, start) in starts::all().into_iter().enumerate() {
        let mut random = Random::labelled(seed.wrapping_add(i as u64), "pages");
        let decoder = start.shape.decoder();
        let (recorder, log) = Recorder::new(&start.image);
        let volume = Volume::open(Box::new(recorder), &start.shape.open).expect("a start opens");
        let (mut files, mut model) = (OpenFiles::default(), start.model.clone());
        for step in 0..30 {
            let op = decoder.random(&mut random);
            apply_both(&volume, &mut files, &mut model, &op, start.shape.tight)
                .unwrap_or_else(|what| panic!("start {}, seed {seed}, step {step}: {what}", start.name));
        }
        drop(files);
        volume.abandon();
        let count = amount(300, 20_000) as usize;
        log.trace().page_states(PAGE_BYTES, seed, count, &mut |state: &CrashState| {
            let result = catch_unwind(AssertUnwindSafe(|| judge(state.image, &start.shape.open, &mut seen)));
            if let Err(what) = result.unwrap_or_else(|_| Err("panic".into())) {
                panic!("start {}, seed {seed}, {}: {what}", start.name, state.describe());
            }
            ControlFlow::Continue(())
        });
    }
    say(&format!("pages in any order: {seen:?}"));
    assert!(seen.refused + seen.found + seen.sound > 100, "hardly any states: {seen:?}");
}
