//! The corpus of the fuzz target `fuse_request`, replayed: messages laid out by hand after Linux's `fuse.h`.

use pocketstone_mount::is_request;

#[test]
fn messages_in_the_corpus_are_read_where_they_are_whole() {
    pocketstone_testing::replay("fuse_request", |name, message| {
        assert_eq!(is_request(message), name.starts_with("whole-"), "{name}");
        // Cut short or with a byte changed it may be either, but nothing panics.
        for at in 0..message.len() {
            let _ = is_request(&message[..at]);
            for bit in 0..8 {
                let mut changed = message.to_vec();
                changed[at] ^= 1 << bit;
                let _ = is_request(&changed);
            }
        }
    });
}
