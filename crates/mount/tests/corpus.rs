//! The corpora of the fuzz targets `fuse_request`, messages laid out by hand after Linux's `fuse.h`, and
//! `direct_client`, replayed.

#[path = "client/mod.rs"]
mod client;

use pocketstone_mount::{is_request, stores_directly};
use pocketstone_testing::{Need, or_skip};

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

#[test]
fn no_client_in_the_corpus_harms_anybody() {
    or_skip!(if stores_directly() { Ok(()) } else { Err(Need::Kernel.lacks("direct stores: Linux 6.16")) });
    pocketstone_testing::replay("direct_client", |_, data| client::run(data));
}
