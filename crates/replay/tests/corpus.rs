//! The corpus of the fuzz target `device_profile`, replayed.

mod support;

use support::device_profile;

#[test]
fn profiles_in_the_corpus_are_taken_where_they_are_whole() {
    pocketstone_testing::replay("device_profile", |name, data| {
        assert_eq!(device_profile(data), name.starts_with("whole-"), "{name}");
        // Cut short or with a byte changed it may be either, but nothing panics.
        for at in (0..data.len()).step_by(data.len() / 64 + 1) {
            device_profile(&data[..at]);
            let mut changed = data.to_vec();
            changed[at] ^= 1;
            device_profile(&changed);
        }
    });
}
