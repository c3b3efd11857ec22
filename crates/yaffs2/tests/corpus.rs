//! The fuzzers' corpora, replayed: each input once, as the fuzzer would; and some random inputs.

use crate::support::{foreign, fuzz};
use pocketstone_random::Random;
use pocketstone_testing::{amount, replay, say, seed};

#[test]
fn yaffs2_operations() {
    replay("yaffs2_operations", |_, data| fuzz::operations(data));
}

#[test]
fn yaffs2_image() {
    replay("yaffs2_image", |_, data| fuzz::image(data));
}

#[test]
fn yaffs2_foreign() {
    replay("yaffs2_foreign", |_, data| foreign::foreign(data));
}

#[test]
fn chips_of_others_at_random_do_no_harm() {
    let first = seed(1);
    for seed in first..first + amount(400, 20_000) {
        let mut random = Random::labelled(seed, "foreign");
        let mut data = vec![0; 1 + 8 * (1 + random.below(100) as usize)];
        random.fill(&mut data);
        // Ordinary objects, mostly.
        data[1..].chunks_exact_mut(8).for_each(|page| page[0] &= if page[7] < 250 { 0x7F } else { 0xFF });
        if let Err(panic) = std::panic::catch_unwind(|| foreign::foreign(&data)) {
            say(&format!("seed {seed}: {data:?}"));
            std::panic::resume_unwind(panic);
        }
    }
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
