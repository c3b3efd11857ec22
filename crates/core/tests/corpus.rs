//! The corpus of the fuzz target `frames`, replayed.

mod support;

use support::frames;

#[test]
fn frames_in_the_corpus_come_out_however_they_are_cut() {
    pocketstone_testing::replay("frames", |name, data| {
        assert_eq!(frames(data) > 0, name.starts_with("whole-"), "{name}");
        // Cut short or with a byte changed it may be either, but nothing panics.
        for at in (0..data.len()).step_by(data.len() / 64 + 1) {
            frames(&data[..at]);
            let mut changed = data.to_vec();
            changed[at] ^= 1;
            frames(&changed);
        }
    });
}
